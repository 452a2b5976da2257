// What a tokenizer.json file comes to: the stages of encoding, ready to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace tessera::text {

struct Tokenizer::Parts {
  Vocabulary vocabulary;
  AddedTokenFinder added_tokens;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::optional<std::int32_t> template_bos_id;  // from a TemplateProcessing post-processor

  // Indices into added_tokens.tokens().
  std::unordered_map<std::int32_t, std::size_t> added_by_id;
  std::unordered_map<std::string, std::size_t> added_by_content;

  static std::unique_ptr<Parts> from_json(std::string_view json);

  const AddedToken* added(std::int32_t id) const {
    const auto found = added_by_id.find(id);
    return found == added_by_id.end() ? nullptr : &added_tokens.tokens()[found->second];
  }
};

}  // namespace tessera::text
