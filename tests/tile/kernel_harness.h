// Building, running and guarding small kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <tessera/error.h>

#include "base/buffer.h"
#include "tile/cpu/code_generator.h"
#include "tile/cpu/target.h"
#include "tile/cpu/vector_builder.h"
#include "tile/jit/compiled_code.h"

namespace tessera::tile::cpu::testing {

// The targets that tests run: this machine, and older ones that it can stand in for.
inline std::vector<std::string> runnable_targets() {
  std::vector<std::string> names;
  for (const char* name : {"native", "skylake-avx512", "haswell", "x86-64"}) {
    try {
      if (describe_target(name).cannot_run.empty()) names.push_back(name);
    } catch (const Error&) {  // not an x86 machine
    }
  }
  return names;
}

inline constexpr int kMaxArguments = 6;

// A kernel of pointer and i64 arguments, all passed as 64-bit words.
class Kernel {
 public:
  using Emit = std::function<void(VectorBuilder& b, llvm::Function& function)>;

  // `signature`: one character an argument, 'p' a pointer, 'i' an i64.
  Kernel(const std::string& cpu, const std::string& signature, const Emit& emit)
      : target_(describe_target(cpu)) {
    llvm::LLVMContext context;
    llvm::Module module("test", context);
    prepare_module(module, target_);
    build(module, signature, emit);
    code_ = std::make_unique<CompiledCode>(generate_image(module, target_));
  }

  // The assembly of a kernel, for any CPU.
  static std::string assembly(const std::string& cpu, const std::string& signature,
                              const Emit& emit) {
    const Target target = describe_target(cpu);
    llvm::LLVMContext context;
    llvm::Module module("test", context);
    prepare_module(module, target);
    build(module, target, signature, emit);
    return generate_asm(module, target);
  }

  template <typename... Arguments>
  void operator()(Arguments... arguments) const {
    code_->function<void(Arguments...)>("kernel")(arguments...);
  }

  const Target& target() const { return target_; }

 private:
  void build(llvm::Module& module, const std::string& signature, const Emit& emit) {
    build(module, target_, signature, emit);
  }
  static void build(llvm::Module& module, const Target& target, const std::string& signature,
                    const Emit& emit) {
    llvm::IRBuilder<> ir(module.getContext());
    std::vector<llvm::Type*> types;
    for (char c : signature) {
      types.push_back(c == 'p' ? static_cast<llvm::Type*>(ir.getPtrTy()) : ir.getInt64Ty());
    }
    auto* function = llvm::Function::Create(llvm::FunctionType::get(ir.getVoidTy(), types, false),
                                            llvm::Function::ExternalLinkage, "kernel", module);
    prepare_function(*function, target);
    ir.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
    VectorBuilder b(ir, target);
    emit(b, *function);
    ir.CreateRetVoid();
  }

  Target target_;
  std::unique_ptr<CompiledCode> code_;
};

// An array between guard bytes: what is written before or behind it is found, and what is read
// there is NaN in every floating-point type.
template <typename T>
class Guarded {
 public:
  explicit Guarded(std::size_t n, std::size_t misalign = 0)
      : n_(n), buffer_(2 * kGuard + n * sizeof(T) + 64), begin_(kGuard + misalign * sizeof(T)) {
    std::memset(buffer_.data(), 0xff, buffer_.size());
  }

  T* data() { return reinterpret_cast<T*>(buffer_.data() + begin_); }
  const T* data() const { return reinterpret_cast<const T*>(buffer_.data() + begin_); }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

  bool guards_intact() const {
    const std::size_t end = begin_ + n_ * sizeof(T);
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
      if (i >= begin_ && i < end) continue;
      if (buffer_.data()[i] != std::byte{0xff}) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  std::size_t n_;
  Buffer buffer_;
  std::size_t begin_;
};

inline std::string target_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

// A small generator with the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // In [-1, 1).
  float value() { return static_cast<float>(static_cast<std::int32_t>(next() >> 32)) * 0x1p-31f; }

 private:
  std::uint64_t state_;
};

}  // namespace tessera::tile::cpu::testing
