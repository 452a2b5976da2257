// Rotary position embedding (Su et al. 2021) with the YaRN extension (Peng et al. 2023, as
// DeepSeek-V2 uses it).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/executor.h"
#include "ops/recorded_rows.h"
#include "ops/rows.h"

namespace tessera::ops {

// Frequencies are stretched by factor beyond original_context tokens. With m(s, x) = 0.1 x ln s + 1
// for s > 1, else 1: cos and sin are multiplied by m(factor, mscale) / m(factor, mscale_all_dim),
// the softmax scale by m(factor, mscale_all_dim)^2.
struct YarnParameters {
  double factor = 1;
  std::int64_t original_context = 0;  // tokens
  double beta_fast = 32;              // rotations over original_context above which nothing changes
  double beta_slow = 1;               // and below which a frequency is divided by factor
  double mscale = 1;
  double mscale_all_dim = 0;
};

struct RopeParameters {
  std::int64_t dim = 0;  // rotated values per head, even
  double theta = 10000;
  std::optional<YarnParameters> yarn;  // none: plain rotary embedding
};

// mscale(s, m) = 0.1 m ln s + 1 for s > 1, else 1.
double yarn_mscale(double scale, double mscale);

// What multiplies q.k before the softmax: qk_dim^-0.5, times mscale(factor, mscale_all_dim)^2 under
// YaRN where mscale_all_dim is not zero. qk_dim counts rotated and unrotated values of a head.
double attention_scale(const RopeParameters& parameters, std::int64_t qk_dim);

// The angle per position of each pair [dim / 2], and the factor on cos and sin.
class RopeFrequencies {
 public:
  explicit RopeFrequencies(const RopeParameters& parameters);

  std::int64_t n_pairs() const { return static_cast<std::int64_t>(inverse_frequency_.size()); }
  std::span<const float> inverse_frequency() const { return inverse_frequency_; }
  float cos_sin_scale() const { return cos_sin_scale_; }

  // cos and sin [n_pairs] of one position, both times cos_sin_scale().
  void cos_sin(std::int64_t position, std::span<float> cos, std::span<float> sin) const;

 private:
  std::vector<float> inverse_frequency_;
  float cos_sin_scale_ = 1;
};

// Where the two values of pair i stand in a head of dim values.
enum class RopeLayout {
  kInterleaved,  // 2i and 2i + 1: DeepSeek's weights
  kHalfSplit,    // i and i + dim / 2
};

// Rotates in place the dim values of every head of x; row r by row r of cos and sin [rows, dim /
// 2].
void rope(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout);

// The same in double.
void rope_reference(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout);

// Heads of a recorded step, and what rotates them.
struct RecordedRotation {
  RecordedRows x;  // from the first rotated value of the first head on
  std::int64_t heads = 0;
  std::int64_t head_stride = 0;  // in elements
  const float* cos = nullptr;    // [rows, half], which a replay finds filled
  const float* sin = nullptr;
  std::int64_t half = 0;

  Heads at(int worker) const {
    const Rows rows = x.at(worker);
    return {rows.data, rows.rows, heads, rows.stride, head_stride};
  }
  ConstRows cos_rows() const { return {cos, *x.count.now, half}; }
  ConstRows sin_rows() const { return {sin, *x.count.now, half}; }
};

struct RopeImplementation {
  std::string_view name;
  // Why it cannot rotate heads of `dim` values: the end of a sentence such as "needs a multiple of
  // 16". Empty: it can.
  std::string (*unsupported)(std::int64_t dim, RopeLayout layout);
  void (*run)(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout,
              Executor& executor);
  // The same in a recorded step: see RmsNormImplementation.
  void (*record)(graph::Recorder& recorder, graph::LaunchInfo info, const RecordedRotation& call,
                 RopeLayout layout) = nullptr;
};

extern const RopeImplementation kRopeTile;
extern const RopeImplementation kRopeNative;
extern const RopeImplementation kRopeReference;

}  // namespace tessera::ops
