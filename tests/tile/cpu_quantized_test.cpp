#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/half.h"
#include "tests/tile/kernel_harness.h"
#include "tile/cpu/prepare_rows.h"
#include "tile/cpu/prepared_product.h"
#include "tile/packed/pack.h"

namespace tessera::tile::cpu {
namespace {

using testing::Guarded;
using testing::Kernel;
using testing::Random;

constexpr PanelLayout kLayouts[] = {PanelLayout::kI8, PanelLayout::kI8G32, PanelLayout::kI6G32,
                                    PanelLayout::kI4G32};

class Quantized : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Targets, Quantized, ::testing::ValuesIn(testing::runnable_targets()),
                         testing::target_name);

// out [rows][n] = one block of fp32 rows, quantised, times a packed weight.
//   arguments: rows, packed weight, out, prepared rows, k, n
struct Product {
  PanelLayout layout;
  int rows;
  int vectors = 0;  // 0: as choose_block says
};

void emit_product(VectorBuilder& b, llvm::Function& function, const Product& product) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto i64 = [&](std::int64_t v) { return ir.getInt64(static_cast<std::uint64_t>(v)); };
  llvm::Value* k = function.getArg(4);
  llvm::Value* n = function.getArg(5);
  MatmulBlock block = choose_block(b.target(), product.layout, product.rows);
  block.rows = product.rows;
  if (product.vectors > 0) block.vectors = product.vectors;

  PreparedBlock prepared;
  prepared.memory = function.getArg(3);
  prepared.rows = i64(product.rows);
  prepared.k = k;
  prepared.source = [&](llvm::Value* r) {
    return b.at(function.getArg(0), ir.CreateMul(r, ir.CreateMul(k, i64(4))));
  };
  emit_prepare_block(b, product.layout, prepared);

  const ProductPlan form = prepared_form(b.target(), product.layout);
  llvm::Value* units = ir.CreateUDiv(ir.CreateAdd(k, i64(form.unit - 1)), i64(form.unit));
  const auto group_bytes = static_cast<std::int64_t>(panel_group_bytes(product.layout));
  llvm::Value* panel_bytes =
      ir.CreateAdd(ir.CreateMul(units, i64(group_bytes)),
                   i64(static_cast<std::int64_t>(scale_bytes(product.layout))));
  llvm::Value* panels = ir.CreateUDiv(ir.CreateAdd(n, i64(31)), i64(kPanelColumns));
  const int columns = block.vectors * b.lanes();
  emit_loop(ir, i64(0), panels, 1, [&](llvm::Value* index) {
    llvm::Value* panel = b.at(function.getArg(1), ir.CreateMul(index, panel_bytes));
    for (int first = 0; first < kPanelColumns; first += columns) {
      const Values sums = emit_prepared_product(b, block, prepared.memory, panel, first, units);
      for (int r = 0; r < product.rows; ++r) {
        for (int v = 0; v < block.vectors; ++v) {
          llvm::Value* j =
              ir.CreateAdd(ir.CreateMul(index, i64(kPanelColumns)), i64(first + v * b.lanes()));
          llvm::Value* at = ir.CreateAdd(ir.CreateMul(n, i64(r)), j);
          b.store(Element::kF32, sums[static_cast<std::size_t>(r * block.vectors + v)],
                  b.at(function.getArg(2), ir.CreateMul(at, i64(4))),
                  b.first_lanes(ir.CreateSub(n, j)));
        }
      }
    }
  });
}

struct QuantisedInput {
  std::vector<int> integers;
  std::vector<float> scales;  // for each group
};

// As prepare_rows.h says.
QuantisedInput quantise_row(std::span<const float> row, std::size_t group) {
  QuantisedInput result;
  for (std::size_t first = 0; first < row.size(); first += group) {
    const auto values = row.subspan(first, std::min(group, row.size() - first));
    float largest = 0;
    for (float value : values) largest = std::max(largest, std::abs(value));
    const float inverse = largest == 0 ? 0 : 127.0f / largest;
    for (float value : values) {
      result.integers.push_back(static_cast<int>(std::nearbyint(value * inverse)));
    }
    result.scales.push_back(largest / 127.0f);
  }
  return result;
}

// The integer of a packed weight, from its exact value and its scale.
struct PackedColumn {
  std::vector<int> integers;
  std::vector<float> scales;
};

