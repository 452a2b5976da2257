// What each file with tile kernels adds to tile_kernels(); kernels.cpp has the list.
#pragma once

#include <vector>

#include "ops/kernels.h"

namespace tessera::ops {

std::vector<TileKernel> rms_norm_kernels();
std::vector<TileKernel> rope_kernels();
std::vector<TileKernel> mla_prolog_latent_kernels();
std::vector<TileKernel> mla_prolog_fused_kernels();
std::vector<TileKernel> mla_prolog_hybrid_kernels();

}  // namespace tessera::ops
