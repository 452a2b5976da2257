// What a model of some config consists of: which tensors of a checkpoint become which weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/weight_format.h>

#include "model/config.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "tile/packed/panel_layout.h"

namespace tessera {

// A matrix [n, k] made of one tensor, or of two for a gate and an up projection; of outputs
// [first, first + n) of the tensor, or, transposed, with these as inputs.
struct MatrixPlan {
  ops::PackedLinear* target;
  tile::cpu::PanelLayout layout;
  std::int64_t n, k;
  std::vector<std::string> tensors;
  std::int64_t first = 0;
  bool transposed = false;
  bool last_of_tensor = true;  // no other matrix is made of the same tensors
  std::size_t offset = 0;      // in the arena, a multiple of 64

  int n_weights() const { return static_cast<int>(tensors.size()); }
  std::size_t bytes() const { return ops::PackedLinear::packed_bytes(layout, n, k, n_weights()); }
};

// A vector [n] in fp32.
struct VectorPlan {
  ops::Weight* target;
  std::int64_t n;
  std::string tensor;
  std::size_t offset = 0;  // as above

  std::size_t bytes() const { return static_cast<std::size_t>(n) * sizeof(float); }
};

struct WeightPlan {
  // Everything that such a model has, in the order of its layers; the targets are in `weights`,
  // whose layers are made.
  WeightPlan(const ModelConfig& config, WeightFormat format, KvCacheForm form,
             ModelWeights& weights);

  static constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

  std::vector<TensorShape> tensors;
  std::vector<MatrixPlan> matrices;
  std::vector<VectorPlan> vectors;
  // The arena: one block of memory with all matrices and vectors, in this order.
  std::size_t arena_bytes = 0;

  // Points all targets into an arena that is filled and outlives them; vectors are copied.
  void attach(const std::byte* arena) const;
};

}  // namespace tessera
