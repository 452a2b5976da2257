#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/buffer.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/checkpoint.h"
#include "io/quote.h"
#include "model/weight_plan.h"
#include "model/weights.h"
#include "tile/packed/pack.h"

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

// Source bytes that are packed before their pages are dropped.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;
// How far ahead of packing the disk reads.
constexpr std::size_t kAheadBytes = std::size_t{96} << 20;

// Packs one matrix after another into the arena, in the order of the plan: each by all threads,
// which so touch its pages first, and the pages of the file are dropped when nothing else needs
// them.
class Reader {
 public:
  Reader(const Checkpoint& checkpoint, const WeightPlan& plan, std::byte* arena,
         ops::Executor& executor, ProgressCounter& progress)
      : checkpoint_(checkpoint),
        plan_(plan),
        arena_(arena),
        executor_(executor),
        progress_(progress) {}

  void read_all() {
    for (const VectorPlan& vector : plan_.vectors) read(vector);
    for (std::size_t i = 0; i < plan_.matrices.size(); ++i) {
      read_ahead(i);
      read(plan_.matrices[i]);
    }
  }

 private:
  void read(const VectorPlan& plan) {
    const CheckpointTensor& tensor = checkpoint_.get(plan.tensor);
    const std::span<const std::byte> bytes = aligned(tensor, 0);
    convert(bytes.data(), *compute_dtype(tensor.dtype()), arena_ + plan.offset, DType::kF32,
            static_cast<std::size_t>(plan.n));
    done(tensor, 0, tensor.bytes().size());
  }

  void read(const MatrixPlan& plan) {
    std::vector<tile::cpu::PackSource> sources;
    std::vector<const CheckpointTensor*> tensors;
    for (const std::string& name : plan.tensors) {
      const CheckpointTensor& tensor = checkpoint_.get(name);
      sources.push_back(source_of(plan, tensor, sources.size()));
      tensors.push_back(&tensor);
    }
    const tile::cpu::PackedShape shape{plan.layout, plan.n, plan.k};
    // A matrix of a whole tensor is taken in pieces of rows.
    const bool is_whole = !plan.transposed && plan.n == tensors[0]->shape()[0];
    const std::int64_t row_bytes =
        plan.k * static_cast<std::int64_t>(size_in_bytes(sources[0].dtype));
    const std::int64_t panel_source = row_bytes * tile::cpu::kPanelColumns * plan.n_weights();
    const std::int64_t step =
        is_whole ? std::max<std::int64_t>(kPieceBytes / panel_source, 1) : shape.panels();
    for (std::int64_t panel = 0; panel < shape.panels(); panel += step) {
      const std::int64_t end = std::min(panel + step, shape.panels());
      pack(plan, shape, sources, tensors, panel, end);
      if (!is_whole) continue;
      const std::int64_t first = panel * tile::cpu::kPanelColumns;
      const std::int64_t rows = std::min(end * tile::cpu::kPanelColumns, plan.n) - first;
      for (const CheckpointTensor* tensor : tensors) {
        done(*tensor, static_cast<std::size_t>(first * row_bytes),
             static_cast<std::size_t>(rows * row_bytes));
      }
    }
    if (is_whole || !plan.last_of_tensor) return;
    for (const CheckpointTensor* tensor : tensors) done(*tensor, 0, tensor->bytes().size());
  }

