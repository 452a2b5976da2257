// The compiler plugin, through the library: what a program with a cold cache does.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <tessera/error.h>

#include "tile/jit/compile_cache.h"

namespace tessera::tile {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CompileRequest request(std::string ir, std::string cpu = "") {
  return {"test", "llvm", std::move(ir), "", std::move(cpu)};
}

constexpr const char* kTwice =
    "define i32 @twice(i32 %x) {\n  %y = add i32 %x, %x\n  ret i32 %y\n}\n";

// Constants lie beside the code, a loop over them and a call within the module.
constexpr const char* kWithConstants = R"(
@table = internal constant [4 x i32] [i32 3, i32 5, i32 7, i32 11]
define internal i32 @pick(i64 %i) noinline {
  %p = getelementptr i32, ptr @table, i64 %i
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @first(i64 %i) {
  %v = call i32 @pick(i64 %i)
  ret i32 %v
}
define float @third(float %x) {
  %y = fmul float %x, 0.3333333432674407958984375
  ret float %y
}
)";

std::string message(const CompileRequest& request) {
  try {
    const CompiledCode code(compile(request));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Compiler, CompilesAndRuns) {
  const CompiledCode code(compile(request(kTwice)));
  EXPECT_EQ(code.function<int(int)>("twice")(21), 42);
  EXPECT_THROW(code.address("thrice"), Error);
}

TEST(Compiler, CodeFindsItsConstantsWhereverItLies) {
  const CodeImage image = compile(request(kWithConstants));
  for (int copy = 0; copy < 3; ++copy) {
    const CompiledCode code(image);
    EXPECT_EQ(code.function<int(long)>("first")(2), 7);
    EXPECT_EQ(code.function<float(float)>("third")(3.0f), 1.0f);
  }
}

TEST(Compiler, IsTheSameEveryTime) {
  EXPECT_EQ(compile(request(kWithConstants)).serialize(),
            compile(request(kWithConstants)).serialize());
}

TEST(Compiler, RefusesSymbolsFromOutside) {
  EXPECT_THAT(message(request("declare float @expf(float)\n"
                              "define float @f(float %x) {\n"
                              "  %y = call float @expf(float %x)\n  ret float %y\n}\n")),
              HasSubstr("expf"));
}

TEST(Compiler, RefusesCodeThatDependsOnItsAddress) {
  EXPECT_THAT(message(request("@a = global ptr @f\n"
                              "define ptr @f() {\n  %p = load ptr, ptr @a\n  ret ptr %p\n}\n")),
              HasSubstr("address"));
}

TEST(Compiler, SaysWhereTheIrIsWrong) {
  EXPECT_THAT(message(request("define i32 @f() {\n  ret i64 0\n}\n")), HasSubstr("line 2"));
}

TEST(Compiler, RefusesToRunCodeForOtherMachines) {
  EXPECT_THAT(message(request(kTwice, "neoverse-n1")), HasSubstr("neoverse-n1"));
  EXPECT_THAT(message(request(kTwice, "graniterapids")), HasSubstr("graniterapids"));
  EXPECT_THAT(message(request(kTwice, "z80")), HasSubstr("z80"));
  EXPECT_EQ(message(request(kTwice, "x86-64")), "");
}

TEST(Compiler, PrintsEveryTarget) {
  EXPECT_THAT(compile_to_text(request(kTwice), "llvm"), HasSubstr("define"));
  EXPECT_THAT(compile_to_text(request(kTwice, "aarch64"), "asm"), HasSubstr("add\tw0, w0, w0"));
  EXPECT_THAT(compile_to_text(request(kTwice, "haswell"), "asm"), HasSubstr("twice:"));
  EXPECT_THROW(compile_to_text(request(kTwice), "wasm"), Error);
}

TEST(Compiler, FillsTheCache) {
  std::string folder =
      (std::filesystem::temp_directory_path() / "tessera-compiler-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  for (const bool is_first : {true, false}) {
    CompileCache::Options options;
    options.folder = folder;
    CompileCache cache(options);
    EXPECT_EQ(cache.get(request(kTwice))->function<int(int)>("twice")(4), 8);
    EXPECT_EQ(cache.statistics().compiled, is_first ? 1 : 0);
  }
  std::filesystem::remove_all(folder);
}

CompileRequest attention(std::string shape, std::string cpu) {
  return {"test", "attention", std::move(shape), "", std::move(cpu)};
}

TEST(Compiler, AttentionSuitsTheCpu) {
  const std::string dot = compile_to_text(attention("bf16 512 64 64", "znver4"), "asm");
  EXPECT_THAT(dot, HasSubstr("vdpbf16ps"));
  // A broadcast by itself would take as long as a third of the dot product.
  EXPECT_THAT(dot, HasSubstr("{1to16}"));
  const std::string avx2 = compile_to_text(attention("bf16 512 64 64", "haswell"), "asm");
  EXPECT_THAT(avx2, HasSubstr("vfmadd"));
  EXPECT_THAT(avx2, Not(HasSubstr("zmm")));
  EXPECT_THAT(compile_to_text(attention("fp32 512 64 64", "znver4"), "asm"),
              Not(HasSubstr("vdpbf16ps")));
  EXPECT_THAT(compile_to_text(attention("bf16 15 2 2", "aarch64"), "asm"), HasSubstr("attend"));
}

TEST(Compiler, AttentionOfAnUnknownShapeIsRefused) {
  for (const char* shape :
       {"", "bf16 512 64", "fp16 512 64 64", "bf16 0 64 64", "bf16 512 64 7", "bf16 512 -1 64"}) {
    EXPECT_THAT(message(attention(shape, "")), HasSubstr("attention cannot be generated"));
  }
}

TEST(Compiler, ExpandedAttentionSuitsTheCpu) {
  const auto text = [](const char* shape, const char* cpu) {
    return compile_to_text({"test", "expanded attention", shape, "", cpu}, "asm");
  };
  EXPECT_THAT(text("bf16 192 128 256", "znver4"), HasSubstr("vdpbf16ps"));
  EXPECT_THAT(text("fp32 192 128 256", "znver4"), Not(HasSubstr("vdpbf16ps")));
  EXPECT_THAT(text("bf16 192 128 256", "haswell"), Not(HasSubstr("zmm")));
  for (const char* shape : {"", "bf16 192 128", "fp16 192 128 256", "bf16 0 128 256",
                            "bf16 192 0 256", "bf16 192 128 7"}) {
    EXPECT_THAT(message({"test", "expanded attention", shape, "", ""}),
                HasSubstr("expanded attention cannot be generated"));
  }
}

}  // namespace
}  // namespace tessera::tile
