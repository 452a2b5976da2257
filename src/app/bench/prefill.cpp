// tessera bench prefill: reading prompts.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <tessera/generation.h>

#include "app/bench/bench.h"
#include "app/bench/step_options.h"
#include "app/validators.h"

namespace tessera::app {

namespace {

struct PrefillOptions {
  StepOptions step;
  std::string prompt_tokens = "512";  // as 64,512
  std::int64_t depth = 0;
  std::int64_t chunk = GenerationOptions().prefill_chunk;
};

void run(const PrefillOptions& options) {
  std::vector<StepWork> work;
  for (const std::int64_t tokens : parse_lengths(options.prompt_tokens)) {
    work.push_back({.sequences = 1,
                    .depth = options.depth,
                    .new_tokens = tokens,
                    .step_tokens = options.chunk,
                    .all_logits = false});
  }
  run_step_bench("prefill", options.step, work);
}

}  // namespace

void add_bench_prefill(CLI::App& bench) {
  auto options = std::make_shared<PrefillOptions>();
  CLI::App* command = bench.add_subcommand("prefill", "Reading a prompt");
  command
      ->add_option("--prompt-tokens", options->prompt_tokens,
                   "tokens of the prompt, one result for each number")
      ->check(lengths())
      ->capture_default_str();
  command->add_option("--depth", options->depth, "tokens in the cache before the prompt")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--prefill-chunk", options->chunk, "prompt tokens per step")
      ->check(whole_number(1))
      ->capture_default_str();
  add_step_options(*command, options->step);
  command->callback([options] { run(*options); });
}

}  // namespace tessera::app
