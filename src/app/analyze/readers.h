// Reading the results of each command; see result_file.h for the errors.
#pragma once

#include "app/analyze/result_file.h"
#include "io/json_file.h"

namespace tessera::app::analyze {

Measured read_measured(const JsonObject& object, std::string_view key);
// Also greater than 0: what is divided by, or stands on a logarithmic axis.
Measured read_positive(const JsonObject& object, std::string_view key);
double read_positive_number(const JsonObject& object, std::string_view key);
double read_bytes(const JsonObject& object, std::string_view key);
std::int64_t read_count(const JsonObject& object, std::string_view key, std::int64_t least);

StepResults read_steps(const JsonObject& file);
PrologResults read_prolog(const JsonObject& file);
KernelResults read_kernels(const JsonObject& file);
MemoryResults read_memory(const JsonObject& file);
ComparisonResults read_comparison(const JsonObject& file);

}  // namespace tessera::app::analyze
