// The results of tessera bench decode, batch and prefill.
#include <string>

#include "app/analyze/readers.h"

namespace tessera::app::analyze {

namespace {

OperatorTime read_operator(const JsonObject& object) {
  OperatorTime time;
  time.op = object.required_string("op");
  time.seconds = read_measured(object, "seconds_per_step");
  time.kernel_seconds = read_measured(object, "kernel_seconds_per_step");
  time.share_of_time = read_measured(object, "share_of_time");
  time.bytes = read_bytes(object, "bytes_per_step");
  time.gb_per_second = read_measured(object, "gb_per_second");
  time.gflop_per_second = read_measured(object, "gflop_per_second");
  time.share_of_limit = read_measured(object, "share_of_limit");
  return time;
}

StepResult read_result(const JsonObject& object) {
  StepResult result;
  const std::string steps = object.optional_string("steps").value_or("eager");
  if (steps != "eager" && steps != "replayed") object.refuse("steps", "eager or replayed");
  result.replayed = steps == "replayed";
  result.batch = read_count(object, "batch", 1);
  result.depth = read_count(object, "depth", 0);
  result.new_tokens = read_count(object, "new_tokens", 1);
  result.step_tokens = read_count(object, "step_tokens", 1);
  result.tokens_per_second = read_positive(object, "tokens_per_second");
  result.bytes_per_token = read_measured(object, "bytes_per_token");
  result.gb_per_second = read_measured(object, "gb_per_second");
  result.gflop_per_second = read_measured(object, "gflop_per_second");
  result.limit = read_positive(object, "limit");
  result.limited_by = object.required_string("limited_by");
  result.share_of_limit = read_positive(object, "share_of_limit");
  if (!object.has("by_op")) return result;
  for (const JsonObject& op : object.required_objects("by_op")) {
    result.by_op.push_back(read_operator(op));
  }
  return result;
}

}  // namespace

StepResults read_steps(const JsonObject& file) {
  StepResults steps;
  for (const JsonObject& object : file.required_objects("results")) {
    steps.results.push_back(read_result(object));
  }
  return steps;
}

}  // namespace tessera::app::analyze
