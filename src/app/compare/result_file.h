// The file that the results of a comparison go to, case by case.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "app/compare/comparison.h"

namespace tessera::app {

// docs/commands/bench-compare.md describes it. On disk it is always complete: an interrupted
// comparison leaves the cases that were finished.
class ResultFile {
 public:
  // Writes a file without results, or with `resume` takes over those of the file that is there,
  // except of cases that failed. Throws Error(kInvalidArgument) where that file is of another
  // comparison, naming what differs, and Error(kBadJson, kIo).
  ResultFile(std::string path, const ComparisonPlan& plan, bool resume);

  // The result of a case; null: it has none yet.
  const nlohmann::ordered_json* find(std::size_t index) const;

  // Adds one and writes the file.
  void add(nlohmann::ordered_json result);

  const nlohmann::ordered_json& content() const { return content_; }

 private:
  void take_over();
  void write();

  std::string path_;
  nlohmann::ordered_json content_;
};

}  // namespace tessera::app
