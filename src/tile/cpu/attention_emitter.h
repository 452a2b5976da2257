// The parts of generated attention (tile/attention/attention_arguments.h), one file each.
//
// Two forms: rows as bf16 multiplied by the dot product of pairs, and rows as fp32 (bf16 rows are
// widened before on a CPU without the dot product). A unit is what one multiplication takes of a
// row or of the tokens: two bf16 or one fp32, four bytes either way. So units of kHeadGroup heads
// are 64 bytes:
//
//   packed query    [units of a row][heads]     scores are sums over these
//   weights         [units of tokens][heads]    outputs are sums over these
//   scores          [tokens][heads]             fp32
//
// In expanded form query rows of one head stand where the heads do here.
//
// Every sum runs in order in one accumulator, so no bits depend on how blocks are cut.
#pragma once

#include <functional>
#include <span>

#include "tile/attention/attention_arguments.h"
#include "tile/cpu/loop_builder.h"
#include "tile/cpu/module_builder.h"

namespace tessera::tile::cpu {

inline constexpr std::int64_t kUnitBytes = 4;
inline constexpr std::int64_t kGroupBytes = kHeadGroup * kUnitBytes;

struct AttentionForm {
  bool is_bf16 = false;         // the cache
  bool dot = false;             // the dot product of bf16 pairs
  std::int64_t latent = 0;      // columns of a value
  std::int64_t row_values = 0;  // of a key
  std::int64_t page_tokens = 0;
  bool expanded = false;  // values are rows of their own, and each lane has a limit

  bool widens() const { return is_bf16 && !dot; }
  std::int64_t unit() const { return dot ? 2 : 1; }
  std::int64_t value_bytes() const { return dot ? 2 : 4; }
  // Rows as the products read them.
  std::int64_t row_bytes() const { return row_values * value_bytes(); }
  std::int64_t units() const { return (row_values + unit() - 1) / unit(); }
  std::int64_t value_row_bytes() const { return expanded ? latent * value_bytes() : row_bytes(); }
  // Expanded keys serve many groups of rows: after the first they are near.
  bool prefetches() const { return !widens() && !expanded; }

  // Rows of a block should stay in the second-level cache between scores and outputs.
  std::int64_t block_pages() const;
  std::int64_t block_tokens() const { return block_pages() * page_tokens; }

  // Scratch: scores, weights (fp32 weights take the place of the scores), widened rows.
  std::int64_t weights_offset() const { return dot ? block_tokens() * kGroupBytes : 0; }
  std::int64_t widened_offset() const {
    return block_tokens() * kGroupBytes + (dot ? block_tokens() / 2 * kGroupBytes : 0);
  }
  std::int64_t scratch_bytes() const {
    return widened_offset() + (widens() ? block_tokens() * row_bytes() : 0);
  }

  // State, in fp32: largest scores [heads], sums [heads], outputs [heads][padded latent].
  std::int64_t sum_offset() const { return kGroupBytes; }
  std::int64_t outputs_offset() const { return 2 * kGroupBytes; }
  std::int64_t output_bytes() const { return (latent + 15) / 16 * 64; }
  std::int64_t state_bytes() const { return outputs_offset() + kHeadGroup * output_bytes(); }
};

// A register of units, as the products take it.
llvm::Value* load_units(VectorBuilder& b, const AttentionForm& form, llvm::Value* address);

// One unit that all lanes are multiplied with: sum + unit * vector for each of the vectors. sums[i]
// belongs to vectors[i].
void multiply_unit(VectorBuilder& b, const AttentionForm& form, llvm::Value* address,
                   std::span<llvm::Value* const> vectors, std::span<llvm::Value*> sums);

// The queries of a group (AttentionQuery) as units; heads that are not there become zeros.
void emit_pack_query(ModuleBuilder& m, const AttentionForm& form, llvm::Value* arguments);

// Most tokens of a register block of scores.
int score_tokens(const Target& target);

struct ScoreBlock {
  int tokens = 1;
  llvm::Value* rows = nullptr;     // the first token's
  llvm::Value* query = nullptr;    // packed
  llvm::Value* scale = nullptr;    // its address
  llvm::Value* scores = nullptr;   // written
  llvm::Value* largest = nullptr;  // [heads]: raised to the block's
  llvm::Value* next = nullptr;     // the rows of the next block, prefetched
  llvm::Value* limits = nullptr;   // in expanded form: i32 [heads], counted from token -first on
  llvm::Value* first = nullptr;
};
void emit_scores(VectorBuilder& b, const AttentionForm& form, const ScoreBlock& block);

// Scores of `tokens` tokens to weights relative to the largest, exp(score - largest); writes their
// sum [heads].
struct WeightBlock {
  llvm::Value* scores = nullptr;
  llvm::Value* weights = nullptr;
  llvm::Value* tokens = nullptr;
  llvm::Value* largest = nullptr;
  llvm::Value* sum = nullptr;
};
void emit_weights(VectorBuilder& b, const AttentionForm& form, const WeightBlock& block);

// outputs [heads][padded latent] = sum over tokens of weight * value.
struct OutputBlock {
  std::function<llvm::Value*(llvm::Value* index)> page;  // address of its values' rows
  llvm::Value* pages = nullptr;
  llvm::Value* tokens = nullptr;
  llvm::Value* weights = nullptr;
  llvm::Value* outputs = nullptr;
};
void emit_outputs(VectorBuilder& b, const AttentionForm& form, const OutputBlock& block);

// Tokens of page `index` when there are `tokens` from page 0 on.
llvm::Value* page_tokens(VectorBuilder& b, const AttentionForm& form, llvm::Value* tokens,
                         llvm::Value* index);

}  // namespace tessera::tile::cpu
