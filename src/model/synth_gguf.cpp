#include "model/synth_gguf.h"

#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "model/config.h"
#include "model/synth/disk_space.h"
#include "model/synth/gguf_metadata.h"
#include "model/synth/gguf_tensors.h"
#include "model/synth/gguf_vocabulary.h"
#include "model/synth/piece_writer.h"

namespace tessera {

namespace {

// How text is cut into words, by the names that llama.cpp has for it: the families differ by their
// vocabularies.
std::string_view pre_tokenizer_of(const ModelConfig& config) {
  return config.vocab_size > 128'000 ? "deepseek-v3" : "deepseek-llm";
}

}  // namespace

void write_synthetic_gguf(const std::filesystem::path& path, const SynthOptions& options,
                          std::string_view name, GgmlType type, const ProgressFn& progress) {
  const ModelConfig config = ModelConfig::parse(options.config_json, "config.json");
  GgufMetadata metadata = gguf_metadata(config, name, type);
  add_vocabulary(metadata, config, options.tokenizer_folder, pre_tokenizer_of(config));
  const std::vector<PlannedGgufTensor> planned = plan_gguf_tensors(config, type);
  std::vector<GgufTensor> layout;
  std::vector<Piece> pieces;
  for (const PlannedGgufTensor& tensor : planned) {
    layout.push_back(tensor.layout);
    const std::vector<Piece> more = pieces_of(tensor, config, options.seed);
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  require_disk(path, GgufWriter::file_bytes(metadata, layout));

  std::size_t total = 0;
  for (const GgufTensor& tensor : layout) total += tensor.bytes();
  ThreadPool pool(options.threads);
  GgufWriter file(path, metadata, std::move(layout));
  std::size_t done = 0;
  PieceWriter(pool).write(
      pieces, [&](std::span<const std::byte> bytes) { file.append(bytes); },
      [&](std::size_t n_bytes) {
        done += n_bytes;
        if (progress && n_bytes > 0) progress(done, total);
      });
  file.finish();
}

}  // namespace tessera
