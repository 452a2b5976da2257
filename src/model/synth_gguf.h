// Synthetic models as one GGUF file, so that other engines run the same numbers.
#pragma once

#include <filesystem>

#include "base/progress.h"
#include "io/gguf_writer.h"
#include "model/synth.h"

namespace tessera {

// Writes the model that write_synthetic_model() writes with these options (of which
// max_shard_bytes means nothing here) as GGUF: the same values where type is kBF16, rounded from
// them where it is kQ8_0 or kQ4_0 (synth/ggml_blocks.h); vectors and routers are F32.
//
// name: what the file calls the model. Throws Error, before anything is written: what
// ModelConfig::parse throws; kUnsupported for what the architecture "deepseek2" cannot say; what
// reading the tokenizer throws; kIo when the disk has too little space, or the file cannot be
// written.
void write_synthetic_gguf(const std::filesystem::path& path, const SynthOptions& options,
                          std::string_view name, GgmlType type, const ProgressFn& progress);

}  // namespace tessera
