#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/convert.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/checkpoint.h"
#include "io/quote.h"
#include "model/weight_plan.h"
#include "model/weights.h"

namespace tessera {

namespace {

// Old checkpoints carry the rotary frequencies, which follow from config.json.
bool is_derived(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

std::string and_more(std::size_t count) {
  return count > 1 ? fmt::format(" (and {} more)", count - 1) : std::string();
}

// The files hold exactly what the model needs, in the right shapes and in types that can be read.
void check(const Checkpoint& checkpoint, const std::vector<TensorShape>& tensors) {
  std::vector<std::string> missing;
  std::set<std::string, std::less<>> known;
  for (const TensorShape& p : tensors) {
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
  for (const TensorShape& p : tensors) {
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

// Reads one tensor after another, in the order of the plan: each is packed by all threads, and its
// pages are dropped when nothing else needs it.
class Reader {
 public:
  Reader(const Checkpoint& checkpoint, std::size_t total_bytes, ops::Executor& executor,
         const ProgressFn& progress)
      : checkpoint_(checkpoint), total_(total_bytes), executor_(executor), progress_(progress) {}

  void read(const VectorPlan& plan) {
    const CheckpointTensor& tensor = checkpoint_.get(plan.tensor);
    *plan.target = ops::Weight(DType::kF32, 1, plan.n);
    const std::span<const std::byte> bytes = aligned(tensor, 0);
    convert(bytes.data(), *compute_dtype(tensor.dtype()), plan.target->row(0), DType::kF32,
            static_cast<std::size_t>(plan.n));
    done(tensor);
  }

  void read(const MatrixPlan& plan) {
    std::vector<ops::WeightView> views;
    for (const std::string& name : plan.tensors) {
      const CheckpointTensor& tensor = checkpoint_.get(name);
      const std::int64_t columns = tensor.shape()[1];
      const std::span<const std::byte> bytes = aligned(tensor, views.size());
      const ops::WeightView all{
          bytes.data(), *compute_dtype(tensor.dtype()), tensor.shape()[0], columns, columns, 1};
      const ops::WeightView part = all.outputs(plan.first, plan.transposed ? plan.k : plan.n);
      views.push_back(plan.transposed ? part.transposed() : part);
      check_values(tensor, name, part, plan.layout);
    }
    *plan.target = views.size() == 2 ? ops::PackedLinear(views[0], views[1], plan.layout, executor_)
                                     : ops::PackedLinear(views[0], plan.layout, executor_);
    if (!plan.last_of_tensor) return;
    for (const std::string& name : plan.tensors) done(checkpoint_.get(name));
  }

 private:
  // The tensor's bytes where they are aligned for its elements, else a copy of them.
  std::span<const std::byte> aligned(const CheckpointTensor& tensor, std::size_t slot) {
    const std::span<const std::byte> bytes = tensor.bytes();
    const std::size_t size = size_in_bytes(*compute_dtype(tensor.dtype()));
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size == 0) return bytes;
    std::vector<std::byte>& copy = copies_[slot];
    copy.assign(bytes.begin(), bytes.end());
    return copy;
  }

  // What the format can hold.
  void check_values(const CheckpointTensor& tensor, const std::string& name,
                    const ops::WeightView& w, tile::cpu::PanelLayout layout) {
    const bool narrow = layout == tile::cpu::PanelLayout::kF16 && w.dtype != DType::kF16;
    if (!narrow && !is_quantised(layout)) return;
    constexpr float kLargestF16 = 65504;
    std::vector<char> bad(static_cast<std::size_t>(executor_.n_threads()));
    executor_.pool().parallel_for(w.n, [&](std::int64_t row, int worker) {
      auto* values = executor_.worker(worker).scratch<float>(0, w.k);
      convert(w.at(row, 0), w.dtype, values, DType::kF32, static_cast<std::size_t>(w.k));
      float largest = 0;
      bool nan = false;
      for (std::int64_t i = 0; i < w.k; ++i) {
        largest = std::max(largest, std::abs(values[i]));
        nan = nan || std::isnan(values[i]);
      }
      const bool fits = narrow ? largest <= kLargestF16 : !nan && std::isfinite(largest);
      if (!fits) bad[static_cast<std::size_t>(worker)] = 1;
    });
    if (std::ranges::find(bad, 1) == bad.end()) return;
    if (narrow) {
      fail(ErrorCode::kUnsupported,
           "{}: tensor {} has values beyond 65504, which fp16 cannot hold; use --dtype bf16 or "
           "fp32",
           tensor.file->name(), in_quotes(name));
    }
    fail(
        ErrorCode::kUnsupported,
        "{}: tensor {} has values that are NaN or infinite, which cannot be quantised; use --dtype "
        "bf16 or fp32",
        tensor.file->name(), in_quotes(name));
  }

  void done(const CheckpointTensor& tensor) {
    done_ += tensor.bytes().size();
    tensor.release(0, tensor.bytes().size());
    if (progress_) progress_(done_, total_);
  }

  const Checkpoint& checkpoint_;
  std::size_t total_;
  std::size_t done_ = 0;
  ops::Executor& executor_;
  const ProgressFn& progress_;
  std::vector<std::byte> copies_[2];
};

}  // namespace

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

ModelWeights load_weights(const std::filesystem::path& folder, const ModelConfig& config,
                          WeightFormat format, KvCacheForm form, ops::Executor& executor,
                          const ProgressFn& progress) {
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  check_count(*checkpoint, config);
  ModelWeights weights;
  const WeightPlan plan(config, format, form, weights);
  check(*checkpoint, plan.tensors);
  check_memory(config, format, form);

  weights.embedding = Embedding(checkpoint, checkpoint->get(WeightPlan::kEmbedding));
  std::size_t total = 0;
  for (const TensorShape& tensor : plan.tensors) {
    if (tensor.name == WeightPlan::kEmbedding && !config.tie_word_embeddings) continue;
    total += checkpoint->get(tensor.name).bytes().size();
  }
  Reader reader(*checkpoint, total, executor, progress);
  for (const VectorPlan& vector : plan.vectors) reader.read(vector);
  for (const MatrixPlan& matrix : plan.matrices) reader.read(matrix);
  return weights;
}

}  // namespace tessera
