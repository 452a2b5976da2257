#include "tile/cpu/lower_limits.h"

#include <functional>
#include <string>

#include <llvm/IR/IntrinsicsX86.h>

#include "base/fail.h"
#include "tile/cpu/byte_dot.h"
#include "tile/cpu/loop_builder.h"
#include "tile/cpu/module_builder.h"
#include "tile/limits/limits_plan.h"

namespace tessera::tile::cpu {

namespace {

using llvm::Value;

// A turn of the reading loop takes 8 vectors, added into 8 registers: enough loads in flight.
constexpr int kReadVectors = 8;
// Beside the sums stand the two operands.
constexpr int kOtherRegisters = 4;

// One step of a loop: from a sum to the next.
struct DotStep {
  std::string name;
  int operations;  // of a 32-bit lane
  bool integers;   // the sums are
  std::function<Value*(VectorBuilder&, Value* sum, Value* x, Value* y)> next;
};

DotStep f32_step(const std::string& name) {
  // The sum is multiplied too: x * y would be computed once, before the loop, where the target has
  // no fma.
  return {name, 2, false,
          [](VectorBuilder& b, Value* sum, Value* x, Value* y) { return b.mul_add(sum, x, y); }};
}

DotStep bf16_step(const Target& target) {
  if (!target.bf16_dot) return f32_step("dot_bf16");
  return {"dot_bf16", 4, false, [](VectorBuilder& b, Value* sum, Value* x, Value* y) -> Value* {
            llvm::IRBuilder<>& ir = b.ir();
            auto* pairs =
                llvm::FixedVectorType::get(ir.getBFloatTy(), static_cast<unsigned>(2 * b.lanes()));
            return ir.CreateIntrinsic(
                llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                {sum, ir.CreateBitCast(x, pairs), ir.CreateBitCast(y, pairs)});
          }};
}

DotStep i8_step(const Target& target) {
  if (!target.vnni) return f32_step("dot_i8");
  return {"dot_i8", 8, true, [](VectorBuilder& b, Value* sum, Value* x, Value* y) {
            return multiply_bytes(b, sum, b.ir().CreateBitCast(x, b.int_type()),
                                  b.ir().CreateBitCast(y, b.int_type()));
          }};
}

class LimitsLowering {
 public:
  LimitsLowering(const Target& target, llvm::LLVMContext& context)
      : m_("limits", target, context), b_(m_.b()), ir_(m_.ir()) {}

  std::unique_ptr<llvm::Module> run() {
    const DotStep steps[] = {f32_step("dot_f32"), bf16_step(b_.target()), i8_step(b_.target())};
    llvm::Function* plan = m_.begin_entry("plan", 1, 0);
    const auto set = [&](std::size_t offset, std::int64_t value) {
      ir_.CreateAlignedStore(m_.constant(value),
                             b_.at(plan->getArg(0), static_cast<std::int64_t>(offset)),
                             llvm::Align(8));
    };
    set(offsetof(LimitsPlan, read_bytes), read_bytes());
    for (std::size_t i = 0; i < std::size(steps); ++i) {
      set(offsetof(LimitsPlan, operations) + i * sizeof(std::int64_t),
          std::int64_t{sums()} * b_.lanes() * steps[i].operations);
    }
    ir_.CreateRetVoid();

    emit_read();
    for (const DotStep& step : steps) emit_dot(step);
    return m_.take();
  }

 private:
  std::int64_t read_bytes() const { return std::int64_t{kReadVectors} * b_.target().vector_bytes; }
  int sums() const { return b_.target().n_registers - kOtherRegisters; }

  void emit_read() {
    llvm::Function* f = m_.begin_entry("read", 2, 2);
    Values sums(kReadVectors, b_.int_constant(0));
    sums = emit_loop(
        ir_, f->getArg(2), f->getArg(3), read_bytes(), sums, [&](Value* i, const Values& carried) {
          Values next;
          Value* address = b_.at(f->getArg(0), i);
          for (std::size_t v = 0; v < kReadVectors; ++v) {
            const auto offset = static_cast<std::int64_t>(v) * b_.target().vector_bytes;
            next.push_back(
                ir_.CreateXor(carried[v], b_.load(Element::kI32, b_.at(address, offset))));
          }
          return next;
        });
    Value* all = sums[0];
    for (std::size_t v = 1; v < kReadVectors; ++v) all = ir_.CreateXor(all, sums[v]);
    b_.store(Element::kI32, all, f->getArg(1));
    ir_.CreateRetVoid();
  }

  void emit_dot(const DotStep& step) {
    llvm::Function* f = m_.begin_entry(step.name, 2, 2);
    Value* x = b_.load(Element::kF32, f->getArg(0));
    Value* y = b_.load(Element::kF32, b_.at(f->getArg(0), b_.target().vector_bytes));
    Values all(static_cast<std::size_t>(sums()), step.integers ? b_.int_constant(0) : b_.zero());
    all = emit_loop(ir_, f->getArg(2), f->getArg(3), 1, all, [&](Value*, const Values& carried) {
      Values next;
      for (Value* sum : carried) next.push_back(step.next(b_, sum, x, y));
      return next;
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      b_.store(step.integers ? Element::kI32 : Element::kF32, all[i],
               b_.at(f->getArg(1), static_cast<std::int64_t>(i) * b_.target().vector_bytes));
    }
    ir_.CreateRetVoid();
  }

  ModuleBuilder m_;
  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
};

}  // namespace

std::unique_ptr<llvm::Module> lower_limits(std::string_view text, std::string_view,
                                           const Target& target, llvm::LLVMContext& context) {
  if (!text.empty()) fail(ErrorCode::kCompiler, "the limits have no text, and got {}", text);
  return LimitsLowering(target, context).run();
}

}  // namespace tessera::tile::cpu