PackedColumn packed_column(const PackedWeight& weight, const std::vector<double>& values,
                           std::int64_t j) {
  const PackedShape& shape = weight.shape();
  const std::int64_t group = has_groups(shape.layout) ? kGroupInputs : shape.k;
  const std::byte* panel = weight.panel(j / kPanelColumns);
  PackedColumn column;
  for (std::int64_t i = 0; i < shape.k; ++i) {
    if (i % group == 0) {
      const auto at = static_cast<std::size_t>(i / group) * shape.group_bytes();
      column.scales.push_back(
          has_groups(shape.layout)
              ? to_float(reinterpret_cast<const f16*>(panel + at)[j % kPanelColumns])
              : reinterpret_cast<const float*>(panel + shape.scale_offset())[j % kPanelColumns]);
    }
    const double scale = column.scales.back();
    const double value = values[static_cast<std::size_t>(j * shape.k + i)];
    column.integers.push_back(scale == 0 ? 0 : static_cast<int>(std::nearbyint(value / scale)));
  }
  return column;
}

float expected_output(const Target& target, PanelLayout layout, const QuantisedInput& row,
                      const PackedColumn& column) {
  const std::size_t group = has_groups(layout) ? kGroupInputs : row.integers.size();
  float total = 0;
  for (std::size_t g = 0; g < row.scales.size(); ++g) {
    std::int32_t sum = 0;
    for (std::size_t i = g * group; i < std::min(row.integers.size(), (g + 1) * group); ++i) {
      sum += row.integers[i] * column.integers[i];
    }
    const auto exact = static_cast<float>(sum);
    if (layout == PanelLayout::kI8) return exact * row.scales[g] * column.scales[g];
    const float scale = column.scales[g] * row.scales[g];
    total = target.fma ? std::fma(exact, scale, total) : exact * scale + total;
  }
  return total;
}

TEST_P(Quantized, EqualsIntegerArithmetic) {
  for (PanelLayout layout : kLayouts) {
    for (int rows : {1, 2, 3, 8}) {
      const Kernel kernel(GetParam(), "ppppii", [&](VectorBuilder& b, llvm::Function& function) {
        emit_product(b, function, {layout, rows});
      });
      for (std::int64_t k : {1, 4, 5, 16, 31, 32, 33, 70, 256, 257, 300}) {
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
                   layout, pool);
          std::vector<double> values(weights.size());
          unpack(packed.shape(), packed.data(), values.data());

          const std::int64_t row_bytes =
              prepared_form(kernel.target(), layout).prepared_row_bytes(k);
          Guarded<float> out(static_cast<std::size_t>(rows * n));
          Guarded<std::int8_t> prepared(static_cast<std::size_t>(rows * row_bytes));
          kernel(activations.data(), packed.data(), out.data(), prepared.data(), k, n);
          EXPECT_TRUE(out.guards_intact() && prepared.guards_intact());

          const auto group = static_cast<std::size_t>(has_groups(layout) ? kGroupInputs : k);
          for (std::int64_t r = 0; r < rows; ++r) {
            const QuantisedInput row = quantise_row(
                std::span(activations.data() + r * k, static_cast<std::size_t>(k)), group);
            for (std::int64_t j = 0; j < n; ++j) {
              const PackedColumn column = packed_column(packed, values, j);
              ASSERT_EQ(out[static_cast<std::size_t>(r * n + j)],
                        expected_output(kernel.target(), layout, row, column))
                  << to_string(layout) << " row " << r << " column " << j << " of " << rows << "x"
                  << n << "x" << k;
            }
          }
        }
      }
    }
  }
}

