#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "base/buffer.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/checkpoint.h"
#include "model/pack_weights.h"
#include "model/weight_plan.h"
#include "model/weights.h"

namespace tessera {

namespace {

void check_memory(const ModelConfig& config, WeightFormat format, KvCacheForm form) {
  const std::size_t needed = weight_bytes(config, format, form);
  const std::size_t available = available_memory_bytes();
  if (needed > available) {
    fail(
        ErrorCode::kOutOfMemory,
        "the weights take {:.1f} GB in {}, but {:.1f} GB are free; free memory or choose a smaller "
        "--dtype",
        needed / 1e9, to_string(format), available / 1e9);
  }
}

// An arena in memory, whose pages are touched first by the threads that pack into them.
class MemorySink final : public ArenaSink {
 public:
  explicit MemorySink(Buffer& arena) : arena_(arena) {}

  std::byte* piece(std::size_t offset, std::size_t n) override {
    std::memset(arena_.data() + end_, 0, offset - end_);
    end_ = offset + n;
    return arena_.data() + offset;
  }
  void done() override {}

 private:
  Buffer& arena_;
  std::size_t end_ = 0;
};

}  // namespace

std::int64_t tensor_count(const ModelConfig& c) {
  const std::int64_t biases = c.attention_bias ? (c.q_lora_rank ? 3 : 2) : 0;
  const std::int64_t attention = (c.q_lora_rank ? 3 : 1) + 4 + biases;
  const std::int64_t experts = 1 + 3 * c.n_routed_experts + (c.n_shared_experts > 0 ? 3 : 0);
  const std::int64_t n_moe = c.n_layers - c.first_dense_layers;
  return c.n_layers * (attention + 2) + c.first_dense_layers * 3 + n_moe * experts +
         (c.tie_word_embeddings ? 2 : 3);
}

void check_tensor_count(const Checkpoint& checkpoint, const ModelConfig& config) {
  const std::int64_t wanted = tensor_count(config);
  const auto stored = static_cast<std::int64_t>(checkpoint.size());
  if (wanted / 2 - 1000 > stored) {
    fail(ErrorCode::kMissingTensor,
         "{}: holds {} tensors, but config.json asks for {}; check that both come from the same "
         "checkpoint",
         checkpoint.name(), stored, wanted);
  }
}

std::vector<TensorShape> checkpoint_tensors(const ModelConfig& config) {
  ModelWeights weights;
  return WeightPlan(config, WeightFormat::kBF16, KvCacheForm::kLatent, weights).tensors;
}

std::size_t weight_bytes(const ModelConfig& config, WeightFormat format, KvCacheForm form) {
  ModelWeights weights;
  const WeightPlan plan(config, format, form, weights);
  std::size_t bytes = 0;
  for (const MatrixPlan& m : plan.matrices) {
    bytes += m.tensors.size() * tile::cpu::PackedShape{m.layout, m.n, m.k}.bytes();
  }
  for (const VectorPlan& v : plan.vectors) bytes += static_cast<std::size_t>(v.n) * sizeof(float);
  return bytes;
}

std::size_t source_bytes(const Checkpoint& checkpoint, const ModelConfig& config) {
  std::size_t bytes = 0;
  for (const std::string& name : checkpoint.names()) {
    if (name == WeightPlan::kEmbedding && !config.tie_word_embeddings) continue;
    if (!is_derived_tensor(name)) bytes += checkpoint.get(name).bytes().size();
  }
  return bytes;
}

ModelWeights load_weights(std::shared_ptr<const Checkpoint> checkpoint, const ModelConfig& config,
                          WeightFormat format, KvCacheForm form, ops::Executor& executor,
                          ProgressCounter& progress) {
  check_tensor_count(*checkpoint, config);
  ModelWeights weights;
  const WeightPlan plan(config, format, form, weights);
  check_tensors(*checkpoint, plan);
  check_memory(config, format, form);

  const auto arena = std::make_shared<Buffer>(plan.arena_bytes);
  MemorySink sink(*arena);
  pack_weights(*checkpoint, plan, sink, executor, progress);
  weights.arena = {arena, {arena->data(), arena->size()}};
  plan.attach(arena->data());
  const CheckpointTensor& rows = checkpoint->get(WeightPlan::kEmbedding);
  weights.embedding = Embedding(checkpoint, rows.bytes(), *compute_dtype(rows.dtype()),
                                rows.shape()[0], rows.shape()[1]);
  return weights;
}

ModelWeights load_weights(const std::filesystem::path& folder, const ModelConfig& config,
                          WeightFormat format, KvCacheForm form, ops::Executor& executor,
                          const ProgressFn& progress) {
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  ProgressCounter counter(progress, source_bytes(*checkpoint, config));
  return load_weights(checkpoint, config, format, form, executor, counter);
}

}  // namespace tessera
