// Which implementation of the KV prolog is the fastest on this CPU: a table of measured times, kept
// in the folder of the kernel cache. `tessera bench prolog --save` writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/mla_prolog/mla_prolog.h"

namespace tessera::ops {

// What a measurement holds for.
struct PrologShape {
  MlaDims dims = {};
  PanelLayout weights = PanelLayout::kF32;
  bool latent = false;  // rows of a latent cache, not keys and values of every head
  int threads = 1;

  bool operator==(const PrologShape&) const = default;
};

struct PrologMeasurement {
  PrologShape shape;
  std::int64_t rows = 0;
  std::map<std::string, double> seconds;  // by implementation; of one call, weights from memory
};

class PrologSelection {
 public:
  // The file for this CPU; empty where there is no folder for it.
  static std::filesystem::path default_path();

  // Throws Error(kBadJson) for a file that is not such a table, naming it, and what reading throws.
  static PrologSelection read(const std::filesystem::path& path);
  void write(const std::filesystem::path& path) const;

  // Replaces what is known of that shape and row count.
  void add(PrologMeasurement measurement);
  std::span<const PrologMeasurement> measurements() const { return measurements_; }

  // The fastest of `candidates` at the measured row count nearest in ratio. Without a measurement
  // of the shape that has one of them: the first candidate. candidates is not empty.
  std::string_view choose(const PrologShape& shape, std::int64_t rows,
                          std::span<const std::string_view> candidates) const;

 private:
  std::vector<PrologMeasurement> measurements_;
};

}  // namespace tessera::ops