TEST_P(Quantized, BitsDoNotDependOnTheBlock) {
  constexpr std::int64_t kK = 200;
  constexpr std::int64_t kN = 64;
  for (PanelLayout layout : kLayouts) {
    Random random(7);
    Guarded<float> activations(3 * kK);
    std::vector<float> weights(kN * kK);
    for (std::size_t i = 0; i < activations.size(); ++i) activations[i] = random.value();
    for (float& weight : weights) weight = random.value();
    ThreadPool pool(1);
    const PackedWeight packed =
        pack({reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, kN, kK, kK, 1},
             layout, pool);
    const auto run = [&](int rows, int vectors) {
      const Kernel kernel(GetParam(), "ppppii", [&](VectorBuilder& b, llvm::Function& function) {
        emit_product(b, function, {layout, rows, vectors});
      });
      Guarded<float> out(static_cast<std::size_t>(rows * kN));
      Guarded<std::int8_t> prepared(static_cast<std::size_t>(
          rows * prepared_form(kernel.target(), layout).prepared_row_bytes(kK)));
      kernel(activations.data(), packed.data(), out.data(), prepared.data(), kK, kN);
      return std::vector<float>(out.data(), out.data() + kN);  // the first row
    };
    const std::vector<float> alone = run(1, 0);
    for (int vectors : {1, 2}) {
      for (int rows : {1, 2, 3}) {
        EXPECT_EQ(run(rows, vectors), alone) << to_string(layout) << " " << rows << "x" << vectors;
      }
    }
  }
}

// The extremes of what 16 and 32 bits must hold.
TEST_P(Quantized, LargestSumsDoNotOverflow) {
  constexpr std::int64_t kK = 11008;
  for (PanelLayout layout : kLayouts) {
    for (const float sign : {1.0f, -1.0f}) {
      Guarded<float> activations(kK);
      std::fill(activations.data(), activations.data() + kK, sign);
      const std::vector<float> weights(kK, 1.0f);
      ThreadPool pool(1);
      const PackedWeight packed =
          pack({reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, 1, kK, kK, 1},
               layout, pool);
      const Kernel kernel(GetParam(), "ppppii", [&](VectorBuilder& b, llvm::Function& function) {
        emit_product(b, function, {layout, 1});
      });
      Guarded<float> out(1);
      Guarded<std::int8_t> prepared(
          static_cast<std::size_t>(prepared_form(kernel.target(), layout).prepared_row_bytes(kK)));
      kernel(activations.data(), packed.data(), out.data(), prepared.data(), kK, std::int64_t{1});
      EXPECT_NEAR(out[0], sign * kK, 0.001f * kK) << to_string(layout);
    }
  }
}

TEST_P(Quantized, WhatIsNotFiniteIsNotHidden) {
  for (PanelLayout layout : kLayouts) {
    const Kernel kernel(GetParam(), "ppppii", [&](VectorBuilder& b, llvm::Function& function) {
      emit_product(b, function, {layout, 1});
    });
    const std::vector<float> weights(40, 1.0f);
    ThreadPool pool(1);
    const PackedWeight packed =
        pack({reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, 1, 40, 40, 1},
             layout, pool);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Guarded<float> activations(40);
      std::fill(activations.data(), activations.data() + 40, 1.0f);
      activations[35] = bad;
      Guarded<float> out(1);
      Guarded<std::int8_t> prepared(
          static_cast<std::size_t>(prepared_form(kernel.target(), layout).prepared_row_bytes(40)));
      kernel(activations.data(), packed.data(), out.data(), prepared.data(), std::int64_t{40},
             std::int64_t{1});
      EXPECT_FALSE(std::isfinite(out[0])) << to_string(layout) << " " << bad << " gave " << out[0];
    }
  }
}

TEST(QuantizedAssembly, UsesByteDotProductsWhereTheyExist) {
  const auto assembly = [](const std::string& cpu, PanelLayout layout) {
    return Kernel::assembly(cpu, "ppppii", [&](VectorBuilder& b, llvm::Function& function) {
      emit_product(b, function, {layout, 2});
    });
  };
  for (PanelLayout layout : kLayouts) {
    EXPECT_NE(assembly("znver4", layout).find("vpdpbusd"), std::string::npos);
    EXPECT_NE(assembly("alderlake", layout).find("vpdpbusd"), std::string::npos);
    EXPECT_EQ(assembly("haswell", layout).find("vpdpbusd"), std::string::npos);
    EXPECT_NE(assembly("haswell", layout).find("vpmaddwd"), std::string::npos);
    EXPECT_NE(assembly("aarch64", layout).find("mla"), std::string::npos);
  }
  EXPECT_NE(assembly("haswell", PanelLayout::kI6G32).find("vpmaddubsw"), std::string::npos);
  EXPECT_NE(assembly("haswell", PanelLayout::kI4G32).find("vpmaddubsw"), std::string::npos);
  EXPECT_NE(assembly("skylake-avx512", PanelLayout::kI4G32).find("vpmaddubsw"), std::string::npos);
}

}  // namespace
}  // namespace tessera::tile::cpu
