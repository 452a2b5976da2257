// The KV prolog one token at a time, in double, without a single rounding before the outputs.
#include <cmath>
#include <vector>

#include "base/convert.h"
#include "ops/mla_prolog/mla_prolog.h"

namespace tessera::ops {

namespace {

using Vector = std::vector<double>;

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// A weight in double, row by row.
struct Matrix {
  explicit Matrix(const PrologMatrix& matrix) : n(matrix.n()), k(matrix.k()), values(index(n * k)) {
    if (matrix.packed != nullptr) {
      matrix.packed->unpack(0, values.data());
      return;
    }
    const WeightView& w = matrix.plain;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        float value = 0;
        convert(w.at(i, j), w.dtype, &value, DType::kF32, 1);
        values[index(i * k + j)] = value;
      }
    }
  }

  Vector times(const Vector& x) const {
    Vector y(index(n));
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < k; ++j) sum += values[index(i * k + j)] * x[index(j)];
      y[index(i)] = sum;
    }
    return y;
  }

  std::int64_t n, k;
  Vector values;
};

Vector slice(const Vector& from, std::int64_t first, std::int64_t n) {
  return {from.begin() + first, from.begin() + first + n};
}

void normalise(Vector& latent, const float* norm, double eps) {
  double sum = 0;
  for (double x : latent) sum += x * x;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(latent.size()) + eps);
  for (std::size_t i = 0; i < latent.size(); ++i) latent[i] *= scale * norm[i];
}

void rotate(Vector& key, std::span<const float> cos, std::span<const float> sin,
            RopeLayout layout) {
  const std::size_t n_pairs = key.size() / 2;
  for (std::size_t i = 0; i < n_pairs; ++i) {
    const bool interleaved = layout == RopeLayout::kInterleaved;
    double& first = key[interleaved ? 2 * i : i];
    double& second = key[interleaved ? 2 * i + 1 : i + n_pairs];
    const double a = first;
    const double b = second;
    first = a * cos[i] - b * sin[i];
    second = a * sin[i] + b * cos[i];
  }
}

void store(const Vector& values, DType dtype, std::byte* to) {
  const std::vector<float> single(values.begin(), values.end());
  convert(single.data(), DType::kF32, to, dtype, single.size());
}

class Reference : public MlaProlog {
 public:
  explicit Reference(const MlaPrologWeights& weights)
      : weights_(weights), kv_a_(weights.kv_a), kv_b_(weights.kv_b) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    assert_valid(weights_, call);
    const std::int64_t work = call.n_tokens() * (kv_a_.n * kv_a_.k + kv_b_.n * kv_b_.k);
    executor.parallel_for(call.n_tokens(), work,
                          [&](std::int64_t token, Worker&) { run_token(call, token); });
  }

 private:
  void run_token(const MlaPrologCall& call, std::int64_t token) const {
    const MlaDims& d = weights_.dims;
    const std::int64_t slot = call.slot(token);
    const std::int64_t block = slot / call.block_tokens;
    const std::int64_t in_block = slot % call.block_tokens;

    const auto hidden = call.hidden.row(token);
    Vector both = kv_a_.times(Vector(hidden.begin(), hidden.end()));
    if (weights_.kv_a_bias != nullptr) {
      for (std::size_t i = 0; i < both.size(); ++i) both[i] += weights_.kv_a_bias[i];
    }
    Vector latent = slice(both, 0, d.kv_rank);
    Vector k_pe = slice(both, d.kv_rank, d.rope);
    normalise(latent, weights_.norm, weights_.eps);
    const std::int64_t position = call.position(token);
    rotate(k_pe, call.cos.row(position), call.sin.row(position), call.layout);

    if (call.k_pe.wanted()) store(k_pe, call.k_pe.dtype, call.k_pe.at(block, 0, in_block));
    if (call.latent.wanted()) {
      Vector row = latent;
      row.insert(row.end(), k_pe.begin(), k_pe.end());
      store(row, call.latent.dtype,
            call.latent.data + index(slot * d.latent_row()) * size_in_bytes(call.latent.dtype));
    }
    if (call.k_nope.wanted()) {
      const Vector heads = kv_b_.times(latent);
      for (std::int64_t h = 0; h < d.heads; ++h) {
        store(slice(heads, h * d.head_row(), d.nope), call.k_nope.dtype,
              call.k_nope.at(block, h, in_block));
        store(slice(heads, h * d.head_row() + d.nope, d.v), call.value.dtype,
              call.value.at(block, h, in_block));
      }
    }
  }

  MlaPrologWeights weights_;
  Matrix kv_a_, kv_b_;
};

}  // namespace

constexpr MlaPrologImplementation kMlaPrologReference = {
    "reference", [](const MlaPrologWeights&, const MlaPrologCall&) { return std::string(); },
    [](const MlaPrologWeights& weights, Executor&) -> std::unique_ptr<MlaProlog> {
      return std::make_unique<Reference>(weights);
    }};

}  // namespace tessera::ops
