// Reading JSON: syntax errors that say where, and typed access to an object's values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <tessera/error.h>

namespace tessera {

// One JSON value that fills the whole text; name is what errors call it (a path). Refused with
// Error(kBadJson), besides broken syntax: NaN and Infinity literals, numbers that no double holds,
// text that is not UTF-8, an object with the same key twice, and nesting deeper than 64.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// parse_json() of a file; also throws what MappedFile throws.
nlohmann::json read_json_file(const std::filesystem::path& path);

// An object whose values are read by key and type. Every error names the file and the key, with the
// path to it ("rope_scaling.factor"), what is allowed and what is there. A key whose value is null
// counts as absent.
class JsonObject {
 public:
  static constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

  // value_error is the code for values that are absent, of the wrong type or out of range. A text
  // that is not an object throws with it too; broken syntax throws kBadJson.
  static JsonObject parse(std::string_view text, const std::string& name, ErrorCode value_error);
  static JsonObject read(const std::filesystem::path& path, ErrorCode value_error);

  const std::string& name() const { return name_; }
  bool has(std::string_view key) const;       // present and not null
  bool mentions(std::string_view key) const;  // present, perhaps null
  std::vector<std::string> keys() const;      // sorted

  // Integers in [min, max]. 2.0 is not an integer.
  std::int64_t required_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::optional<std::int64_t> optional_int(std::string_view key, std::int64_t min,
                                           std::int64_t max) const;
  // One integer or an array of them; absent gives an empty list.
  std::vector<std::int64_t> int_or_list(std::string_view key, std::int64_t min,
                                        std::int64_t max) const;

  // Finite numbers, integers included.
  double required_number(std::string_view key) const;
  std::optional<double> optional_number(std::string_view key) const;
  // Greater than zero.
  double required_positive(std::string_view key) const;
  std::optional<double> optional_positive(std::string_view key) const;

  std::vector<double> required_numbers(std::string_view key) const;  // an array of numbers

  std::optional<bool> optional_bool(std::string_view key) const;
  std::string required_string(std::string_view key) const;
  std::optional<std::string> optional_string(std::string_view key) const;
  std::vector<std::string> optional_strings(std::string_view key) const;  // an array of strings
  JsonObject required_object(std::string_view key) const;
  std::optional<JsonObject> optional_object(std::string_view key) const;
  std::vector<JsonObject> required_objects(std::string_view key) const;  // an array of objects

  // Throws value_error: `FILE: "KEY" must be RULE, not VALUE`, where VALUE is what the file holds.
  [[noreturn]] void refuse(std::string_view key, std::string_view rule) const;

 private:
  JsonObject(std::shared_ptr<const nlohmann::json> root, std::string name, ErrorCode value_error);

  const nlohmann::json* find(std::string_view key) const;  // null pointer where absent or null
  std::string full_key(std::string_view key) const;        // "rope_scaling.factor"
  [[noreturn]] void fail_missing(std::string_view key) const;
  std::int64_t to_int(const nlohmann::json& value, std::string_view key, std::int64_t min,
                      std::int64_t max) const;
  double to_number(const nlohmann::json& value, std::string_view key) const;

  std::shared_ptr<const nlohmann::json> root_;  // the whole document, shared by nested objects
  const nlohmann::json* object_;
  std::string name_;
  std::string prefix_;  // "" or "rope_scaling."
  ErrorCode value_error_;
};

}  // namespace tessera
