// What the benchmarks of single operators (prolog, kernels) have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "model/config.h"
#include "ops/limits/comparison.h"

namespace tessera::app {

struct ComparisonOptions {
  std::string model_path;  // whose dims; empty: those of DeepSeek-V2-Lite
  std::string rows = "1,2,3,4,6,8,12,16,24,32,48,64,96,128,256,512";
  int threads = 0;  // 0: the CPUs this process may use
  int repeat = 9;
  std::string json_file;
};

void add_comparison_options(CLI::App& command, ComparisonOptions& options);

// config.json of the folder, of which nothing else is read, or that of DeepSeek-V2-Lite.
ModelConfig config_of(const ComparisonOptions& options);
int threads_of(const ComparisonOptions& options);

void print_comparison_head(const std::string& baseline);
void print_comparison(std::int64_t rows, const ops::Comparison& comparison);
nlohmann::ordered_json to_json(std::int64_t rows, const ops::Comparison& comparison);

}  // namespace tessera::app
