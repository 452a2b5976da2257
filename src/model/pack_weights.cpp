#include "model/pack_weights.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/convert.h"
#include "base/fail.h"
#include "io/quote.h"
#include "tile/packed/pack.h"

namespace tessera {

namespace {

std::string and_more(std::size_t count) {
  return count > 1 ? fmt::format(" (and {} more)", count - 1) : std::string();
}

// Source bytes that are packed before their pages are dropped.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;
// How far ahead of packing the disk reads.
constexpr std::size_t kAheadBytes = std::size_t{96} << 20;

// The pages of the file are dropped when nothing else needs them.
class Reader {
 public:
  Reader(const Checkpoint& checkpoint, const WeightPlan& plan, ArenaSink& sink,
         ops::Executor& executor, ProgressCounter& progress)
      : checkpoint_(checkpoint),
        plan_(plan),
        sink_(sink),
        executor_(executor),
        progress_(progress) {}

  void read_all() {
    for (std::size_t i = 0; i < plan_.matrices.size(); ++i) {
      read_ahead(i);
      read(plan_.matrices[i]);
    }
    for (const VectorPlan& vector : plan_.vectors) read(vector);
    sink_.piece(plan_.arena_bytes, 0);  // zeros up to the end
    sink_.done();
  }

 private:
  void read(const VectorPlan& plan) {
    const CheckpointTensor& tensor = checkpoint_.get(plan.tensor);
    const std::span<const std::byte> bytes = aligned(tensor, 0);
    convert(bytes.data(), *compute_dtype(tensor.dtype()), sink_.piece(plan.offset, plan.bytes()),
            DType::kF32, static_cast<std::size_t>(plan.n));
    sink_.done();
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
    const std::int64_t n = plan.n_weights();
    const auto strip_offset = [&](std::int64_t strip) {
      return static_cast<std::size_t>(strip) * shape.panel_bytes();
    };
    std::byte* packed =
        sink_.piece(plan.offset + strip_offset(begin * n), strip_offset((end - begin) * n));
    std::atomic<bool> fits[2] = {true, true};
    executor_.pool().parallel_for((end - begin) * n, [&](std::int64_t task, int) {
      const std::int64_t strip = begin * n + task;
      const auto which = static_cast<std::size_t>(strip % n);
      if (!tile::cpu::pack_panel(sources[which], plan.layout, strip / n,
                                 packed + strip_offset(task))) {
        fits[which] = false;
      }
    });
    sink_.done();
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
  ArenaSink& sink_;
  ops::Executor& executor_;
  ProgressCounter& progress_;
  std::size_t ahead_ = 0;        // the first matrix whose bytes were not asked for
  std::size_t ahead_bytes_ = 0;  // asked for and not yet packed
  std::vector<std::byte> copies_[2];
};

}  // namespace

bool is_derived_tensor(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

void check_tensors(const Checkpoint& checkpoint, const WeightPlan& plan) {
  std::vector<std::string> missing;
  std::set<std::string, std::less<>> known;
  for (const TensorShape& p : plan.tensors) {
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
    if (!known.contains(name) && !is_derived_tensor(name)) unexpected.push_back(name);
  }
  if (!unexpected.empty()) {
    fail(ErrorCode::kUnexpectedTensor,
         "{}: tensor {}{} belongs to no part of the model that config.json describes; check that "
         "both "
         "come from the same checkpoint",
         checkpoint.name(), in_quotes(unexpected.front()), and_more(unexpected.size()));
  }
  for (const TensorShape& p : plan.tensors) {
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

void pack_weights(const Checkpoint& checkpoint, const WeightPlan& plan, ArenaSink& sink,
                  ops::Executor& executor, ProgressCounter& progress) {
  Reader(checkpoint, plan, sink, executor, progress).read_all();
}

}  // namespace tessera
