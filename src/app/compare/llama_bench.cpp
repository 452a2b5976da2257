#include "app/compare/llama_bench.h"

#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "base/series.h"
#include "io/json_file.h"

namespace tessera::app {

namespace {

constexpr const char* kName = "the output of llama-bench";
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

double rate_of(const JsonObject& test, const nlohmann::json& entry) {
  if (!test.has("samples_ts")) return test.required_positive("avg_ts");
  const nlohmann::json& samples = entry.at("samples_ts");
  constexpr const char* kRule = "an array of numbers greater than 0";
  if (!samples.is_array() || samples.empty()) test.refuse("samples_ts", kRule);
  Series series;
  for (const nlohmann::json& sample : samples) {
    if (!sample.is_number() || sample.get<double>() <= 0) test.refuse("samples_ts", kRule);
    series.add(sample.get<double>());
  }
  return series.median();
}

}  // namespace

std::map<std::string, double> parse_llama_bench(std::string_view output) {
  const nlohmann::json tests = parse_json(output, kName);
  if (!tests.is_array()) fail(ErrorCode::kBadJson, "{}: must be a JSON array of tests", kName);
  std::map<std::string, double> rates;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    const JsonObject test = JsonObject::parse(
        tests[i].dump(), fmt::format("{}, test {}", kName, i + 1), ErrorCode::kBadJson);
    const bool prompt = test.required_int("n_prompt", 0, kMostTokens) > 0;
    const bool generation = test.required_int("n_gen", 0, kMostTokens) > 0;
    if (prompt == generation) continue;
    const char* key = prompt ? "prefill_tokens_per_second" : "decode_tokens_per_second";
    if (!rates.emplace(key, rate_of(test, tests[i])).second) {
      fail(ErrorCode::kBadJson, "{}: has several tests of {} alone; give {} one number", kName,
           prompt ? "a prompt" : "generation", prompt ? "-p" : "-n");
    }
  }
  if (rates.empty()) {
    fail(ErrorCode::kBadJson,
         "{}: has no test of a prompt alone or of generation alone; give -p or -n a number", kName);
  }
  return rates;
}

}  // namespace tessera::app
