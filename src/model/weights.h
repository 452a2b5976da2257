// The weights of a DeepSeek-V2 model, as the forward pass uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tessera/dtype.h>

#include "base/progress.h"
#include "model/config.h"
#include "ops/executor.h"
#include "ops/moe/moe.h"
#include "ops/weight.h"

namespace tessera {

// Matrices are [outputs, inputs] in the dtype of the model. Norm weights and biases are [1, n] and the
// router is [experts, hidden], always in fp32. An empty Weight stands for one the model does not have.
struct AttentionWeights {
  ops::Weight q;       // [heads * (nope + rope), hidden], without q_lora_rank
  ops::Weight q_a;     // [q_lora_rank, hidden], with it
  ops::Weight q_a_bias;
  ops::Weight q_a_norm;
  ops::Weight q_b;     // [heads * (nope + rope), q_lora_rank]
  ops::Weight kv_a;    // [kv_lora_rank + rope, hidden]
  ops::Weight kv_a_bias;
  ops::Weight kv_a_norm;  // [1, kv_lora_rank]
  ops::Weight kv_b;    // [heads * (nope + v), kv_lora_rank]: per head W_UK, then W_UV
  ops::Weight o;       // [hidden, heads * v]
  ops::Weight o_bias;
};

struct LayerWeights {
  ops::Weight input_norm;
  AttentionWeights attention;
  ops::Weight post_attention_norm;
  ops::FeedForward dense;                 // in the first layers, else empty
  ops::Weight router;                     // [experts, hidden] in the others
  std::vector<ops::FeedForward> experts;
  ops::FeedForward shared;                // the shared experts, as one network; may be empty
};

struct ModelWeights {
  ops::Weight embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  ops::Weight final_norm;
  ops::Weight head;  // [vocab, hidden]; empty where the embedding serves as head

  const ops::Weight& output_head() const { return head.empty() ? embedding : head; }
};

// A tensor of a checkpoint.
struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Exactly the tensors that load_weights() wants, in the order of the layers.
std::vector<TensorShape> checkpoint_tensors(const ModelConfig& config);

// Bytes of all weights of such a model in that dtype.
std::size_t weight_bytes(const ModelConfig& config, DType dtype);

// Reads the checkpoint in `folder` (model.safetensors, or shards with an index), on all threads,
// converting to dtype. Throws Error: what Checkpoint::open throws; kMissingTensor and kUnexpectedTensor
// where files and config differ; kWrongShape; kUnsupported for an element type that is not F32, BF16 or
// F16, and for a value that fp16 cannot hold; kOutOfMemory before anything is allocated.
ModelWeights load_weights(const std::filesystem::path& folder, const ModelConfig& config, DType dtype,
                          ops::Executor& executor, const ProgressFn& progress);

}  // namespace tessera
