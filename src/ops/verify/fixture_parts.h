// What the fixtures of all operators do in the same way.
#pragma once

#include <cassert>
#include <string_view>
#include <vector>

#include "ops/verify/fixture.h"

namespace tessera::ops::verify {

template <typename List>
std::vector<std::string_view> names_of(const List& list) {
  std::vector<std::string_view> names;
  for (const auto* implementation : list) names.push_back(implementation->name);
  return names;
}

// The name is one of names_of(list).
template <typename List>
const auto& find_by_name(const List& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, [](const auto* i) { return i->name; });
  assert(found != list.end());
  return **found;
}

inline void note_fault(OutputMemory& output, bool own_intact, bool inputs_intact) {
  if (!own_intact) output.fault = "wrote before or after the tensor";
  if (!inputs_intact) output.fault = "wrote before or after an input";
}

}  // namespace tessera::ops::verify
