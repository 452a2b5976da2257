#include "app/model_options.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include <fmt/ranges.h>

#include "app/output.h"
#include "app/progress_bar.h"
#include "app/validators.h"
#include "base/fail.h"
#include "ops/registry.h"

namespace tessera::app {

namespace {

namespace fs = std::filesystem;

// Beside an installed program, else where the sources of this build lie.
fs::path bundled_model() {
  std::error_code ignored;  // without /proc there is no installed copy to look for
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = program.parent_path().parent_path() / "share/tessera/models/demo";
  return fs::exists(installed, ignored) ? installed : fs::path(TESSERA_BUNDLED_MODEL);
}

void check_device(const std::string& device) {
  if (device == "cpu") return;
  const bool is_npu =
      device.rfind("npu:", 0) == 0 ||
      (!device.empty() && device.find_first_not_of("0123456789") == std::string::npos);
  if (is_npu) {
    fail(ErrorCode::kInvalidArgument,
         "--device {} names an accelerator, and this build has none; its devices are: cpu", device);
  }
  fail(ErrorCode::kInvalidArgument, "--device {} is unknown; the devices of this build are: cpu",
       device);
}

// The --use flags that were given.
std::vector<std::string_view> kernels_asked_for(const ModelOptions& options) {
  std::vector<std::string_view> names;
  if (options.use_pto) names.emplace_back("pto");
  if (options.use_rope) names.emplace_back("rope");
  if (options.use_kv_fusion) names.emplace_back("kv_fusion");
  return names;
}

// What --kv-fusion may name: every prolog of the registry that is a kernel, "auto" among them.
std::vector<std::string> fused_prologs() {
  std::vector<std::string> names;
  for (const ops::MlaPrologImplementation* implementation : ops::mla_prolog_implementations()) {
    const bool is_kernel =
        implementation != &ops::kMlaPrologBaseline && implementation != &ops::kMlaPrologReference;
    if (is_kernel) names.emplace_back(implementation->name);
  }
  return names;
}

KernelOptions kernel_options(const ModelOptions& options) {
  const bool some = !kernels_asked_for(options).empty();
  if (options.baseline && some) {
    fail(ErrorCode::kInvalidArgument,
         "--baseline runs native operators only; leave out either it or the --use flags");
  }
  if (!options.kv_fusion.empty() && !options.use_kv_fusion) {
    fail(ErrorCode::kInvalidArgument,
         "--kv-fusion says which prolog --use-kv-fusion takes; give that flag too");
  }
  KernelOptions kernels = baseline_kernels();
  if (!options.baseline && !some) kernels = KernelOptions{};
  if (options.use_pto) kernels.rms_norm = "tile";
  if (options.use_rope) kernels.rope = "tile";
  if (options.use_kv_fusion) {
    const bool any = options.kv_fusion.empty() || options.kv_fusion == "auto";
    kernels.mla_prolog = any ? "fusion" : options.kv_fusion;
  }
  kernels.kv_cache = options.kv_cache;
  kernels.attention_form = options.attention_form;
  return kernels;
}

}  // namespace

std::string mode_of(const ModelOptions& options) {
  if (options.baseline) return "baseline";
  const std::vector<std::string_view> names = kernels_asked_for(options);
  return names.empty() ? "auto" : fmt::format("{}", fmt::join(names, "+"));
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--model-path", options.model_path,
                  "Hugging Face folder (default: $MODEL_PATH, else the bundled model)")
      ->check(not_empty("the name of a folder"));
  command.add_option("--dtype", options.dtype, "weights in memory (default: as in the files)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "int8", "int4", "mixed"}));
  command
      .add_option("--packed", options.packed,
                  "file that tessera pack made of this model (default: model-DTYPE.tessera in its "
                  "folder, where that exists)")
      ->check(not_empty("the name of a file"));
  command.add_flag("--no-pack-cache", options.no_pack_cache,
                   "neither use nor keep packed weights in the cache folder");
  command.add_option("--threads", options.threads, "threads (default: the CPUs of this process)")
      ->check(thread_count());
  command.add_flag("--pin", options.pin, "keep each thread on one CPU");
  command.add_option("--device", options.device, "where to run")->capture_default_str();
  command.add_flag("--baseline", options.baseline, "native operators only");
  command.add_flag("--use-pto", options.use_pto, "tile RMSNorm, and no other kernel unless asked");
  command.add_flag("--use-rope", options.use_rope, "tile RoPE, likewise");
  command.add_flag("--use-kv-fusion", options.use_kv_fusion, "fused KV prolog, likewise");
  command
      .add_option("--kv-fusion", options.kv_fusion,
                  "which prolog --use-kv-fusion takes (default: auto, the fastest)")
      ->check(CLI::IsMember(fused_prologs()));
  command
      .add_option("--kv-cache", options.kv_cache,
                  "what is kept of each token (auto: what the prolog writes, else latent)")
      ->check(CLI::IsMember({"auto", "latent", "expanded"}))
      ->capture_default_str();
  command
      .add_option("--attention-form", options.attention_form,
                  "form of attention over a latent cache (auto: expanded for chunks of 256 tokens "
                  "and more, else absorbed)")
      ->check(CLI::IsMember({"auto", "absorbed", "expanded"}))
      ->capture_default_str();
}

std::string model_folder(const ModelOptions& options) {
  if (!options.model_path.empty()) return options.model_path;
  if (const char* path = std::getenv("MODEL_PATH"); path != nullptr && *path != '\0') return path;
  return bundled_model().string();
}

LoadOptions load_options(const ModelOptions& options) {
  check_device(options.device);
  LoadOptions load;
  load.format = weight_format_from_string(options.dtype);
  load.packed = options.packed;
  load.use_pack_cache = !options.no_pack_cache;
  load.threads = options.threads;
  load.pin_threads = options.pin;
  load.kernels = kernel_options(options);
  load.warn = write_warning_line;
  if (ProgressBar::wanted()) {
    load.progress = [bar = std::make_shared<ProgressBar>("loading weights")](
                        std::size_t done, std::size_t total) { bar->show(done, total); };
  }
  return load;
}

}  // namespace tessera::app
