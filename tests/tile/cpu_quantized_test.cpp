#include <cmath>

#include "tests/tile/kernel_harness.h"
#include "tile/cpu/matmul_emitter.h"
#include "tile/packed/pack.h"

namespace tessera::tile::cpu {
namespace {

using testing::Guarded;
using testing::Kernel;
using testing::Random;

class Quantized : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Targets, Quantized, ::testing::ValuesIn(testing::runnable_targets()),
                         testing::target_name);

// out[rows][n] = fp32 activations, quantised by row, times int8 weights.
//   arguments: activations, packed weight, out, scratch for packed rows, scratch for 2 * rows
//   numbers, n
void emit_product(VectorBuilder& b, llvm::Function& function, int rows, std::int64_t k) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto i64 = [&](std::int64_t v) { return ir.getInt64(static_cast<std::uint64_t>(v)); };
  const PackedShape shape{PanelLayout::kI8, 0, k};
  llvm::Value* n = function.getArg(5);
  MatmulBlock block = choose_block(b.target(), PanelLayout::kI8, rows);
  int row = 0;
  for (int block_rows : cut_rows(rows, block.rows)) {
    block.rows = block_rows;
    llvm::Value* scales = function.getArg(4);
    llvm::Value* row_sums = b.at(scales, std::int64_t{rows} * 4);
    const RowOperand operand = emit_quantize_rows(
        b, block_rows, i64(k), Element::kF32, b.at(function.getArg(0), row * k * 4), i64(k * 4),
        function.getArg(3), b.at(scales, std::int64_t{row} * 4),
        b.at(row_sums, std::int64_t{row} * 4));
    MatmulEmitter emitter(b, block);
    Values sums_of_rows;
    for (int r = 0; r < block_rows; ++r) {
      sums_of_rows.push_back(b.load_scalar(Element::kI32, b.at(row_sums, (row + r) * 4)));
    }
    const Values start = emitter.corrections(sums_of_rows);
    const int columns = block.vectors * b.lanes();
    llvm::Value* panels = ir.CreateUDiv(ir.CreateAdd(n, i64(31)), i64(kPanelColumns));
    emit_loop(ir, i64(0), panels, 1, [&](llvm::Value* index) {
      llvm::Value* panel =
          b.at(function.getArg(1),
               ir.CreateMul(index, i64(static_cast<std::int64_t>(shape.panel_bytes()))));
      for (int first = 0; first < kPanelColumns; first += columns) {
        const Values sums =
            emitter.multiply(operand, {panel, nullptr, first}, i64(0), i64(k), start);
        emitter.finish(sums, [&](int r, int v, llvm::Value* sum) {
          const int column = first + v * b.lanes();
          llvm::Value* column_scales =
              b.load(Element::kF32,
                     b.at(panel, static_cast<std::int64_t>(shape.scale_offset()) + column * 4));
          llvm::Value* row_scale = b.broadcast(Element::kF32, b.at(scales, (row + r) * 4));
          llvm::Value* j = ir.CreateAdd(ir.CreateMul(index, i64(kPanelColumns)), i64(column));
          llvm::Value* at = ir.CreateAdd(ir.CreateMul(n, i64(row + r)), j);
          b.store(Element::kF32, b.mul(b.mul(b.int_to_float(sum), row_scale), column_scales),
                  b.at(function.getArg(2), ir.CreateMul(at, i64(4))),
                  b.first_lanes(ir.CreateSub(n, j)));
        });
      }
    });
    row += block_rows;
  }
}

TEST_P(Quantized, EqualsIntegerArithmetic) {
  for (int rows : {1, 2, 8, 14}) {
    for (std::int64_t k : {1, 4, 5, 16, 33, 70}) {
      const Kernel kernel(GetParam(), "pppppi", [&](VectorBuilder& b, llvm::Function& function) {
        emit_product(b, function, rows, k);
      });
      for (std::int64_t n : {1, 31, 33, 64}) {
        Random random(static_cast<std::uint64_t>(rows * 1000 + k * 10 + n));
        Guarded<float> activations(static_cast<std::size_t>(rows * k));
        std::vector<float> weights(static_cast<std::size_t>(n * k));
        for (std::size_t i = 0; i < activations.size(); ++i) activations[i] = random.value();
        for (float& weight : weights) weight = random.value();
        if (rows == 8) std::fill(activations.data(), activations.data() + k, 0.0f);
        ThreadPool pool(1);
        const PackedWeight packed =
            pack({reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, n, k, k, 1},
                 PanelLayout::kI8, pool);

        Guarded<float> out(static_cast<std::size_t>(rows * n));
        Guarded<std::int8_t> scratch(static_cast<std::size_t>(rows * ((k + 3) / 4 * 4)));
        Guarded<float> numbers(static_cast<std::size_t>(2 * rows));
        kernel(activations.data(), packed.data(), out.data(), scratch.data(), numbers.data(), n);
        EXPECT_TRUE(out.guards_intact() && scratch.guards_intact() && numbers.guards_intact());

        const auto scales_of = [&](std::int64_t j) {
          const std::byte* scales = packed.panel(j / 32) + packed.shape().scale_offset();
          return reinterpret_cast<const float*>(scales)[j % 32];
        };
        for (std::int64_t r = 0; r < rows; ++r) {
          const float* row = activations.data() + r * k;
          float largest = 0;
          for (std::int64_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(row[i]));
          const float inverse = largest == 0 ? 0 : 127.0f / largest;
          for (std::int64_t j = 0; j < n; ++j) {
            const auto* bytes = reinterpret_cast<const std::uint8_t*>(packed.panel(j / 32));
            std::int32_t sum = 0;
            for (std::int64_t i = 0; i < k; ++i) {
              const int weight = bytes[(i / 4 * 32 + j % 32) * 4 + i % 4] - 128;
              sum += weight * static_cast<int>(std::nearbyint(row[i] * inverse));
            }
            const float expected = static_cast<float>(sum) * (largest / 127.0f) * scales_of(j);
            ASSERT_EQ(out[static_cast<std::size_t>(r * n + j)], expected)
                << "row " << r << " column " << j << " of " << rows << "x" << n << "x" << k;
          }
        }
      }
    }
  }
}

TEST(QuantizedAssembly, UsesByteDotProductsWhereTheyExist) {
  const auto assembly = [](const std::string& cpu) {
    return Kernel::assembly(cpu, "pppppi", [](VectorBuilder& b, llvm::Function& function) {
      emit_product(b, function, 8, 64);
    });
  };
  EXPECT_NE(assembly("znver4").find("vpdpbusd"), std::string::npos);
  EXPECT_NE(assembly("alderlake").find("vpdpbusd"), std::string::npos);
  EXPECT_EQ(assembly("haswell").find("vpdpbusd"), std::string::npos);
  EXPECT_NE(assembly("haswell").find("vpmaddwd"), std::string::npos);
  EXPECT_NE(assembly("aarch64").find("mla"), std::string::npos);
}

}  // namespace
}  // namespace tessera::tile::cpu
