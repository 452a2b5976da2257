#include "tile/cpu/byte_dot.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace tessera::tile::cpu {

using llvm::Value;

Value* multiply_bytes(VectorBuilder& b, Value* sums, Value* weights, Value* activations) {
  llvm::IRBuilder<>& ir = b.ir();
  const Target& target = b.target();
  const int bits = target.vector_bytes * 8;
  if (target.vnni && bits >= 256) {
    const auto dot = bits == 512 ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
                                 : llvm::Intrinsic::x86_avx512_vpdpbusd_256;
    return ir.CreateIntrinsic(dot, {}, {sums, weights, activations});
  }
  if (target.x86) {
    // 16-bit products of the even and of the odd bytes; adding them in pairs cannot overflow.
    const auto multiply_add = bits == 512   ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                              : bits == 256 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                            : llvm::Intrinsic::x86_sse2_pmadd_wd;
    auto* shorts =
        llvm::FixedVectorType::get(ir.getInt16Ty(), static_cast<unsigned>(2 * b.lanes()));
    Value* unsigned_bytes = ir.CreateBitCast(weights, shorts);
    Value* signed_bytes = ir.CreateBitCast(activations, shorts);
    Value* even = ir.CreateIntrinsic(
        multiply_add, {},
        {ir.CreateAnd(unsigned_bytes, 0xff), ir.CreateAShr(ir.CreateShl(signed_bytes, 8), 8)});
    Value* odd = ir.CreateIntrinsic(
        multiply_add, {}, {ir.CreateLShr(unsigned_bytes, 8), ir.CreateAShr(signed_bytes, 8)});
    return ir.CreateAdd(sums, ir.CreateAdd(even, odd));
  }
  for (unsigned shift = 0; shift < 32; shift += 8) {
    Value* weight = ir.CreateAnd(ir.CreateLShr(weights, shift), 0xff);
    Value* activation = ir.CreateAShr(ir.CreateShl(activations, 24 - shift), 24);
    sums = ir.CreateAdd(sums, ir.CreateMul(weight, activation));
  }
  return sums;
}

namespace {

// A register of the target as `bits`-bit integers.
llvm::Type* integers(VectorBuilder& b, unsigned bits) {
  const auto lanes = static_cast<unsigned>(b.target().vector_bytes) * 8 / bits;
  return llvm::FixedVectorType::get(b.ir().getIntNTy(bits), lanes);
}

}  // namespace

bool sums_in_shorts(const Target& target) {
  return target.x86 && !target.vnni && target.vector_bytes >= 32;
}

Value* multiply_in_shorts(VectorBuilder& b, Value* shorts, Value* weights, Value* activations) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto multiply_add = b.target().avx512 ? llvm::Intrinsic::x86_avx512_pmaddubs_w_512
                                              : llvm::Intrinsic::x86_avx2_pmadd_ub_sw;
  llvm::Type* bytes = integers(b, 8);
  Value* pairs = ir.CreateIntrinsic(
      multiply_add, {}, {ir.CreateBitCast(weights, bytes), ir.CreateBitCast(activations, bytes)});
  return shorts == nullptr ? pairs : ir.CreateAdd(shorts, pairs);
}

Value* add_shorts(VectorBuilder& b, Value* sums, Value* shorts) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto multiply_add = b.target().avx512 ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                                              : llvm::Intrinsic::x86_avx2_pmadd_wd;
  Value* ones = llvm::ConstantInt::get(integers(b, 16), 1);
  return ir.CreateAdd(sums, ir.CreateIntrinsic(multiply_add, {}, {shorts, ones}));
}

}  // namespace tessera::tile::cpu
