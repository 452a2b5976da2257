// Vectors of fp32 values, one register of the target wide, over llvm::IRBuilder.
//
// Values are held in fp32 (integers in int32) and converted at the memory's edge. What is emitted
// needs no symbol from outside: LLVM turns exp, floor, an fma without hardware and bf16 rounding
// into library calls, so those are spelled out here. The bits of a result do not depend on how many
// lanes are valid.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <llvm/IR/IRBuilder.h>

#include "tile/cpu/target.h"

namespace tessera::tile::cpu {

// What an element in memory is.
enum class Element { kF32, kBF16, kF16, kI32, kI8, kU8 };

int element_bytes(Element element);
bool is_integer(Element element);

class VectorBuilder {
 public:
  using Value = llvm::Value;
  using Pair = std::array<Value*, 2>;

  VectorBuilder(llvm::IRBuilder<>& ir, const Target& target) : ir_(ir), target_(target) {}

  llvm::IRBuilder<>& ir() { return ir_; }
  const Target& target() const { return target_; }
  int lanes() const { return target_.lanes(); }

  // --- Types and constants ---
  llvm::FixedVectorType* float_type() { return vector_of(ir_.getFloatTy(), lanes()); }
  llvm::FixedVectorType* int_type() { return vector_of(ir_.getInt32Ty(), lanes()); }
  Value* constant(float value);
  Value* int_constant(std::int32_t value);
  Value* zero() { return constant(0.0f); }
  Value* splat(Value* scalar);  // a float or i32 in every lane
  Value* splat_lane(Value* v, int lane);
  Value* lane_indices();             // 0, 1, 2, ... as i32
  Value* first_lanes(Value* count);  // a mask of the first count (i64, any value) lanes

  // --- Memory; addresses are aligned to the element, strides in bytes ---
  // Under a mask, lanes switched off are neither read nor written, and load as 0.
  Value* load(Element element, Value* address, Value* mask = nullptr);
  void store(Element element, Value* v, Value* address, Value* mask = nullptr);
  Value* load_scalar(Element element, Value* address);  // a float or i32
  void store_scalar(Element element, Value* scalar, Value* address);
  Value* broadcast(Element element, Value* address) { return splat(load_scalar(element, address)); }
  // Lane i at address + i * stride; count (i64) limits the lanes, nullptr means all.
  Value* load_strided(Element element, Value* address, Value* stride, Value* count = nullptr);
  void store_strided(Element element, Value* v, Value* address, Value* stride,
                     Value* count = nullptr);
  // 2 * lanes() consecutive elements as {even, odd}; count limits the pairs.
  Pair load_interleaved(Element element, Value* address, Value* count = nullptr);
  void store_interleaved(Element element, Pair even_odd, Value* address, Value* count = nullptr);
  // {even, odd} as lanes() integers of two elements each, even in the low half: what
  // store_interleaved writes.
  Value* pair_bits(Element element, Pair even_odd);
  Value* at(Value* address, Value* byte_offset);
  Value* at(Value* address, std::int64_t byte_offset);
  void prefetch(Value* address, std::int64_t byte_offset);

  // --- Conversions between storage bits (iN vectors or scalars of any length) and fp32 or int32
  // ---
  Value* widen(Element element, Value* bits);
  // To nearest even. fp32 to integers saturates, NaN gives 0. bf16 on a CPU with bf16 instructions
  // takes magnitudes below 2^-126 as 0.
  Value* narrow(Element element, Value* v);
  Value* round(Element element, Value* v) { return widen(element, narrow(element, v)); }
  Value* int_to_float(Value* v);
  Value* float_to_int(Value* v);  // to nearest even, saturating, NaN gives 0

  // --- Arithmetic on fp32 vectors or scalars ---
  Value* add(Value* a, Value* b) { return ir_.CreateFAdd(a, b); }
  Value* sub(Value* a, Value* b) { return ir_.CreateFSub(a, b); }
  Value* mul(Value* a, Value* b) { return ir_.CreateFMul(a, b); }
  Value* div(Value* a, Value* b) { return ir_.CreateFDiv(a, b); }  // correctly rounded
  Value* neg(Value* a) { return ir_.CreateFNeg(a); }
  // a * b + c: rounded once where the target has fma, else twice.
  Value* mul_add(Value* a, Value* b, Value* c);
  Value* maximum(Value* a, Value* b);  // NaN if either is
  Value* minimum(Value* a, Value* b);
  Value* sqrt(Value* a);     // correctly rounded
  Value* rsqrt(Value* a);    // 1 / sqrt(a): within 1.5 ulp
  Value* exp(Value* a);      // within 2 ulp; subnormal results included
  Value* sigmoid(Value* a);  // 1 / (1 + exp(-a)): within 4 ulp above a = -87, below it within 1e-37

  // --- Across the lanes, as a fixed tree: halves are combined until one lane is left ---
  Value* sum(Value* v);  // a float
  Value* max(Value* v);

 private:
  llvm::FixedVectorType* vector_of(llvm::Type* type, int lanes) {
    return llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
  }
  llvm::Type* like(llvm::Type* scalar, Value* shape);  // scalar, or a vector of shape's length
  Value* constant_like(float value, Value* shape);
  Value* int_constant_like(std::uint32_t value, Value* shape);
  Value* shuffle(Value* a, Value* b, int start, int step, int lanes);
  llvm::Type* storage_type(Element element);
  Value* lane_addresses(Value* address, Value* stride);
  Value* widen_f16(Value* bits);
  Value* narrow_bf16(Value* v);
  Value* narrow_f16(Value* v);
  Value* narrow_int(Element element, Value* v);
  Value* pow2(Value* exponent);  // 2^i for i in [-126, 127]

  llvm::IRBuilder<>& ir_;
  const Target& target_;
};

}  // namespace tessera::tile::cpu
