#include "model/synth/shard.h"

#include <span>

#include "io/safetensors_writer.h"
#include "model/synth/statistics.h"

namespace tessera {

namespace {

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
    : config_(config), seed_(seed), pieces_(pool) {}

void ShardWriter::write(const std::filesystem::path& path, const std::vector<TensorShape>& tensors,
                        const std::function<void(std::size_t)>& written) {
  SafetensorsWriter file(path, layout_of(tensors), {{"format", "pt"}});
  std::vector<Piece> pieces;
  for (const TensorShape& tensor : tensors) {
    for (const StreamRun& run : value_streams(tensor, config_, seed_)) {
      add_pieces(run.stream, run.n, GgmlType::kBF16, pieces);
    }
  }
  pieces_.write(pieces, [&](std::span<const std::byte> bytes) { file.append(bytes); }, written);
  file.finish();
}

}  // namespace tessera
