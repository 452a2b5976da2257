#include "tile/cpu/matmul_emitter.h"

#include <algorithm>
#include <cassert>

#include <llvm/IR/IntrinsicsX86.h>

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

bool uses_dot(const Target& target, PanelLayout layout) {
  return layout == PanelLayout::kBF16 && target.bf16_dot;
}

int element_size(const Target& target, PanelLayout layout) {
  return element_bytes(activation_element(target, layout));
}

}  // namespace

Element activation_element(const Target& target, PanelLayout layout) {
  return uses_dot(target, layout) ? Element::kBF16 : Element::kF32;
}

std::vector<int> cut_rows(std::int64_t m, int max_rows) {
  const std::int64_t n_blocks = (m + max_rows - 1) / max_rows;
  std::vector<int> blocks;
  for (std::int64_t i = 0; i < n_blocks; ++i) {
    blocks.push_back(static_cast<int>(m / n_blocks + (i < m % n_blocks ? 1 : 0)));
  }
  return blocks;
}

MatmulBlock choose_block(const Target& target, PanelLayout layout, std::int64_t rows) {
  const int panel_vectors = kPanelColumns / target.lanes();
  MatmulBlock block;
  block.layout = layout;
  block.vectors = 2;
  int most_rows = 0;
  if (rows == 1 || (rows == 2 && target.n_registers == 16)) {
    // Weights come from memory: one panel at a time is one stream, which the hardware prefetcher
    // follows best (107 % of a plain read against 92 % with two panels), and its two sums or more
    // hide the latency of adding one after the other.
    block.vectors = panel_vectors;
    most_rows = 2;
  } else if (target.n_registers == 32 && panel_vectors == 2) {
    most_rows = 13;  // 26 sums, 2 weights and a broadcast: 29 of 32 registers
  } else if (target.n_registers == 32) {
    block.vectors = 4;
    most_rows = 6;
  } else {
    // 12 sums, 2 weights and a broadcast; a product needs a register more, and copies, without fma.
    most_rows = target.fma ? 6 : 3;
  }
  block.rows = static_cast<int>(std::min<std::int64_t>(rows, most_rows));
  block.k_unroll = block.rows <= 4 ? 4 : 2;
  // Up to four rows the requests cost more than they bring (10 % at four rows); from then on they
  // bring 2 to 5 % where k is long or the rows are several blocks, and never cost more than 1 %.
  if (rows > 4) block.prefetch_bytes = 4096;
  return block;
}

// Where a step of the loop starts.
struct MatmulEmitter::Cursor {
  Values rows;  // address of each row's first group
  Value* group_stride;
  Values weights;  // address of each vector of columns in the first group
  std::int64_t weight_stride;
};

Values MatmulEmitter::zeros() {
  return Values(static_cast<std::size_t>(block_.rows * block_.vectors), b_.zero());
}

void MatmulEmitter::multiply_group(const Cursor& at, int group, bool half_group, Values& sums) {
  llvm::IRBuilder<>& ir = b_.ir();
  const bool dot = uses_dot(b_.target(), block_.layout);
  const int interleave = k_interleave(block_.layout);
  const int size = element_size(b_.target(), block_.layout);
  const auto u = [](int i) { return static_cast<std::size_t>(i); };

  Value* row_offset = ir.CreateMul(at.group_stride, ir.getInt64(u(group)));
  const auto weight_address = [&](int v) {
    return b_.at(at.weights[u(v)], group * at.weight_stride);
  };

  if (dot) {
    auto* pairs = llvm::FixedVectorType::get(ir.getBFloatTy(), u(2 * b_.lanes()));
    Values weights;
    for (int v = 0; v < block_.vectors; ++v) {
      weights.push_back(ir.CreateAlignedLoad(pairs, weight_address(v), llvm::Align(64)));
    }
    for (int r = 0; r < block_.rows; ++r) {
      Value* address = b_.at(at.rows[u(r)], row_offset);
      Value* pair =
          half_group ? ir.CreateZExt(ir.CreateAlignedLoad(ir.getInt16Ty(), address, llvm::Align(2)),
                                     ir.getInt32Ty())
                     : ir.CreateAlignedLoad(ir.getInt32Ty(), address, llvm::Align(2));
      Value* activations = ir.CreateBitCast(b_.splat(pair), pairs);
      for (int v = 0; v < block_.vectors; ++v) {
        Value*& sum = sums[u(r * block_.vectors + v)];
        sum = ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                 {sum, activations, weights[u(v)]});
      }
    }
    return;
  }

  // weights[e][v]: input e of the group.
  std::vector<Values> weights(u(interleave));
  for (int v = 0; v < block_.vectors; ++v) {
    if (block_.layout == PanelLayout::kBF16) {
      const VectorBuilder::Pair pair = b_.load_interleaved(Element::kBF16, weight_address(v));
      weights[0].push_back(pair[0]);
      weights[1].push_back(pair[1]);
    } else {
      const Element element = block_.layout == PanelLayout::kF16 ? Element::kF16 : Element::kF32;
      weights[0].push_back(b_.load(element, weight_address(v)));
    }
  }
  for (int e = 0; e < (half_group ? 1 : interleave); ++e) {
    for (int r = 0; r < block_.rows; ++r) {
      Value* address = b_.at(b_.at(at.rows[u(r)], row_offset), e * size);
      Value* activation = b_.broadcast(Element::kF32, address);
      for (int v = 0; v < block_.vectors; ++v) {
        Value*& sum = sums[u(r * block_.vectors + v)];
        sum = b_.mul_add(activation, weights[u(e)][u(v)], sum);
      }
    }
  }
}

