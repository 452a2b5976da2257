// VectorBuilder: constants, loads and stores.
#include <vector>

#include <llvm/IR/Intrinsics.h>

#include "tile/cpu/vector_builder.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

llvm::Align align_of(Element element) {
  return llvm::Align(static_cast<std::uint64_t>(element_bytes(element)));
}

std::vector<int> indices(int start, int step, int count) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(start + i * step);
  return list;
}

}  // namespace

int element_bytes(Element element) {
  switch (element) {
    case Element::kF32:
    case Element::kI32:
      return 4;
    case Element::kBF16:
    case Element::kF16:
      return 2;
    case Element::kI8:
    case Element::kU8:
      break;
  }
  return 1;
}

bool is_integer(Element element) {
  return element == Element::kI32 || element == Element::kI8 || element == Element::kU8;
}

llvm::Type* VectorBuilder::storage_type(Element element) {
  if (element == Element::kF32) return ir_.getFloatTy();
  return ir_.getIntNTy(static_cast<unsigned>(element_bytes(element)) * 8);
}

llvm::Type* VectorBuilder::like(llvm::Type* scalar, Value* shape) {
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape->getType())) {
    return llvm::FixedVectorType::get(scalar, vector->getNumElements());
  }
  return scalar;
}

Value* VectorBuilder::constant(float value) {
  return llvm::ConstantFP::get(float_type(), static_cast<double>(value));
}

Value* VectorBuilder::int_constant(std::int32_t value) {
  return llvm::ConstantInt::getSigned(int_type(), value);
}

Value* VectorBuilder::constant_like(float value, Value* shape) {
  return llvm::ConstantFP::get(like(ir_.getFloatTy(), shape), static_cast<double>(value));
}

Value* VectorBuilder::int_constant_like(std::uint32_t value, Value* shape) {
  return llvm::ConstantInt::get(like(ir_.getInt32Ty(), shape), value);
}

Value* VectorBuilder::splat(Value* scalar) {
  return ir_.CreateVectorSplat(static_cast<unsigned>(lanes()), scalar);
}

Value* VectorBuilder::shuffle(Value* a, Value* b, int start, int step, int lanes) {
  return ir_.CreateShuffleVector(a, b, indices(start, step, lanes));
}

Value* VectorBuilder::splat_lane(Value* v, int lane) {
  return shuffle(v, v, lane, 0, lanes());
}

Value* VectorBuilder::lane_indices() {
  std::vector<std::uint32_t> values;
  for (int i = 0; i < lanes(); ++i) values.push_back(static_cast<std::uint32_t>(i));
  return llvm::ConstantDataVector::get(ir_.getContext(), values);
}

Value* VectorBuilder::first_lanes(Value* count) {
  Value* not_negative = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, ir_.getInt64(0));
  Value* clamped = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, not_negative,
                                             ir_.getInt64(static_cast<std::uint64_t>(lanes())));
  return ir_.CreateICmpULT(lane_indices(), splat(ir_.CreateTrunc(clamped, ir_.getInt32Ty())));
}

Value* VectorBuilder::at(Value* address, Value* byte_offset) {
  return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), address, byte_offset);
}

Value* VectorBuilder::at(Value* address, std::int64_t byte_offset) {
  if (byte_offset == 0) return address;
  return at(address, ir_.getInt64(static_cast<std::uint64_t>(byte_offset)));
}

void VectorBuilder::prefetch(Value* address, std::int64_t byte_offset) {
  // Beyond the end of a buffer the address is only a hint, so the GEP must not claim to be in
  // bounds.
  Value* ahead = ir_.CreateGEP(ir_.getInt8Ty(), address,
                               ir_.getInt64(static_cast<std::uint64_t>(byte_offset)));
  ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                      {ahead, ir_.getInt32(0), ir_.getInt32(3), ir_.getInt32(1)});
}

Value* VectorBuilder::load(Element element, Value* address, Value* mask) {
  llvm::Type* type = vector_of(storage_type(element), lanes());
  Value* bits = mask == nullptr
                    ? static_cast<Value*>(ir_.CreateAlignedLoad(type, address, align_of(element)))
                    : ir_.CreateMaskedLoad(type, address, align_of(element), mask,
                                           llvm::Constant::getNullValue(type));
  return widen(element, bits);
}

