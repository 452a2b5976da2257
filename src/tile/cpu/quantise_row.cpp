// emit_quantise_row: one row of activations as signed bytes, with a scale for all of it or one for
// each group of 32.
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

class RowQuantiser {
 public:
  RowQuantiser(VectorBuilder& b, PanelLayout layout, Value* source, Value* k,
               const PreparedPlace& place)
      : b_(b), ir_(b.ir()), layout_(layout), source_(source), k_(k), place_(place) {}

  void by_row() {
    Value* bits = for_row({b_.int_constant(0)}, [&](Value* i, Value* mask, const Values& carried) {
      return Values{largest(carried[0], load(i, mask))};
    })[0];
    const Scale scale = scale_of(bits);
    Value* zero = ir_.getInt64(0);
    Value* sum = for_row({b_.int_constant(0)}, [&](Value* i, Value* mask, const Values& carried) {
      Value* quantised = quantise(load(i, mask), scale);
      store(quantised, zero, ir_.CreateUDiv(i, constant(4)), mask == nullptr ? b_.lanes() / 4 : 1);
      return Values{ir_.CreateAdd(carried[0], without_magic(quantised))};
    })[0];
    Value* quads = ir_.CreateUDiv(ir_.CreateAdd(k_, constant(3)), constant(4));
    finish(ir_.CreateMul(quads, quad_stride()), scale, ir_.CreateAddReduce(sum));
  }

  void by_group() {
    Value* whole = ir_.CreateSub(k_, ir_.CreateURem(k_, constant(kGroupInputs)));
    emit_loop(ir_, constant(0), whole, kGroupInputs, [&](Value* i) { group(i, false); });
    emit_loop(ir_, whole, k_, kGroupInputs, [&](Value* i) { group(i, true); });
  }

 private:
  struct Scale {
    Value* scale;    // a float
    Value* inverse;  // a vector
  };

  Value* constant(std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); }
  Value* load(Value* i, Value* mask) {
    return b_.load(Element::kF32, b_.at(source_, ir_.CreateMul(i, constant(4))), mask);
  }
  // Bytes from one quad of the row to the next.
  Value* quad_stride() { return ir_.CreateMul(place_.block_rows, constant(4)); }

  // Magnitudes order like their bits, NaN above all.
  Value* largest(Value* bits, Value* values) {
    Value* magnitude = ir_.CreateAnd(ir_.CreateBitCast(values, b_.int_type()), 0x7fffffffu);
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bits, magnitude);
  }

  Scale scale_of(Value* bits) {
    Value* largest = ir_.CreateBitCast(ir_.CreateIntMaxReduce(bits, true), ir_.getFloatTy());
    Value* zero = llvm::ConstantFP::get(ir_.getFloatTy(), 0.0);
    Value* most = llvm::ConstantFP::get(ir_.getFloatTy(), 127.0);
    Value* inverse =
        ir_.CreateSelect(ir_.CreateFCmpOEQ(largest, zero), zero, b_.div(most, largest));
    return {b_.div(largest, most), b_.splat(inverse)};
  }

  // The integers, still with the bits of kMagic above them.
  Value* quantise(Value* values, const Scale& scale) {
    Value* sum = b_.add(b_.mul(values, scale.inverse), b_.constant(kMagic));
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
    Value* at = ir_.CreateAdd(offset, ir_.CreateMul(place_.row, constant(4)));
    Value* to = b_.at(b_.at(place_.block, at), ir_.CreateMul(quad, quad_stride()));
    for (int q = 0; q < quads; ++q) {
      ir_.CreateAlignedStore(ir_.CreateExtractElement(packed, static_cast<std::uint64_t>(q)), to,
                             llvm::Align(4));
      if (q + 1 < quads) to = b_.at(to, quad_stride());
    }
  }

  // The row's scale and correction, behind the quads that end at this offset of the block.
  void finish(Value* offset, const Scale& scale, Value* sum) {
    Value* scales =
        b_.at(place_.block, ir_.CreateAdd(offset, ir_.CreateMul(place_.row, constant(4))));
    ir_.CreateAlignedStore(scale.scale, scales, llvm::Align(4));
    Value* correction =
        ir_.CreateMul(sum, ir_.getInt32(static_cast<std::uint32_t>(-stored_offset(layout_))));
    ir_.CreateAlignedStore(correction, b_.at(scales, quad_stride()), llvm::Align(4));
  }

  // body(first input, mask or nullptr) for the whole row: a register at a time, then what is left
  // a quad at a time.
  Values for_row(const Values& initial,
                 const std::function<Values(Value* i, Value* mask, const Values&)>& body) {
    Value* whole = ir_.CreateSub(k_, ir_.CreateURem(k_, constant(b_.lanes())));
    const Values carried =
        emit_loop(ir_, constant(0), whole, b_.lanes(), initial,
                  [&](Value* i, const Values& values) { return body(i, nullptr, values); });
    Value* end =
        ir_.CreateMul(ir_.CreateUDiv(ir_.CreateAdd(k_, constant(3)), constant(4)), constant(4));
    return emit_loop(ir_, whole, end, 4, carried, [&](Value* i, const Values& values) {
      Value* left =
          ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir_.CreateSub(k_, i), constant(4));
      return body(i, b_.first_lanes(left), values);
    });
  }

  void group(Value* first, bool is_partial) {
    const int vectors = kGroupInputs / b_.lanes();
    Values values;
    Value* bits = b_.int_constant(0);
    for (int v = 0; v < vectors; ++v) {
      Value* i = ir_.CreateAdd(first, constant(std::int64_t{v} * b_.lanes()));
      values.push_back(load(i, is_partial ? b_.first_lanes(ir_.CreateSub(k_, i)) : nullptr));
      bits = largest(bits, values.back());
    }
    const Scale scale = scale_of(bits);
    // Groups of the block lie behind each other, each with the numbers of all rows.
    Value* index = ir_.CreateUDiv(first, constant(kGroupInputs));
    Value* group_bytes = ir_.CreateMul(place_.block_rows, constant(kGroupInputs + 8));
    Value* offset = ir_.CreateMul(index, group_bytes);
    Value* sum = b_.int_constant(0);
    for (int v = 0; v < vectors; ++v) {
      Value* quantised = quantise(values[static_cast<std::size_t>(v)], scale);
      store(quantised, offset, constant(std::int64_t{v} * b_.lanes() / 4), b_.lanes() / 4);
      sum = ir_.CreateAdd(sum, without_magic(quantised));
    }
    Value* numbers =
        ir_.CreateAdd(offset, ir_.CreateMul(place_.block_rows, constant(kGroupInputs)));
    finish(numbers, scale, ir_.CreateAddReduce(sum));
  }

  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  PanelLayout layout_;
  Value* source_;
  Value* k_;
  PreparedPlace place_;
};

}  // namespace

void emit_quantise_row(VectorBuilder& b, PanelLayout layout, Value* source, Value* k,
                       const PreparedPlace& place) {
  RowQuantiser quantiser(b, layout, source, k, place);
  if (has_groups(layout)) {
    quantiser.by_group();
  } else {
    quantiser.by_row();
  }
}

}  // namespace tessera::tile::cpu
