#include "app/bench/comparison_options.h"

#include "app/bench/report.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/machine.h"
#include "model/synth/presets.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDefaultModel = "deepseek-v2-lite";
constexpr std::int64_t kMostRows = 65'536;

}  // namespace

void add_comparison_options(CLI::App& command, ComparisonOptions& options) {
  command
      .add_option("--model-path", options.model_path,
                  "Hugging Face folder whose config.json gives the sizes (default: those of "
                  "DeepSeek-V2-Lite)")
      ->check(not_empty("the name of a folder"));
  command.add_option("--rows", options.rows, "tokens of a call, one result for each number")
      ->check(numbers_of("rows", kMostRows))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "threads (default: the CPUs at hand)")
      ->check(thread_count());
  command.add_option("--repeat", options.repeat, "rounds, each between two of the limits")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  command.add_option("--json", options.json_file, "write all measurements as JSON")
      ->check(not_empty("the name of a file"));
}

ModelConfig config_of(const ComparisonOptions& options) {
  if (!options.model_path.empty()) return ModelConfig::load(options.model_path);
  return ModelConfig::parse(synth_config(kDefaultModel), kDefaultModel);
}

int threads_of(const ComparisonOptions& options) {
  return options.threads > 0 ? options.threads : available_cpus();
}

void print_comparison_head(const std::string& baseline) {
  print_out("{:>5}  {:<10} {:<26} {:<24} {:>7} {:>8}  {:<18}\n", "rows", "", "time, us",
            "times as fast as " + baseline, "GB/s", "GFLOP/s", "% of limit");
}

void print_comparison(std::int64_t rows, const ops::Comparison& comparison) {
  for (const ops::Compared& c : comparison.candidates) {
    print_out("{:>5}  {:<10} {:<26} {:<24} {:>7.1f} {:>8.1f}  {:<18}\n", rows, c.name,
              with_spread(c.seconds, 1, 1e6), with_spread(c.times_as_fast, 2),
              c.gb_per_second.median(), c.gflop_per_second.median(),
              with_spread(c.share_of_limit, 0, 100));
  }
  flush_out();
}

Json to_json(std::int64_t rows, const ops::Comparison& comparison) {
  Json implementations = Json::array();
  for (const ops::Compared& c : comparison.candidates) {
    implementations.push_back({{"implementation", c.name},
                               {"seconds", to_json(c.seconds)},
                               {"times_as_fast", to_json(c.times_as_fast)},
                               {"gb_per_second", to_json(c.gb_per_second)},
                               {"gflop_per_second", to_json(c.gflop_per_second)},
                               {"share_of_limit", to_json(c.share_of_limit)}});
  }
  return {{"rows", rows},
          {"read_gb_per_second", to_json(comparison.read_gb_per_second)},
          {"dot_gflop_per_second", to_json(comparison.dot_gflop_per_second)},
          {"implementations", implementations}};
}

}  // namespace tessera::app
