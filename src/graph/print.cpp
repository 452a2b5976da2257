#include "graph/print.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tessera::graph {

namespace {

bool is_external(const BufferInfo& buffer) {
  return buffer.bytes == 0;
}

const BufferInfo& buffer_of(const Graph& graph, BufferId id) {
  return graph.recording().buffers[static_cast<std::size_t>(id)];
}

std::string names(const Graph& graph, const std::vector<Use>& uses) {
  std::string text;
  for (const Use& use : uses) {
    text += (text.empty() ? "" : ", ") + buffer_of(graph, use.buffer).name;
  }
  return text;
}

// "phases 3 to 5", with words for what comes from outside or goes there.
std::string lifetime_text(const Graph& graph, std::size_t buffer) {
  const Lifetime& life = graph.placement().lifetimes[buffer];
  const BufferInfo& info = graph.recording().buffers[buffer];
  if (life.last < life.first) return "not used";
  const std::string last = info.to_outside ? std::string("the end") : fmt::format("{}", life.last);
  if (!info.from_outside && last == fmt::format("{}", life.first)) {
    return fmt::format("phase {}", life.first);
  }
  return fmt::format("phases {} to {}", info.from_outside ? 0 : life.first, last);
}

// In quotes, as DOT wants it.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

std::string to_text(const Graph& graph) {
  const Recording& recording = graph.recording();
  const Placement& placement = graph.placement();
  std::string text = fmt::format(
      "{} launches in {} phases on {} worker{}; {} buffers in an arena of {} bytes, {} side by "
      "side\n",
      recording.launches.size(), graph.n_phases(), graph.n_workers(),
      graph.n_workers() == 1 ? "" : "s", recording.buffers.size(), placement.arena_bytes,
      placement.sum_bytes);
  for (std::size_t i = 0; i < recording.launches.size(); ++i) {
    const LaunchInfo& info = recording.launches[i].info;
    if (i == 0 || graph.phase_of(i) != graph.phase_of(i - 1)) {
      text += fmt::format("\nphase {}\n", graph.phase_of(i));
    }
    text +=
        fmt::format("  {:<36} {:<10} {:<12} {} -> {}\n", info.name, info.op, to_string(info.spread),
                    names(graph, info.reads), names(graph, info.writes));
  }
  text += fmt::format("\n{:<36} {:>10} {:>10} {:>7}  lifetime\n", "buffer", "bytes", "offset",
                      "copies");
  for (std::size_t b = 0; b < recording.buffers.size(); ++b) {
    const BufferInfo& info = recording.buffers[b];
    if (is_external(info)) {
      text += fmt::format("{:<36} {:>10} {:>10} {:>7}  {}\n", info.name, "-", "-", "-",
                          "outside the arena");
      continue;
    }
    text +=
        fmt::format("{:<36} {:>10} {:>10} {:>7}  {}\n", info.name, info.bytes, placement.offsets[b],
                    info.per_worker ? graph.n_workers() : 1, lifetime_text(graph, b));
  }
  return text;
}

std::string to_dot(const Graph& graph) {
  const Recording& recording = graph.recording();
  std::string text = "digraph step {\n  rankdir=TB;\n  node [shape=box];\n";
  for (std::size_t i = 0; i < recording.launches.size(); ++i) {
    const bool first = i == 0 || graph.phase_of(i) != graph.phase_of(i - 1);
    if (first) {
      text += fmt::format("{}  subgraph cluster_{} {{\n    label=\"phase {}\";\n",
                          i == 0 ? "" : "  }\n", graph.phase_of(i), graph.phase_of(i));
    }
    text += fmt::format("    n{} [label={}];\n", i, quoted(recording.launches[i].info.name));
  }
  if (!recording.launches.empty()) text += "  }\n";
  std::map<BufferId, std::size_t> writer;  // the last launch that wrote a buffer
  for (std::size_t i = 0; i < recording.launches.size(); ++i) {
    std::set<std::size_t> from;
    for (const Use& use : recording.launches[i].info.reads) {
      const auto found = writer.find(use.buffer);
      if (found == writer.end() || !from.insert(found->second).second) continue;
      text += fmt::format("  n{} -> n{} [label={}];\n", found->second, i,
                          quoted(buffer_of(graph, use.buffer).name));
    }
    for (const Use& use : recording.launches[i].info.writes) writer[use.buffer] = i;
  }
  return text + "}\n";
}

std::string to_json(const Graph& graph) {
  using Json = nlohmann::ordered_json;
  const Recording& recording = graph.recording();
  const Placement& placement = graph.placement();
  const auto uses = [&](const std::vector<Use>& list) {
    Json json = Json::array();
    for (const Use& use : list) json.push_back(buffer_of(graph, use.buffer).name);
    return json;
  };
  Json json = {{"n_workers", graph.n_workers()},
               {"arena_bytes", placement.arena_bytes},
               {"eager_bytes", placement.sum_bytes}};
  json["phases"] = Json::array();
  for (std::size_t i = 0; i < recording.launches.size(); ++i) {
    if (i == 0 || graph.phase_of(i) != graph.phase_of(i - 1)) {
      json["phases"].push_back(Json::array());
    }
    const LaunchInfo& info = recording.launches[i].info;
    json["phases"].back().push_back({{"name", info.name},
                                     {"op", std::string(info.op)},
                                     {"spread", std::string(to_string(info.spread))},
                                     {"reads", uses(info.reads)},
                                     {"writes", uses(info.writes)}});
  }
  json["buffers"] = Json::array();
  for (std::size_t b = 0; b < recording.buffers.size(); ++b) {
    const BufferInfo& info = recording.buffers[b];
    Json buffer = {{"name", info.name}, {"bytes", info.bytes}};
    if (!is_external(info)) {
      buffer["offset"] = placement.offsets[b];
      buffer["copies"] = info.per_worker ? graph.n_workers() : 1;
      buffer["first_phase"] = placement.lifetimes[b].first;
      buffer["last_phase"] = std::min(placement.lifetimes[b].last, graph.n_phases() - 1);
    }
    json["buffers"].push_back(std::move(buffer));
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera::graph
