#include <cmath>
#include <span>

#include "base/half.h"
#include "tests/tile/kernel_harness.h"
#include "tile/cpu/matmul_emitter.h"
#include "tile/packed/pack.h"

namespace tessera::tile::cpu {
namespace {

using testing::Guarded;
using testing::Kernel;
using testing::Random;

class Matmul : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Targets, Matmul, ::testing::ValuesIn(testing::runnable_targets()),
                         testing::target_name);

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

// out[rows][n] = activations[rows][k] times a packed weight: for one row count and k, any n.
//   arguments: activations, packed weight, out, scratch for packed rows, n
struct Product {
  PanelLayout layout = PanelLayout::kF32;
  int rows = 1;
  std::int64_t k = 1;
  bool pack_rows = false;
  int max_rows = 0;  // 0: as choose_block says
  int vectors = 0;
  std::int64_t split_k = 0;  // cut k here and go through memory
};

void emit_product(VectorBuilder& b, llvm::Function& function, const Product& product) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto i64 = [&](std::int64_t value) {
    return ir.getInt64(static_cast<std::uint64_t>(value));
  };
  const PackedShape shape{product.layout, 0, product.k};
  const auto panel_bytes = static_cast<std::int64_t>(shape.panel_bytes());
  const int interleave = k_interleave(product.layout);
  const Element element = activation_element(b.target(), product.layout);
  const std::int64_t row_bytes = product.k * element_bytes(element);
  llvm::Value* n = function.getArg(4);

  MatmulBlock block = choose_block(b.target(), product.layout, product.rows);
  if (product.max_rows > 0) block.rows = product.max_rows;
  if (product.vectors > 0) block.vectors = product.vectors;
  const int columns = block.vectors * b.lanes();
  int row = 0;
  for (int block_rows : cut_rows(product.rows, block.rows)) {
    block.rows = block_rows;
    llvm::Value* source = b.at(function.getArg(0), row * row_bytes);
    RowOperand operand{source, i64(row_bytes), i64(interleave * element_bytes(element))};
    if (product.pack_rows) {
      operand = emit_pack_rows(b, block_rows, interleave, i64(product.k), element, source,
                               i64(row_bytes), element, function.getArg(3));
    }
    // The last block of columns may begin beyond n (its panel exists, its columns are padding) only
    // within the last panel, so blocks of several panels stop at whole ones.
    const int step = std::max(columns, kPanelColumns);
    emit_loop(
        ir, i64(0),
        ir.CreateMul(ir.CreateUDiv(ir.CreateAdd(n, i64(step - 1)), i64(step)), i64(step)), step,
        [&](llvm::Value* column) {
          for (int first = 0; first < step; first += columns) {
            MatmulEmitter emitter(b, block);
            llvm::Value* panel =
                b.at(function.getArg(1),
                     ir.CreateMul(ir.CreateUDiv(column, i64(kPanelColumns)), i64(panel_bytes)));
            const PanelOperand weight{panel, i64(panel_bytes), first};
            Values sums = emitter.zeros();
            const std::int64_t middle = product.split_k;
            if (middle > 0) sums = emitter.multiply(operand, weight, i64(0), i64(middle), sums);
            sums = emitter.multiply(operand, weight, i64(middle), i64(product.k), sums);
            emitter.finish(sums, [&](int r, int v, llvm::Value* sum) {
              llvm::Value* j = ir.CreateAdd(column, i64(first + v * b.lanes()));
              llvm::Value* index = ir.CreateAdd(ir.CreateMul(n, i64(row + r)), j);
              b.store(Element::kF32, sum, b.at(function.getArg(2), ir.CreateMul(index, i64(4))),
                      b.first_lanes(ir.CreateSub(n, j)));
            });
          }
        });
    row += block_rows;
  }
}

Kernel product_kernel(const std::string& cpu, const Product& product) {
  return Kernel(cpu, "ppppi", [&](VectorBuilder& b, llvm::Function& function) {
    emit_product(b, function, product);
  });
}

struct Operands {
  std::vector<float> activations;  // values that every type holds exactly
  std::vector<float> weights;
  PackedWeight packed;
};

