// The options that every command with a model has.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <tessera/language_model.h>

namespace tessera::app {

struct ModelOptions {
  std::string model_path;  // empty: the bundled model
  std::string dtype;       // empty: that of the files
  int threads = 0;         // 0: the CPUs this process may use
  std::string device = "cpu";
};

void add_model_options(CLI::App& command, ModelOptions& options);

// The folder that the options, the environment (MODEL_PATH) or, last, the program itself names.
std::string model_folder(const ModelOptions& options);

// Checked load options, with a progress bar where standard error is a terminal. Throws
// Error(kInvalidArgument) for a device that this build does not have.
LoadOptions load_options(const ModelOptions& options);

}  // namespace tessera::app
