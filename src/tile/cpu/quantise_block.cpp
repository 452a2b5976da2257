// emit_quantise_block: activations as signed bytes, with a scale for each row or for each group of
// 32 of its values.
#include <functional>

#include <llvm/IR/Intrinsics.h>

#include "tile/cpu/loop_builder.h"
#include "tile/cpu/prepare_rows.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

// Added to a float of magnitude below 2^22, it leaves the integer nearest to it (ties to even) in
// the low bits.
constexpr float kMagic = 0x1.8p23f;
constexpr std::uint32_t kMagicBits = 0x4b400000u;

class BlockQuantiser {
 public:
  BlockQuantiser(VectorBuilder& b, PanelLayout layout, const PreparedBlock& block)
      : b_(b),
        ir_(b.ir()),
        layout_(layout),
        block_(block),
        quad_stride_(ir_.CreateMul(block.rows, constant(4))) {}

  void by_row() {
    Value* quads = ir_.CreateUDiv(ir_.CreateAdd(block_.k, constant(3)), constant(4));
    Value* scales = b_.at(block_.memory, ir_.CreateMul(quads, quad_stride_));
    emit_loop(ir_, constant(0), block_.rows, 1, [&](Value* r) {
      start_row(r);
      const auto body = [&](Value* i, Value* mask, const Values& carried) {
        return Values{largest(carried[0], load(i, mask))};
      };
      Value* bits = for_inputs(constant(0), block_.k, {b_.int_constant(0)}, body)[0];
      Value* place = b_.at(scales, ir_.CreateMul(r, constant(4)));
      ir_.CreateAlignedStore(as_float(bits), place, llvm::Align(4));  // for now
      ir_.CreateAlignedStore(ir_.getInt32(0), b_.at(place, quad_stride_), llvm::Align(4));
    });
    for_chunks(b_, block_, [&](Value* r, Value* begin, Value* end) {
      start_row(r);
      Value* place = b_.at(scales, ir_.CreateMul(r, constant(4)));
      Value* inverse = scale_of(b_.load_scalar(Element::kF32, place)).inverse;
      const auto body = [&](Value* i, Value* mask, const Values& carried) {
        Value* quantised = quantise(load(i, mask), inverse);
        store(quantised, constant(0), ir_.CreateUDiv(i, constant(4)),
              mask == nullptr ? b_.lanes() / 4 : 1);
        return Values{ir_.CreateAdd(carried[0], without_magic(quantised))};
      };
      Value* sums = for_inputs(begin, end, {b_.int_constant(0)}, body)[0];
      add_correction(b_.at(place, quad_stride_), ir_.CreateAddReduce(sums));
    });
    emit_loop(ir_, constant(0), block_.rows, 1, [&](Value* r) {
      Value* place = b_.at(scales, ir_.CreateMul(r, constant(4)));
      b_.store_scalar(Element::kF32, scale_of(b_.load_scalar(Element::kF32, place)).scale, place);
    });
  }

  void by_group() {
    for_chunks(b_, block_, [&](Value* r, Value* begin, Value* end) {
      start_row(r);
      Value* rest = ir_.CreateURem(ir_.CreateSub(end, begin), constant(kGroupInputs));
      Value* whole = ir_.CreateSub(end, rest);
      emit_loop(ir_, begin, whole, kGroupInputs, [&](Value* i) { group(i, false); });
      emit_loop(ir_, whole, end, kGroupInputs, [&](Value* i) { group(i, true); });
    });
  }

 private:
  struct Scale {
    Value* scale;    // a float
    Value* inverse;  // a vector
  };