  // Panels [begin, end), of gate and up in turn.
  void pack(const MatrixPlan& plan, const tile::cpu::PackedShape& shape,
            const std::vector<tile::cpu::PackSource>& sources,
            const std::vector<const CheckpointTensor*>& tensors, std::int64_t begin,
            std::int64_t end) {
    std::byte* packed = arena_ + plan.offset;
    const std::int64_t n = plan.n_weights();
    std::atomic<bool> fits[2] = {true, true};
    executor_.pool().parallel_for((end - begin) * n, [&](std::int64_t task, int) {
      const std::int64_t strip = begin * n + task;
      const auto which = static_cast<std::size_t>(strip % n);
      if (!tile::cpu::pack_panel(sources[which], plan.layout, strip / n,
                                 packed + static_cast<std::size_t>(strip) * shape.panel_bytes())) {
        fits[which] = false;
      }
    });
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (!fits[i]) fail_values(*tensors[i], plan.tensors[i], plan.layout);
    }
  }

  tile::cpu::PackSource source_of(const MatrixPlan& plan, const CheckpointTensor& tensor,
                                  std::size_t slot) {
    const std::int64_t columns = tensor.shape()[1];
    const ops::WeightView all{aligned(tensor, slot).data(),
                              *compute_dtype(tensor.dtype()),
                              tensor.shape()[0],
                              columns,
                              columns,
                              1};
    const ops::WeightView part = all.outputs(plan.first, plan.transposed ? plan.k : plan.n);
    const ops::WeightView view = plan.transposed ? part.transposed() : part;
    return {view.data, view.dtype, view.n, view.k, view.n_stride, view.k_stride};
  }

  // The tensor's bytes where they are aligned for its elements, else a copy of them.
  std::span<const std::byte> aligned(const CheckpointTensor& tensor, std::size_t slot) {
    const std::span<const std::byte> bytes = tensor.bytes();
    const std::size_t size = size_in_bytes(*compute_dtype(tensor.dtype()));
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size == 0) return bytes;
    std::vector<std::byte>& copy = copies_[slot];
    copy.assign(bytes.begin(), bytes.end());
    return copy;
  }

  // What the format cannot hold.
  [[noreturn]] static void fail_values(const CheckpointTensor& tensor, const std::string& name,
                                       tile::cpu::PanelLayout layout) {
    if (layout == tile::cpu::PanelLayout::kF16) {
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

  // Asks for the bytes of the matrices after this one.
  void read_ahead(std::size_t index) {
    while (ahead_ < plan_.matrices.size() && (ahead_ <= index || ahead_bytes_ < kAheadBytes)) {
      const MatrixPlan& plan = plan_.matrices[ahead_++];
      if (!plan.last_of_tensor) continue;
      for (const std::string& name : plan.tensors) {
        const CheckpointTensor& tensor = checkpoint_.get(name);
        tensor.prefetch();
        ahead_bytes_ += tensor.bytes().size();
      }
    }
  }

  void done(const CheckpointTensor& tensor, std::size_t first, std::size_t n) {
    tensor.release(first, n);
    ahead_bytes_ -= std::min(ahead_bytes_, n);
    progress_.add(n);
  }

  const Checkpoint& checkpoint_;
  const WeightPlan& plan_;
  std::byte* arena_;
  ops::Executor& executor_;
  ProgressCounter& progress_;
  std::size_t ahead_ = 0;        // the first matrix whose bytes were not asked for
  std::size_t ahead_bytes_ = 0;  // asked for and not yet packed
  std::vector<std::byte> copies_[2];
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
    if (!is_derived(name)) bytes += checkpoint.get(name).bytes().size();
  }
  return bytes;
}

ModelWeights load_weights(std::shared_ptr<const Checkpoint> checkpoint, const ModelConfig& config,
                          WeightFormat format, KvCacheForm form, ops::Executor& executor,
                          ProgressCounter& progress) {
  check_tensor_count(*checkpoint, config);
  ModelWeights weights;
  const WeightPlan plan(config, format, form, weights);
  check(*checkpoint, plan.tensors);
  check_memory(config, format, form);

  const auto arena = std::make_shared<Buffer>(plan.arena_bytes);
  // What lies between the vectors too is the same in every run.
  const std::size_t vectors = plan.vectors.front().offset;
  std::memset(arena->data() + vectors, 0, arena->size() - vectors);
  Reader(*checkpoint, plan, arena->data(), executor, progress).read_all();
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
