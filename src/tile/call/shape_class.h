// Which code serves which arguments.
//
// A shape class fixes the element types, the fixed dims, and for every dynamic dim a range: 1, 2,
// 3-4, 5-8, 9-16, or 17 and more. Within a class one piece of code is right for all shapes; the
// ranges let it know which loops are needed and what threads should share.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tessera/tile.h>

#include "tile/ir/kernel.h"

namespace tessera::tile {

inline constexpr int kMaxParameters = 24;
inline constexpr int kMaxSymbols = 8;

// The names of a signature's dims, in order of first appearance.
struct Signature {
  explicit Signature(const std::string& kernel, std::vector<Parameter> parameters,
                     const Location& location);

  std::vector<Parameter> parameters;
  std::vector<std::string> fixed;
  std::vector<std::string> dynamic;
};

// What a call's arguments say.
struct Binding {
  std::array<std::int64_t, kMaxParameters * kMaxRank> fixed{};
  std::array<std::int64_t, kMaxSymbols> symbols{};
  std::array<Element, kMaxParameters> elements{};
  bool empty = false;  // a dynamic dim is 0: nothing to do
};

// Checks number, element types, ranks and dims; throws TL301. Does not look at the data.
Binding bind(const std::string& kernel, const Signature& signature,
             std::span<const Argument> arguments);
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
