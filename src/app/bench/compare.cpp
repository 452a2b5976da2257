// tessera bench compare: A against B as child processes, case by case.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/bench/bench.h"
#include "app/compare/cases.h"
#include "app/compare/comparison.h"
#include "app/compare/result_file.h"
#include "app/compare/split_words.h"
#include "app/compare/table.h"
#include "app/model_options.h"
#include "app/output.h"
#include "app/progress_bar.h"
#include "app/validators.h"
#include "base/fail.h"
#include "io/text_file.h"

namespace tessera::app {

namespace {

// What the original compares: the operators one after another, and its kernels.
constexpr const char* kDefaultA = "--baseline --use-graph";
constexpr const char* kDefaultB = "--use-pto --use-rope --use-kv-fusion --use-graph";

constexpr std::int64_t kMostSequences = 65'536;
constexpr std::int64_t kMostSeconds = 7 * 24 * 3600;

struct CompareOptions {
  ModelOptions model;  // of which model_path
  std::string a = kDefaultA;
  std::string b = kDefaultB;
  std::string external;
  std::string parse;
  std::string batch = "1";  // as 1,2
  std::string output_tokens = "20";
  std::vector<std::string> prompts = {"你好"};
  bool own_cases = false;
  std::int64_t cooldown_s = 0;
  std::int64_t timeout_s = 600;
  int repeat = 6;
  int warmup = 1;
  double tolerance = 0;
  bool tolerant = false;
  std::string json_file = "benchmark_bs_results.json";
  bool resume = false;
};

Side ask_side(const std::string& flags, const std::string& option) {
  Side side{false, split_words(flags, option)};
  check_flags(side.words, option);
  return side;
}

Side external_side(const CompareOptions& options) {
  Side side{true, split_words(options.external, "--external")};
  if (side.words.empty()) {
    fail(ErrorCode::kInvalidArgument, "--external is empty; give it the command of llama-bench");
  }
  return side;
}

std::vector<Case> cases_of(const CompareOptions& options) {
  if (!options.own_cases) return options.external.empty() ? default_cases() : single_cases();
  return own_cases(parse_lengths(options.batch), parse_lengths(options.output_tokens),
                   options.prompts);
}

ComparisonPlan plan_of(const CompareOptions& options) {
  ComparisonPlan plan;
  plan.model = model_folder(options.model);
  plan.a = options.external.empty() ? ask_side(options.a, "--a") : external_side(options);
  plan.b = ask_side(options.b, "--b");
  plan.cases = cases_of(options);
  plan.repeat = options.repeat;
  plan.warmup = options.warmup;
  plan.cooldown = std::chrono::seconds(options.cooldown_s);
  plan.timeout = std::chrono::seconds(options.timeout_s);
  if (options.tolerant) plan.tolerance = options.tolerance;
  if (plan.a.external &&
      std::ranges::any_of(plan.cases, [](const Case& c) { return c.batch > 1; })) {
    fail(ErrorCode::kInvalidArgument, "llama-bench runs one sequence; leave out --batch");
  }
  if (plan.tolerance && !(*plan.tolerance >= 0)) {
    fail(ErrorCode::kInvalidArgument, "--tolerance must be from 0 up, not {:g}", *plan.tolerance);
  }
  return plan;
}

// The bar over all cases that are not done yet; prints nothing where there is no terminal.
class Progress {
 public:
  Progress(const ComparisonPlan& plan, std::size_t cases) : plan_(plan), cases_(cases) {}

  void show(std::size_t index, const std::string& what, std::size_t runs_done) {
    if (!wanted_) return;
    bar_.show_step(fmt::format("case {} of {}, {}", index + 1, plan_.cases.size(), what),
                   cases_done_ * plan_.runs_of_a_case() + runs_done,
                   cases_ * plan_.runs_of_a_case());
  }
  void case_done() {
    ++cases_done_;
    erase();
  }
  void erase() const {
    if (wanted_) ProgressBar::erase();
  }

