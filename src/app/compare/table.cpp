#include "app/compare/table.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "app/compare/split_words.h"
#include "app/compare/statistics.h"
#include "app/output.h"
#include "base/machine.h"
#include "io/quote.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPromptCharacters = 20;

std::string status_text(const std::string& status) {
  if (status == "same") return "≈ same";
  if (status == "a_faster") return "A faster";
  if (status == "b_faster") return "B faster";
  if (status == "different") return "DIFFERENT";
  if (status == "failed") return "FAILED";
  return status;
}

std::string exactness_text(const std::string& exactness) {
  if (exactness == "not_checked") return "not checked";
  if (exactness == "within_tolerance") return "within tolerance";
  return exactness;
}

// The first characters of the first prompt.
std::string prompt_text(const Json& prompts) {
  const std::string text = on_one_line(prompts.at(0).get<std::string>());
  std::size_t end = 0;
  for (std::size_t n = 0; end < text.size() && n < kPromptCharacters; ++n) {
    do {
      ++end;
    } while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  }
  return text.substr(0, end) + (end < text.size() || prompts.size() > 1 ? " ..." : "");
}

std::string rate_text(const Json& side, const std::string& metric) {
  if (side.is_null()) return "-";
  return fmt::format("{:.1f}", side.at(metric).at("median").get<double>());
}

std::string speedup_text(const Json& speedup) {
  if (speedup.is_null()) return "-";
  std::string text = fmt::format("{:.3f}", speedup.at("median").get<double>());
  if (!speedup.at("low").is_null()) {
    text += fmt::format(" ({:.3f} to {:.3f})", speedup.at("low").get<double>(),
                        speedup.at("high").get<double>());
  }
  return text;
}

std::string side_text(const Side& side) {
  if (side.words.empty()) return "tessera ask";
  return side.external ? join_words(side.words) : "tessera ask " + join_words(side.words);
}

std::string exactly_text(const ComparisonPlan& plan) {
  if (plan.a.external) return "whether both say the same is not checked";
  if (plan.tolerance) {
    return fmt::format("both must give the same tokens, or logits within {:g}", *plan.tolerance);
  }
  return "both must give the same tokens";
}

}  // namespace

void print_table_head(const ComparisonPlan& plan) {
  print_out("A  {}\nB  {}\n", on_one_line(side_text(plan.a)), on_one_line(side_text(plan.b)));
  print_out("{}, {}, {} CPU{}; {} round{} each, after {} to warm up; {}\n\n",
            on_one_line(plan.model), cpu_name(), available_cpus(), available_cpus() == 1 ? "" : "s",
            plan.repeat, plan.repeat == 1 ? "" : "s", plan.warmup, exactly_text(plan));
  print_out("{:>5} {:>6} {:>12} {:>12}   {:<24} {:<17} {:<13} {}\n", "batch", "tokens",
            "A, tokens/s", "B, tokens/s", "B / A, interval of 95 %", "answers", "status", "prompt");
}

void print_table_row(const Json& result) {
  const std::string metric = result.at("metric").get<std::string>();
  print_out("{:>5} {:>6} {:>12} {:>12}   {:<24} {:<17} {:<13} {}\n",
            result.at("batch").get<std::int64_t>(), result.at("output_tokens").get<std::int64_t>(),
            rate_text(result.at("a"), metric), rate_text(result.at("b"), metric),
            speedup_text(result.at("speedup")),
            exactness_text(result.at("exactness").get<std::string>()),
            status_text(result.at("status").get<std::string>()), prompt_text(result.at("prompts")));
  if (!result.at("reason").is_null()) {
    print_out("             {}\n", on_one_line(result.at("reason").get<std::string>()));
  }
  flush_out();
}

void print_table_notes(const ComparisonPlan& plan) {
  if (plan.repeat == 1) {
    print_out("\nOne round shows no spread: nothing is called faster. Give --repeat {} or more.\n",
              kRoundsForConfidence);
  } else if (plan.repeat < kRoundsForConfidence) {
    print_out("\nFewer than {} rounds: the intervals cover less than 95 %.\n",
              kRoundsForConfidence);
  }
  if (plan.a.external) {
    print_out("\nRates are those of generation alone where A measures it, else of the prompt.\n");
  }
}

}  // namespace tessera::app
