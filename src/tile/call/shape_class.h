// Which code serves which arguments.
//
// A shape class fixes the element types, the fixed dims, which arguments have gaps, and for every
// dynamic dim a range: 1, 2, 3-4, 5-8, 9-16, or 17 and more. Within a class one piece of code is
// right for all shapes; the ranges let it know which loops are needed and what threads should
// share.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/tile.h>

#include "tile/ir/kernel.h"

namespace tessera::tile {

inline constexpr int kMaxParameters = 24;
inline constexpr int kMaxDynamicDims = 8;
inline constexpr int kMaxSymbols = kMaxDynamicDims + kMaxParameters * (kMaxRank - 1);

// A dim of a parameter, found once for all calls.
struct DimSource {
  enum class Kind : std::uint8_t { kNumber, kFixed, kDynamic, kProduct };
  Kind kind = Kind::kNumber;
  std::int64_t number = 1;
  std::size_t name = 0;  // of Signature::fixed or dynamic
  std::vector<DimSource> factors;
};

// The names of a signature's dims, in order of first appearance.
struct Signature {
  explicit Signature(const std::string& kernel, std::vector<Parameter> parameters,
                     const Location& location);

  std::vector<Parameter> parameters;
  std::vector<std::vector<DimSource>> sources;                // of each parameter's dims
  std::vector<std::pair<std::size_t, std::size_t>> products;  // parameter, dim
  std::vector<std::string> fixed;
  std::vector<std::string> dynamic;
};

// What a call's arguments say. Only as much of each array is written as the signature has.
struct Binding {
  std::array<std::int64_t, kMaxParameters * kMaxRank> fixed;
  // The dynamic dims, then the strides of arguments with gaps, in order, but for the last dim's.
  std::array<std::int64_t, kMaxSymbols> symbols;
  std::array<std::uint8_t, kMaxDynamicDims> ranges;  // which range each dynamic dim is in
  std::array<Element, kMaxParameters> elements;
  std::uint32_t gaps = 0;  // bit i: argument i has some
  bool empty = false;      // a dynamic dim is 0: nothing to do

  bool has_gaps(std::size_t argument) const { return (gaps >> argument & 1u) != 0; }
};
static_assert(kMaxParameters <= 32);

// Checks number, element types, ranks, dims and strides; throws TL301. Does not look at the data.
void bind(const std::string& kernel, const Signature& signature,
          std::span<const Argument> arguments, Binding& binding);
// Null pointers, alignment and overlaps; throws TL301 and TL302.
void check_data(const std::string& kernel, const Signature& signature,
                std::span<const Argument> arguments);

// The range that holds a dynamic dim's value.
ir::Symbol symbol_class(const std::string& name, std::int64_t value);

// True if both belong to one class.
bool same_class(const Signature& signature, const Binding& a, const Binding& b);

// A dim as an index expression of a class: fixed ones are numbers.
ir::IndexExpr dim_expression(const Signature& signature, const Dim& dim, const Binding& binding);

}  // namespace tessera::tile