Operands make_operands(DType dtype, std::int64_t rows, std::int64_t n, std::int64_t k,
                       int panels_padded) {
  Random random(static_cast<std::uint64_t>(rows * 1000003 + n * 1009 + k));
  const auto value = [&] { return to_float(to_bf16(random.value())); };
  Operands operands;
  for (std::int64_t i = 0; i < rows * k; ++i) operands.activations.push_back(value());
  for (std::int64_t i = 0; i < n * k; ++i) operands.weights.push_back(value());
  if (dtype == DType::kF16) {
    for (float& weight : operands.weights) weight = to_float(to_f16(weight));
  }
  // Blocks of two panels need an even number of them.
  const std::int64_t padded =
      (n + 32 * panels_padded - 1) / (32 * panels_padded) * 32 * panels_padded;
  std::vector<float> all(static_cast<std::size_t>(padded * k), 0.0f);
  std::copy(operands.weights.begin(), operands.weights.end(), all.begin());
  ThreadPool pool(1);
  operands.packed =
      pack({reinterpret_cast<const std::byte*>(all.data()), DType::kF32, padded, k, k, 1},
           panel_layout(dtype), pool);
  return operands;
}

std::vector<float> run(const Kernel& kernel, const Product& product, std::span<const float> rows,
                       const PackedWeight& weight, std::int64_t n) {
  const Element element = activation_element(kernel.target(), product.layout);
  const auto size = static_cast<std::size_t>(element_bytes(element));
  Guarded<std::uint8_t> activations(rows.size() * size);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (element == Element::kBF16) {
      const bf16 bits = to_bf16(rows[i]);
      std::memcpy(activations.data() + i * size, &bits, size);
    } else {
      std::memcpy(activations.data() + i * size, &rows[i], size);
    }
  }
  const std::size_t scratch_size = static_cast<std::size_t>(product.rows * (product.k + 1)) * size;
  Guarded<std::uint8_t> scratch(product.pack_rows ? scratch_size : 1);
  Guarded<float> out(static_cast<std::size_t>(product.rows * n));
  kernel(static_cast<const void*>(activations.data()), static_cast<const void*>(weight.data()),
         out.data(), static_cast<void*>(scratch.data()), n);
  EXPECT_TRUE(out.guards_intact());
  EXPECT_TRUE(scratch.guards_intact());
  return {out.data(), out.data() + out.size()};
}

void expect_close(const std::vector<float>& got, const Operands& operands, std::int64_t rows,
                  std::int64_t n, std::int64_t k) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < n; ++j) {
      double expected = 0;
      double magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double term =
            static_cast<double>(operands.activations[static_cast<std::size_t>(r * k + i)]) *
            operands.weights[static_cast<std::size_t>(j * k + i)];
        expected += term;
        magnitude += std::abs(term);
      }
      const double tolerance = magnitude * static_cast<double>(k) * 0x1p-24 + 1e-30;
      ASSERT_NEAR(got[static_cast<std::size_t>(r * n + j)], expected, tolerance)
          << "row " << r << " column " << j << " of " << rows << "x" << n << "x" << k;
    }
  }
}

int panels_per_block(const Kernel& kernel, const Product& product) {
  const int vectors = product.vectors > 0
                          ? product.vectors
                          : choose_block(kernel.target(), product.layout, product.rows).vectors;
  return std::max(1, vectors * kernel.target().lanes() / kPanelColumns);
}

