// The weights of a DeepSeek-V2 model, as the forward pass uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tessera/weight_format.h>

#include "base/progress.h"
#include "io/checkpoint.h"
#include "model/config.h"
#include "model/embedding.h"
#include "model/kv_cache.h"
#include "ops/executor.h"
#include "ops/linear/linear.h"
#include "ops/moe/moe.h"
#include "ops/weight.h"

namespace tessera {

// Matrices map inputs to outputs, [outputs, inputs], packed in the model's format; vectors are
// [1, n] in fp32. What the model does not have is empty.
struct AttentionWeights {
  ops::PackedLinear q;    // [heads * (nope + rope), hidden], without q_lora_rank
  ops::PackedLinear q_a;  // [q_lora_rank, hidden], with it
  ops::Weight q_a_bias;
  ops::Weight q_a_norm;
  ops::PackedLinear q_b;   // [heads * (nope + rope), q_lora_rank]
  ops::PackedLinear kv_a;  // [kv_lora_rank + rope, hidden]
  ops::Weight kv_a_bias;
  ops::Weight kv_a_norm;
  // kv_b [heads * (nope + v), kv_lora_rank] has for each head W_UK, then W_UV. An expanded cache
  // needs it whole; a latent one needs the parts of each head, W_UK in both directions: from keys
  // to latents for absorbed attention, from latents to keys for expanded.
  ops::PackedLinear kv_b;
  std::vector<ops::PackedLinear> key_to_latent;    // per head [kv_lora_rank, nope]
  std::vector<ops::PackedLinear> latent_to_value;  // per head [v, kv_lora_rank]
  std::vector<ops::PackedLinear> latent_to_key;    // per head [nope, kv_lora_rank]
  ops::PackedLinear o;                             // [hidden, heads * v]
  ops::Weight o_bias;
};

struct LayerWeights {
  ops::Weight input_norm;
  AttentionWeights attention;
  ops::Weight post_attention_norm;
  ops::FeedForward dense;    // in the first layers, else empty
  ops::PackedLinear router;  // [experts, hidden] in the others, in fp32
  std::vector<ops::FeedForward> experts;
  ops::FeedForward shared;  // the shared experts, as one network; may be empty
};

// What all packed matrices lie in, side by side: those of less than 2 MB on pages of their own
// would be read at two thirds of the speed.
struct WeightArena {
  std::shared_ptr<const void> owner;  // of the memory: a Buffer or a mapped file
  std::span<const std::byte> bytes;
  bool is_mapped = false;
};

struct ModelWeights {
  // Of the arena, where it is a mapped file: pages that the kernel counts as free, since it could
  // read them again.
  std::size_t mapped_bytes() const { return arena.is_mapped ? arena.bytes.size() : 0; }

  WeightArena arena;
  Embedding embedding;  // [vocab, hidden], in a file
  std::vector<LayerWeights> layers;
  ops::Weight final_norm;
  ops::PackedLinear head;  // [vocab, hidden]; of the embedding where that serves as head
};

// A tensor of a checkpoint.
struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

// How many tensors checkpoint_tensors() names. A config may ask for so many that their names take
// gigabytes: it is compared with the files first.
std::int64_t tensor_count(const ModelConfig& config);
// Throws Error(kMissingTensor) where the config asks for many more than the checkpoint has.
void check_tensor_count(const Checkpoint& checkpoint, const ModelConfig& config);

// Exactly the tensors that load_weights() wants, in the order of the layers.
std::vector<TensorShape> checkpoint_tensors(const ModelConfig& config);

// Bytes of all weights of such a model in that format, for that form of cache.
std::size_t weight_bytes(const ModelConfig& config, WeightFormat format, KvCacheForm form);

// Bytes of the checkpoint's tensors that load_weights() reads. The embedding is not among them: its
// rows are read where they lie, unless it is the head too.
std::size_t source_bytes(const Checkpoint& checkpoint, const ModelConfig& config);

// Reads the checkpoint in `folder` (model.safetensors, or shards with an index), packing on all
// threads. Throws Error: what Checkpoint::open throws; kMissingTensor and kUnexpectedTensor where
// files and config differ; kWrongShape; kUnsupported for an element type that is not F32, BF16 or
// F16, for a value that fp16 cannot hold, and for one that is not finite where it would be
// quantised; kOutOfMemory before anything is allocated.
ModelWeights load_weights(const std::filesystem::path& folder, const ModelConfig& config,
                          WeightFormat format, KvCacheForm form, ops::Executor& executor,
                          const ProgressFn& progress);
// The same for an open checkpoint; progress counts source_bytes() on.
ModelWeights load_weights(std::shared_ptr<const Checkpoint> checkpoint, const ModelConfig& config,
                          WeightFormat format, KvCacheForm form, ops::Executor& executor,
                          ProgressCounter& progress);

}  // namespace tessera
