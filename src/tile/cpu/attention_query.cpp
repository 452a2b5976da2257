// The queries of a group of heads, transposed: heads into the lanes.
#include "tile/cpu/attention_emitter.h"
#include "tile/cpu/product_epilogue.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

// lanes() vectors of lanes() units: vector i, lane j becomes vector j, lane i. Each step
// interleaves the two halves of the list, which rotates the bits of (i, j) by one place.
Values transpose(VectorBuilder& b, Values rows) {
  const int lanes = b.lanes();
  std::vector<int> low;
  std::vector<int> high;
  for (int lane = 0; lane < lanes; ++lane) {
    low.push_back(lane / 2 + lane % 2 * lanes);
    high.push_back(lane / 2 + lanes / 2 + lane % 2 * lanes);
  }
  const std::size_t half = rows.size() / 2;
  for (int step = 1; step < lanes; step *= 2) {
    Values next;
    for (std::size_t i = 0; i < half; ++i) {
      next.push_back(b.ir().CreateShuffleVector(rows[i], rows[i + half], low));
      next.push_back(b.ir().CreateShuffleVector(rows[i], rows[i + half], high));
    }
    rows = std::move(next);
  }
  return rows;
}

class QueryPacker {
 public:
  QueryPacker(ModuleBuilder& m, const AttentionForm& form, Value* arguments)
      : m_(m), b_(m.b()), ir_(m.ir()), form_(form) {
    query_ = load_pointer(b_, arguments, offsetof(AttentionQuery, query));
    stride_ = load_number(b_, arguments, offsetof(AttentionQuery, head_stride));
    heads_ = load_number(b_, arguments, offsetof(AttentionQuery, heads));
    packed_ = load_pointer(b_, arguments, offsetof(AttentionQuery, packed));
  }

  void run() {
    const std::int64_t whole = form_.row_values / form_.unit();
    const std::int64_t blocks = whole / b_.lanes();
    for (int first = 0; first < kHeadGroup; first += b_.lanes()) {
      emit_loop(ir_, m_.constant(0), m_.constant(blocks), 1, [&](Value* block) {
        write_block(first, ir_.CreateMul(block, m_.constant(b_.lanes())));
      });
    }
    emit_loop(ir_, m_.constant(0), m_.constant(kHeadGroup), 1, [&](Value* head) {
      for (std::int64_t unit = blocks * b_.lanes(); unit < form_.units(); ++unit) {
        write_unit(head, unit);
      }
    });
  }

 private:
  // The head's address; of the last head for those that are not there.
  Value* head_address(Value* head) {
    Value* last = ir_.CreateSub(heads_, m_.constant(1));
    Value* known = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, head, last);
    return b_.at(query_, ir_.CreateMul(known, stride_));
  }

  // lanes() heads from `first` on, lanes() units from `unit` on.
  void write_block(int first, Value* unit) {
    Values rows;
    for (int i = 0; i < b_.lanes(); ++i) {
      Value* address = b_.at(head_address(m_.constant(first + i)),
                             ir_.CreateMul(unit, m_.constant(form_.unit() * 4)));
      if (form_.dot) {
        const VectorBuilder::Pair pair = b_.load_interleaved(Element::kF32, address);
        rows.push_back(b_.pair_bits(Element::kBF16, pair));
      } else {
        rows.push_back(b_.load(Element::kF32, address));
      }
    }
    Value* present = b_.first_lanes(ir_.CreateSub(heads_, m_.constant(first)));
    Value* to = b_.at(packed_, ir_.CreateMul(unit, m_.constant(kGroupBytes)));
    std::int64_t offset = first * kUnitBytes;
    for (Value* heads : transpose(b_, rows)) {
      Value* none = llvm::Constant::getNullValue(heads->getType());
      ir_.CreateAlignedStore(ir_.CreateSelect(present, heads, none), b_.at(to, offset),
                             llvm::Align(4));
      offset += kGroupBytes;
    }
  }

  void write_unit(Value* head, std::int64_t unit) {
    Value* present = ir_.CreateICmpSLT(head, heads_);
    Value* from = b_.at(head_address(head), unit * form_.unit() * 4);
    Value* to =
        b_.at(b_.at(packed_, ir_.CreateMul(head, m_.constant(kUnitBytes))), unit * kGroupBytes);
    Value* zero = llvm::ConstantFP::get(ir_.getFloatTy(), 0.0);
    for (std::int64_t i = 0; i < form_.unit(); ++i) {
      const bool is_there = unit * form_.unit() + i < form_.row_values;
      Value* value = is_there ? b_.load_scalar(Element::kF32, b_.at(from, i * 4)) : zero;
      b_.store_scalar(form_.dot ? Element::kBF16 : Element::kF32,
                      ir_.CreateSelect(present, value, zero), b_.at(to, i * form_.value_bytes()));
    }
  }

  ModuleBuilder& m_;
  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  const AttentionForm& form_;
  Value* query_;
  Value* stride_;
  Value* heads_;
  Value* packed_;
};

}  // namespace

void emit_pack_query(ModuleBuilder& m, const AttentionForm& form, Value* arguments) {
  QueryPacker(m, form, arguments).run();
}

}  // namespace tessera::tile::cpu
