// Scores and weights: heads in the lanes, so that nothing is summed across them.
#include <algorithm>
#include <limits>

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "tile/cpu/attention_emitter.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

// Units in one iteration of a score block.
constexpr std::int64_t kUnroll = 4;
constexpr std::int64_t kLineBytes = 64;

int head_vectors(VectorBuilder& b) {
  return kHeadGroup / b.lanes();
}

llvm::FixedVectorType* pairs_type(VectorBuilder& b) {
  return llvm::FixedVectorType::get(b.ir().getBFloatTy(), static_cast<unsigned>(2 * b.lanes()));
}

// sum + the dot products of vector's pairs with the pair at an address. Spelled out, since LLVM 19
// does not fold the broadcast of a pair into the instruction, and a broadcast by itself takes as
// long as a third of the dot product on Zen 4.
Value* dot_broadcast(VectorBuilder& b, Value* sum, Value* vector, Value* address) {
  llvm::IRBuilder<>& ir = b.ir();
  llvm::Type* pairs = b.int_type();
  auto* type =
      llvm::FunctionType::get(b.float_type(), {b.float_type(), pairs, ir.getPtrTy()}, false);
  auto* code = llvm::InlineAsm::get(type, "vdpbf16ps $3{1to16}, $2, $0", "=v,0,v,*m", false);
  llvm::CallInst* call = ir.CreateCall(type, code, {sum, ir.CreateBitCast(vector, pairs), address});
  call->addParamAttr(
      2, llvm::Attribute::get(ir.getContext(), llvm::Attribute::ElementType, ir.getInt32Ty()));
  call->setOnlyReadsMemory();
  call->setDoesNotThrow();
  return call;
}

// The same with the one value at the address and a zero behind it.
Value* dot_half(VectorBuilder& b, Value* sum, Value* vector, Value* address) {
  llvm::IRBuilder<>& ir = b.ir();
  Value* one = ir.CreateAlignedLoad(ir.getInt16Ty(), address, llvm::Align(2));
  Value* pair = ir.CreateBitCast(b.splat(ir.CreateZExt(one, ir.getInt32Ty())), pairs_type(b));
  return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {}, {sum, pair, vector});
}

// Into the second-level cache: the first would not hold the next rows beside these and the query.
void prefetch_line(VectorBuilder& b, Value* address, std::int64_t offset) {
  llvm::IRBuilder<>& ir = b.ir();
  Value* line =
      ir.CreateGEP(ir.getInt8Ty(), address, ir.getInt64(static_cast<std::uint64_t>(offset)));
  ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {line->getType()},
                     {line, ir.getInt32(0), ir.getInt32(2), ir.getInt32(1)});
}

// a where it is greater, else b: one instruction on x86.
Value* greater(VectorBuilder& b, Value* a, Value* c) {
  return b.ir().CreateSelect(b.ir().CreateFCmpOGT(a, c), a, c);
}

}  // namespace

Value* load_units(VectorBuilder& b, const AttentionForm& form, Value* address) {
  const llvm::Align alignment(static_cast<std::uint64_t>(b.target().vector_bytes));
  return b.ir().CreateAlignedLoad(form.dot ? pairs_type(b) : b.float_type(), address, alignment);
}

void multiply_unit(VectorBuilder& b, const AttentionForm& form, Value* address,
                   std::span<Value* const> vectors, std::span<Value*> sums) {
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    sums[i] = form.dot ? dot_broadcast(b, sums[i], vectors[i], address)
                       : b.mul_add(b.broadcast(Element::kF32, address), vectors[i], sums[i]);
  }
}

Value* page_tokens(VectorBuilder& b, const AttentionForm& form, Value* tokens, Value* index) {
  llvm::IRBuilder<>& ir = b.ir();
  Value* size = ir.getInt64(static_cast<std::uint64_t>(form.page_tokens));
  return ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, size,
                                  ir.CreateSub(tokens, ir.CreateMul(index, size)));
}

int score_tokens(const Target& target) {
  const int vectors = kHeadGroup / target.lanes();
  // One vector of heads: 16 sums hide the latency, and leave one wide load to 16 products.
  if (vectors == 1) return 16;
  if (target.n_registers == 32) return 24 / vectors;
  // 12 sums, 2 of the query and a broadcast; a product needs a register more without fma.
  return target.fma ? 12 / vectors : std::max(1, 8 / vectors);
}

