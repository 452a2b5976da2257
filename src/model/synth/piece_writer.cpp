#include "model/synth/piece_writer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "model/synth/ggml_blocks.h"

namespace tessera {

namespace {

constexpr std::size_t kBatchBytes = std::size_t{1} << 25;
// What one thread computes at a time.
constexpr std::size_t kPieceValues = std::size_t{1} << 18;
static_assert(kPieceValues % RandomStream::kBlock == 0 && kPieceValues % 32 == 0);
static_assert(kMostPieceValues * sizeof(float) <= kBatchBytes);

// Pieces of one batch, and where each starts in it.
struct Batch {
  std::span<const Piece> pieces;
  std::vector<std::size_t> starts;
  std::size_t bytes = 0;
};

Batch next_batch(std::span<const Piece> pieces) {
  Batch batch;
  std::size_t count = 0;
  for (; count < pieces.size() && batch.bytes + pieces[count].bytes() <= kBatchBytes; ++count) {
    batch.starts.push_back(batch.bytes);
    batch.bytes += pieces[count].bytes();
  }
  batch.pieces = pieces.first(count);
  return batch;
}

// The values of a piece; a stream can be entered at its blocks only.
std::vector<bf16> values_of(const Piece& piece) {
  const std::size_t skipped = piece.first % RandomStream::kBlock;
  std::vector<bf16> values(skipped + piece.n);
  piece.stream.fill(piece.first - skipped, values);
  values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(skipped));
  if (piece.transposed_rows == 0) return values;
  const std::size_t columns = piece.n / piece.transposed_rows;
  std::vector<bf16> transposed(piece.n);
  for (std::size_t r = 0; r < piece.transposed_rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      transposed[c * piece.transposed_rows + r] = values[r * columns + c];
    }
  }
  return transposed;
}

void compute(const Piece& piece, std::span<std::byte> bytes) {
  const bool as_it_is = piece.type == GgmlType::kBF16 && piece.transposed_rows == 0 &&
                        piece.first % RandomStream::kBlock == 0;
  if (as_it_is) {
    piece.stream.fill(piece.first, {reinterpret_cast<bf16*>(bytes.data()), piece.n});
  } else {
    encode_ggml(piece.type, values_of(piece), bytes);
  }
}

}  // namespace

void add_pieces(const RandomStream& stream, std::size_t n, GgmlType type,
                std::vector<Piece>& pieces) {
  for (std::size_t first = 0; first < n; first += kPieceValues) {
    pieces.push_back({stream, first, std::min(kPieceValues, n - first), type});
  }
}

PieceWriter::PieceWriter(ThreadPool& pool)
    : pool_(pool), computed_(kBatchBytes), ready_(kBatchBytes) {}

void PieceWriter::write(std::span<const Piece> pieces,
                        const std::function<void(std::span<const std::byte>)>& sink,
                        const std::function<void(std::size_t)>& written) {
  std::size_t ready_bytes = 0;
  for (std::size_t done = 0; done < pieces.size() || ready_bytes > 0;) {
    const Batch batch = next_batch(pieces.subspan(done));
    assert(!batch.pieces.empty() || done == pieces.size());
    // Task 0 writes what is ready, each of the others computes a piece.
    pool_.parallel_for(1 + std::ssize(batch.pieces), [&](std::int64_t task, int) {
      if (task == 0) {
        sink(std::as_bytes(ready_.as<std::byte>()).first(ready_bytes));
        return;
      }
      const auto index = static_cast<std::size_t>(task - 1);
      const Piece& piece = batch.pieces[index];
      compute(piece, computed_.as<std::byte>().subspan(batch.starts[index], piece.bytes()));
    });
    written(ready_bytes);
    done += batch.pieces.size();
    ready_bytes = batch.bytes;
    std::swap(computed_, ready_);
  }
}

}  // namespace tessera
