// Generated attention over blocks of keys and values, for use from C++.
#pragma once

#include <compare>
#include <memory>
#include <string>

#include <tessera/dtype.h>

#include "tile/attention/attention_arguments.h"

namespace tessera::tile {

class CompiledCode;

// A latent cache that code is made for.
struct AttentionShape {
  DType dtype = DType::kF32;  // fp32 or bf16
  std::int64_t latent_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t page_tokens = 0;  // even

  auto operator<=>(const AttentionShape&) const = default;
};

// Keys and values expanded from a cache of that type, block by block. Where the plan's
// element_bytes are 2 they are bf16, else fp32.
struct ExpandedAttentionShape {
  DType cache = DType::kF32;  // fp32 or bf16
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t block_tokens = 0;  // even

  auto operator<=>(const ExpandedAttentionShape&) const = default;
};

// A state's bits depend on its query, tokens and scale alone.
//
// With a bf16 cache on a CPU with a bf16 dot product, queries and weights are rounded to bf16;
// everywhere else everything is fp32.
class Attention {
 public:
  // Compiles with the plugin or takes the code from the cache; throws what that throws.
  explicit Attention(const AttentionShape& shape);
  explicit Attention(const ExpandedAttentionShape& shape);

  const AttentionPlan& plan() const { return plan_; }
  void pack(const AttentionQuery& query) const { pack_(&query); }
  void attend(const AttentionBlock& block) const { attend_(&block); }
  void merge(std::byte* into, const std::byte* other, std::int64_t begin, std::int64_t end) const {
    merge_(into, other, begin, end);
  }
  void finish(const std::byte* state, float* out, std::int64_t head_stride, std::int64_t begin,
              std::int64_t end) const {
    finish_(state, out, head_stride, begin, end);
  }

 private:
  Attention(std::string front_end, std::string shape);

  std::shared_ptr<const CompiledCode> code_;
  AttentionPlan plan_;
  AttentionPackFunction* pack_ = nullptr;
  AttentionAttendFunction* attend_ = nullptr;
  AttentionMergeFunction* merge_ = nullptr;
  AttentionFinishFunction* finish_ = nullptr;
};

// Attention for the CPU of TESSERA_TARGET_CPU, made at the first call for a shape.
const Attention& shared_attention(const AttentionShape& shape);
const Attention& shared_attention(const ExpandedAttentionShape& shape);

}  // namespace tessera::tile
