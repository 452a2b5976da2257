// The KV prolog of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): from
// the hidden states of new tokens to what attention keeps of them.
//
//   latent, k_pe = split(hidden * kv_a^T + bias)    [kv_rank], [rope]   stage 1
//   latent       = rms_norm(latent) * norm
//   k_nope, value = split(latent * kv_b^T)          [heads, nope], [heads, v]   stage 2
//   k_pe         = rope(k_pe)                       one for all heads
//
// Attention in expanded form keeps k_nope, value and k_pe; in absorbed form (ops/mla_attention) it
// keeps the latent and k_pe. A caller names what it wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <tessera/dtype.h>

#include "ops/executor.h"
#include "ops/linear/linear.h"
#include "ops/recorded_rows.h"
#include "ops/rope/rope.h"
#include "ops/rows.h"
#include "ops/weight.h"

namespace tessera::ops {

struct MlaDims {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_rank = 0;
  std::int64_t nope = 0;  // unrotated values of a head's key
  std::int64_t rope = 0;  // rotated values of the key, even
  std::int64_t v = 0;     // values of a head's value

  bool operator==(const MlaDims&) const = default;
  std::int64_t latent_row() const { return kv_rank + rope; }
  std::int64_t head_row() const { return nope + v; }
};

// A matrix as a checkpoint stores it, or packed already.
struct PrologMatrix {
  PrologMatrix() = default;
  PrologMatrix(const WeightView& view);                                                   // NOLINT
  PrologMatrix(const PackedLinear& linear) : layout(linear.layout()), packed(&linear) {}  // NOLINT

  std::int64_t n() const { return packed != nullptr ? packed->n() : plain.n; }
  std::int64_t k() const { return packed != nullptr ? packed->k() : plain.k; }

  PanelLayout layout = PanelLayout::kF32;  // how it is packed, or would be
  WeightView plain = {};
  const PackedLinear* packed = nullptr;
};

// What a layer brings; the memory must outlive the prolog made of it.
struct MlaPrologWeights {
  MlaDims dims = {};
  PrologMatrix kv_a = {};            // [kv_rank + rope, hidden]
  const float* kv_a_bias = nullptr;  // [kv_rank + rope], or none
  const float* norm = nullptr;       // [kv_rank]
  float eps = 0;
  // [heads * (nope + v), kv_rank]: per head the rows of its key, then of its value. Not needed for
  // rows of a latent cache alone.
  PrologMatrix kv_b = {};
};

// An output [blocks, heads, block_tokens, dim] of any element type: a block is a sequence of a
// batch, or a page of a cache. The dim values of one head of one token are contiguous; strides are
// in elements.
struct HeadTensor {
  std::byte* data = nullptr;  // null: not wanted
  DType dtype = DType::kF32;
  std::int64_t block_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;

  // A tensor without gaps.
  static HeadTensor dense(std::byte* data, DType dtype, std::int64_t heads,
                          std::int64_t block_tokens, std::int64_t dim) {
    return {data, dtype, heads * block_tokens * dim, block_tokens * dim, dim};
  }
  bool wanted() const { return data != nullptr; }
  bool is_dense(std::int64_t heads, std::int64_t block_tokens, std::int64_t dim) const {
    return token_stride == dim && head_stride == block_tokens * dim &&
           block_stride == heads * block_tokens * dim;
  }
  std::byte* at(std::int64_t block, std::int64_t head, std::int64_t token) const {
    return data + static_cast<std::size_t>(block * block_stride + head * head_stride +
                                           token * token_stride) *
                      size_in_bytes(dtype);
  }
};

// Rows [kv_rank + rope] of a paged latent cache: the normalised latent, then the rotated k_pe.
struct LatentRows {
  std::byte* data = nullptr;  // null: not wanted
  DType dtype = DType::kF32;

  bool wanted() const { return data != nullptr; }
};

// One call for T tokens. Token t goes to slot(t) of the outputs: token slot % block_tokens of block
// slot / block_tokens, and row `slot` of the latent cache. Slots are all different.
struct MlaPrologCall {
  ConstRows hidden = {};                         // [T, hidden]
  ConstRows cos = {};                            // [positions, rope / 2]
  ConstRows sin = {};                            // [positions, rope / 2]
  std::span<const std::int64_t> positions = {};  // [T]: each token's row of cos and sin; empty:
                                                 // token t has row t
  RopeLayout layout = RopeLayout::kInterleaved;

