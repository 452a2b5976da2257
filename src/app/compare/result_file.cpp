#include "app/compare/result_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "app/bench/report.h"
#include "app/compare/statistics.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/json_file.h"
#include "io/quote.h"
#include "io/text_file.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// What must be the same for results to stand in one file.
constexpr std::array<const char*, 9> kIdentity = {
    "command", "format", "version", "machine", "model", "a", "b", "settings", "cases"};

// Settings that change no number; timeout_s may be raised for a case that failed.
constexpr std::array<const char*, 2> kFree = {"cooldown_s", "timeout_s"};

Json to_json(const Side& side) {
  if (!side.external) return {{"kind", "ask"}, {"flags", side.words}};
  return {{"kind", "external"}, {"command", side.words}, {"parse", "llama-bench"}};
}

Json head_of(const ComparisonPlan& plan) {
  Json head = report_head("compare", available_cpus());
  head.erase("threads");  // each side has its own
  const auto pages = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES));
  head["machine"]["memory_bytes"] = pages * static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  utsname system = {};
  ::uname(&system);
  head["machine"]["system"] =
      fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  Json content = {{"command", head["command"]}, {"format", kFormat}};
  content.update(head);
  content["started"] = utc_now();
  content["updated"] = content["started"];
  content["complete"] = false;
  content["model"] = plan.model;
  content["a"] = to_json(plan.a);
  content["b"] = to_json(plan.b);
  content["settings"] = {{"repeat", plan.repeat},
                         {"warmup", plan.warmup},
                         {"cooldown_s", plan.cooldown.count()},
                         {"timeout_s", plan.timeout.count()},
                         {"tolerance", nullptr},
                         {"confidence", kConfidence},
                         {"resamples", kResamples},
                         {"same_within", kSameWithin}};
  if (plan.tolerance) content["settings"]["tolerance"] = *plan.tolerance;
  content["cases"] = Json::array();
  for (const Case& one : plan.cases) content["cases"].push_back(to_json(one));
  content["results"] = Json::array();
  return content;
}

nlohmann::json identity_of(const Json& content) {
  nlohmann::json identity;
  for (const char* key : kIdentity) {
    if (content.contains(key)) identity[key] = content[key];
  }
  if (identity.contains("settings") && identity["settings"].is_object()) {
    for (const char* key : kFree) identity["settings"].erase(key);
  }
  return identity;
}

// Of this format, with whole results.
bool is_result_file(const nlohmann::json& content, const Json& mine) {
  const auto is_result = [](const nlohmann::json& result) {
    constexpr std::array<const char*, 10> kKeys = {
        "batch",     "output_tokens", "prompts", "status", "reason",
        "exactness", "metric",        "speedup", "a",      "b"};
    return result.is_object() && result.contains("case") && result["case"].is_number_unsigned() &&
           std::ranges::all_of(kKeys, [&](const char* key) { return result.contains(key); });
  };
  return content.is_object() && content.value("command", nlohmann::json()) == mine["command"] &&
         content.value("format", nlohmann::json()) == mine["format"] &&
         content.contains("started") && content.contains("results") &&
         content["results"].is_array() && std::ranges::all_of(content["results"], is_result);
}

std::string shown(const nlohmann::json& json, const nlohmann::json::json_pointer& place) {
  return json.contains(place) ? on_one_line(json.at(place).dump()) : "missing";
}

}  // namespace

ResultFile::ResultFile(std::string path, const ComparisonPlan& plan, bool resume)
    : path_(std::move(path)), content_(head_of(plan)) {
  if (resume && file_exists(path_)) take_over();
  write();
}

void ResultFile::take_over() {
  const std::string text = read_text_file(path_);
  const nlohmann::json checked = parse_json(text, path_);  // says where it is broken
  if (!is_result_file(checked, content_)) {
    fail(ErrorCode::kBadJson, "{}: is no file of results; leave out --resume to begin anew", path_);
  }
  const nlohmann::json mine = identity_of(content_);
  const nlohmann::json theirs = identity_of(checked);
  if (const auto patch = nlohmann::json::diff(theirs, mine); !patch.empty()) {
    const nlohmann::json::json_pointer place(patch[0].at("path").get<std::string>());
    fail(ErrorCode::kInvalidArgument,
         "{} is of another comparison: its {} is {}, and now it is {}; give the same options, or "
         "leave out --resume to begin anew",
         path_, place.to_string().substr(1), shown(theirs, place), shown(mine, place));
  }
  Json before = Json::parse(text);  // with the keys in their order
  for (Json& result : before["results"]) {
    if (result["status"] != "failed") content_["results"].push_back(std::move(result));
  }
  content_["started"] = before["started"];
}

const Json* ResultFile::find(std::size_t index) const {
  for (const Json& result : content_["results"]) {
    if (result["case"] == index) return &result;
  }
  return nullptr;
}

void ResultFile::add(Json result) {
  Json& results = content_["results"];
  const auto after = std::ranges::find_if(
      results, [&](const Json& other) { return other["case"] > result["case"]; });
  results.insert(after, std::move(result));
  write();
}

void ResultFile::write() {
  content_["updated"] = utc_now();
  content_["complete"] = content_["results"].size() == content_["cases"].size();
  write_report(path_, content_);
}

}  // namespace tessera::app
