// VectorBuilder: between storage types and fp32.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "tile/cpu/vector_builder.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

bool is_float(Value* v) {
  return v->getType()->getScalarType()->isFloatTy();
}

}  // namespace

Value* VectorBuilder::widen(Element element, Value* bits) {
  switch (element) {
    case Element::kF32:
    case Element::kI32:
      return bits;
    case Element::kBF16: {
      Value* wide = ir_.CreateZExt(bits, like(ir_.getInt32Ty(), bits));
      return ir_.CreateBitCast(ir_.CreateShl(wide, 16), like(ir_.getFloatTy(), bits));
    }
    case Element::kF16:
      return widen_f16(bits);
    case Element::kI8:
      return ir_.CreateSExt(bits, like(ir_.getInt32Ty(), bits));
    case Element::kU8:
      break;
  }
  return ir_.CreateZExt(bits, like(ir_.getInt32Ty(), bits));
}

Value* VectorBuilder::narrow(Element element, Value* v) {
  switch (element) {
    case Element::kF32:
      return v;
    case Element::kBF16:
      return narrow_bf16(v);
    case Element::kF16:
      return narrow_f16(v);
    case Element::kI32:
    case Element::kI8:
    case Element::kU8:
      break;
  }
  return narrow_int(element, is_float(v) ? float_to_int(v) : v);
}

Value* VectorBuilder::widen_f16(Value* bits) {
  llvm::Type* floats = like(ir_.getFloatTy(), bits);
  if (target_.f16c) {
    return ir_.CreateFPExt(ir_.CreateBitCast(bits, like(ir_.getHalfTy(), bits)), floats);
  }
  // Exponent and mantissa go where binary32 has them; scaling by 2^112 re-biases the exponent and
  // normalises subnormals. Infinity and NaN get the all-ones exponent.
  llvm::Type* ints = like(ir_.getInt32Ty(), bits);
  Value* wide = ir_.CreateZExt(bits, ints);
  Value* sign = ir_.CreateShl(ir_.CreateAnd(wide, 0x8000u), 16);
  Value* magnitude = ir_.CreateShl(ir_.CreateAnd(wide, 0x7fffu), 13);
  Value* scaled = mul(ir_.CreateBitCast(magnitude, floats), constant_like(0x1p112f, bits));
  Value* special =
      ir_.CreateSelect(ir_.CreateICmpUGE(magnitude, int_constant_like(0x0f800000u, bits)),
                       int_constant_like(0x7f800000u, bits), int_constant_like(0, bits));
  Value* result = ir_.CreateOr(ir_.CreateBitCast(scaled, ints), ir_.CreateOr(sign, special));
  return ir_.CreateBitCast(result, floats);
}

Value* VectorBuilder::narrow_bf16(Value* v) {
  if (target_.bf16_dot && target_.x86) {
    Value* vector = v;
    if (!v->getType()->isVectorTy()) {  // the same instruction, so the same bits
      vector = ir_.CreateInsertElement(zero(), v, std::uint64_t{0});
    }
    Value* rounded =
        ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, vector);
    Value* bits = ir_.CreateBitCast(rounded, vector_of(ir_.getInt16Ty(), lanes()));
    return vector == v ? bits : ir_.CreateExtractElement(bits, std::uint64_t{0});
  }
  Value* bits = ir_.CreateBitCast(v, like(ir_.getInt32Ty(), v));
  Value* odd = ir_.CreateAnd(ir_.CreateLShr(bits, 16), 1);
  Value* rounded =
      ir_.CreateLShr(ir_.CreateAdd(bits, ir_.CreateAdd(odd, int_constant_like(0x7fffu, v))), 16);
  Value* quiet_nan = ir_.CreateOr(ir_.CreateLShr(bits, 16), int_constant_like(0x40u, v));
  Value* result = ir_.CreateSelect(ir_.CreateFCmpUNO(v, v), quiet_nan, rounded);
  return ir_.CreateTrunc(result, like(ir_.getInt16Ty(), v));
}

Value* VectorBuilder::narrow_f16(Value* v) {
  llvm::Type* shorts = like(ir_.getInt16Ty(), v);
  if (target_.f16c) {
    return ir_.CreateBitCast(ir_.CreateFPTrunc(v, like(ir_.getHalfTy(), v)), shorts);
  }
  llvm::Type* ints = like(ir_.getInt32Ty(), v);
  Value* bits = ir_.CreateBitCast(v, ints);
  Value* sign = ir_.CreateAnd(ir_.CreateLShr(bits, 16), 0x8000u);
  Value* magnitude = ir_.CreateAnd(bits, 0x7fffffffu);

  Value* odd = ir_.CreateAnd(ir_.CreateLShr(magnitude, 13), 1);
  Value* rebiased = ir_.CreateAdd(magnitude, int_constant_like(0xfffu - 0x38000000u, v));
  Value* half = ir_.CreateLShr(ir_.CreateAdd(rebiased, odd), 13);

  // Subnormal: adding 0.5 leaves the value, rounded to a multiple of 2^-24, in the low bits.
  Value* shifted = add(ir_.CreateBitCast(magnitude, v->getType()), constant_like(0.5f, v));
  Value* subnormal =
      ir_.CreateSub(ir_.CreateBitCast(shifted, ints), int_constant_like(0x3f000000u, v));
  half = ir_.CreateSelect(ir_.CreateICmpULT(magnitude, int_constant_like(0x38800000u, v)),
                          subnormal, half);
  half = ir_.CreateSelect(ir_.CreateICmpUGE(magnitude, int_constant_like(0x477ff000u, v)),
                          int_constant_like(0x7c00u, v), half);
  half = ir_.CreateSelect(ir_.CreateICmpUGT(magnitude, int_constant_like(0x7f800000u, v)),
                          int_constant_like(0x7e00u, v), half);
  return ir_.CreateTrunc(ir_.CreateOr(sign, half), shorts);
}

Value* VectorBuilder::narrow_int(Element element, Value* v) {
  if (element == Element::kI32) return v;
  const bool is_signed = element == Element::kI8;
  const auto low = static_cast<std::uint32_t>(is_signed ? -128 : 0);
  const auto high = static_cast<std::uint32_t>(is_signed ? 127 : 255);
  Value* clamped = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, int_constant_like(low, v));
  clamped = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, clamped, int_constant_like(high, v));
  return ir_.CreateTrunc(clamped, like(ir_.getInt8Ty(), v));
}

Value* VectorBuilder::int_to_float(Value* v) {
  return ir_.CreateSIToFP(v, like(ir_.getFloatTy(), v));
}

Value* VectorBuilder::float_to_int(Value* v) {
  // Adding 2^23 with the value's own sign rounds away the fraction; from 2^23 on there is none.
  Value* magnitude = ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  Value* unit = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, constant_like(0x1p23f, v), v);
  Value* rounded = ir_.CreateSelect(ir_.CreateFCmpOLT(magnitude, constant_like(0x1p23f, v)),
                                    sub(add(v, unit), unit), v);
  return ir_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {like(ir_.getInt32Ty(), v), v->getType()},
                             rounded);
}

}  // namespace tessera::tile::cpu
