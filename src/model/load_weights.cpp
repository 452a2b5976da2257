#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/convert.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/checkpoint.h"
#include "io/quote.h"
#include "model/weights.h"

namespace tessera {

namespace {

// One tensor of the checkpoint and where it goes: rows [first_row, first_row + shape[0]) of a
// weight.
struct Placement {
  std::string name;
  std::vector<std::int64_t> shape;
  ops::Weight* weight;
  std::int64_t first_row;
};

// Walks over everything a model of this config has, in the order of its layers, and creates each
// weight by calling make(weight, dtype, n, k).
class Plan {
 public:
  using Make = std::function<void(ops::Weight&, DType, std::int64_t n, std::int64_t k)>;

  Plan(const ModelConfig& config, DType dtype, ModelWeights& weights, Make make)
      : c_(config), dtype_(dtype), make_(std::move(make)) {
    matrix("model.embed_tokens.weight", weights.embedding, c_.vocab_size, c_.hidden_size);
    weights.layers.resize(static_cast<std::size_t>(c_.n_layers));
    for (std::int64_t i = 0; i < c_.n_layers; ++i) {
      layer(fmt::format("model.layers.{}.", i), i, weights.layers[static_cast<std::size_t>(i)]);
    }
    vector("model.norm.weight", weights.final_norm, c_.hidden_size);
    if (!c_.tie_word_embeddings) {
      matrix("lm_head.weight", weights.head, c_.vocab_size, c_.hidden_size);
    }
  }

  const std::vector<Placement>& placements() const { return placements_; }

 private:
  void layer(const std::string& prefix, std::int64_t index, LayerWeights& w) {
    vector(prefix + "input_layernorm.weight", w.input_norm, c_.hidden_size);
    attention(prefix + "self_attn.", w.attention);
    vector(prefix + "post_attention_layernorm.weight", w.post_attention_norm, c_.hidden_size);
    const std::string mlp = prefix + "mlp.";
    if (!c_.is_moe(index)) {
      feed_forward(mlp, w.dense, c_.intermediate_size);
      return;
    }
    make_(w.router, DType::kF32, c_.n_routed_experts, c_.hidden_size);
    place(mlp + "gate.weight", {c_.n_routed_experts, c_.hidden_size}, w.router, 0);
    w.experts.resize(static_cast<std::size_t>(c_.n_routed_experts));
    for (std::size_t e = 0; e < w.experts.size(); ++e) {
      feed_forward(fmt::format("{}experts.{}.", mlp, e), w.experts[e], c_.moe_intermediate_size);
    }
    if (c_.n_shared_experts > 0) {
      feed_forward(mlp + "shared_experts.", w.shared,
                   c_.moe_intermediate_size * c_.n_shared_experts);
    }
  }

  void attention(const std::string& prefix, AttentionWeights& w) {
    const std::int64_t q_dim = c_.n_heads * (c_.qk_nope_dim + c_.qk_rope_dim);
    const std::int64_t latent_dim = c_.kv_lora_rank + c_.qk_rope_dim;
    if (c_.q_lora_rank) {
      matrix(prefix + "q_a_proj.weight", w.q_a, *c_.q_lora_rank, c_.hidden_size);
      bias(prefix + "q_a_proj.bias", w.q_a_bias, *c_.q_lora_rank);
      vector(prefix + "q_a_layernorm.weight", w.q_a_norm, *c_.q_lora_rank);
      matrix(prefix + "q_b_proj.weight", w.q_b, q_dim, *c_.q_lora_rank);
    } else {
      matrix(prefix + "q_proj.weight", w.q, q_dim, c_.hidden_size);
    }
    matrix(prefix + "kv_a_proj_with_mqa.weight", w.kv_a, latent_dim, c_.hidden_size);
    bias(prefix + "kv_a_proj_with_mqa.bias", w.kv_a_bias, latent_dim);
    vector(prefix + "kv_a_layernorm.weight", w.kv_a_norm, c_.kv_lora_rank);
    matrix(prefix + "kv_b_proj.weight", w.kv_b, c_.n_heads * (c_.qk_nope_dim + c_.v_dim),
           c_.kv_lora_rank);
    matrix(prefix + "o_proj.weight", w.o, c_.hidden_size, c_.n_heads * c_.v_dim);
    bias(prefix + "o_proj.bias", w.o_bias, c_.hidden_size);
  }

  void feed_forward(const std::string& prefix, ops::FeedForward& ffn, std::int64_t n) {
    make_(ffn.gate_up, dtype_, 2 * n, c_.hidden_size);
    place(prefix + "gate_proj.weight", {n, c_.hidden_size}, ffn.gate_up, 0);
    place(prefix + "up_proj.weight", {n, c_.hidden_size}, ffn.gate_up, n);
    matrix(prefix + "down_proj.weight", ffn.down, c_.hidden_size, n);
  }

