// What the reports of all benchmarks have in common.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "app/model_options.h"
#include "base/series.h"
#include "engine/loaded_model.h"

namespace tessera::app {

// {"median", "min", "max", "samples"}; samples in the order of measurement.
nlohmann::ordered_json to_json(const Series& series);

// "12.3 (11.9 to 12.4)", with that many decimals, each value times scale.
std::string with_spread(const Series& series, int decimals, double scale = 1);

// {"command", "version", "machine": {"cpu", "cpus", "target_cpu"}, "threads"}.
nlohmann::ordered_json report_head(const std::string& command, int threads);

// What a model adds to it: its folder, sizes, dtype, flags and kernels.
void add_model(nlohmann::ordered_json& report, const std::string& folder,
               const ModelOptions& options, const LoadedModel& model);

void write_report(const std::string& path, const nlohmann::ordered_json& report);

}  // namespace tessera::app
