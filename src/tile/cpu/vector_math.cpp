// VectorBuilder: arithmetic and reductions.
#include <llvm/IR/Intrinsics.h>

#include "tile/cpu/vector_builder.h"

namespace tessera::tile::cpu {

using llvm::Value;

Value* VectorBuilder::mul_add(Value* a, Value* b, Value* c) {
  if (!target_.fma) return add(mul(a, b), c);
  return ir_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* VectorBuilder::maximum(Value* a, Value* b) {
  Value* greater = ir_.CreateSelect(ir_.CreateFCmpOGT(a, b), a, b);  // b where either is NaN
  return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, greater);
}

Value* VectorBuilder::minimum(Value* a, Value* b) {
  Value* less = ir_.CreateSelect(ir_.CreateFCmpOLT(a, b), a, b);
  return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, less);
}

Value* VectorBuilder::sqrt(Value* a) {
  return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a);
}

Value* VectorBuilder::rsqrt(Value* a) {
  return div(constant_like(1.0f, a), sqrt(a));
}

Value* VectorBuilder::pow2(Value* exponent) {
  Value* biased = ir_.CreateAdd(exponent, int_constant_like(127, exponent));
  return ir_.CreateBitCast(ir_.CreateShl(biased, 23), like(ir_.getFloatTy(), exponent));
}

Value* VectorBuilder::exp(Value* a) {
  // exp(a) = 2^n exp(r) with n = round(a / ln 2) and |r| <= ln 2 / 2. Clamping keeps n in [-151,
  // 129], where the result is already 0 or infinity; an ordered comparison lets NaN through.
  const auto c = [&](float value) { return constant_like(value, a); };
  Value* x = ir_.CreateSelect(ir_.CreateFCmpOGT(a, c(89.0f)), c(89.0f), a);
  x = ir_.CreateSelect(ir_.CreateFCmpOLT(x, c(-104.5f)), c(-104.5f), x);

  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits.
  Value* magic = c(0x1.8p23f);
  Value* shifted = mul_add(x, c(0x1.715476p+0f), magic);
  Value* n_float = sub(shifted, magic);
  Value* n = ir_.CreateSub(ir_.CreateBitCast(shifted, like(ir_.getInt32Ty(), a)),
                           int_constant_like(0x4b400000u, a));
  // ln 2 in two parts; the first has 8 trailing zero bits, so its product with n is exact.
  Value* r = mul_add(n_float, c(-0x1.62e4p-1f), x);
  r = mul_add(n_float, c(-0x1.7f7d1cp-20f), r);

  // exp(r) = 1 + r + r^2 q(r); q is the minimax polynomial of degree 5, relative error 5e-11.
  Value* q = c(0x1.9f07f8p-13f);
  for (float coefficient :
       {0x1.6d8da8p-10f, 0x1.111272p-7f, 0x1.55548ep-5f, 0x1.555554p-3f, 0.5f}) {
    q = mul_add(q, r, c(coefficient));
  }
  Value* p = add(mul_add(mul(r, r), q, r), c(1.0f));

  // 2^n in two factors, neither of which over- or underflows; only the last product rounds.
  Value* half = ir_.CreateAShr(n, 1);
  return mul(mul(p, pow2(half)), pow2(ir_.CreateSub(n, half)));
}

Value* VectorBuilder::sigmoid(Value* a) {
  Value* one = constant_like(1.0f, a);
  return div(one, add(one, exp(neg(a))));
}

Value* VectorBuilder::sum(Value* v) {
  for (int half = lanes() / 2; half > 0; half /= 2) {
    v = add(shuffle(v, v, 0, 1, half), shuffle(v, v, half, 1, half));
  }
  return ir_.CreateExtractElement(v, std::uint64_t{0});
}

Value* VectorBuilder::max(Value* v) {
  for (int half = lanes() / 2; half > 0; half /= 2) {
    v = maximum(shuffle(v, v, 0, 1, half), shuffle(v, v, half, 1, half));
  }
  return ir_.CreateExtractElement(v, std::uint64_t{0});
}

}  // namespace tessera::tile::cpu