void emit_scores(VectorBuilder& b, const AttentionForm& form, const ScoreBlock& block) {
  llvm::IRBuilder<>& ir = b.ir();
  const int vectors = head_vectors(b);
  const std::int64_t vector_bytes = b.target().vector_bytes;
  const auto u = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto constant = [&](std::int64_t value) { return ir.getInt64(u(value)); };

  // One unit of every token; `half`: its second value is not there.
  const auto step = [&](Value* rows, Value* query, std::int64_t unit, bool half, Values& sums) {
    Values heads;
    for (int v = 0; v < vectors; ++v) {
      heads.push_back(load_units(b, form, b.at(query, unit * kGroupBytes + v * vector_bytes)));
    }
    for (int t = 0; t < block.tokens; ++t) {
      Value* address = b.at(rows, t * form.row_bytes() + unit * kUnitBytes);
      const std::span<Value*> token_sums = std::span(sums).subspan(u(t * vectors), u(vectors));
      if (half) {
        token_sums[0] = dot_half(b, token_sums[0], heads[0], address);
      } else {
        multiply_unit(b, form, address, heads, token_sums);
      }
    }
  };

  const std::int64_t whole = form.row_values / form.unit();
  const std::int64_t unrolled = whole - whole % kUnroll;
  // The next block's lines, spread over the iterations of this one.
  const std::int64_t lines = (block.tokens * kUnroll * kUnitBytes + kLineBytes - 1) / kLineBytes;
  Values sums(u(block.tokens * vectors), b.zero());
  sums = emit_loop(
      ir, constant(0), constant(unrolled), kUnroll, sums, [&](Value* unit, const Values& carried) {
        Values next = carried;
        Value* rows = b.at(block.rows, ir.CreateMul(unit, constant(kUnitBytes)));
        Value* query = b.at(block.query, ir.CreateMul(unit, constant(kGroupBytes)));
        for (std::int64_t i = 0; i < kUnroll; ++i) step(rows, query, i, false, next);
        if (form.prefetches()) {
          Value* line =
              b.at(block.next, ir.CreateMul(unit, constant(lines * kLineBytes / kUnroll)));
          for (std::int64_t i = 0; i < lines; ++i) prefetch_line(b, line, i * kLineBytes);
        }
        return next;
      });
  for (std::int64_t unit = unrolled; unit < form.units(); ++unit) {
    step(block.rows, block.query, unit, unit >= whole, sums);
  }

  for (int v = 0; v < vectors; ++v) {
    Value* scale = b.broadcast(Element::kF32, block.scale);
    Value* largest = b.load(Element::kF32, b.at(block.largest, v * vector_bytes));
    Value* seen = nullptr;  // tokens of this block that each lane sees
    if (form.expanded) {
      Value* first = b.splat(ir.CreateTrunc(block.first, ir.getInt32Ty()));
      seen = ir.CreateSub(b.load(Element::kI32, b.at(block.limits, v * vector_bytes)), first);
    }
    for (int t = 0; t < block.tokens; ++t) {
      Value* score = b.mul(sums[u(t * vectors + v)], scale);
      if (form.expanded) {
        score = ir.CreateSelect(ir.CreateICmpSGT(seen, b.int_constant(t)), score,
                                b.constant(-std::numeric_limits<float>::infinity()));
      }
      b.store(Element::kF32, score, b.at(block.scores, t * kGroupBytes + v * vector_bytes));
      largest = greater(b, largest, score);
    }
    b.store(Element::kF32, largest, b.at(block.largest, v * vector_bytes));
  }
}

void emit_weights(VectorBuilder& b, const AttentionForm& form, const WeightBlock& block) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto constant = [&](std::int64_t value) {
    return ir.getInt64(static_cast<std::uint64_t>(value));
  };
  for (int v = 0; v < head_vectors(b); ++v) {
    const std::int64_t offset = std::int64_t{v} * b.target().vector_bytes;
    Value* largest = b.load(Element::kF32, b.at(block.largest, offset));
    const auto weight = [&](Value* scores, std::int64_t token) {
      Value* score = b.load(Element::kF32, b.at(scores, token * kGroupBytes + offset));
      return b.exp(b.sub(score, largest));
    };
    // `tokens` (1 ... unit) of unit `index`; what is summed is what the products will take.
    const auto unit = [&](Value* index, std::int64_t tokens, Value* sum) {
      Value* scores = b.at(block.scores, ir.CreateMul(index, constant(form.unit() * kGroupBytes)));
      Value* to = b.at(b.at(block.weights, ir.CreateMul(index, constant(kGroupBytes))), offset);
      if (!form.dot) {
        Value* p = weight(scores, 0);
        b.store(Element::kF32, p, to);
        return b.add(sum, p);
      }
      VectorBuilder::Pair pair{b.round(Element::kBF16, weight(scores, 0)), b.zero()};
      if (tokens == 2) pair[1] = b.round(Element::kBF16, weight(scores, 1));
      ir.CreateAlignedStore(b.pair_bits(Element::kBF16, pair), to, llvm::Align(4));
      return b.add(b.add(sum, pair[0]), pair[1]);
    };
    Value* units = ir.CreateUDiv(block.tokens, constant(form.unit()));
    Values sum =
        emit_loop(ir, constant(0), units, 1, {b.zero()}, [&](Value* index, const Values& sums) {
          return Values{unit(index, form.unit(), sums[0])};
        });
    if (form.dot) {
      Value* odd = ir.CreateURem(block.tokens, constant(2));
      sum = emit_loop(ir, constant(0), odd, 1, sum,
                      [&](Value*, const Values& sums) { return Values{unit(units, 1, sums[0])}; });
    }
    b.store(Element::kF32, sum[0], b.at(block.sum, offset));
  }
}

}  // namespace tessera::tile::cpu
