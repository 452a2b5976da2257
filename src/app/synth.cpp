// tessera synth: a model of real sizes with random weights.
#include "model/synth.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands.h"
#include "app/output.h"
#include "app/progress_bar.h"
#include "app/validators.h"
#include "base/machine.h"
#include "model/synth/presets.h"

namespace tessera::app {

namespace {

struct SynthFlags {
  std::string folder;
  std::string like;
  std::optional<std::int64_t> layers;
  std::uint64_t seed = 0;
  std::optional<std::string> tokenizer;
  int threads = 0;
};

void run_synth(const SynthFlags& flags) {
  SynthOptions options;
  options.config_json = synth_config(flags.like, flags.layers);
  options.seed = flags.seed;
  options.threads = flags.threads > 0 ? flags.threads : available_cpus();
  if (flags.tokenizer) options.tokenizer_folder = *flags.tokenizer;

  std::size_t bytes = 0;
  ProgressBar bar("writing weights");
  const auto start = std::chrono::steady_clock::now();
  write_synthetic_model(flags.folder, options, [&](std::size_t done, std::size_t total) {
    bytes = total;
    if (ProgressBar::wanted()) bar.show(done, total);
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_out("{}: {:.2f} GB of weights like {} in {:.1f} s\n", flags.folder,
            static_cast<double>(bytes) / 1e9, flags.like, seconds);
}

}  // namespace

void add_synth_command(CLI::App& app) {
  const auto flags = std::make_shared<SynthFlags>();
  CLI::App* command = app.add_subcommand(
      "synth", "Write a model of real sizes with random weights, for benchmarks");
  command->add_option("folder", flags->folder, "Folder to write: new or empty")
      ->required()
      ->check(not_empty("the name of a folder"));
  command
      ->add_option("--like", flags->like,
                   fmt::format("Model whose sizes to take: {}", fmt::join(synth_presets(), ", ")))
      ->required();
  command->add_option("--layers", flags->layers, "Number of layers (default: that of the model)")
      ->check(whole_number(0));
  command->add_option("--seed", flags->seed, "The same seed gives the same weights (default: 0)")
      ->check(whole_number(0));
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "Folder whose tokenizer.json and tokenizer_config.json to copy")
      ->check(not_empty("the name of a folder"));
  command->add_option("--threads", flags->threads, "Threads (default: the CPUs of this process)")
      ->check(thread_count());
  command->callback([flags] { run_synth(*flags); });
}

}  // namespace tessera::app
