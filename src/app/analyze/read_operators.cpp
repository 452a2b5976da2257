// The results of tessera bench prolog and kernels.
#include "app/analyze/readers.h"

namespace tessera::app::analyze {

namespace {

OperatorResult read_result(const JsonObject& object) {
  OperatorResult result;
  result.rows = read_count(object, "rows", 1);
  for (const JsonObject& each : object.required_objects("implementations")) {
    Implementation& implementation = result.implementations.emplace_back();
    implementation.name = each.required_string("implementation");
    implementation.seconds = read_positive(each, "seconds");
    implementation.times_as_fast = read_positive(each, "times_as_fast");
    implementation.gb_per_second = read_measured(each, "gb_per_second");
    implementation.gflop_per_second = read_measured(each, "gflop_per_second");
    implementation.share_of_limit = read_measured(each, "share_of_limit");
  }
  return result;
}

}  // namespace

PrologResults read_prolog(const JsonObject& file) {
  PrologResults prolog;
  prolog.form = file.required_string("form");
  for (const JsonObject& object : file.required_objects("results")) {
    prolog.results.push_back(read_result(object));
  }
  for (const JsonObject& object : file.required_objects("crossovers")) {
    prolog.crossovers.push_back({read_count(object, "rows", 1), object.required_string("from"),
                                 object.required_string("to")});
  }
  for (const JsonObject& object : file.required_objects("skipped")) {
    prolog.skipped.push_back(
        {object.required_string("implementation"), object.required_string("reason")});
  }
  return prolog;
}

KernelResults read_kernels(const JsonObject& file) {
  KernelResults kernels;
  for (const JsonObject& object : file.required_objects("results")) {
    kernels.results.push_back(read_result(object));
    kernels.results.back().title = object.required_string("case");
  }
  return kernels;
}

}  // namespace tessera::app::analyze