 private:
  const ComparisonPlan& plan_;
  std::size_t cases_;
  std::size_t cases_done_ = 0;
  bool wanted_ = ProgressBar::wanted();
  ProgressBar bar_{""};
};

// Exits with 1 where a case has no speed.
void fail_for(const ResultFile& file) {
  std::size_t different = 0;
  std::size_t failed = 0;
  for (const auto& result : file.content()["results"]) {
    different += result["status"] == "different" ? 1 : 0;
    failed += result["status"] == "failed" ? 1 : 0;
  }
  if (different + failed == 0) return;
  fail(ErrorCode::kVerifyFailed,
       "{} of {} cases have no speed: {} with different answers, {} failed", different + failed,
       file.content()["cases"].size(), different, failed);
}

void run(const CompareOptions& options) {
  const ComparisonPlan plan = plan_of(options);
  require_writable(options.json_file);
  ResultFile file(options.json_file, plan, options.resume);
  Progress progress(plan, plan.cases.size() - file.content()["results"].size());
  std::size_t current = 0;
  PlannedComparison comparison(
      plan,
      [&](const std::string& what, std::size_t runs_done) {
        progress.show(current, what, runs_done);
      },
      [&](std::string_view sentence) {
        progress.erase();
        write_warning_line(sentence);
      });

  print_table_head(plan);
  flush_out();
  for (; current < plan.cases.size(); ++current) {
    if (file.find(current) == nullptr) {
      file.add(comparison.run_case(current));
      progress.case_done();
    }
    print_table_row(*file.find(current));
  }
  print_table_notes(plan);
  print_out("\nevery run is in {}\n", options.json_file);
  flush_out();
  fail_for(file);
}

std::vector<CLI::Option*> add_case_options(CLI::App& command, CompareOptions& options) {
  CLI::Option* batch =
      command.add_option("--batch", options.batch, "own cases: sequences together (default: 1)")
          ->check(numbers_of("sequences", kMostSequences));
  CLI::Option* output_tokens =
      command
          .add_option("--output-tokens", options.output_tokens,
                      "own cases: new tokens of each sequence at most (default: 20)")
          ->check(lengths());
  CLI::Option* prompts =
      command
          .add_option("--prompt", options.prompts,
                      "own cases: what to ask; several fill the batches in turn (default: 你好)")
          ->check(not_empty("a prompt"))
          ->allow_extra_args(false);
  return {batch, output_tokens, prompts};
}

}  // namespace

void add_bench_compare(CLI::App& bench) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = bench.add_subcommand(
      "compare", "Run `ask` with two sets of flags in turn; are both right, and which is faster?");
  command
      ->add_option("--model-path", options->model.model_path,
                   "Hugging Face folder (default: $MODEL_PATH, else the bundled model)")
      ->check(not_empty("the name of a folder"));
  CLI::Option* a = command->add_option("--a", options->a, "flags of `ask` for A, in one word")
                       ->capture_default_str();
  command->add_option("--b", options->b, "flags of `ask` for B")->capture_default_str();
  const std::vector<CLI::Option*> of_cases = add_case_options(*command, *options);
  command->add_option("--repeat", options->repeat, "rounds, each a run of A and one of B")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  command->add_option("--warmup", options->warmup, "rounds before them, which do not count")
      ->check(whole_number(0, 10'000))
      ->capture_default_str();
  command->add_option("--cooldown", options->cooldown_s, "seconds to wait between two runs")
      ->check(whole_number(0, kMostSeconds))
      ->capture_default_str();
  command->add_option("--timeout", options->timeout_s, "seconds that a run may take")
      ->check(whole_number(1, kMostSeconds))
      ->capture_default_str();
  CLI::Option* tolerance =
      command
          ->add_option("--tolerance", options->tolerance,
                       "accept other tokens where no logit differs by more than this")
          ->check(decimal());
  CLI::Option* external = command
                              ->add_option("--external", options->external,
                                           "a command that is run as A, without a shell")
                              ->excludes(a)
                              ->excludes(tolerance);
  CLI::Option* parse =
      command->add_option("--parse", options->parse, "what the command prints on standard output")
          ->check(CLI::IsMember({"llama-bench"}))
          ->needs(external);
  external->needs(parse);
  command->add_option("--json", options->json_file, "the file of results")
      ->check(not_empty("the name of a file"))
      ->capture_default_str();
  command->add_flag("--resume", options->resume,
                    "go on with the file of results: keep its cases but those that failed");
  command->callback([options, of_cases, tolerance] {
    options->own_cases = std::ranges::any_of(
        of_cases, [](const CLI::Option* option) { return option->count() > 0; });
    options->tolerant = tolerance->count() > 0;
    run(*options);
  });
}

}  // namespace tessera::app
