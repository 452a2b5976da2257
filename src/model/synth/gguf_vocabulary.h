// The vocabulary of a model in a GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "io/gguf_writer.h"
#include "model/config.h"

namespace tessera {

// Adds the byte-level BPE of the folder's tokenizer.json, with tokens that nothing stands for where
// the model has more ids than it. Without a folder, tokens for single bytes and such: enough for
// benchmarks, which take ids at random. pre_tokenizer: the name by which engines know how text is
// cut ("deepseek-llm").
//
// Throws what text::parse_tokenizer_json() and read_text_file() throw; Error(kBadTokenizer) for an
// id beyond the model's vocabulary.
void add_vocabulary(GgufMetadata& metadata, const ModelConfig& config,
                    const std::optional<std::filesystem::path>& tokenizer_folder,
                    std::string_view pre_tokenizer);

}  // namespace tessera
