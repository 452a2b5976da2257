// The tensors of a DeepSeek-V2 model in a GGUF file, as the architecture "deepseek2" of llama.cpp
// has them.
#pragma once

#include <cstdint>
#include <vector>

#include "io/gguf_writer.h"
#include "model/config.h"
#include "model/synth/piece_writer.h"
#include "model/weights.h"

namespace tessera {

// A tensor of the file, and where its values come from:
//
//   experts        one tensor of three dimensions [expert, output, input] for each projection
//   kv_b_proj      two: attn_k_b [head, latent, key], the key half of every head, transposed, and
//                  attn_v_b [head, value, latent], the value half
//   all others     as they are
struct PlannedGgufTensor {
  enum class Part { kAll, kKeys, kValues };

  GgufTensor layout;
  std::vector<TensorShape> sources;  // of the checkpoint, one after another
  Part part = Part::kAll;
};

// In the order of the layers. Vectors and routers are F32, as engines expect; matrices are of the
// given type, or BF16 where their rows are no multiple of its block. Throws Error(kUnsupported) for
// a tensor that the format has no place for (biases).
std::vector<PlannedGgufTensor> plan_gguf_tensors(const ModelConfig& config, GgmlType type);

// The values of one tensor, the same as those of the safetensors files of that seed, in order.
std::vector<Piece> pieces_of(const PlannedGgufTensor& tensor, const ModelConfig& config,
                             std::uint64_t seed);

}  // namespace tessera
