// Which panels a format keeps each matrix in.
#pragma once

#include <tessera/dtype.h>
#include <tessera/weight_format.h>

#include "tile/packed/panel_layout.h"

namespace tessera {

enum class WeightRole {
  kAttention,
  kFeedForward,  // dense layers and shared experts
  kExpert,
  kHead,
};

tile::cpu::PanelLayout layout_of(WeightFormat format, WeightRole role);

// Of the KV cache: bf16, but fp32 beside weights of fp32 and of fp16, of which bf16 would lose
// three bits.
DType cache_dtype(WeightFormat format);

}  // namespace tessera