  void matrix(const std::string& name, ops::Weight& weight, std::int64_t n, std::int64_t k) {
    make_(weight, dtype_, n, k);
    place(name, {n, k}, weight, 0);
  }

  void vector(const std::string& name, ops::Weight& weight, std::int64_t n) {
    make_(weight, DType::kF32, 1, n);
    place(name, {n}, weight, 0);
  }

  void bias(const std::string& name, ops::Weight& weight, std::int64_t n) {
    if (c_.attention_bias) vector(name, weight, n);
  }

  void place(const std::string& name, std::vector<std::int64_t> shape, ops::Weight& weight,
             std::int64_t first_row) {
    placements_.push_back({name, std::move(shape), &weight, first_row});
  }

  const ModelConfig& c_;
  DType dtype_;
  Make make_;
  std::vector<Placement> placements_;
};

// Old checkpoints carry the rotary frequencies, which follow from config.json.
bool is_derived(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

std::string and_more(std::size_t count) {
  return count > 1 ? fmt::format(" (and {} more)", count - 1) : std::string();
}

// The files hold exactly what the model needs, in the right shapes and in types that can be read.
void check(const Checkpoint& checkpoint, const std::vector<Placement>& placements) {
  std::vector<std::string> missing;
  std::set<std::string, std::less<>> known;
  for (const Placement& p : placements) {
    known.insert(p.name);
    if (checkpoint.find(p.name) == nullptr) missing.push_back(p.name);
  }
  if (!missing.empty()) {
    fail(ErrorCode::kMissingTensor,
         "{}: tensor {}{} is missing, which config.json asks for; download the checkpoint again",
         checkpoint.name(), in_quotes(missing.front()), and_more(missing.size()));
  }
  std::vector<std::string> unexpected;
  for (const std::string& name : checkpoint.names()) {
    if (!known.contains(name) && !is_derived(name)) unexpected.push_back(name);
  }
  if (!unexpected.empty()) {
    fail(ErrorCode::kUnexpectedTensor,
         "{}: tensor {}{} belongs to no part of the model that config.json describes; check that "
         "both "
         "come from the same checkpoint",
         checkpoint.name(), in_quotes(unexpected.front()), and_more(unexpected.size()));
  }
  for (const Placement& p : placements) {
    const CheckpointTensor& tensor = checkpoint.get(p.name);
    if (tensor.shape() != p.shape) {
      fail(ErrorCode::kWrongShape,
           "{}: tensor {} has shape {}, but config.json asks for {}; check that both come from the "
           "same checkpoint",
           tensor.file->name(), in_quotes(p.name), shape_to_string(tensor.shape()),
           shape_to_string(p.shape));
    }
    if (!compute_dtype(tensor.dtype())) {
      fail(ErrorCode::kUnsupported,
           "{}: tensor {} has element type {}, which cannot be loaded; supported are F32, BF16 and "
           "F16",
           tensor.file->name(), in_quotes(p.name), to_string(tensor.dtype()));
    }
  }
}

// Tensors of a checkpoint of this config, without naming them.
std::int64_t tensor_count(const ModelConfig& c) {
  const std::int64_t biases = c.attention_bias ? (c.q_lora_rank ? 3 : 2) : 0;
  const std::int64_t attention = (c.q_lora_rank ? 3 : 1) + 4 + biases;
  const std::int64_t experts = 1 + 3 * c.n_routed_experts + (c.n_shared_experts > 0 ? 3 : 0);
  const std::int64_t n_moe = c.n_layers - c.first_dense_layers;
  return c.n_layers * (attention + 2) + c.first_dense_layers * 3 + n_moe * experts +
         (c.tie_word_embeddings ? 2 : 3);
}

// A config of many more tensors is refused before each of them gets a name: such a list may take
// gigabytes.
void check_count(const Checkpoint& checkpoint, const ModelConfig& config) {
  const std::int64_t wanted = tensor_count(config);
  const auto stored = static_cast<std::int64_t>(checkpoint.size());
  if (wanted / 2 - 1000 > stored) {
    fail(ErrorCode::kMissingTensor,
         "{}: holds {} tensors, but config.json asks for {}; check that both come from the same "
         "checkpoint",
         checkpoint.name(), stored, wanted);
  }
}

void check_memory(const ModelConfig& config, DType dtype) {
  const std::size_t needed = weight_bytes(config, dtype);
  const std::size_t available = available_memory_bytes();
  if (needed > available) {
    fail(
        ErrorCode::kOutOfMemory,
        "the weights take {:.1f} GB in {}, but {:.1f} GB are free; free memory or choose a smaller "
        "--dtype",
        needed / 1e9, to_string(dtype), available / 1e9);
  }
}

// A run of elements of one tensor: the unit in which threads share the work.
struct Chunk {
  const Placement* placement;
  const CheckpointTensor* tensor;
  std::size_t first;
  std::size_t count;
};

constexpr std::size_t kChunkElements = std::size_t{1} << 20;
constexpr std::int64_t kBlockElements = 1 << 16;  // converted through the second-level cache

std::vector<Chunk> chunks_of(const Checkpoint& checkpoint,
                             const std::vector<Placement>& placements) {
  std::vector<Chunk> chunks;
  for (const Placement& p : placements) {
    const CheckpointTensor& tensor = checkpoint.get(p.name);
    const std::size_t n = tensor.bytes().size() / size_in_bytes(*compute_dtype(tensor.dtype()));
    for (std::size_t first = 0; first < n; first += kChunkElements) {
      chunks.push_back({&p, &tensor, first, std::min(kChunkElements, n - first)});
    }
  }
  return chunks;
}

void refuse_overflow(const Chunk& chunk, const f16* values, std::size_t n) {
  const bool overflows =
      std::any_of(values, values + n, [](f16 v) { return (v.bits & 0x7fff) == 0x7c00; });
  if (overflows) {
    fail(ErrorCode::kUnsupported,
         "{}: tensor {} has values beyond 65504, which fp16 cannot hold; use --dtype bf16 or fp32",
         chunk.tensor->file->name(), in_quotes(chunk.placement->name));
  }
}

void read_chunk(const Chunk& chunk, ops::Worker& worker) {
  ops::Weight& weight = *chunk.placement->weight;
  const DType from_dtype = *compute_dtype(chunk.tensor->dtype());
  const std::size_t from_size = size_in_bytes(from_dtype);
  const std::size_t to_size = size_in_bytes(weight.dtype());
  const std::byte* from = chunk.tensor->bytes().data() + chunk.first * from_size;
  std::byte* to = weight.row(chunk.placement->first_row) + chunk.first * to_size;
  if (from_dtype == weight.dtype()) {
    std::memcpy(to, from, chunk.count * to_size);
  } else {
    // The file does not align its tensors: copy a block to where it is aligned, then convert.
    auto* block = worker.scratch<std::byte>(0, kBlockElements * 4);
    for (std::size_t i = 0; i < chunk.count; i += kBlockElements) {
      const std::size_t n = std::min<std::size_t>(kBlockElements, chunk.count - i);
      std::memcpy(block, from + i * from_size, n * from_size);
      convert(block, from_dtype, to + i * to_size, weight.dtype(), n);
      if (weight.dtype() == DType::kF16) {
        refuse_overflow(chunk, reinterpret_cast<const f16*>(to + i * to_size), n);
      }
    }
  }
  chunk.tensor->release(chunk.first * from_size, chunk.count * from_size);
}

void read_all(const std::vector<Chunk>& chunks, ops::Executor& executor,
              const ProgressFn& progress) {
  std::size_t total = 0;
  const auto bytes_of = [](const Chunk& chunk) {
    return chunk.count * size_in_bytes(*compute_dtype(chunk.tensor->dtype()));
  };
  for (const Chunk& chunk : chunks) total += bytes_of(chunk);
  std::mutex mutex;
  std::size_t done = 0;
  executor.parallel_for(std::ssize(chunks), static_cast<std::int64_t>(total),
                        [&](std::int64_t i, ops::Worker& worker) {
                          const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
                          read_chunk(chunk, worker);
                          if (!progress) return;
                          const std::lock_guard lock(mutex);
                          done += bytes_of(chunk);
                          progress(done, total);
                        });
}

}  // namespace

std::vector<TensorShape> checkpoint_tensors(const ModelConfig& config) {
  ModelWeights weights;
  const Plan plan(config, DType::kBF16, weights,
                  [](ops::Weight&, DType, std::int64_t, std::int64_t) {});
  std::vector<TensorShape> tensors;
  for (const Placement& p : plan.placements()) tensors.push_back({p.name, p.shape});
  return tensors;
}

std::size_t weight_bytes(const ModelConfig& config, DType dtype) {
  std::size_t bytes = 0;
  ModelWeights weights;
  const Plan plan(config, dtype, weights,
                  [&](ops::Weight&, DType type, std::int64_t n, std::int64_t k) {
                    bytes += static_cast<std::size_t>(n * k) * size_in_bytes(type);
                  });
  return bytes;
}

ModelWeights load_weights(const std::filesystem::path& folder, const ModelConfig& config,
                          DType dtype, ops::Executor& executor, const ProgressFn& progress) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  check_count(checkpoint, config);
  ModelWeights weights;
  {
    const Plan dry(config, dtype, weights, [](ops::Weight&, DType, std::int64_t, std::int64_t) {});
    check(checkpoint, dry.placements());
  }
  check_memory(config, dtype);
  const Plan plan(config, dtype, weights,
                  [](ops::Weight& weight, DType type, std::int64_t n, std::int64_t k) {
                    weight = ops::Weight(type, n, k);
                  });
  read_all(chunks_of(checkpoint, plan.placements()), executor, progress);
  return weights;
}

}  // namespace tessera
