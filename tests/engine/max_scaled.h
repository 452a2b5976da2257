// The plain scheme of quantisation, to compare ours with: the scale of a group of weights is its
// largest magnitude through the largest integer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/convert.h"
#include "base/half.h"
#include "io/checkpoint.h"
#include "io/safetensors_writer.h"
#include "model/config.h"
#include "model/weight_plan.h"
#include "tile/packed/quantise.h"

namespace tessera::testing {

// 32 values that are `stride` apart, or fewer at the end, become multiples of an fp16 scale.
inline void round_group(float* values, std::int64_t n, std::int64_t stride, float largest_integer) {
  float largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(values[i * stride]));
  const float wanted = largest / largest_integer;
  f16 stored;
  convert(std::span(&wanted, 1), std::span(&stored, 1));
  const float scale = to_float(stored);
  for (std::int64_t i = 0; i < n; ++i) {
    float& value = values[i * stride];
    const float integer = scale == 0 ? 0 : std::nearbyint(value / scale);
    value = scale * std::clamp(integer, -largest_integer, largest_integer);
  }
}

// A copy of a model whose weights are what the plain scheme makes of them, in fp32. Packed in that
// format and form of cache, they stay as they are: the search finds these very scales, since they
// leave no error.
inline void write_max_scaled(const std::filesystem::path& from, const std::filesystem::path& to,
                             WeightFormat format) {
  namespace fs = std::filesystem;
  for (const char* name : {"config.json", "generation_config.json"}) {
    fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing);
  }
  const ModelConfig config = ModelConfig::load(from);
  const Checkpoint checkpoint = Checkpoint::open(from);
  ModelWeights targets;
  const WeightPlan plan(config, format, KvCacheForm::kLatent, targets);
  std::multimap<std::string, const MatrixPlan*> uses;
  for (const MatrixPlan& matrix : plan.matrices) {
    for (const std::string& tensor : matrix.tensors) uses.emplace(tensor, &matrix);
  }
  std::vector<SafetensorsLayout> layout;
  for (const TensorShape& tensor : plan.tensors) {
    layout.push_back({tensor.name, safetensors_dtype(DType::kF32), tensor.shape});
  }
  SafetensorsWriter writer(to / "model.safetensors", layout);
  for (const TensorShape& shape : plan.tensors) {
    const CheckpointTensor& tensor = checkpoint.get(shape.name);
    std::int64_t n_values = 1;
    for (std::int64_t size : shape.shape) n_values *= size;
    std::vector<std::byte> aligned(tensor.bytes().begin(), tensor.bytes().end());
    std::vector<float> values(static_cast<std::size_t>(n_values));
    convert(aligned.data(), *compute_dtype(tensor.dtype()), values.data(), DType::kF32,
            values.size());
    tensor.release(0, tensor.bytes().size());
    const auto [first, last] = uses.equal_range(shape.name);
    std::set<std::int64_t> rounded;  // parts; that which makes keys is packed both ways
    for (auto use = first; use != last; ++use) {
      const MatrixPlan& m = *use->second;
      if (!rounded.insert(m.first).second) continue;
      if (!tile::cpu::has_groups(m.layout)) continue;
      const float largest = tile::cpu::integer_range(m.layout).high;
      const std::int64_t columns = shape.shape[1];
      float* part = values.data() + m.first * columns;
      for (std::int64_t output = 0; output < m.n; ++output) {
        for (std::int64_t k = 0; k < m.k; k += tile::cpu::kGroupInputs) {
          round_group(m.transposed ? part + k * columns + output : part + output * columns + k,
                      std::min<std::int64_t>(tile::cpu::kGroupInputs, m.k - k),
                      m.transposed ? columns : 1, largest);
        }
      }
    }
    writer.append(std::as_bytes(std::span(values)));
  }
  writer.finish();
}

}  // namespace tessera::testing
