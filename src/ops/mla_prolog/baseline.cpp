// The KV prolog as a sequence of native operators, each reading what the one before it wrote: what
// fused implementations are measured against.
#include <algorithm>

#include "base/convert.h"
#include "ops/mla_prolog/mla_prolog.h"
#include "ops/rms_norm/rms_norm.h"

namespace tessera::ops {

namespace {

// Every intermediate result, one after another in the executor's scratch memory.
struct Buffers {
  Buffers(const MlaDims& d, std::int64_t n, bool expand, Executor& executor) {
    const struct {
      Rows* rows;
      std::int64_t columns;
    } all[] = {{&projected, d.latent_row()},
               {&latent, d.kv_rank},
               {&normed, d.kv_rank},
               {&k_pe, d.rope},
               {&cos, d.rope / 2},
               {&sin, d.rope / 2},
               {&heads, expand ? d.heads * d.head_row() : 0},
               {&k_nope, expand ? d.heads * d.nope : 0},
               {&value, expand ? d.heads * d.v : 0}};
    std::int64_t total = 0;
    for (const auto& buffer : all) total += padded(n * buffer.columns);
    float* next = executor.worker(0).scratch<float>(Worker::kPrologSlot, total);
    for (const auto& buffer : all) {
      *buffer.rows = Rows(next, n, buffer.columns);
      next += padded(n * buffer.columns);
    }
  }

  static std::int64_t padded(std::int64_t n) {
    constexpr std::int64_t kLine = Buffer::kAlignment / sizeof(float);
    return (n + kLine - 1) / kLine * kLine;
  }

  Rows projected;  // [T, kv_rank + rope]
  Rows latent;     // [T, kv_rank]
  Rows normed;     // [T, kv_rank]
  Rows k_pe;       // [T, rope]
  Rows cos, sin;   // [T, rope / 2], by token
  Rows heads;      // [T, heads * (nope + v)]
  Rows k_nope;     // [heads, T, nope]
  Rows value;      // [heads, T, v]
};

void add_bias(const float* bias, const Rows& to) {
  for (std::int64_t t = 0; t < to.rows; ++t) {
    for (std::int64_t i = 0; i < to.columns; ++i) to.data[t * to.stride + i] += bias[i];
  }
}

class Baseline : public MlaProlog {
 public:
  explicit Baseline(const MlaPrologWeights& weights) : w_(weights) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    assert_valid(w_, call);
    const Buffers b(w_.dims, call.n_tokens(), call.k_nope.wanted(), executor);
    compress(call, b, executor);
    rotate(call, b);
    store_keys(call, b);
    if (!call.k_nope.wanted()) return;
    multiply(b.normed, w_.kv_b, b.heads, executor);
    split_heads(call, b, executor);
    assemble(call, b, executor);
  }

 private:
  // kv_a_proj, split, RMSNorm.
  void compress(const MlaPrologCall& call, const Buffers& b, Executor& executor) const {
    multiply(call.hidden, w_.kv_a, b.projected, executor);
    if (w_.kv_a_bias != nullptr) add_bias(w_.kv_a_bias, b.projected);
    for (std::int64_t t = 0; t < call.n_tokens(); ++t) {
      const float* row = b.projected.row(t).data();
      std::copy_n(row, w_.dims.kv_rank, b.latent.row(t).data());
      std::copy_n(row + w_.dims.kv_rank, w_.dims.rope, b.k_pe.row(t).data());
    }
    rms_norm(b.latent, w_.norm, w_.eps, b.normed, executor);
  }

  static void rotate(const MlaPrologCall& call, const Buffers& b) {
    for (std::int64_t t = 0; t < call.n_tokens(); ++t) {
      std::ranges::copy(call.cos.row(call.position(t)), b.cos.row(t).data());
      std::ranges::copy(call.sin.row(call.position(t)), b.sin.row(t).data());
    }
    rope({b.k_pe.data, b.k_pe.rows, 1, b.k_pe.stride, 0}, b.cos, b.sin, call.layout);
  }

  // k_pe, and the rows of the latent cache.
  void store_keys(const MlaPrologCall& call, const Buffers& b) const {
    const auto kv_rank = static_cast<std::size_t>(w_.dims.kv_rank);
    const auto rope = static_cast<std::size_t>(w_.dims.rope);
    const std::size_t size = size_in_bytes(call.latent.dtype);
    for (std::int64_t t = 0; t < call.n_tokens(); ++t) {
      const float* k_pe = b.k_pe.row(t).data();
      if (call.k_pe.wanted()) {
        convert(k_pe, DType::kF32, at(call.k_pe, call, 0, t), call.k_pe.dtype, rope);
      }
      if (call.latent.wanted()) {
        std::byte* row =
            call.latent.data + static_cast<std::size_t>(call.slot(t)) * (kv_rank + rope) * size;
        convert(b.normed.row(t).data(), DType::kF32, row, call.latent.dtype, kv_rank);
        convert(k_pe, DType::kF32, row + kv_rank * size, call.latent.dtype, rope);
      }
    }
  }

  // Where a head of token t goes.
  static std::byte* at(const HeadTensor& to, const MlaPrologCall& call, std::int64_t head,
                       std::int64_t t) {
    return to.at(call.slot(t) / call.block_tokens, head, call.slot(t) % call.block_tokens);
  }

  // [T, heads, nope + v] into [heads, T, nope] and [heads, T, v].
  void split_heads(const MlaPrologCall& call, const Buffers& b, Executor& executor) const {
    const MlaDims& d = w_.dims;
    executor.parallel_for(call.n_tokens(), b.heads.rows * b.heads.columns,
                          [&](std::int64_t t, Worker&) {
                            for (std::int64_t h = 0; h < d.heads; ++h) {
                              const float* both = b.heads.row(t).data() + h * d.head_row();
                              const std::int64_t place = h * call.n_tokens() + t;
                              std::copy_n(both, d.nope, b.k_nope.data + place * d.nope);
                              std::copy_n(both + d.nope, d.v, b.value.data + place * d.v);
                            }
                          });
  }

  // The fp32 intermediates into the outputs, in their element type and with their strides.
  void assemble(const MlaPrologCall& call, const Buffers& b, Executor& executor) const {
    const MlaDims& d = w_.dims;
    const auto store = [&](const float* from, const HeadTensor& to, std::int64_t dim,
                           std::int64_t t) {
      for (std::int64_t h = 0; h < d.heads; ++h) {
        convert(from + (h * call.n_tokens() + t) * dim, DType::kF32, at(to, call, h, t), to.dtype,
                static_cast<std::size_t>(dim));
      }
    };
    executor.parallel_for(call.n_tokens(), b.heads.rows * b.heads.columns,
                          [&](std::int64_t t, Worker&) {
                            store(b.k_nope.data, call.k_nope, d.nope, t);
                            store(b.value.data, call.value, d.v, t);
                          });
  }

  MlaPrologWeights w_;
};

}  // namespace

constexpr MlaPrologImplementation kMlaPrologBaseline = {
    "baseline", [](const MlaPrologWeights&, const MlaPrologCall&) { return std::string(); },
    [](const MlaPrologWeights& weights, Executor&) -> std::unique_ptr<MlaProlog> {
      return std::make_unique<Baseline>(weights);
    }};

}  // namespace tessera::ops
