#include "app/compare/comparison.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "app/bench/report.h"
#include "app/compare/agreement.h"
#include "app/compare/statistics.h"
#include "base/series.h"
#include "io/quote.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTokensPerSecond = "tokens_per_second";
constexpr const char* kDecode = "decode_tokens_per_second";
constexpr const char* kPrefill = "prefill_tokens_per_second";

enum SideIndex : std::size_t { kA, kB };
constexpr std::array<const char*, 2> kKeys = {"a", "b"};
constexpr std::array<const char*, 2> kNames = {"A", "B"};

std::string round_name(int round) {
  return round < 0 ? "warm-up" : fmt::format("round {}", round);
}

Json report_of(const std::vector<Run>& runs, bool external) {
  Json report = Json::object();
  for (const auto& [key, value] : runs.front().measured) {
    const auto has_it = [&](const Run& run) { return run.measured.contains(key); };
    if (!std::ranges::all_of(runs, has_it)) continue;  // of llama-bench, whose output may change
    Series series;
    for (const Run& run : runs) series.add(run.measured.at(key));
    report[key] = to_json(series);
  }
  if (external) return report;
  const Run& first = runs.front();
  for (const char* key :
       {"input_tokens", "generated_tokens", "dtype", "threads", "mode", "kernels"}) {
    report[key] = first.report.at(key);
  }
  report["token_ids"] = first.token_ids;
  report["text"] = first.text;
  return report;
}

}  // namespace

// One case while it is measured.
class CaseComparison {
 public:
  CaseComparison(PlannedComparison& all, std::size_t index)
      : all_(all), plan_(all.plan_), one_(plan_.cases[index]) {
    result_ = {{"case", index}};
    result_.update(to_json(one_));
    result_.update({{"status", nullptr},
                    {"reason", nullptr},
                    {"exactness", "not_checked"},
                    {"difference", nullptr},
                    {"logits", nullptr},
                    {"metric", kTokensPerSecond},
                    {"speedup", nullptr},
                    {"a", nullptr},
                    {"b", nullptr},
                    {"runs", Json::array()}});
  }

  Json measure() && {
    if (all_rounds()) tell_speed();
    return std::move(result_);
  }

 private:
  const Side& side(SideIndex s) const { return s == kA ? plan_.a : plan_.b; }

  // False: the case has ended without a speed.
  bool all_rounds() {
    for (int round = -plan_.warmup; round < plan_.repeat; ++round) {
      // A/B/B/A. An external command comes second at first: it may ask for our numbers of tokens.
      const bool reversed = ((round + plan_.warmup) % 2 != 0) != plan_.a.external;
      const SideIndex first = reversed ? kB : kA;
      if (!run(round, first) || !run(round, first == kA ? kB : kA)) return false;
    }
    return true;
  }

  bool run(int round, SideIndex s) {
    if (all_.ran_before_) std::this_thread::sleep_for(plan_.cooldown);
    all_.ran_before_ = true;
    if (all_.on_run_) {
      all_.on_run_(fmt::format("{}, {}", round_name(round), kNames[s]), result_["runs"].size());
    }
    Run run = side(s).external ? run_llama_bench(side(s).words, *first_[kB], plan_.timeout)
                               : run_ask(side(s).words, plan_.model, one_, plan_.timeout);
    result_["runs"].push_back({{"round", round},
                               {"side", kKeys[s]},
                               {"started", run.started},
                               {"wall_s", run.wall_s},
                               {"warnings", run.warnings},
                               {"report", run.report}});
    for (const std::string& warning : run.warnings) {
      all_.warn(fmt::format("{}: {}", kNames[s], warning));
    }
    if (!run.failure.empty()) {
      return end("failed", fmt::format("{}, {}: {}", kNames[s], round_name(round), run.failure));
    }
    if (!says_the_same(round, s, run)) return false;
    if (round >= 0) counted_[s].push_back(std::move(run));
    return true;
  }

  // Each run like the first of its side, and the first of B like the first of A.
  bool says_the_same(int round, SideIndex s, const Run& run) {
    if (side(s).external) return true;
    if (first_[s]) {
      const auto difference = first_difference(first_[s]->token_ids, run.token_ids);
      if (!difference) return true;
      return differ(round, *difference, fmt::format("{} does not repeat itself", kNames[s]),
                    "its first run", round_name(round));
    }
    first_[s] = run;
    if (plan_.a.external || !first_[kA] || !first_[kB]) return true;
    const auto difference = first_difference(first_[kA]->token_ids, first_[kB]->token_ids);
    if (!difference) {
      result_["exactness"] = "equal";
      return true;
    }
    if (within_tolerance()) return true;
    if (result_["status"] == "failed") return false;
    std::string sentence = "A and B differ";
    if (plan_.tolerance) {
      sentence +=
          fmt::format(", and their logits by up to {:.3g}, more than the tolerance of {:g},",
                      result_["logits"]["max_abs_difference"].get<double>(), *plan_.tolerance);
    }
    return differ(round, *difference, sentence, "A", "B");
  }

