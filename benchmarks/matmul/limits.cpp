#include "benchmarks/matmul/limits.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "benchmarks/matmul/jit_function.h"
#include "tile/cpu/loop_builder.h"

namespace tessera::benchmarks {

using namespace tile::cpu;

namespace {

// A whole cache line is taken from 8 vectors at a time, added into 8 registers.
constexpr int kReadVectors = 8;

}  // namespace

Limits::Limits(const Target& target, PanelLayout layout) {
  read_ = emit_function(target, 2, 2, [](VectorBuilder& b, llvm::Function& f) {
    llvm::IRBuilder<>& ir = b.ir();
    const std::int64_t bytes = b.lanes() * 4;
    Values sums(kReadVectors, b.int_constant(0));
    sums =
        emit_loop(ir, f.getArg(2), f.getArg(3), kReadVectors * bytes, sums,
                  [&](llvm::Value* i, const Values& carried) {
                    Values next;
                    llvm::Value* address = b.at(f.getArg(0), i);
                    for (int v = 0; v < kReadVectors; ++v) {
                      next.push_back(ir.CreateXor(carried[static_cast<std::size_t>(v)],
                                                  b.load(Element::kI32, b.at(address, v * bytes))));
                    }
                    return next;
                  });
    for (llvm::Value* sum : sums) b.store(Element::kI32, sum, f.getArg(1));
  });

  const bool dot = layout == PanelLayout::kBF16 && target.bf16_dot;
  const bool byte_dot = is_quantised(layout) && target.vnni && target.avx512;
  sums_ = target.n_registers - 4;
  flops_per_iteration_ = sums_ * target.lanes() * (byte_dot ? 8.0 : dot ? 4.0 : 2.0);
  compute_ = emit_function(target, 2, 2, [&](VectorBuilder& b, llvm::Function& f) {
    llvm::IRBuilder<>& ir = b.ir();
    llvm::Value* x = b.load(Element::kF32, f.getArg(0));
    llvm::Value* y = b.load(Element::kF32, b.at(f.getArg(0), b.lanes() * 4));
    llvm::Type* pairs =
        llvm::FixedVectorType::get(ir.getBFloatTy(), static_cast<unsigned>(2 * b.lanes()));
    llvm::Value* x_bits = ir.CreateBitCast(x, b.int_type());
    llvm::Value* y_bits = ir.CreateBitCast(y, b.int_type());
    const auto accumulate = [&](llvm::Value* sum) -> llvm::Value* {
      if (byte_dot) {
        return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                                  {sum, x_bits, y_bits});
      }
      if (!dot) return b.mul_add(x, y, sum);
      return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                {sum, ir.CreateBitCast(x, pairs), ir.CreateBitCast(y, pairs)});
    };
    Values sums(static_cast<std::size_t>(sums_), byte_dot ? b.int_constant(0) : b.zero());
    sums =
        emit_loop(ir, f.getArg(2), f.getArg(3), 1, sums, [&](llvm::Value*, const Values& carried) {
          Values next;
          for (llvm::Value* sum : carried) next.push_back(accumulate(sum));
          return next;
        });
    for (std::size_t i = 0; i < sums.size(); ++i) {
      b.store(byte_dot ? Element::kI32 : Element::kF32, sums[i],
              b.at(f.getArg(1), static_cast<std::int64_t>(i) * b.lanes() * 4));
    }
  });
}

void Limits::read(const std::byte* memory, std::int64_t begin, std::int64_t end) const {
  alignas(64) std::byte sink[64];
  read_->function<void(const std::byte*, std::byte*, std::int64_t, std::int64_t)>("run")(
      memory, sink, begin, end);
}

double Limits::compute(std::int64_t iterations) const {
  alignas(64) const float operands[32] = {};
  alignas(64) float sums[32 * 16];
  compute_->function<void(const float*, float*, std::int64_t, std::int64_t)>("run")(operands, sums,
                                                                                    0, iterations);
  return static_cast<double>(iterations) * flops_per_iteration_;
}

}  // namespace tessera::benchmarks
