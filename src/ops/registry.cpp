#include "ops/registry.h"

#include <fmt/ranges.h>

#include "base/fail.h"
#include "io/quote.h"

namespace tessera::ops {

namespace {

constexpr const RmsNormImplementation* kRmsNorm[] = {&kRmsNormTile, &kRmsNormNative,
                                                     &kRmsNormReference};
constexpr const RopeImplementation* kRope[] = {&kRopeTile, &kRopeNative, &kRopeReference};
constexpr const MlaPrologImplementation* kMlaProlog[] = {&kMlaPrologAuto,     &kMlaPrologLatent,
                                                         &kMlaPrologFused,    &kMlaPrologHybrid,
                                                         &kMlaPrologBaseline, &kMlaPrologReference};

template <typename List>
std::vector<std::string_view> names(const List& list) {
  std::vector<std::string_view> all;
  for (const auto* implementation : list) all.push_back(implementation->name);
  return all;
}

template <typename List>
const auto& find(const List& list, std::string_view operator_name, std::string_view name) {
  for (const auto* implementation : list) {
    if (implementation->name == name) return *implementation;
  }
  fail(ErrorCode::kInvalidArgument, "{} has no implementation {}; choose one of {}", operator_name,
       in_quotes(name), fmt::join(names(list), ", "));
}

}  // namespace

std::span<const RmsNormImplementation* const> rms_norm_implementations() {
  return kRmsNorm;
}
std::span<const RopeImplementation* const> rope_implementations() {
  return kRope;
}
std::span<const MlaPrologImplementation* const> mla_prolog_implementations() {
  return kMlaProlog;
}

const RmsNormImplementation& rms_norm_implementation(std::string_view name) {
  return find(kRmsNorm, "rms_norm", name);
}

const RopeImplementation& rope_implementation(std::string_view name) {
  return find(kRope, "rope", name);
}

const MlaPrologImplementation& mla_prolog_implementation(std::string_view name) {
  return find(kMlaProlog, "mla_prolog", name);
}

std::vector<std::string_view> operator_names() {
  return {"rms_norm", "rope", "mla_prolog"};
}

std::vector<std::string_view> implementation_names(std::string_view operator_name) {
  if (operator_name == "rms_norm") return names(kRmsNorm);
  if (operator_name == "rope") return names(kRope);
  if (operator_name == "mla_prolog") return names(kMlaProlog);
  fail(ErrorCode::kInvalidArgument, "there is no operator {}; choose one of {}",
       in_quotes(operator_name), fmt::join(operator_names(), ", "));
}

}  // namespace tessera::ops