  std::int64_t blocks = 0;
  std::int64_t block_tokens = 0;
  std::span<const std::int64_t> slots = {};  // [T]; empty: token t has slot t
  HeadTensor k_nope = {};                    // [blocks, heads, block_tokens, nope]
  HeadTensor value = {};   // [blocks, heads, block_tokens, v]; wanted if and only if k_nope is
  HeadTensor k_pe = {};    // [blocks, 1, block_tokens, rope]
  LatentRows latent = {};  // [blocks * block_tokens, kv_rank + rope]

  std::int64_t n_tokens() const { return hidden.rows; }
  std::int64_t n_slots() const { return blocks * block_tokens; }
  std::int64_t slot(std::int64_t token) const {
    return slots.empty() ? token : slots[static_cast<std::size_t>(token)];
  }
  std::int64_t position(std::int64_t token) const {
    return positions.empty() ? token : positions[static_cast<std::size_t>(token)];
  }
};

// A call in a recorded step: a replay finds the tables filled.
struct RecordedProlog {
  std::string name;                     // of the launches: "layer 3 prolog"
  RecordedRows hidden = {};             // without gaps
  const float* cos = nullptr;           // [rows, rope / 2]
  const float* sin = nullptr;           // [rows, rope / 2]
  std::int64_t half = 0;                // rope / 2
  const std::int32_t* slot = nullptr;   // [rows]
  const std::int32_t* block = nullptr;  // [rows]: slot / block_tokens
  const std::int32_t* place = nullptr;  // [rows]: slot % block_tokens
  MlaPrologCall outputs = {};           // of this only the layout, the blocks and the outputs count
  graph::BufferId cache = 0;            // the outputs, to the planner
};

// An implementation made ready for one layer's weights: it may have packed them.
class MlaProlog {
 public:
  virtual ~MlaProlog() = default;

  // Accumulates in fp32 or wider, and may round the hidden states and the latent to the type of the
  // weight before multiplying. A token's result depends on that token alone, and its bits on the
  // shape of the call, not on the thread count. Outputs overlap neither each other nor the inputs.
  virtual void run(const MlaPrologCall& call, Executor& executor) const = 0;

  // Records what run() does, with the same bits. False, and nothing is recorded: it cannot be.
  virtual bool record(graph::Recorder&, const RecordedProlog&) const { return false; }
};

struct MlaPrologImplementation {
  std::string_view name;
  // Why it cannot run this: the end of a sentence such as "needs dims that are multiples of 16".
  // Empty: it can.
  std::string (*unsupported)(const MlaPrologWeights& weights, const MlaPrologCall& call);
  std::unique_ptr<MlaProlog> (*create)(const MlaPrologWeights& weights, Executor& executor);
};

extern const MlaPrologImplementation kMlaPrologAuto;       // the fastest of the others but the last
extern const MlaPrologImplementation kMlaPrologLatent;     // one tile kernel, latent rows only
extern const MlaPrologImplementation kMlaPrologFused;      // one tile kernel for everything
extern const MlaPrologImplementation kMlaPrologHybrid;     // projection and norm native, then one
extern const MlaPrologImplementation kMlaPrologBaseline;   // native operators, one after another
extern const MlaPrologImplementation kMlaPrologReference;  // in double

// What kMlaPrologAuto runs such a call with: never itself nor the reference.
const MlaPrologImplementation& fastest_mla_prolog(const MlaPrologWeights& weights,
                                                  const MlaPrologCall& call, int n_threads);

// y = x * matrix^T by the native operator: matmul() of a plain matrix, linear() of a packed one.
void multiply(const ConstRows& x, const PrologMatrix& matrix, const Rows& y, Executor& executor);

// Asserts that the shapes above hold.
void assert_valid(const MlaPrologWeights& weights, const MlaPrologCall& call);

}  // namespace tessera::ops
