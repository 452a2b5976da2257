// config.json of the models that `tessera synth --like` knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// "deepseek-v2-lite", "deepseek-v2", "deepseek-v3-shape".
std::vector<std::string_view> synth_presets();

// The text of config.json, with n_layers where it is given in place of the preset's own number.
// Throws Error(kInvalidArgument) for another name, and for n_layers below 1 or above
// kMaxLayersFactor times the preset's.
std::string synth_config(std::string_view preset, std::optional<std::int64_t> n_layers = {});

inline constexpr std::int64_t kMaxLayersFactor = 4;

}  // namespace tessera
