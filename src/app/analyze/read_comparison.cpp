// The results of tessera bench compare.
#include "app/analyze/readers.h"

namespace tessera::app::analyze {

namespace {

constexpr double kFormat = 1;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// What was run on one side, as one would type it.
std::string read_side(const JsonObject& file, std::string_view key) {
  const JsonObject side = file.required_object(key);
  const std::string kind = side.required_string("kind");
  if (kind == "external") return joined(side.optional_strings("command"));
  const std::string flags = joined(side.optional_strings("flags"));
  return flags.empty() ? "no flags" : flags;
}

Speedup read_speedup(const JsonObject& result) {
  const JsonObject object = result.required_object("speedup");
  Speedup speedup;
  speedup.median = read_positive_number(object, "median");
  if (!object.has("low") && !object.has("high")) return speedup;
  speedup.low = read_positive_number(object, "low");
  speedup.high = read_positive_number(object, "high");
  if (*speedup.low > *speedup.high) object.refuse("low", "no more than \"high\"");
  return speedup;
}

ComparisonCase read_case(const JsonObject& object) {
  ComparisonCase result;
  result.batch = read_count(object, "batch", 1);
  result.output_tokens = read_count(object, "output_tokens", 1);
  result.prompts = object.optional_strings("prompts");
  result.status = object.required_string("status");
  result.reason = object.optional_string("reason").value_or("");
  result.exactness = object.required_string("exactness");
  if (!object.has("speedup")) return result;
  result.metric = object.required_string("metric");
  result.speedup = read_speedup(object);
  result.a = read_positive(object.required_object("a"), result.metric);
  result.b = read_positive(object.required_object("b"), result.metric);
  return result;
}

}  // namespace

ComparisonResults read_comparison(const JsonObject& file) {
  if (file.required_number("format") != kFormat) file.refuse("format", "1, the one that is known");
  ComparisonResults comparison;
  comparison.a = read_side(file, "a");
  comparison.b = read_side(file, "b");
  const JsonObject settings = file.required_object("settings");
  comparison.confidence = settings.required_number("confidence");
  if (!(0 < comparison.confidence && comparison.confidence < 1)) {
    settings.refuse("confidence", "a number between 0 and 1");
  }
  comparison.n_cases = file.required_objects("cases").size();
  for (const JsonObject& object : file.required_objects("results")) {
    comparison.cases.push_back(read_case(object));
  }
  return comparison;
}

}  // namespace tessera::app::analyze
