// The operators that have several implementations, and the choice among them by name.
//
// Lists are ordered: the fastest first, the reference, which supports everything, last. Nothing
// here changes at run time; who uses an operator keeps the implementation it chose.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/mla_prolog/mla_prolog.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace tessera::ops {

std::span<const RmsNormImplementation* const> rms_norm_implementations();
std::span<const RopeImplementation* const> rope_implementations();
std::span<const MlaPrologImplementation* const> mla_prolog_implementations();

// Each throws Error(kInvalidArgument), naming the implementations there are.
const RmsNormImplementation& rms_norm_implementation(std::string_view name);
const RopeImplementation& rope_implementation(std::string_view name);
const MlaPrologImplementation& mla_prolog_implementation(std::string_view name);

// "rms_norm", "rope", "mla_prolog".
std::vector<std::string_view> operator_names();

// Throws Error(kInvalidArgument), naming the operators there are.
std::vector<std::string_view> implementation_names(std::string_view operator_name);

}  // namespace tessera::ops