  Value* constant(std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); }
  void start_row(Value* r) {
    row_ = r;
    source_ = block_.source(r);
  }
  Value* load(Value* i, Value* mask) {
    return b_.load(Element::kF32, b_.at(source_, ir_.CreateMul(i, constant(4))), mask);
  }

  // Magnitudes order like their bits, NaN above all.
  Value* largest(Value* bits, Value* values) {
    Value* magnitude = ir_.CreateAnd(ir_.CreateBitCast(values, b_.int_type()), 0x7fffffffu);
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bits, magnitude);
  }
  Value* as_float(Value* bits) {
    return ir_.CreateBitCast(ir_.CreateIntMaxReduce(bits, true), ir_.getFloatTy());
  }

  Scale scale_of(Value* largest) {
    Value* zero = llvm::ConstantFP::get(ir_.getFloatTy(), 0.0);
    Value* most = llvm::ConstantFP::get(ir_.getFloatTy(), 127.0);
    Value* inverse =
        ir_.CreateSelect(ir_.CreateFCmpOEQ(largest, zero), zero, b_.div(most, largest));
    return {b_.div(largest, most), b_.splat(inverse)};
  }

  // The integers, still with the bits of kMagic above them.
  Value* quantise(Value* values, Value* inverse) {
    Value* sum = b_.add(b_.mul(values, inverse), b_.constant(kMagic));
    return ir_.CreateBitCast(sum, b_.int_type());
  }
  Value* without_magic(Value* quantised) {
    return ir_.CreateSub(quantised, b_.int_constant(static_cast<std::int32_t>(kMagicBits)));
  }

  // The first `quads` quads of a vector, to the row's quads from `quad` on at this offset of the
  // block.
  void store(Value* quantised, Value* offset, Value* quad, int quads) {
    auto* bytes = llvm::FixedVectorType::get(ir_.getInt8Ty(), static_cast<unsigned>(b_.lanes()));
    auto* quad_type =
        llvm::FixedVectorType::get(ir_.getInt32Ty(), static_cast<unsigned>(b_.lanes() / 4));
    Value* packed = ir_.CreateBitCast(ir_.CreateTrunc(quantised, bytes), quad_type);
    Value* at = ir_.CreateAdd(offset, ir_.CreateMul(row_, constant(4)));
    Value* to = b_.at(b_.at(block_.memory, at), ir_.CreateMul(quad, quad_stride_));
    for (int q = 0; q < quads; ++q) {
      ir_.CreateAlignedStore(ir_.CreateExtractElement(packed, static_cast<std::uint64_t>(q)), to,
                             llvm::Align(4));
      if (q + 1 < quads) to = b_.at(to, quad_stride_);
    }
  }

  // Adds what the sum of a row's integers is worth to its correction.
  void add_correction(Value* place, Value* sum) {
    Value* more =
        ir_.CreateMul(sum, ir_.getInt32(static_cast<std::uint32_t>(-stored_offset(layout_))));
    b_.store_scalar(Element::kI32, ir_.CreateAdd(b_.load_scalar(Element::kI32, place), more),
                    place);
  }

  // body(first input, mask or nullptr) for inputs [begin, end): a register at a time, then what is
  // left a quad at a time.
  Values for_inputs(Value* begin, Value* end, const Values& initial,
                    const std::function<Values(Value* i, Value* mask, const Values&)>& body) {
    Value* count = ir_.CreateSub(end, begin);
    Value* whole = ir_.CreateSub(end, ir_.CreateURem(count, constant(b_.lanes())));
    const Values carried =
        emit_loop(ir_, begin, whole, b_.lanes(), initial,
                  [&](Value* i, const Values& values) { return body(i, nullptr, values); });
    Value* padded_end =
        ir_.CreateMul(ir_.CreateUDiv(ir_.CreateAdd(end, constant(3)), constant(4)), constant(4));
    return emit_loop(ir_, whole, padded_end, 4, carried, [&](Value* i, const Values& values) {
      Value* left =
          ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir_.CreateSub(end, i), constant(4));
      return body(i, b_.first_lanes(left), values);
    });
  }

  void group(Value* first, bool is_partial) {
    const int vectors = kGroupInputs / b_.lanes();
    Values values;
    Value* bits = b_.int_constant(0);
    for (int v = 0; v < vectors; ++v) {
      Value* i = ir_.CreateAdd(first, constant(std::int64_t{v} * b_.lanes()));
      values.push_back(load(i, is_partial ? b_.first_lanes(ir_.CreateSub(block_.k, i)) : nullptr));
      bits = largest(bits, values.back());
    }
    const Scale scale = scale_of(as_float(bits));
    // Groups of the block lie behind each other, each with the numbers of all rows.
    Value* index = ir_.CreateUDiv(first, constant(kGroupInputs));
    Value* group_bytes = ir_.CreateMul(block_.rows, constant(kGroupInputs + 8));
    Value* offset = ir_.CreateMul(index, group_bytes);
    Value* sum = b_.int_constant(0);
    for (int v = 0; v < vectors; ++v) {
      Value* quantised = quantise(values[static_cast<std::size_t>(v)], scale.inverse);
      store(quantised, offset, constant(std::int64_t{v} * b_.lanes() / 4), b_.lanes() / 4);
      sum = ir_.CreateAdd(sum, without_magic(quantised));
    }
    // Behind the quads: the scale and the correction.
    Value* numbers =
        ir_.CreateAdd(offset, ir_.CreateAdd(ir_.CreateMul(block_.rows, constant(kGroupInputs)),
                                            ir_.CreateMul(row_, constant(4))));
    Value* place = b_.at(block_.memory, numbers);
    b_.store_scalar(Element::kF32, scale.scale, place);
    Value* correction = b_.at(place, quad_stride_);
    b_.store_scalar(Element::kI32, ir_.getInt32(0), correction);
    add_correction(correction, ir_.CreateAddReduce(sum));
  }

  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  PanelLayout layout_;
  const PreparedBlock& block_;
  Value* quad_stride_;  // bytes from one quad of a row to the next
  Value* row_ = nullptr;
  Value* source_ = nullptr;
};

}  // namespace

void emit_quantise_block(VectorBuilder& b, PanelLayout layout, const PreparedBlock& block) {
  BlockQuantiser quantiser(b, layout, block);
  if (has_groups(layout)) {
    quantiser.by_group();
  } else {
    quantiser.by_row();
  }
}

}  // namespace tessera::tile::cpu
