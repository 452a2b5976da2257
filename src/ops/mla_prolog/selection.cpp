#include "ops/mla_prolog/selection.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/text_file.h"
#include "tile/jit/compile_cache.h"
#include "tile/jit/host_cpu.h"

namespace tessera::ops {

namespace {

constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;

PrologMeasurement parse(const JsonObject& json) {
  PrologMeasurement m;
  const auto dim = [&](std::string_view key) { return json.required_int(key, 1, kMaxDim); };
  m.shape.dims = {dim("hidden"), dim("heads"), dim("kv_rank"), dim("nope"), dim("rope"), dim("v")};
  const auto weights = tile::cpu::parse_panel_layout(json.required_string("weights"));
  if (!weights) json.refuse("weights", "the name of a layout such as bf16");
  m.shape.weights = *weights;
  m.shape.latent = json.optional_bool("latent").value_or(false);
  m.shape.threads = static_cast<int>(json.required_int("threads", 1, ThreadPool::kMaxThreads));
  m.rows = dim("rows");
  const JsonObject seconds = json.required_object("seconds");
  for (const std::string& name : seconds.keys()) m.seconds[name] = seconds.required_positive(name);
  return m;
}

nlohmann::json to_json(const PrologMeasurement& m) {
  const MlaDims& d = m.shape.dims;
  return {{"hidden", d.hidden},
          {"heads", d.heads},
          {"kv_rank", d.kv_rank},
          {"nope", d.nope},
          {"rope", d.rope},
          {"v", d.v},
          {"weights", to_string(m.shape.weights)},
          {"latent", m.shape.latent},
          {"threads", m.shape.threads},
          {"rows", m.rows},
          {"seconds", m.seconds}};
}

}  // namespace

std::filesystem::path PrologSelection::default_path() {
  const std::filesystem::path folder = tile::default_cache_folder();
  if (folder.empty()) return {};
  tile::Hasher hasher;
  tile::add_host_cpu(hasher);
  return folder / fmt::format("mla_prolog-{}.json", hasher.result().to_hex());
}

PrologSelection PrologSelection::read(const std::filesystem::path& path) {
  PrologSelection table;
  const JsonObject json = JsonObject::read(path, ErrorCode::kBadJson);
  for (const JsonObject& m : json.required_objects("measurements")) table.add(parse(m));
  return table;
}

void PrologSelection::write(const std::filesystem::path& path) const {
  nlohmann::json all = nlohmann::json::array();
  for (const PrologMeasurement& m : measurements_) all.push_back(to_json(m));
  write_text_file(path, nlohmann::json({{"measurements", all}}).dump(1) + "\n");
}

void PrologSelection::add(PrologMeasurement measurement) {
  const auto known = std::ranges::find_if(measurements_, [&](const PrologMeasurement& m) {
    return m.shape == measurement.shape && m.rows == measurement.rows;
  });
  if (known != measurements_.end()) {
    *known = std::move(measurement);
  } else {
    measurements_.push_back(std::move(measurement));
  }
}

std::string_view PrologSelection::choose(const PrologShape& shape, std::int64_t rows,
                                         std::span<const std::string_view> candidates) const {
  assert(!candidates.empty());
  std::string_view best = candidates.front();
  double nearest = std::numeric_limits<double>::infinity();
  for (const PrologMeasurement& m : measurements_) {
    const double distance =
        std::abs(std::log(static_cast<double>(rows) / static_cast<double>(m.rows)));
    if (m.shape != shape || distance >= nearest) continue;
    std::optional<double> shortest;
    for (std::string_view candidate : candidates) {
      const auto time = m.seconds.find(std::string(candidate));
      if (time == m.seconds.end() || (shortest && time->second >= *shortest)) continue;
      shortest = time->second;
      nearest = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tessera::ops