void VectorBuilder::store(Element element, Value* v, Value* address, Value* mask) {
  Value* bits = narrow(element, v);
  if (mask == nullptr) {
    ir_.CreateAlignedStore(bits, address, align_of(element));
  } else {
    ir_.CreateMaskedStore(bits, address, align_of(element), mask);
  }
}

Value* VectorBuilder::load_scalar(Element element, Value* address) {
  return widen(element, ir_.CreateAlignedLoad(storage_type(element), address, align_of(element)));
}

void VectorBuilder::store_scalar(Element element, Value* scalar, Value* address) {
  ir_.CreateAlignedStore(narrow(element, scalar), address, align_of(element));
}

Value* VectorBuilder::lane_addresses(Value* address, Value* stride) {
  Value* steps = ir_.CreateZExt(lane_indices(), vector_of(ir_.getInt64Ty(), lanes()));
  return ir_.CreateGEP(ir_.getInt8Ty(), address, ir_.CreateMul(steps, splat(stride)));
}

Value* VectorBuilder::load_strided(Element element, Value* address, Value* stride, Value* count) {
  llvm::Type* type = vector_of(storage_type(element), lanes());
  if (count != nullptr) {
    return widen(element,
                 ir_.CreateMaskedGather(type, lane_addresses(address, stride), align_of(element),
                                        first_lanes(count), llvm::Constant::getNullValue(type)));
  }
  Value* bits = llvm::PoisonValue::get(type);
  for (int lane = 0; lane < lanes(); ++lane) {
    bits = ir_.CreateInsertElement(
        bits, ir_.CreateAlignedLoad(storage_type(element), address, align_of(element)),
        static_cast<std::uint64_t>(lane));
    if (lane + 1 < lanes()) address = at(address, stride);
  }
  return widen(element, bits);
}

void VectorBuilder::store_strided(Element element, Value* v, Value* address, Value* stride,
                                  Value* count) {
  Value* bits = narrow(element, v);
  if (count != nullptr) {
    ir_.CreateMaskedScatter(bits, lane_addresses(address, stride), align_of(element),
                            first_lanes(count));
    return;
  }
  for (int lane = 0; lane < lanes(); ++lane) {
    ir_.CreateAlignedStore(ir_.CreateExtractElement(bits, static_cast<std::uint64_t>(lane)),
                           address, align_of(element));
    if (lane + 1 < lanes()) address = at(address, stride);
  }
}

VectorBuilder::Pair VectorBuilder::load_interleaved(Element element, Value* address, Value* count) {
  // A pair is moved as one integer, so that a mask need not be widened.
  llvm::Type* pairs =
      vector_of(ir_.getIntNTy(static_cast<unsigned>(element_bytes(element)) * 16), lanes());
  Value* bits = count == nullptr
                    ? static_cast<Value*>(ir_.CreateAlignedLoad(pairs, address, align_of(element)))
                    : ir_.CreateMaskedLoad(pairs, address, align_of(element), first_lanes(count),
                                           llvm::Constant::getNullValue(pairs));
  if (element == Element::kBF16) {
    return {ir_.CreateBitCast(ir_.CreateShl(bits, 16), float_type()),
            ir_.CreateBitCast(ir_.CreateAnd(bits, 0xffff0000u), float_type())};
  }
  Value* elements = ir_.CreateBitCast(bits, vector_of(storage_type(element), 2 * lanes()));
  return {widen(element, shuffle(elements, elements, 0, 2, lanes())),
          widen(element, shuffle(elements, elements, 1, 2, lanes()))};
}

Value* VectorBuilder::pair_bits(Element element, Pair even_odd) {
  std::vector<int> order;
  for (int lane = 0; lane < lanes(); ++lane) {
    order.push_back(lane);
    order.push_back(lanes() + lane);
  }
  Value* elements =
      ir_.CreateShuffleVector(narrow(element, even_odd[0]), narrow(element, even_odd[1]), order);
  const auto pair_size = static_cast<unsigned>(element_bytes(element)) * 16;
  return ir_.CreateBitCast(elements, vector_of(ir_.getIntNTy(pair_size), lanes()));
}

void VectorBuilder::store_interleaved(Element element, Pair even_odd, Value* address,
                                      Value* count) {
  Value* pairs = pair_bits(element, even_odd);
  if (count == nullptr) {
    ir_.CreateAlignedStore(pairs, address, align_of(element));
  } else {
    ir_.CreateMaskedStore(pairs, address, align_of(element), first_lanes(count));
  }
}

}  // namespace tessera::tile::cpu
