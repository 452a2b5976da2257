// tessera synth: a model of real sizes with random weights.
#include "model/synth.h"

#include <algorithm>
#include <array>
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
#include "base/fail.h"
#include "base/machine.h"
#include "io/text_file.h"
#include "model/synth/presets.h"
#include "model/synth_gguf.h"

namespace tessera::app {

namespace {

struct SynthFlags {
  std::string folder;
  std::string like;
  std::optional<std::int64_t> layers;
  std::uint64_t seed = 0;
  std::optional<std::string> tokenizer;
  int threads = 0;
  std::string gguf_file;
  std::string gguf_type = "bf16";
};

struct GgufTypeName {
  const char* name;
  GgmlType type;
};

constexpr std::array kGgufTypes = {GgufTypeName{"bf16", GgmlType::kBF16},
                                   GgufTypeName{"q8_0", GgmlType::kQ8_0},
                                   GgufTypeName{"q4_0", GgmlType::kQ4_0}};

GgmlType gguf_type(const std::string& name) {
  return std::ranges::find(kGgufTypes, name, &GgufTypeName::name)->type;
}

// Runs a function that writes weights, with a bar, and says what came of it.
template <typename Write>
void write_with_bar(const std::string& path, const std::string& like, const Write& write) {
  std::size_t bytes = 0;
  ProgressBar bar("writing weights");
  const auto start = std::chrono::steady_clock::now();
  write([&](std::size_t done, std::size_t total) {
    bytes = total;
    if (ProgressBar::wanted()) bar.show(done, total);
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_out("{}: {:.2f} GB of weights like {} in {:.1f} s\n", path,
            static_cast<double>(bytes) / 1e9, like, seconds);
}

void run_synth(const SynthFlags& flags) {
  if (flags.folder.empty() && flags.gguf_file.empty()) {
    fail(ErrorCode::kInvalidArgument, "name a folder to write, or a file with --gguf");
  }
  SynthOptions options;
  options.config_json = synth_config(flags.like, flags.layers);
  options.seed = flags.seed;
  options.threads = flags.threads > 0 ? flags.threads : available_cpus();
  if (flags.tokenizer) options.tokenizer_folder = *flags.tokenizer;
  if (!flags.gguf_file.empty()) require_writable(flags.gguf_file);

  if (!flags.folder.empty()) {
    write_with_bar(flags.folder, flags.like, [&](const ProgressFn& progress) {
      write_synthetic_model(flags.folder, options, progress);
    });
  }
  if (!flags.gguf_file.empty()) {
    write_with_bar(flags.gguf_file, flags.like, [&](const ProgressFn& progress) {
      write_synthetic_gguf(flags.gguf_file, options, flags.like, gguf_type(flags.gguf_type),
                           progress);
    });
  }
}

}  // namespace

void add_synth_command(CLI::App& app) {
  const auto flags = std::make_shared<SynthFlags>();
  CLI::App* command = app.add_subcommand(
      "synth", "Write a model of real sizes with random weights, for benchmarks");
  command->add_option("folder", flags->folder, "Folder to write: new or empty")
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
  command
      ->add_option("--gguf", flags->gguf_file,
                   "Write the same model to this GGUF file, for llama.cpp and its relatives")
      ->check(not_empty("the name of a file"));
  command->add_option("--gguf-type", flags->gguf_type, "Type of its matrices")
      ->check(CLI::IsMember({"bf16", "q8_0", "q4_0"}))
      ->capture_default_str();
  command->callback([flags] { run_synth(*flags); });
}

}  // namespace tessera::app
