#include "app/bench/report.h"

#include <fmt/format.h>

#include "base/machine.h"
#include "io/text_file.h"
#include "tile/jit/compiler.h"

namespace tessera::app {

using Json = nlohmann::ordered_json;

Json to_json(const Series& series) {
  return {{"median", series.median()},
          {"min", series.min()},
          {"max", series.max()},
          {"samples", series.samples()}};
}

std::string with_spread(const Series& series, int decimals, double scale) {
  return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", series.median() * scale, decimals,
                     series.min() * scale, decimals, series.max() * scale, decimals);
}

Json report_head(const std::string& command, int threads) {
  const std::string target = tile::target_cpu_from_environment();
  return {{"command", "bench " + command},
          {"version", std::string(version())},
          {"machine",
           {{"cpu", cpu_name()},
            {"cpus", available_cpus()},
            {"target_cpu", target.empty() ? "native" : target}}},
          {"threads", threads}};
}

void add_model(Json& report, const std::string& folder, const ModelOptions& options,
               const LoadedModel& model) {
  report["model"] = folder;
  report["layers"] = model.config.n_layers;
  report["dtype"] = to_string(model.format);
  report["mode"] = mode_of(options);
  const KernelNames kernels = model.kernels->names();
  report["kernels"] = {{"rms_norm", kernels.rms_norm},
                       {"rope", kernels.rope},
                       {"mla_prolog", kernels.mla_prolog},
                       {"kv_cache", kernels.kv_cache}};
  report["flags"] = {{"dtype", options.dtype},
                     {"threads", options.threads},
                     {"baseline", options.baseline},
                     {"use_pto", options.use_pto},
                     {"use_rope", options.use_rope},
                     {"use_kv_fusion", options.use_kv_fusion},
                     {"kv_fusion", options.kv_fusion},
                     {"kv_cache", options.kv_cache},
                     {"attention_form", options.attention_form}};
}

void write_report(const std::string& path, const Json& report) {
  if (path.empty()) return;
  // A path in it need not be UTF-8.
  write_text_file(path, report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace tessera::app
