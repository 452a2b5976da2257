// A tokenizer.json with all bytes and little else, to vary.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "text/utf8.h"

namespace tessera::text {

// Byte b has the id b; then come the merges' tokens.
inline nlohmann::json small_tokenizer() {
  nlohmann::json vocab;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    std::string spelling;
    append_utf8(spelling, prints ? static_cast<char32_t>(byte) : next++);
    vocab[spelling] = byte;
  }
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {
      {"added_tokens", nlohmann::json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c"}}}}};
}

inline nlohmann::json added_token(const std::string& content, int id, bool special) {
  return {{"id", id},        {"content", content},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

}  // namespace tessera::text
