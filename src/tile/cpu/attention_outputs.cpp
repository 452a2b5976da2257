// Outputs: a tile of heads and latent columns stays in registers over all tokens of a block.
#include "tile/cpu/attention_emitter.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

// Units of tokens in one iteration.
constexpr std::int64_t kUnroll = 4;

// Sums of a tile: heads x vectors of latent columns.
struct Tile {
  int heads;
  int vectors;
};

Tile choose_tile(const Target& target) {
  // One vector of columns and a whole group: the columns of two tokens are interleaved once.
  if (target.n_registers == 32 && target.lanes() == kHeadGroup) return {kHeadGroup, 1};
  if (target.n_registers == 32) return {8, 3};
  return {4, target.fma ? 3 : 2};
}

class OutputEmitter {
 public:
  OutputEmitter(VectorBuilder& b, const AttentionForm& form, const OutputBlock& block)
      : b_(b), ir_(b.ir()), form_(form), block_(block), tile_(choose_tile(b.target())) {}

  void run() {
    const std::int64_t vectors = form_.latent / b_.lanes();
    const std::int64_t tiles = vectors / tile_.vectors;
    const std::int64_t rest = vectors % tile_.vectors;
    const std::int64_t tile_columns = std::int64_t{tile_.vectors} * b_.lanes();
    emit_loop(ir_, constant(0), constant(kHeadGroup), tile_.heads, [&](Value* head) {
      emit_loop(ir_, constant(0), constant(tiles), 1, [&](Value* tile) {
        sum_tile(head, ir_.CreateMul(tile, constant(tile_columns)), tile_.vectors, b_.lanes());
      });
      if (rest > 0) {
        sum_tile(head, constant(tiles * tile_columns), static_cast<int>(rest), b_.lanes());
      }
      const std::int64_t whole = vectors * b_.lanes();
      if (whole < form_.latent) {
        sum_tile(head, constant(whole), 1, static_cast<int>(form_.latent - whole));
      }
    });
  }

 private:
  Value* constant(std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); }

  // From head and column on; `columns` of each vector are there.
  void sum_tile(Value* head, Value* column, int vectors, int columns) {
    Values sums(static_cast<std::size_t>(tile_.heads * vectors), b_.zero());
    sums =
        emit_loop(ir_, constant(0), block_.pages, 1, sums, [&](Value* page, const Values& carried) {
          return sum_page(page, head, column, vectors, columns, carried);
        });
    Value* out = b_.at(block_.outputs, ir_.CreateMul(head, constant(form_.output_bytes())));
    out = b_.at(out, ir_.CreateMul(column, constant(4)));
    std::size_t i = 0;
    for (int h = 0; h < tile_.heads; ++h) {
      for (int v = 0; v < vectors; ++v) {
        b_.store(Element::kF32, sums[i++],
                 b_.at(out, h * form_.output_bytes() + v * b_.target().vector_bytes));
      }
    }
  }

  Values sum_page(Value* page, Value* head, Value* column, int vectors, int columns,
                  const Values& initial) {
    Value* rows = b_.at(block_.page(page), ir_.CreateMul(column, constant(form_.value_bytes())));
    Value* weights =
        b_.at(block_.weights,
              ir_.CreateMul(page, constant(form_.page_tokens / form_.unit() * kGroupBytes)));
    weights = b_.at(weights, ir_.CreateMul(head, constant(kUnitBytes)));
    Value* tokens = page_tokens(b_, form_, block_.tokens, page);

    const auto steps = [&](Value* unit, std::int64_t count, bool half, Values sums) {
      const std::int64_t step = form_.unit() * form_.value_row_bytes();
      Value* row = b_.at(rows, ir_.CreateMul(unit, constant(step)));
      Value* weight = b_.at(weights, ir_.CreateMul(unit, constant(kGroupBytes)));
      for (std::int64_t i = 0; i < count; ++i) {
        add_unit(b_.at(row, i * step), b_.at(weight, i * kGroupBytes), vectors, columns, half,
                 sums);
      }
      return sums;
    };
    Value* units = ir_.CreateUDiv(tokens, constant(form_.unit()));
    Value* unrolled = ir_.CreateSub(units, ir_.CreateURem(units, constant(kUnroll)));
    Values sums = emit_loop(
        ir_, constant(0), unrolled, kUnroll, initial,
        [&](Value* unit, const Values& carried) { return steps(unit, kUnroll, false, carried); });
    sums = emit_loop(ir_, unrolled, units, 1, sums, [&](Value* unit, const Values& carried) {
      return steps(unit, 1, false, carried);
    });
    if (!form_.dot) return sums;
    Value* odd = ir_.CreateURem(tokens, constant(2));
    return emit_loop(ir_, constant(0), odd, 1, sums,
                     [&](Value*, const Values& carried) { return steps(units, 1, true, carried); });
  }

  void add_unit(Value* row, Value* weight, int vectors, int columns, bool half, Values& sums) {
    Values latents;
    for (int v = 0; v < vectors; ++v) {
      latents.push_back(
          load_columns(b_.at(row, v * b_.lanes() * form_.value_bytes()), columns, half));
    }
    std::span<Value*> rest = sums;
    for (int h = 0; h < tile_.heads; ++h) {
      multiply_unit(b_, form_, b_.at(weight, h * kUnitBytes), latents, rest.first(latents.size()));
      rest = rest.subspan(latents.size());
    }
  }

  // The columns of a token, or of two in pairs; of a half unit the second is not read.
  Value* load_columns(Value* address, int columns, bool half) {
    if (!form_.dot) return load_elements(ir_.getFloatTy(), address, columns);
    Value* even = load_elements(ir_.getInt16Ty(), address, columns);
    Value* odd =
        half ? llvm::Constant::getNullValue(even->getType())
             : load_elements(ir_.getInt16Ty(), b_.at(address, form_.value_row_bytes()), columns);
    std::vector<int> order;
    for (int lane = 0; lane < b_.lanes(); ++lane) {
      order.push_back(lane);
      order.push_back(b_.lanes() + lane);
    }
    auto* pairs =
        llvm::FixedVectorType::get(ir_.getBFloatTy(), static_cast<unsigned>(2 * b_.lanes()));
    return ir_.CreateBitCast(ir_.CreateShuffleVector(even, odd, order), pairs);
  }

  Value* load_elements(llvm::Type* type, Value* address, int columns) {
    auto* vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(b_.lanes()));
    const std::int64_t bytes = form_.value_bytes();
    const llvm::Align alignment(static_cast<std::uint64_t>(bytes));
    if (columns == b_.lanes()) return ir_.CreateAlignedLoad(vector, address, alignment);
    Value* elements = llvm::Constant::getNullValue(vector);
    for (int i = 0; i < columns; ++i) {
      elements = ir_.CreateInsertElement(
          elements, ir_.CreateAlignedLoad(type, b_.at(address, i * bytes), alignment),
          static_cast<std::uint64_t>(i));
    }
    return elements;
  }

  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  const AttentionForm& form_;
  const OutputBlock& block_;
  Tile tile_;
};

}  // namespace

void emit_outputs(VectorBuilder& b, const AttentionForm& form, const OutputBlock& block) {
  OutputEmitter(b, form, block).run();
}

}  // namespace tessera::tile::cpu