Values MatmulEmitter::step(const Cursor& at, int unroll, bool half_group, Values sums) {
  for (int group = 0; group < unroll; ++group) multiply_group(at, group, half_group, sums);
  if (block_.prefetch_bytes > 0) {
    // One request per cache line that this step reads.
    const int line_bytes = 64;
    const int vector_bytes =
        b_.lanes() * k_interleave(block_.layout) * static_cast<int>(element_bytes(block_.layout));
    const int per_line = std::max(1, line_bytes / vector_bytes);
    for (int group = 0; group < unroll; ++group) {
      for (int v = 0; v < block_.vectors; v += per_line) {
        b_.prefetch(at.weights[static_cast<std::size_t>(v)],
                    group * at.weight_stride + block_.prefetch_bytes);
      }
    }
  }
  return sums;
}

Values MatmulEmitter::multiply(const RowOperand& rows, const PanelOperand& weight, Value* k_begin,
                               Value* k_end, Values sums) {
  llvm::IRBuilder<>& ir = b_.ir();
  const int interleave = k_interleave(block_.layout);
  const int column_bytes = interleave * static_cast<int>(element_bytes(block_.layout));
  const std::int64_t group_bytes = std::int64_t{kPanelColumns} * column_bytes;
  assert(weight.first_column % b_.lanes() == 0);

  Values row_bases;
  for (int r = 0; r < block_.rows; ++r) {
    row_bases.push_back(
        b_.at(rows.base, ir.CreateMul(rows.row_stride, ir.getInt64(static_cast<std::size_t>(r)))));
  }
  Values weight_bases;
  for (int v = 0; v < block_.vectors; ++v) {
    const int column = weight.first_column + v * b_.lanes();
    Value* base = weight.panel;
    if (column >= kPanelColumns) {
      base = b_.at(base,
                   ir.CreateMul(weight.panel_stride,
                                ir.getInt64(static_cast<std::uint64_t>(column / kPanelColumns))));
    }
    weight_bases.push_back(b_.at(base, std::int64_t{column % kPanelColumns} * column_bytes));
  }
  const auto cursor = [&](Value* group) {
    Cursor at;
    at.group_stride = rows.group_stride;
    at.weight_stride = group_bytes;
    Value* row_offset = ir.CreateMul(group, rows.group_stride);
    for (Value* base : row_bases) at.rows.push_back(b_.at(base, row_offset));
    Value* weight_offset =
        ir.CreateMul(group, ir.getInt64(static_cast<std::uint64_t>(group_bytes)));
    for (Value* base : weight_bases) at.weights.push_back(b_.at(base, weight_offset));
    return at;
  };

  Value* size = ir.getInt64(static_cast<std::uint64_t>(interleave));
  Value* begin = ir.CreateUDiv(k_begin, size);
  Value* end = ir.CreateUDiv(k_end, size);
  const auto unroll = static_cast<std::uint64_t>(block_.k_unroll);
  Value* count = ir.CreateSub(end, begin);
  Value* unrolled_end =
      ir.CreateAdd(begin, ir.CreateSub(count, ir.CreateURem(count, ir.getInt64(unroll))));
  sums = emit_loop(ir, begin, unrolled_end, block_.k_unroll, sums,
                   [&](Value* group, const Values& carried) {
                     return step(cursor(group), block_.k_unroll, false, carried);
                   });
  sums = emit_loop(ir, unrolled_end, end, 1, sums, [&](Value* group, const Values& carried) {
    return step(cursor(group), 1, false, carried);
  });
  if (interleave == 1) return sums;
  // An odd last input: half a group.
  Value* padded_end = ir.CreateUDiv(ir.CreateAdd(k_end, ir.getInt64(1)), size);
  return emit_loop(ir, end, padded_end, 1, sums, [&](Value* group, const Values& carried) {
    return step(cursor(group), 1, true, carried);
  });
}

void MatmulEmitter::finish(const Values& sums, const Epilogue& epilogue) {
  for (int r = 0; r < block_.rows; ++r) {
    for (int v = 0; v < block_.vectors; ++v) {
      epilogue(r, v, sums[static_cast<std::size_t>(r * block_.vectors + v)]);
    }
  }
}

}  // namespace tessera::tile::cpu
