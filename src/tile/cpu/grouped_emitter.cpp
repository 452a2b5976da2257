#include "tile/cpu/grouped_emitter.h"

#include <array>

#include "tile/cpu/byte_dot.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

constexpr int kQuads = kGroupInputs / 4;

class GroupedEmitter {
 public:
  GroupedEmitter(VectorBuilder& b, const MatmulBlock& block, int first_column)
      : b_(b),
        ir_(b.ir()),
        block_(block),
        first_column_(first_column),
        in_shorts_(block.layout == PanelLayout::kI4G32 && sums_in_shorts(b.target())),
        quads_in_shorts_(block.layout == PanelLayout::kI6G32 && sums_in_shorts(b.target())) {}

  Values totals(Value* rows, Value* panel, Value* n_groups) {
    const Values zeros(u(block_.rows * block_.vectors), b_.zero());
    const auto step = static_cast<std::uint64_t>(block_.k_unroll);
    Value* whole = ir_.CreateSub(n_groups, ir_.CreateURem(n_groups, ir_.getInt64(step)));
    const auto loop = [&](Value* begin, Value* end, int unroll, const Values& initial) {
      return emit_loop(ir_, begin, end, unroll, initial, [&](Value* index, Values sums) {
        Value* row_base = b_.at(rows, ir_.CreateMul(index, constant(row_group_bytes())));
        Value* weight_base = b_.at(panel, ir_.CreateMul(index, constant(group_bytes())));
        for (int i = 0; i < unroll; ++i) {
          group(b_.at(row_base, i * row_group_bytes()), b_.at(weight_base, i * group_bytes()),
                sums);
        }
        return sums;
      });
    };
    const Values sums = loop(ir_.getInt64(0), whole, block_.k_unroll, zeros);
    return block_.k_unroll == 1 ? sums : loop(whole, n_groups, 1, sums);
  }

