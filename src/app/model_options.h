// The options that every command with a model has.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <tessera/language_model.h>

namespace tessera::app {

struct ModelOptions {
  std::string model_path;  // empty: the bundled model
  std::string dtype;       // empty: that of the files
  std::string packed;      // empty: what the folder holds
  bool no_pack_cache = false;
  int threads = 0;  // 0: the CPUs this process may use
  bool pin = false;
  std::string device = "cpu";
  // Which kernels run: those of the --use flags, none of them with --baseline, the fastest with
  // neither.
  bool baseline = false;
  bool use_pto = false;
  bool use_rope = false;
  bool use_kv_fusion = false;
  std::string kv_fusion;  // empty: auto
  std::string kv_cache = "auto";
  std::string attention_form = "auto";
};

void add_model_options(CLI::App& command, ModelOptions& options);

// The folder that the options, the environment (MODEL_PATH) or, last, the program itself names.
std::string model_folder(const ModelOptions& options);

// "baseline", "auto", or what was asked for, joined by "+": "pto+rope+kv_fusion".
std::string mode_of(const ModelOptions& options);

// Checked load options, with a progress bar where standard error is a terminal. Throws
// Error(kInvalidArgument) for a device that this build does not have and for flags that contradict
// one another.
LoadOptions load_options(const ModelOptions& options);

}  // namespace tessera::app
