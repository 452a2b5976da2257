// The result of tessera bench memory.
#include "app/analyze/readers.h"

namespace tessera::app::analyze {

MemoryResults read_memory(const JsonObject& file) {
  MemoryResults memory;
  memory.context = read_count(file, "context", 1);
  memory.batch = read_count(file, "batch", 1);
  const JsonObject weights = file.required_object("weight_bytes");
  memory.weight_bytes = read_bytes(weights, "total");
  for (const std::string& name : weights.keys()) {
    if (name != "total") memory.weights.push_back({name, read_bytes(weights, name)});
  }
  memory.cache_bytes_per_token = read_bytes(file, "cache_bytes_per_token");
  memory.cache_bytes = read_bytes(file, "cache_bytes");
  memory.resident_bytes = read_bytes(file, "resident_bytes");
  memory.load_peak_bytes = read_bytes(file, "load_peak_bytes");
  memory.peak_bytes = read_bytes(file, "peak_bytes");
  return memory;
}

}  // namespace tessera::app::analyze