 private:
  static std::size_t u(int i) { return static_cast<std::size_t>(i); }
  Value* constant(std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); }

  std::int64_t group_bytes() const {
    return static_cast<std::int64_t>(panel_group_bytes(block_.layout));
  }
  // Bytes of a row, its scale and its correction.
  std::int64_t row_group_bytes() const { return std::int64_t{block_.rows} * (kGroupInputs + 8); }

  // One vector of columns of a unit of the group: 32 columns of four bytes.
  Value* load_unit(Value* weights, int unit, int vector) {
    const std::int64_t column = first_column_ + vector * b_.lanes();
    Value* address = b_.at(
        weights, static_cast<std::int64_t>(kGroupScaleBytes) + (unit * kPanelColumns + column) * 4);
    return ir_.CreateAlignedLoad(b_.int_type(), address, llvm::Align(u(b_.target().vector_bytes)));
  }

  // Bits 4 and 5 of quad q's bytes.
  Value* load_pairs(Value* weights, int q, int vector) {
    Value* four = load_unit(weights, q / 4 * 3, vector);
    const int shift = 4 - q % 4 * 2;
    Value* pairs = shift >= 0 ? ir_.CreateShl(four, u(shift)) : ir_.CreateLShr(four, u(-shift));
    return ir_.CreateAnd(pairs, 0x30303030);
  }

  // The unsigned bytes of quads q and, with nibbles, q + 1.
  std::array<Values, 2> load_quads(Value* weights, int q) {
    std::array<Values, 2> quads;
    for (int v = 0; v < block_.vectors; ++v) {
      if (block_.layout == PanelLayout::kI8G32) {
        quads[0].push_back(load_unit(weights, q, v));
        continue;
      }
      const bool has_pairs = block_.layout == PanelLayout::kI6G32;
      Value* both = load_unit(weights, has_pairs ? q / 4 * 3 + 1 + q / 2 % 2 : q / 2, v);
      quads[0].push_back(ir_.CreateAnd(both, 0x0f0f0f0f));
      quads[1].push_back(ir_.CreateAnd(ir_.CreateLShr(both, 4), 0x0f0f0f0f));
      if (!has_pairs) continue;
      for (int half = 0; half < 2; ++half) {
        Value*& quad = quads[u(half)].back();
        quad = ir_.CreateOr(quad, load_pairs(weights, q + half, v));
      }
    }
    return quads;
  }

  void group(Value* rows, Value* weights, Values& sums) {
    const std::int64_t row_bytes = std::int64_t{block_.rows} * 4;
    Value* scales = b_.at(rows, kQuads * row_bytes);
    Value* corrections = b_.at(scales, row_bytes);
    Values integers(u(block_.rows * block_.vectors), nullptr);
    if (!in_shorts_) start_from(corrections, integers);
    const int step = block_.layout == PanelLayout::kI8G32 ? 1 : 2;
    for (int q = 0; q < kQuads; q += step) {
      const std::array<Values, 2> quads = load_quads(weights, q);
      for (int half = 0; half < step; ++half) {
        multiply(b_.at(rows, (q + half) * row_bytes), quads[u(half)], integers);
      }
    }
    if (in_shorts_) {
      const Values shorts = integers;
      start_from(corrections, integers);
      for (std::size_t i = 0; i < shorts.size(); ++i) {
        integers[i] = add_shorts(b_, integers[i], shorts[i]);
      }
    }
    add(scales, weights, integers, sums);
    if (block_.prefetch_bytes > 0 && first_column_ == 0) {
      for (std::int64_t line = 0; line < group_bytes(); line += 64) {
        b_.prefetch(weights, block_.prefetch_bytes + line);
      }
    }
  }

  void start_from(Value* corrections, Values& integers) {
    for (int r = 0; r < block_.rows; ++r) {
      Value* start = b_.broadcast(Element::kI32, b_.at(corrections, std::int64_t{r} * 4));
      for (int v = 0; v < block_.vectors; ++v) integers[u(r * block_.vectors + v)] = start;
    }
  }

  void multiply(Value* quads, const Values& weights, Values& integers) {
    for (int r = 0; r < block_.rows; ++r) {
      Value* x = b_.broadcast(Element::kI32, b_.at(quads, std::int64_t{r} * 4));
      for (int v = 0; v < block_.vectors; ++v) {
        Value*& sum = integers[u(r * block_.vectors + v)];
        if (in_shorts_) {
          sum = multiply_in_shorts(b_, sum, weights[u(v)], x);
        } else if (quads_in_shorts_) {
          sum = add_shorts(b_, sum, multiply_in_shorts(b_, nullptr, weights[u(v)], x));
        } else {
          sum = multiply_bytes(b_, sum, weights[u(v)], x);
        }
      }
    }
  }

  void add(Value* row_scales, Value* weights, const Values& integers, Values& sums) {
    Values weight_scales;
    for (int v = 0; v < block_.vectors; ++v) {
      const std::int64_t column = first_column_ + v * b_.lanes();
      weight_scales.push_back(b_.load(Element::kF16, b_.at(weights, column * 2)));
    }
    for (int r = 0; r < block_.rows; ++r) {
      Value* row_scale = b_.broadcast(Element::kF32, b_.at(row_scales, std::int64_t{r} * 4));
      for (int v = 0; v < block_.vectors; ++v) {
        const std::size_t i = u(r * block_.vectors + v);
        sums[i] = b_.mul_add(b_.int_to_float(integers[i]), b_.mul(weight_scales[u(v)], row_scale),
                             sums[i]);
      }
    }
  }

  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  const MatmulBlock& block_;
  const int first_column_;
  const bool in_shorts_;        // a group's products are summed in 16 bits first
  const bool quads_in_shorts_;  // those of two inputs are
};

}  // namespace

Values emit_grouped_product(VectorBuilder& b, const MatmulBlock& block, Value* rows, Value* panel,
                            int first_column, Value* n_groups) {
  return GroupedEmitter(b, block, first_column).totals(rows, panel, n_groups);
}

}  // namespace tessera::tile::cpu