  bool within_tolerance() {
    if (!plan_.tolerance) return false;
    const LogitsComparison logits =
        compare_logits(plan_.a.words, plan_.b.words, plan_.model, *first_[kA], plan_.timeout);
    if (!logits.failure.empty()) return end("failed", logits.failure);
    result_["logits"] = {{"max_abs_difference", logits.max_abs_difference},
                         {"positions", logits.positions}};
    if (logits.max_abs_difference > *plan_.tolerance) return false;
    result_["exactness"] = "within_tolerance";
    return true;
  }

  // what: who differs; a, b: the names of the answers.
  bool differ(int round, const Difference& d, const std::string& what, const std::string& a,
              const std::string& b) {
    result_["exactness"] = "different";
    result_["difference"] = {{"round", round},
                             {"sequence", d.sequence},
                             {"position", d.position},
                             {"a", token(d.a)},
                             {"b", token(d.b)}};
    const std::string place = one_.batch > 1 ? fmt::format(" of sequence {}", d.sequence) : "";
    return end("different", fmt::format("{} at position {}{}: {} in {}, {} in {}", what, d.position,
                                        place, named(d.a), a, named(d.b), b));
  }

  Json token(const std::optional<std::int32_t>& id) {
    if (!id) return {{"token", nullptr}, {"text", nullptr}};
    return {{"token", *id}, {"text", all_.text_of(*id)}};
  }

  std::string named(const std::optional<std::int32_t>& id) {
    return id ? fmt::format("token {} {}", *id, in_quotes(all_.text_of(*id))) : "the end";
  }

  bool end(const char* status, const std::string& reason) {
    result_["status"] = status;
    result_["reason"] = reason;
    return false;
  }

  void tell_speed() {
    const std::string metric = !plan_.a.external                            ? kTokensPerSecond
                               : counted_[kA][0].measured.contains(kDecode) ? kDecode
                                                                            : kPrefill;
    result_["metric"] = metric;
    std::array<std::vector<double>, 2> rates;
    for (const SideIndex s : {kA, kB}) {
      for (const Run& run : counted_[s]) {
        const auto rate = run.measured.find(metric);
        if (rate == run.measured.end() || rate->second <= 0) {
          end("failed", fmt::format("{} has no {} in one of its runs", kNames[s], metric));
          return;
        }
        rates[s].push_back(rate->second);
      }
    }
    const Speedup speedup = speedup_of(rates[kA], rates[kB]);
    result_["status"] = to_string(judge(speedup));
    result_["speedup"] = {{"median", speedup.median},
                          {"low", nullptr},
                          {"high", nullptr},
                          {"samples", speedup.samples}};
    if (speedup.interval) {
      result_["speedup"]["low"] = speedup.interval->low;
      result_["speedup"]["high"] = speedup.interval->high;
    }
    for (const SideIndex s : {kA, kB}) {
      result_[kKeys[s]] = report_of(counted_[s], side(s).external);
    }
  }

  PlannedComparison& all_;
  const ComparisonPlan& plan_;
  const Case& one_;
  Json result_;
  std::array<std::optional<Run>, 2> first_;
  std::array<std::vector<Run>, 2> counted_;
};

PlannedComparison::PlannedComparison(const ComparisonPlan& plan, OnRun on_run, WarnFn on_warning)
    : plan_(plan), on_run_(std::move(on_run)), on_warning_(std::move(on_warning)) {}

Json PlannedComparison::run_case(std::size_t index) {
  return CaseComparison(*this, index).measure();
}

void PlannedComparison::warn(const std::string& sentence) {
  if (told_.insert(sentence).second && on_warning_) on_warning_(sentence);
}

std::string PlannedComparison::text_of(std::int32_t token) {
  if (!tokenizer_) {
    tokenizer_ = std::make_unique<text::Tokenizer>(text::Tokenizer::load(plan_.model));
  }
  return tokenizer_->has(token) ? tokenizer_->decode({&token, 1}, false) : std::string();
}

}  // namespace tessera::app