TEST_P(Matmul, EqualsTheReferenceAtEveryTail) {
  for (DType dtype : kDTypes) {
    for (int rows : {1, 2, 8, 14}) {
      for (std::int64_t k : {1, 2, 7, 33}) {
        for (const bool pack_rows : {false, true}) {
          const Product product{panel_layout(dtype), rows, k, pack_rows};
          const Kernel kernel = product_kernel(GetParam(), product);
          const int w = kernel.target().lanes();
          for (int n : {1, w - 1, w, w + 1, 2 * w + 1, 33, 64, 65}) {
            const Operands operands =
                make_operands(dtype, rows, n, k, panels_per_block(kernel, product));
            expect_close(run(kernel, product, operands.activations, operands.packed, n), operands,
                         rows, n, k);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// A row's bits do not depend on the rows beside it, on the block, on packing or on a cut of k.
TEST_P(Matmul, ARowsBitsDependOnTheRowAlone) {
  constexpr std::size_t kRows = 64;
  constexpr std::int64_t kN = 96;
  constexpr std::int64_t kK = 301;
  for (DType dtype : kDTypes) {
    // One panel more than kN fills: blocks may span two.
    const Operands all = make_operands(dtype, kRows, kN, kK, 4);
    std::vector<Product> products;
    for (int rows : {1, 3, 8, 64}) products.push_back({panel_layout(dtype), rows, kK});
    products.push_back({panel_layout(dtype), 64, kK, true});
    products.push_back({panel_layout(dtype), 8, kK, false, 3, 1});
    products.push_back({panel_layout(dtype), 8, kK, true, 5, 2, 128});
    std::vector<float> expected;
    for (const Product& product : products) {
      const Kernel kernel = product_kernel(GetParam(), product);
      const auto rows = static_cast<std::size_t>(product.rows);
      std::vector<float> got;
      for (std::size_t first = 0; first + rows <= kRows; first += rows) {
        const auto part_rows = std::span(all.activations).subspan(first * kK, rows * kK);
        const std::vector<float> part = run(kernel, product, part_rows, all.packed, kN);
        got.insert(got.end(), part.begin(), part.end());
      }
      if (expected.empty()) expected = got;
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
          << to_string(dtype) << " rows " << product.rows << " block " << product.max_rows;
    }
  }
}

TEST_P(Matmul, PacksAnyRowsOfAnyType) {
  for (Element from : {Element::kF32, Element::kBF16, Element::kF16}) {
    for (Element to : {Element::kF32, Element::kBF16}) {
      for (int interleave : {1, 2}) {
        for (std::int64_t k : {1, 2, 5, 16, 31, 32, 33, 70}) {
          constexpr int kRows = 3;
          const Kernel kernel(GetParam(), "ppi", [&](VectorBuilder& b, llvm::Function& function) {
            emit_pack_rows(b, kRows, interleave, function.getArg(2), from, function.getArg(0),
                           b.ir().getInt64(static_cast<std::uint64_t>(k * element_bytes(from))), to,
                           function.getArg(1));
          });
          Guarded<std::uint8_t> in(static_cast<std::size_t>(kRows * k * element_bytes(from)));
          const std::int64_t k_padded = (k + interleave - 1) / interleave * interleave;
          Guarded<std::uint8_t> out(static_cast<std::size_t>(kRows * k_padded * element_bytes(to)));
          const auto value = [&](std::int64_t r, std::int64_t i) {
            return static_cast<float>((r * 37 + i * 5) % 200 - 100);
          };
          for (std::int64_t r = 0; r < kRows; ++r) {
            for (std::int64_t i = 0; i < k; ++i) {
              std::uint8_t* at = in.data() + (r * k + i) * element_bytes(from);
              const float x = value(r, i);
              const bf16 b = to_bf16(x);
              const f16 h = to_f16(x);
              if (from == Element::kF32) std::memcpy(at, &x, 4);
              if (from == Element::kBF16) std::memcpy(at, &b, 2);
              if (from == Element::kF16) std::memcpy(at, &h, 2);
            }
          }
          kernel(in.data(), out.data(), k);
          EXPECT_TRUE(out.guards_intact());
          for (std::int64_t r = 0; r < kRows; ++r) {
            for (std::int64_t i = 0; i < k_padded; ++i) {
              const std::int64_t index = (i / interleave * kRows + r) * interleave + i % interleave;
              const std::uint8_t* at = out.data() + index * element_bytes(to);
              float got = 0;
              bf16 b{};
              if (to == Element::kF32) std::memcpy(&got, at, 4);
              if (to == Element::kBF16) std::memcpy(&b, at, 2), got = to_float(b);
              ASSERT_EQ(got, i < k ? value(r, i) : 0.0f) << "row " << r << " input " << i;
            }
          }
        }
      }
    }
  }
}

// Targets that this machine cannot run still compile, and use the instructions they should.
TEST(MatmulAssembly, UsesTheInstructionsOfItsTarget) {
  const auto assembly = [](const std::string& cpu, DType dtype, int rows) {
    const Product product{panel_layout(dtype), rows, 64};
    return Kernel::assembly(cpu, "ppppi", [&](VectorBuilder& b, llvm::Function& function) {
      emit_product(b, function, product);
    });
  };
  const auto has = [](const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
  };
  EXPECT_TRUE(has(assembly("znver4", DType::kBF16, 8), "vdpbf16ps"));
  const std::string skylake = assembly("skylake-avx512", DType::kBF16, 8);
  EXPECT_FALSE(has(skylake, "vdpbf16ps"));
  EXPECT_TRUE(has(skylake, "vfmadd231ps") && has(skylake, "%zmm"));
  const std::string haswell = assembly("haswell", DType::kF16, 4);
  EXPECT_TRUE(has(haswell, "vcvtph2ps") && has(haswell, "%ymm") && !has(haswell, "%zmm"));
  const std::string baseline = assembly("x86-64", DType::kF16, 4);
  EXPECT_TRUE(has(baseline, "mulps") && !has(baseline, "%ymm") && !has(baseline, "call"));
  for (DType dtype : kDTypes) {
    const std::string arm = assembly("aarch64", dtype, 4);
    EXPECT_TRUE(has(arm, "fmla") && !has(arm, "\tbl\t"));
  }
}

}  // namespace
}  // namespace tessera::tile::cpu
