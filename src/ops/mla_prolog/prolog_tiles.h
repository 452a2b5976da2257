// What the prolog's tile kernels share: parts of their bodies, and how a call becomes arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tessera/tile.h>

#include "ops/executor.h"
#include "ops/mla_prolog/mla_prolog.h"
#include "ops/record_kernel.h"

namespace tessera::ops::prolog {

// c [rows, rank], normalised and times norm [rank]; eps [1].
tile::Tile normalised(const tile::Tile& c, const tile::Tensor& norm, const tile::Tensor& eps);

// The rows x[row ...] of pairs from column `first` on, rotated by the same rows of cos and sin
// [tokens, n / 2].
tile::Tile rotated(const tile::Tensor& x, const tile::Index& row, std::int64_t first, int rows,
                   const tile::Tensor& cos, const tile::Tensor& sin, RopeLayout layout);

// kv [rows, heads * (nope + v)], split by head, goes to token place[row ...] of block
// block[row ...] of k_nope [blocks, heads, tokens, nope] and value [blocks, heads, tokens, v].
void assemble_heads(const tile::Tile& kv, const tile::Index& row, const tile::Tensor& block,
                    const tile::Tensor& place, const tile::Tensor& k_nope,
                    const tile::Tensor& value);

// A kernel for each layout of the rotation. One object serves all layers: they share its code.
class KernelByLayout {
 public:
  explicit KernelByLayout(tile::Kernel (*make)(RopeLayout))
      : interleaved_(make(RopeLayout::kInterleaved)), half_split_(make(RopeLayout::kHalfSplit)) {}
  const tile::Kernel& operator[](RopeLayout layout) const {
    return layout == RopeLayout::kInterleaved ? interleaved_ : half_split_;
  }

 private:
  tile::Kernel interleaved_;
  tile::Kernel half_split_;
};

// A matrix as a kernel reads it: packed here where it comes plain.
class PackedMatrix {
 public:
  PackedMatrix(const PrologMatrix& matrix, Executor& executor);
  tile::Argument argument() const;

 private:
  const PackedLinear& linear() const { return given_ != nullptr ? *given_ : own_; }

  const PackedLinear* given_;
  PackedLinear own_;
};

tile::Argument argument_of(const HeadTensor& to, const MlaPrologCall& call, std::int64_t heads,
                           std::int64_t dim);

// Each token's cos and sin, and where it goes, as a kernel reads them.
class Tokens {
 public:
  // Lives in the executor's scratch until the next prolog.
  Tokens(const MlaPrologCall& call, Executor& executor);
  // The tables of a recorded call, for as many rows as there are now.
  explicit Tokens(const RecordedProlog& call);

  tile::Argument cos() const { return rows(cos_); }
  tile::Argument sin() const { return rows(sin_); }
  tile::Argument slot() const { return indices(slot_); }    // of the latent cache
  tile::Argument block() const { return indices(block_); }  // of the head tensors
  tile::Argument place() const { return indices(place_); }  // within the block

 private:
  tile::Argument rows(const float* data) const;
  tile::Argument indices(const std::int32_t* data) const;

  std::int64_t n_, half_;
  const float* cos_;
  const float* sin_;
  const std::int32_t* slot_;
  const std::int32_t* block_;
  const std::int32_t* place_;
};

// The launches of a prolog's kernel: they read `input` and write the cache.
graph::LaunchInfo launch_info(const RecordedProlog& call, graph::Use input);

// A prolog that is one kernel from the hidden states on.
class OneKernel : public MlaProlog {
 public:
  void run(const MlaPrologCall& call, Executor& executor) const override;
  bool record(graph::Recorder& recorder, const RecordedProlog& call) const override;

 protected:
  explicit OneKernel(const MlaPrologWeights& weights) : w_(weights) {}

  virtual const tile::Kernel& kernel(RopeLayout layout) const = 0;
  // hidden: [T, hidden]. Of `outputs` the blocks and the outputs count.
  virtual std::vector<tile::Argument> arguments(const tile::Argument& hidden, const Tokens& tokens,
                                                const MlaPrologCall& outputs) const = 0;

  MlaPrologWeights w_;
};

// What no tile kernel of the prolog takes, as MlaPrologImplementation::unsupported says it.
// heads: whether kv_b is used too.
std::string unsupported_inputs(const MlaPrologWeights& weights, const MlaPrologCall& call,
                               bool heads);
std::string unsupported_heads(const MlaPrologWeights& weights, const MlaPrologCall& call);

}  // namespace tessera::ops::prolog
