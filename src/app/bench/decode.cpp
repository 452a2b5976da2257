// tessera bench decode and batch: steps of one token per sequence.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "app/bench/bench.h"
#include "app/bench/step_options.h"
#include "app/validators.h"

namespace tessera::app {

namespace {

constexpr std::int64_t kMostSequences = 65'536;

struct DecodeOptions {
  StepOptions step;
  std::string batch;  // as 1,2
  std::int64_t depth = 128;
  std::int64_t output_tokens = 16;
};

void run(const std::string& command, const DecodeOptions& options) {
  std::vector<StepWork> work;
  for (const std::int64_t sequences : parse_lengths(options.batch)) {
    work.push_back({.sequences = sequences,
                    .depth = options.depth,
                    .new_tokens = options.output_tokens,
                    .step_tokens = 1,
                    .all_logits = true});
  }
  run_step_bench(command, options.step, work);
}

void add(CLI::App& bench, const std::string& name, const std::string& description,
         const std::string& batch) {
  auto options = std::make_shared<DecodeOptions>();
  options->batch = batch;
  CLI::App* command = bench.add_subcommand(name, description);
  command->add_option("--batch", options->batch, "sequences, one result for each number")
      ->check(numbers_of("sequences", kMostSequences))
      ->capture_default_str();
  command->add_option("--depth", options->depth, "tokens in the cache of each sequence before")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      ->add_option("--output-tokens", options->output_tokens,
                   "tokens that each sequence decodes in a sample")
      ->check(whole_number(1))
      ->capture_default_str();
  add_step_options(*command, options->step);
  command->callback([name, options] { run(name, *options); });
}

}  // namespace

void add_bench_decode(CLI::App& bench) {
  add(bench, "decode", "Steps of one token", "1");
}

void add_bench_batch(CLI::App& bench) {
  add(bench, "batch", "Steps of one token for several sequences together", "1,2,4,8");
}

}  // namespace tessera::app
