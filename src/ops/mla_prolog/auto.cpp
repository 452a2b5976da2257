// The fastest implementation for each row count, by the table of selection.h. Without a table: the
// first of the registry that can, which measured fastest at every row count so far
// (docs/performance.md).
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/fail.h"
#include "io/text_file.h"
#include "ops/mla_prolog/selection.h"
#include "ops/registry.h"
#include "tile/call/shared_cache.h"

namespace tessera::ops {

namespace {

// A table that cannot be read is told once and counts as none.
PrologSelection read_selection() {
  const std::filesystem::path path = PrologSelection::default_path();
  try {
    if (!path.empty() && file_exists(path)) return PrologSelection::read(path);
  } catch (const Error& error) {
    tile::shared_cache()->warn(
        fmt::format("{}; `tessera bench prolog --save` writes it anew", error.what()));
  }
  return {};
}

class Auto : public MlaProlog {
 public:
  explicit Auto(const MlaPrologWeights& weights) : w_(weights) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    const MlaPrologImplementation& chosen = fastest_mla_prolog(w_, call, executor.n_threads());
    std::unique_ptr<MlaProlog>& prolog = made_[chosen.name];
    if (prolog == nullptr) prolog = chosen.create(w_, executor);
    prolog->run(call, executor);
  }

 private:
  MlaPrologWeights w_;
  // Made at first use: each may hold a packed copy of the weights.
  mutable std::map<std::string_view, std::unique_ptr<MlaProlog>> made_;
};

}  // namespace

const MlaPrologImplementation& fastest_mla_prolog(const MlaPrologWeights& weights,
                                                  const MlaPrologCall& call, int n_threads) {
  static const PrologSelection selection = read_selection();
  std::vector<std::string_view> candidates;
  for (const MlaPrologImplementation* implementation : mla_prolog_implementations()) {
    if (implementation == &kMlaPrologAuto || implementation == &kMlaPrologReference) continue;
    if (implementation->unsupported(weights, call).empty()) {
      candidates.push_back(implementation->name);
    }
  }
  const PrologShape shape{weights.dims, weights.kv_a.layout, call.latent.wanted(), n_threads};
  return mla_prolog_implementation(selection.choose(shape, call.n_tokens(), candidates));
}

constexpr MlaPrologImplementation kMlaPrologAuto = {
    "auto", [](const MlaPrologWeights&, const MlaPrologCall&) { return std::string(); },
    [](const MlaPrologWeights& weights, Executor&) -> std::unique_ptr<MlaProlog> {
      return std::make_unique<Auto>(weights);
    }};

}  // namespace tessera::ops
