#include "ops/kernels.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/fail.h"
#include "io/quote.h"
#include "ops/kernel_lists.h"

namespace tessera::ops {

namespace {

using tile::Argument;
using tile::Dim;
using tile::Parameter;

constexpr std::vector<TileKernel> (*kLists[])() = {
    rms_norm_kernels, rope_kernels, mla_prolog_latent_kernels, mla_prolog_fused_kernels,
    mla_prolog_hybrid_kernels};

// What a dim of that name is in DeepSeek-V2-Lite, for one token. latent is rank + rope, wide is
// heads * (nope + v), half is rope / 2; blocks, tokens and slots are the KV cache's.
std::int64_t lite_dim(const std::string& name) {
  static const std::map<std::string, std::int64_t> dims = {
      {"t", 1},       {"n", 2048},   {"hidden", 2048}, {"latent", 576}, {"rank", 512},
      {"rope", 64},   {"half", 32},  {"heads", 16},    {"nope", 128},   {"v", 128},
      {"wide", 4096}, {"blocks", 1}, {"tokens", 64},   {"slots", 64}};
  return dims.at(name);
}

void add_dims(const Dim& dim, TileKernel& kernel) {
  for (const Dim& factor : dim.factors()) add_dims(factor, kernel);
  if (!dim.name().empty()) kernel.dims[dim.name()] = lite_dim(dim.name());
}

// More than any tensor has, and little enough that products of two do not overflow.
constexpr std::int64_t kMaxDim = std::int64_t{1} << 30;

std::string text_of(const Dim& dim) {
  if (!dim.factors().empty()) {
    return text_of(dim.factors()[0]) + " * " + text_of(dim.factors()[1]);
  }
  return dim.name().empty() ? std::to_string(dim.number()) : dim.name();
}

std::int64_t value_of(const Dim& dim, const std::map<std::string, std::int64_t>& dims) {
  if (!dim.factors().empty()) {
    return value_of(dim.factors()[0], dims) * value_of(dim.factors()[1], dims);
  }
  return dim.name().empty() ? dim.number() : dims.at(dim.name());
}

template <typename Keys>
void check_names(const TileKernel& kernel, const char* what, const Keys& wanted,
                 const std::vector<std::string>& known) {
  for (const std::string& name : wanted) {
    if (std::ranges::find(known, name) != known.end()) continue;
    fail(ErrorCode::kInvalidArgument, "{} has no {} {}; choose among {}", kernel.name(), what,
         in_quotes(name), fmt::join(known, ", "));
  }
}

std::vector<std::string> keys(const std::map<std::string, std::int64_t>& dims) {
  std::vector<std::string> names;
  names.reserve(dims.size());
  for (const auto& [name, value] : dims) names.push_back(name);
  return names;
}

Argument argument_of(const Parameter& parameter, const std::map<std::string, std::int64_t>& dims,
                     const ShapeChoice& choice) {
  std::array<std::int64_t, tile::kMaxRank> shape{};
  const std::size_t rank = parameter.dims.size();
  for (std::size_t d = 0; d < rank; ++d) shape[d] = value_of(parameter.dims[d], dims);
  Argument argument = tile::argument(nullptr, parameter.element.value_or(choice.element),
                                     std::span<const std::int64_t>(shape.data(), rank));
  argument.packed = parameter.role == Parameter::Role::kWeight;
  if (!choice.gaps.contains(parameter.name)) return argument;
  // One more element between the rows of every dim.
  argument.dense = false;
  std::int64_t stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    argument.strides[d] = stride;
    stride = stride * shape[d] + 1;
  }
  return argument;
}

}  // namespace

std::vector<TileKernel> tile_kernels() {
  std::vector<TileKernel> all;
  for (const auto& list : kLists) {
    for (TileKernel& kernel : list()) {
      for (const Parameter& parameter : kernel.kernel.signature()) {
        for (const Dim& dim : parameter.dims) add_dims(dim, kernel);
      }
      all.push_back(std::move(kernel));
    }
  }
  return all;
}

TileKernel tile_kernel(std::string_view name) {
  std::vector<std::string> names;
  for (TileKernel& kernel : tile_kernels()) {
    if (kernel.name() == name) return std::move(kernel);
    names.push_back(kernel.name());
  }
  fail(ErrorCode::kInvalidArgument, "there is no kernel {}; choose one of {}", in_quotes(name),
       fmt::join(names, ", "));
}

std::vector<Argument> arguments_of(const TileKernel& kernel, const ShapeChoice& choice) {
  check_names(kernel, "dim", keys(choice.dims), keys(kernel.dims));
  std::vector<std::string> tensors;
  bool takes_any = false;
  for (const Parameter& parameter : kernel.kernel.signature()) {
    takes_any = takes_any || !parameter.element;
    const bool may_have_gaps =
        parameter.role != Parameter::Role::kWeight && parameter.dims.size() > 1;
    if (may_have_gaps) tensors.push_back(parameter.name);
  }
  check_names(kernel, "tensor with rows", choice.gaps, tensors);
  std::map<std::string, std::int64_t> dims = kernel.dims;
  for (const auto& [name, value] : choice.dims) {
    if (value < 1 || value > kMaxDim) {
      fail(ErrorCode::kInvalidArgument, "dim {} of {} must be from 1 to {}, not {}", name,
           kernel.name(), kMaxDim, value);
    }
    dims[name] = value;
  }
  std::vector<Argument> arguments;
  for (const Parameter& parameter : kernel.kernel.signature()) {
    arguments.push_back(argument_of(parameter, dims, choice));
  }
  return arguments;
}

std::string describe(const Parameter& parameter) {
  const auto role = [&]() -> std::string_view {
    switch (parameter.role) {
      case Parameter::Role::kOut:
        return "out";
      case Parameter::Role::kInOut:
        return "inout";
      case Parameter::Role::kWeight:
        return "weight";
      default:
        return "in";
    }
  };
  std::vector<std::string> dims;
  dims.reserve(parameter.dims.size());
  for (const Dim& dim : parameter.dims) dims.push_back(text_of(dim));
  return fmt::format("{} {}: {}[{}]", role(), parameter.name,
                     parameter.element ? tile::to_string(*parameter.element) : "floating",
                     fmt::join(dims, ", "));
}

}  // namespace tessera::ops
