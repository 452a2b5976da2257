#include "app/bench/step_options.h"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/bench/report.h"
#include "app/graph_options.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "io/text_file.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

Json report_of(const PartMeasurement& part) {
  return {{"op", std::string(to_string(part.part))},
          {"seconds_per_step", to_json(part.seconds)},
          {"kernel_seconds_per_step", to_json(part.kernel_seconds)},
          {"share_of_time", to_json(part.share_of_time)},
          {"bytes_per_step", part.bytes},
          {"gb_per_second", to_json(part.gb_per_second)},
          {"gflop_per_second", to_json(part.gflop_per_second)},
          {"share_of_limit", to_json(part.share_of_limit)}};
}

Json report_of(const StepMeasurement& m) {
  Json json = {{"steps", m.replayed ? "replayed" : "eager"},
               {"batch", m.work.sequences},
               {"depth", m.work.depth},
               {"new_tokens", m.work.new_tokens},
               {"step_tokens", m.work.step_tokens},
               {"tokens_per_second", to_json(m.tokens_per_second)},
               {"bytes_per_token", to_json(m.bytes_per_token)},
               {"gb_per_second", to_json(m.gb_per_second)},
               {"gflop_per_second", to_json(m.gflop_per_second)},
               {"limit", to_json(m.limit)},
               {"limited_by", m.limited_by_reading ? "memory_read" : "dot_peak"},
               {"share_of_limit", to_json(m.share_of_limit)},
               {"read_gb_per_second", to_json(m.read_gb_per_second)},
               {"dot_gflop_per_second", to_json(m.dot_gflop_per_second)},
               {"experts_per_step", to_json(m.experts_per_step)}};
  if (m.replayed) json["graph"] = app::report_of(m.graph);
  if (m.parts.empty()) return json;
  json["by_op"] = Json::array();
  for (const PartMeasurement& part : m.parts) json["by_op"].push_back(report_of(part));
  return json;
}

void print_head(const std::string& command, const StepOptions& options, const LoadedModel& model) {
  print_out("{}, {} layers, {}, mode {}, {} thread{}; medians of {}, in brackets the extremes\n\n",
            command, model.config.n_layers, to_string(model.format), mode_of(options.model),
            model.executor.n_threads(), model.executor.n_threads() == 1 ? "" : "s", options.repeat);
  print_out("{:>5} {:>6} {:>6}  {:<26} {:>9} {:>7} {:>8}  {:<22} {:<20}\n", "batch", "depth",
            "tokens", "tokens/s", "MB/token", "GB/s", "GFLOP/s", "limit, tokens/s", "% of limit");
}

void print(const StepMeasurement& m) {
  print_out("{:>5} {:>6} {:>6}  {:<26} {:>9.1f} {:>7.1f} {:>8.1f}  {:<22} {:<20}{}\n",
            m.work.sequences, m.work.depth, m.work.new_tokens, with_spread(m.tokens_per_second, 1),
            m.bytes_per_token.median() / 1e6, m.gb_per_second.median(), m.gflop_per_second.median(),
            fmt::format("{:.1f} ({})", m.limit.median(),
                        m.limited_by_reading ? "memory read" : "dot peak"),
            with_spread(m.share_of_limit, 0, 100), m.replayed ? "replayed" : "");
}

void print_limits(const StepMeasurement& m) {
  print_out("\nthe machine meanwhile: memory read {} GB/s, dot peak {} GFLOP/s\n",
            with_spread(m.read_gb_per_second, 1), with_spread(m.dot_gflop_per_second, 0));
}

void print_parts(const StepMeasurement& m) {
  print_out("\n{:<13} {:>9} {:>7} {:>10} {:>8} {:>7} {:>8} {:>10}   batch {}, depth {}\n", "op",
            "ms/step", "% time", "in kernels", "MB/step", "GB/s", "GFLOP/s", "% of limit",
            m.work.sequences, m.work.depth);
  double seconds = 0;
  double in_kernels = 0;
  for (const PartMeasurement& part : m.parts) {
    seconds += part.seconds.median();
    in_kernels += part.kernel_seconds.median();
    print_out("{:<13} {:>9.3f} {:>7.1f} {:>10.3f} {:>8.1f} {:>7.1f} {:>8.1f} {:>10.0f}\n",
              to_string(part.part), part.seconds.median() * 1e3, part.share_of_time.median() * 100,
              part.kernel_seconds.median() * 1e3, part.bytes / 1e6, part.gb_per_second.median(),
              part.gflop_per_second.median(), part.share_of_limit.median() * 100);
  }
  print_out("{:<13} {:>9.3f} {:>7} {:>10.3f}   {:.3f} ms outside kernels\n", "all", seconds * 1e3,
            "", in_kernels * 1e3, (seconds - in_kernels) * 1e3);
}

StepModes modes_of(const StepOptions& options) {
  if (options.against_eager && !options.graph.use_graph) {
    fail(ErrorCode::kInvalidArgument,
         "--against-eager compares graph mode with eager steps; give --use-graph too");
  }
  if (!options.graph.use_graph) return StepModes::kEager;
  return options.against_eager ? StepModes::kBoth : StepModes::kReplayed;
}

}  // namespace

void add_step_options(CLI::App& command, StepOptions& options) {
  add_model_options(command, options.model);
  add_graph_options(command, options.graph);
  command.add_flag("--against-eager", options.against_eager,
                   "with --use-graph: also measure eager steps, in turn");
  command.add_option("--repeat", options.repeat, "samples, each between two of the limits")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  command.add_flag("--by-op", options.by_op, "also measure each operator");
  add_trace_option(command, options.trace_file);
  command.add_option("--json", options.json_file, "write all measurements as JSON")
      ->check(not_empty("the name of a file"));
}

void run_step_bench(const std::string& command, const StepOptions& options,
                    const std::vector<StepWork>& work) {
  if (!options.json_file.empty()) require_writable(options.json_file);
  if (!options.trace_file.empty()) require_writable(options.trace_file);
  const std::string folder = model_folder(options.model);
  const LoadOptions load = load_options(options.model);
  LoadedModel model(folder, load);
  for (const StepWork& w : work) check_positions(w, model.config);
  model.load(load);

  const GraphOptions graph = graph_options(options.graph);
  StepBench bench(model, modes_of(options), graph);
  std::optional<StepTrace> trace;
  if (!options.trace_file.empty()) bench.trace(&trace.emplace(model.executor));
  print_head(command, options, model);
  std::vector<StepMeasurement> measured;
  for (const StepWork& w : work) {
    for (StepMeasurement& m : bench.measure(w, options.repeat, options.by_op)) {
      print(m);
      measured.push_back(std::move(m));
    }
    flush_out();
  }
  if (trace) trace->write(options.trace_file);
  for (const StepMeasurement& m : measured) {
    if (&m == &measured.front()) print_limits(m);
    if (options.by_op) print_parts(m);
  }
  Json report = report_head(command, model.executor.n_threads());
  add_model(report, folder, options.model, model);
  report["repeat"] = options.repeat;
  report["results"] = Json::array();
  for (const StepMeasurement& m : measured) report["results"].push_back(report_of(m));
  write_report(options.json_file, report);
}

}  // namespace tessera::app
