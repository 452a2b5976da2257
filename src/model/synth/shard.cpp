#include "model/synth/shard.h"

#include <algorithm>
#include <span>
#include <utility>

#include "io/safetensors_writer.h"
#include "model/synth/statistics.h"

namespace tessera {

namespace {

constexpr std::size_t kBatchValues = std::size_t{1} << 24;
// What one thread computes at a time: enough pieces in a batch to share it evenly.
constexpr std::size_t kPieceValues = std::size_t{1} << 18;
static_assert(kPieceValues % RandomStream::kBlock == 0);

struct Piece {
  RandomStream stream;
  std::size_t first;  // in the stream
  std::size_t n;
};

std::vector<Piece> pieces_of(const std::vector<TensorShape>& tensors, const ModelConfig& config,
                             std::uint64_t seed) {
  std::vector<Piece> pieces;
  for (const TensorShape& tensor : tensors) {
    for (const StreamRun& run : value_streams(tensor, config, seed)) {
      for (std::size_t first = 0; first < run.n; first += kPieceValues) {
        pieces.push_back({run.stream, first, std::min(kPieceValues, run.n - first)});
      }
    }
  }
  return pieces;
}

// Pieces of one batch, and where each starts in it.
struct Batch {
  std::span<const Piece> pieces;
  std::vector<std::size_t> starts;
  std::size_t n_values = 0;
};

Batch next_batch(std::span<const Piece> pieces) {
  Batch batch;
  std::size_t count = 0;
  for (; count < pieces.size() && batch.n_values + pieces[count].n <= kBatchValues; ++count) {
    batch.starts.push_back(batch.n_values);
    batch.n_values += pieces[count].n;
  }
  batch.pieces = pieces.first(count);
  return batch;
}

std::vector<SafetensorsLayout> layout_of(const std::vector<TensorShape>& tensors) {
  std::vector<SafetensorsLayout> layout;
  for (const TensorShape& t : tensors) layout.push_back({t.name, SafetensorsDType::kBF16, t.shape});
  return layout;
}

}  // namespace

std::size_t bf16_bytes(const TensorShape& tensor) {
  std::size_t bytes = sizeof(bf16);
  for (std::int64_t dim : tensor.shape) bytes *= static_cast<std::size_t>(dim);
  return bytes;
}

ShardWriter::ShardWriter(const ModelConfig& config, std::uint64_t seed, ThreadPool& pool)
    : config_(config),
      seed_(seed),
      pool_(pool),
      computed_(kBatchValues * sizeof(bf16)),
      ready_(kBatchValues * sizeof(bf16)) {}

void ShardWriter::write(const std::filesystem::path& path, const std::vector<TensorShape>& tensors,
                        const std::function<void(std::size_t)>& written) {
  SafetensorsWriter file(path, layout_of(tensors), {{"format", "pt"}});
  const std::vector<Piece> pieces = pieces_of(tensors, config_, seed_);
  std::size_t ready_bytes = 0;
  for (std::size_t done = 0; done < pieces.size() || ready_bytes > 0;) {
    const Batch batch = next_batch(std::span(pieces).subspan(done));
    // Task 0 writes what is ready, each of the others computes a piece.
    pool_.parallel_for(1 + std::ssize(batch.pieces), [&](std::int64_t task, int) {
      if (task == 0) {
        file.append(std::as_bytes(ready_.as<bf16>()).first(ready_bytes));
        return;
      }
      const auto index = static_cast<std::size_t>(task - 1);
      const Piece& piece = batch.pieces[index];
      piece.stream.fill(piece.first, computed_.as<bf16>().subspan(batch.starts[index], piece.n));
    });
    written(ready_bytes);
    done += batch.pieces.size();
    ready_bytes = batch.n_values * sizeof(bf16);
    std::swap(computed_, ready_);
  }
  file.finish();
}

}  // namespace tessera
