// tessera pack: a model's weights as a run needs them in memory, in one file.
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/commands.h"
#include "app/output.h"
#include "app/progress_bar.h"
#include "app/validators.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "model/packed/packed_file.h"
#include "model/weight_source.h"

namespace tessera::app {

namespace {

struct PackFlags {
  std::string folder;
  std::string dtype;
  std::string kv_cache = "latent";
  std::string output;
  std::string check;
  int threads = 0;
};

ProgressFn progress_bar(const std::string& label) {
  if (!ProgressBar::wanted()) return nullptr;
  return [bar = std::make_shared<ProgressBar>(label)](std::size_t done, std::size_t total) {
    bar->show(done, total);
  };
}

void run_check(const std::string& path, ops::Executor& executor) {
  const PackedFile file = PackedFile::open(path);
  file.check_data(executor, progress_bar("checking"));
  const PackedHeader& h = file.header();
  print_out("{}: intact, {} weights for the {} cache, {:.2f} GB\n", path, to_string(h.format),
            to_string(h.form), static_cast<double>(h.file_bytes()) / 1e9);
}

// Packing replaces packed models and empty files only: the output may be misspelt as a file of the
// model itself, which is a long download.
void require_replaceable(const std::filesystem::path& output) {
  std::error_code unknown;
  if (!std::filesystem::exists(output, unknown)) return;
  if (!std::filesystem::is_regular_file(output)) {
    fail(ErrorCode::kInvalidArgument, "{}: is no regular file, which a packed model must be",
         output.string());
  }
  if (std::filesystem::file_size(output) == 0) return;
  if (PackedHeader::begins(MappedFile(output).bytes())) return;
  fail(ErrorCode::kInvalidArgument,
       "{}: exists and is not a packed model; name another file, or remove it first",
       output.string());
}

void run_pack(const PackFlags& flags, ops::Executor& executor) {
  const std::filesystem::path folder = flags.folder;
  const ModelConfig config = ModelConfig::load(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const WeightFormat format =
      weight_format_from_string(flags.dtype).value_or(stored_format(checkpoint));
  const KvCacheForm form =
      flags.kv_cache == "expanded" ? KvCacheForm::kExpanded : KvCacheForm::kLatent;
  const std::filesystem::path output = flags.output.empty() ? packed_path(folder, format, form)
                                                            : std::filesystem::path(flags.output);
  AtomicFile::require_writable(output);
  require_replaceable(output);

  const auto start = std::chrono::steady_clock::now();
  check_tensor_count(checkpoint, config);
  ProgressCounter counter(progress_bar("packing weights"), packing_bytes(checkpoint, config));
  write_packed_file(output, checkpoint, config, format, form, executor, counter);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_out("{}: {} weights for the {} cache, {:.2f} GB in {:.1f} s\n", output.string(),
            to_string(format), to_string(form),
            static_cast<double>(std::filesystem::file_size(output)) / 1e9, seconds);
}

void run(const PackFlags& flags) {
  const bool packs = !flags.folder.empty();
  if (packs == !flags.check.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "give either the folder of a model to pack, or a packed file with --check");
  }
  ops::Executor executor(flags.threads > 0 ? flags.threads : available_cpus());
  if (packs) return run_pack(flags, executor);
  run_check(flags.check, executor);
}

}  // namespace

void add_pack_command(CLI::App& app) {
  const auto flags = std::make_shared<PackFlags>();
  CLI::App* command = app.add_subcommand(
      "pack", "Write a model's weights to one file that later runs map into memory as it is");
  command->add_option("folder", flags->folder, "Hugging Face folder")
      ->check(not_empty("the name of a folder"));
  command->add_option("--dtype", flags->dtype, "format of the weights (default: as in the files)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "int8", "int4", "mixed"}));
  command
      ->add_option("--kv-cache", flags->kv_cache, "form of the KV cache that the weights are for")
      ->check(CLI::IsMember({"latent", "expanded"}))
      ->capture_default_str();
  command
      ->add_option("--output", flags->output,
                   "file to write (default: model-DTYPE.tessera in the folder, which runs find)")
      ->check(not_empty("the name of a file"));
  command->add_option("--check", flags->check, "compare all of a packed file with its checksums")
      ->check(not_empty("the name of a file"));
  command->add_option("--threads", flags->threads, "threads (default: the CPUs of this process)")
      ->check(thread_count());
  command->callback([flags] { run(*flags); });
}

}  // namespace tessera::app
