#include "tile/cpu/matmul_emitter.h"

#include <algorithm>
#include <cassert>

#include <llvm/IR/IntrinsicsX86.h>

#include "tile/cpu/byte_dot.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

bool uses_dot(const Target& target, PanelLayout layout) {
  return layout == PanelLayout::kBF16 && target.bf16_dot;
}

int element_size(const Target& target, PanelLayout layout) {
  return element_bytes(activation_element(target, layout));
}

// Blocks of layouts with groups hold two sums for each output, the group's integers and the total.
// A group is long enough a step by itself: unrolling takes two thirds of the speed of one row.
void choose_grouped_block(const Target& target, std::int64_t rows, MatmulBlock& block) {
  const int panel_vectors = kPanelColumns / target.lanes();
  int most_rows = 0;
  if (target.n_registers == 32) {
    // From 5 to 8 rows all run at 75 to 78 % of the dot product's peak, since two of ten
    // instructions scale; 8 rows do without a second pass over the panel.
    block.vectors = 2;
    most_rows = panel_vectors == 2 ? 8 : 4;
  } else {
    // 12 sums, 2 weights and a broadcast; byte products without a dot product take more.
    const bool is_lean = target.vnni || (block.layout == PanelLayout::kI4G32 && target.avx2);
    block.vectors = rows == 1 ? std::min(panel_vectors, 4) : 2;
    most_rows = is_lean ? 3 : 2;
  }
  block.rows = static_cast<int>(std::min<std::int64_t>(rows, most_rows));
  // Requests cost one or two rows a fifth of their speed and bring more rows up to 10 %.
  if (rows > 2) block.prefetch_bytes = 4096;
}

}  // namespace

Element activation_element(const Target& target, PanelLayout layout) {
  if (is_quantised(layout)) return Element::kI8;
  return uses_dot(target, layout) ? Element::kBF16 : Element::kF32;
}

std::vector<int> cut_rows(std::int64_t m, int max_rows) {
  const std::int64_t n_blocks = (m + max_rows - 1) / max_rows;
  std::vector<int> blocks;
  blocks.reserve(static_cast<std::size_t>(n_blocks));
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
  if (has_groups(layout)) {
    choose_grouped_block(target, rows, block);
    return block;
  }
  if (rows == 1 || (rows == 2 && target.n_registers == 16)) {
    // Weights come from memory: one panel at a time is one stream, which the hardware prefetcher
    // follows best (107 % of a plain read against 92 % with two panels), and its two sums or more
    // hide the latency of adding one after the other.
    block.vectors = panel_vectors;
    most_rows = 2;
  } else if (target.n_registers == 32 && panel_vectors == 2) {
    // 26 sums, 2 weights and a broadcast: 29 of 32 registers. Byte products without VNNI take more.
    most_rows = layout != PanelLayout::kI8 || target.vnni ? 13 : 10;
  } else if (target.n_registers == 32) {
    block.vectors = 4;
    most_rows = 6;
  } else {
    // 12 sums, 2 weights and a broadcast; a product needs a register more, and copies, without fma,
    // and byte products take four more.
    most_rows = target.fma && (layout != PanelLayout::kI8 || target.vnni) ? 6 : 3;
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
  if (block_.layout == PanelLayout::kI8 || uses_dot(b_.target(), block_.layout)) {
    multiply_dot(at, group, half_group, sums);
  } else {
    multiply_widened(at, group, half_group, sums);
  }
}

void MatmulEmitter::multiply_dot(const Cursor& at, int group, bool half_group, Values& sums) {
  llvm::IRBuilder<>& ir = b_.ir();
  const auto u = [](int i) { return static_cast<std::size_t>(i); };
  const bool is_bytes = block_.layout == PanelLayout::kI8;
  llvm::Type* operand = is_bytes ? b_.int_type()
                                 : llvm::FixedVectorType::get(
                                       ir.getBFloatTy(), static_cast<unsigned>(2 * b_.lanes()));
  Values weights;
  for (int v = 0; v < block_.vectors; ++v) {
    weights.push_back(
        ir.CreateAlignedLoad(operand, b_.at(at.weights[u(v)], group * at.weight_stride),
                             llvm::Align(static_cast<std::uint64_t>(b_.target().vector_bytes))));
  }
  Value* row_offset = ir.CreateMul(at.group_stride, ir.getInt64(u(group)));
  const llvm::Align alignment(is_bytes ? 1 : 2);
  for (int r = 0; r < block_.rows; ++r) {
    Value* address = b_.at(at.rows[u(r)], row_offset);
    Value* elements = half_group
                          ? ir.CreateZExt(ir.CreateAlignedLoad(ir.getInt16Ty(), address, alignment),
                                          ir.getInt32Ty())
                          : ir.CreateAlignedLoad(ir.getInt32Ty(), address, alignment);
    Value* activations = ir.CreateBitCast(b_.splat(elements), operand);
    for (int v = 0; v < block_.vectors; ++v) {
      Value*& sum = sums[u(r * block_.vectors + v)];
      sum = is_bytes ? multiply_bytes(b_, sum, weights[u(v)], activations)
                     : ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                          {sum, activations, weights[u(v)]});
    }
  }
}

void MatmulEmitter::multiply_widened(const Cursor& at, int group, bool half_group, Values& sums) {
  llvm::IRBuilder<>& ir = b_.ir();
  const auto u = [](int i) { return static_cast<std::size_t>(i); };
  const int interleave = k_interleave(block_.layout);
  const int size = element_size(b_.target(), block_.layout);

  // weights[e][v]: input e of the group.
  std::vector<Values> weights(u(interleave));
  for (int v = 0; v < block_.vectors; ++v) {
    Value* address = b_.at(at.weights[u(v)], group * at.weight_stride);
    if (block_.layout == PanelLayout::kBF16) {
      const VectorBuilder::Pair pair = b_.load_interleaved(Element::kBF16, address);
      weights[0].push_back(pair[0]);
      weights[1].push_back(pair[1]);
    } else {
      const Element element = block_.layout == PanelLayout::kF16 ? Element::kF16 : Element::kF32;
      weights[0].push_back(b_.load(element, address));
    }
  }
  Value* row_offset = ir.CreateMul(at.group_stride, ir.getInt64(u(group)));
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
    for (int group = 0; group < unroll; ++group) {
      for (int v = 0; v < block_.vectors; ++v) {
        if (v * vector_bytes % line_bytes != 0) continue;
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
  // Quantised rows are padded to whole groups; in the other layouts a last odd input is half a
  // group.
  const bool has_padded_rows = rows.is_padded || block_.layout == PanelLayout::kI8;
  Value* padded_end = ir.CreateUDiv(
      ir.CreateAdd(k_end, ir.getInt64(static_cast<std::uint64_t>(interleave - 1))), size);
  Value* end = has_padded_rows ? padded_end : ir.CreateUDiv(k_end, size);
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
  if (interleave == 1 || has_padded_rows) return sums;
  return emit_loop(ir, end, padded_end, 1, sums, [&](Value* group, const Values& carried) {
    return step(cursor(group), 1, true, carried);
  });
}

void MatmulEmitter::finish(const Values& sums, const Epilogue& epilogue) {
  std::size_t i = 0;
  for (int r = 0; r < block_.rows; ++r) {
    for (int v = 0; v < block_.vectors; ++v) epilogue(r, v, sums[i++]);
  }
}

}  // namespace tessera::tile::cpu
