// tokenizer.json as read, before it is given meaning.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tessera::text {

struct TokenizerJson {
  // The file without model.vocab and model.merges: those are some 100,000 entries each, and go
  // straight into the lists below.
  nlohmann::json rest;
  std::vector<std::pair<std::string, std::int64_t>> vocab;  // spelling, id
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
};

// Throws Error(kBadTokenizer) for what is no JSON or no tokenizer.
TokenizerJson parse_tokenizer_json(std::string_view json);

// Refuses, by name, members of an object that the reader does not know: Error(kUnsupported).
void refuse_unknown_members(const nlohmann::json& object, std::string_view where,
                            std::initializer_list<std::string_view> known);

// object[name], which must be there and of the right kind: else Error(kBadTokenizer).
bool bool_member(const nlohmann::json& object, std::string_view where, const char* name,
                 bool absent);
std::string string_member(const nlohmann::json& object, std::string_view where, const char* name);

}  // namespace tessera::text
