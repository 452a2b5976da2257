// Every example of docs/tile-language.md, run: the test at the end holds the two together.
#include <cctype>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include <tessera/tile.h>

#include "base/thread_pool.h"
#include "tests/tile/harness.h"

using namespace tessera::tile;

namespace tessera::tile::test {
namespace {

using ::testing::HasSubstr;

// As a model has one: what a kernel's call operator takes.
struct TwoThreads {
  ThreadPool threads{2};
  ThreadPool& pool() { return threads; }
};

std::vector<float> numbers(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(engine);
  return values;
}

double sigmoid_of(double a) {
  return 1 / (1 + std::exp(-a));
}

const Dim t = Dim::dynamic("t"), n = Dim::fixed("n");

const Kernel silu = jit("silu", {in("x", {t, n}), out("y", {t, n})}, [](Tensor x, Tensor y) {
  const std::int64_t n = x.size(1);
  loop(x.dim(0), [&](Index row) {
    const Tile a = view(x, {1, n}, {row, 0});
    assemble(a * sigmoid(a), y, {row, 0});
  });
});

TEST(Documentation, AFirstKernel) {
  std::vector<float> x = numbers(5 * 300, 1), y(x.size());
  silu.run(2, std::vector{argument(x.data(), Element::kF32, {5, 300}),
                          argument(y.data(), Element::kF32, {5, 300})});
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], x[i] * sigmoid_of(x[i]), 1e-6);
  }
}

TEST(Documentation, AMistake) {
  const Kernel wrong = jit("wrong", {in("x", {t, n}), out("y", {t, n})}, [](Tensor x, Tensor y) {
    const std::int64_t n = x.size(1);
    loop(x.dim(0), [&](Index row) { assemble(view(x, {2, n}, {row, 0}), y, {row, 0}); });
  });
  const Argument rows = argument(nullptr, Element::kF32, {5, 300});
  try {
    wrong.prepare(std::vector{rows, rows});
    FAIL();
  } catch (const KernelError& error) {
    EXPECT_EQ(error.number(), "TL109");
    EXPECT_THAT(error.what(),
                HasSubstr("view of x[t, 300]: elements i to i + 1 of dim 0 are not "
                          "shown to lie in it for every value of what they depend on"));
  }
}

const Kernel rms_norm =
    jit("rms_norm", {in("x", {t, n}), in("weight", {n}, Element::kF32), out("y", {t, n})},
        [](Tensor x, Tensor weight, Tensor y) {
          const std::int64_t n = x.size(1);
          const Tile w = view(weight, {n}, {0});
          loop_unroll(x.dim(0), {8, 4, 2, 1}, [&](Index row, int rows) {
            const Tile a = view(x, {rows, n}, {row, 0});
            const Tile mean = sum(a * a, 1) * (1.0 / static_cast<double>(n));
            assemble(a * rsqrt(mean + 1e-6) * w, y, {row, 0});
          });
        });

TEST(Documentation, RowsThatAreSummed) {
  const Data values = Data::random(Element::kBF16, {17, 2048}, 1);
  Data x_data = values, y_data(Element::kBF16, {17, 2048});
  const std::vector<float> weights = numbers(2048, 2);
  std::byte *x = x_data.data(), *y = y_data.data();
  const float* w = weights.data();
  TwoThreads executor;
  rms_norm(executor, {argument(x, Element::kBF16, {17, 2048}), argument(w, Element::kF32, {2048}),
                      argument(y, Element::kBF16, {17, 2048})});
  expect_close(y_data, [&](std::int64_t i) {
    double sum = 0;
    for (std::int64_t j = 0; j < 2048; ++j)
      sum += values[i / 2048 * 2048 + j] * values[i / 2048 * 2048 + j];
    return values[i] / std::sqrt(sum / 2048 + 1e-6) * weights[static_cast<std::size_t>(i % 2048)];
  });
}

const Dim k = Dim::fixed("k");

const Kernel project = jit("project", {in("x", {t, k}), weight("w", {n, k}), out("y", {t, n})},
                           [](Tensor x, Tensor w, Tensor y) {
                             const std::int64_t k = x.size(1);
                             loop_unroll(x.dim(0), {8, 4, 2}, [&](Index row, int rows) {
                               const Tile a = view(x, {rows, k}, {row, 0});
                               assemble(matmul(cast(a, w.element()), w), y, {row, 0});
                             });
                           });

double product(const std::vector<float>& x, std::size_t row, const std::vector<float>& w,
               std::size_t column, std::size_t k) {
  double sum = 0;
  for (std::size_t i = 0; i < k; ++i) sum += double{x[row * k + i]} * w[column * k + i];
  return sum;
}

TEST(Documentation, ProductsWithAPackedWeight) {
  const std::vector<float> weights = numbers(96 * 64, 1);
  const std::vector<float> x = numbers(17 * 64, 2);
  std::vector<float> y(17 * 96);
  const PackedWeight w(weights.data(), Element::kF32, 96, 64, Element::kBF16);
  project.run(2, std::vector{argument(x.data(), Element::kF32, {17, 64}), w.argument(),
                             argument(y.data(), Element::kF32, {17, 96})});
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], product(x, i / 96, weights, i % 96, 64), 0.05);  // bf16
  }
}

const Kernel softmax = jit("softmax", {in("x", {t, n}), out("y", {t, n})}, [](Tensor x, Tensor y) {
  const std::int64_t n = x.size(1);
  const Index rows = x.dim(0);
  loop((rows + 7) / 8, [&](Index i) {
    const Tile a = view(x, {8, n}, {i * 8, 0}, {.valid = {min(8, rows - i * 8), n}, .step = {}});
    const Tile e = exp(a - max(a, 1));
    assemble(e / sum(e, 1), y, {i * 8, 0});
  });
});

TEST(Documentation, TailsAndValidShapes) {
  for (std::int64_t rows : {1, 7, 8, 9, 17}) {
    Data x = Data::random(Element::kF32, {rows, 33}, 1), y(Element::kF32, {rows, 33});
    run(softmax, {x.argument(), y.argument()}, {&y});
    expect_close(y, [&](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < 33; ++j) sum += std::exp(x[i / 33 * 33 + j]);
      return std::exp(x[i]) / sum;
    });
  }
}

const Kernel scale_rows = jit("scale_rows", {inout("x", {t, n})}, [](Tensor x) {
  const std::int64_t n = x.size(1);
  loop(x.dim(0), [&](Index row) {
    const Tile a = view(x, {1, n}, {row, 0});
    assemble(a / sum(a, 1), x, {row, 0});
  });
});

TEST(Documentation, InPlaceAndWithGaps) {
  std::vector<float> matrix(4 * 100, 3.0f);
  // Columns 8 to 27 of a matrix of 100.
  scale_rows.run(1,
                 std::vector{strided_argument(matrix.data() + 8, Element::kF32, {4, 20}, {100})});
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const bool scaled = 8 <= i % 100 && i % 100 < 28;
    EXPECT_NEAR(matrix[i], scaled ? 0.05 : 3.0, 1e-6);
  }
}

const Dim hidden = Dim::fixed("hidden"), inner = Dim::fixed("inner");

const Kernel feed_forward =
    jit("feed_forward",
        {in("x", {t, hidden}), weight("gate", {inner, hidden}), weight("up", {inner, hidden}),
         weight("down", {hidden, inner}), out("y", {t, hidden})},
        [](Tensor x, Tensor gate, Tensor up, Tensor down, Tensor y) {
          const std::int64_t hidden = x.size(1);
          loop_unroll(x.dim(0), {8, 4, 2}, [&](Index row, int rows) {
            const Tile a = cast(view(x, {rows, hidden}, {row, 0}), gate.element());
            const Tile g = matmul(a, gate);
            const Tile h = g * sigmoid(g) * matmul(a, up);
            assemble(matmul(cast(h, down.element()), down), y, {row, 0});
          });
        });

// The same, tuned: nothing of the result may change.
const Kernel tuned =
    jit("feed_forward_tuned",
        {in("x", {t, hidden}), weight("gate", {inner, hidden}), weight("up", {inner, hidden}),
         weight("down", {hidden, inner}), out("y", {t, hidden})},
        [](Tensor x, Tensor gate, Tensor up, Tensor down, Tensor y) {
          set_cube_tile_shapes(0, 0, 64);            // tasks of 64 columns
          set_vec_tile_shapes(4);                    // of 4 rows, where there is no product
          set_pass_options({{"parallel_axis", 2}});  // the threads share columns, never rows
          const std::int64_t hidden = x.size(1);
          loop_unroll(x.dim(0), {8, 4, 2}, [&](Index row, int rows) {
            const Tile a = cast(view(x, {rows, hidden}, {row, 0}), gate.element());
            const Tile g = matmul(a, gate);
            const Tile h = g * sigmoid(g) * matmul(a, up);
            assemble(matmul(cast(h, down.element()), down), y, {row, 0});
          });
        });

TEST(Documentation, AKernelOfOnesOwn) {
  constexpr std::size_t H = 40, I = 70;
  const std::vector<float> gate_rows = numbers(I * H, 1), up_rows = numbers(I * H, 2),
                           down_rows = numbers(H * I, 3);
  const PackedWeight gate(gate_rows.data(), Element::kF32, 70, 40);
  const PackedWeight up(up_rows.data(), Element::kF32, 70, 40);
  const PackedWeight down(down_rows.data(), Element::kF32, 40, 70);
  for (std::int64_t rows : {1, 3, 19}) {
    const std::vector<float> x = numbers(static_cast<std::size_t>(rows) * H, 4);
    std::vector<float> y(x.size()), again(x.size());
    const auto arguments = [&](std::vector<float>& to) {
      return std::vector{argument(x.data(), Element::kF32, {rows, 40}), gate.argument(),
                         up.argument(), down.argument(),
                         argument(to.data(), Element::kF32, {rows, 40})};
    };
    feed_forward.run(2, arguments(y));
    tuned.run(2, arguments(again));
    EXPECT_EQ(y, again);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      std::vector<float> h(I);
      for (std::size_t i = 0; i < I; ++i) {
        const double g = product(x, r, gate_rows, i, H);
        h[i] = static_cast<float>(g * sigmoid_of(g) * product(x, r, up_rows, i, H));
      }
      for (std::size_t j = 0; j < H; ++j) {
        EXPECT_NEAR(y[r * H + j], product(h, 0, down_rows, j, I), 1e-4) << rows << " rows";
      }
    }
  }
}

TEST(Documentation, LookingAtTheStages) {
  const Argument rows = argument(nullptr, Element::kF32, {5, 300});
  const std::vector arguments{rows, rows};
  const std::string text = silu.stage("fold", arguments);
  EXPECT_THAT(text, HasSubstr("loop (i < t) {"));
}

TEST(Documentation, FragmentsOfTheReference) {
  const Kernel valid = jit("valid", {in("x", {t, n}), out("y", {t, n})}, [](Tensor x, Tensor y) {
    const std::int64_t n = x.size(1);
    const Index rows = x.dim(0);
    loop((rows + 7) / 8, [&](Index i) {
      const Tile a = view(x, {8, n}, {i * 8, 0}, {.valid = {min(8, rows - i * 8), n}, .step = {}});
      assemble(a - max(a, 1), y, {i * 8, 0});
    });
  });
  Data x = Data::random(Element::kF32, {13, 20}, 1), y(Element::kF32, {13, 20});
  run(valid, {x.argument(), y.argument()}, {&y});
  expect_close(y, [&](std::int64_t i) {
    double largest = -10;
    for (std::int64_t j = 0; j < 20; ++j) largest = std::max(largest, x[i / 20 * 20 + j]);
    return x[i] - largest;
  });

  const Dim b = Dim::dynamic("b"), s = Dim::dynamic("s"), heads = Dim::fixed("heads");
  const Kernel by_sequence = jit(
      "by_sequence", {in("k", {b * s, heads, n}), out("k_nope", {b, heads, s, n})},
      [](Tensor keys, Tensor k_nope) {
        const std::int64_t heads = keys.size(1), d = keys.size(2);
        const Index s = k_nope.dim(2);
        loop_unroll(keys.dim(0), {4}, [&](Index row, int rows) {
          const Tile k = view(keys, {rows, heads, d}, {row, 0, 0});
          const Index r = row + axis(0);  // of t = b * s rows
          assemble_at(k, k_nope,
                      {r / s, axis(1), r % s, axis(2)});  // k [rows, heads, d] to [b, heads, s, d]
        });
      });
  Data keys = Data::random(Element::kF32, {6, 2, 5}, 1), to(Element::kF32, {2, 2, 3, 5});
  run(by_sequence, {keys.argument(), to.argument()}, {&to});
  expect_close(to, [&](std::int64_t i) {
    const std::int64_t batch = i / 30, head = i / 15 % 2, at = i / 5 % 3;
    return keys[((batch * 3 + at) * 2 + head) * 5 + i % 5];
  });
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

std::string file(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(Documentation, HasNoOtherExamples) {
  const std::string source =
      without_spaces(file(TESSERA_TEST_DATA "/../tile/documentation_test.cpp"));
  std::istringstream document(file(TESSERA_TEST_DATA "/../../docs/tile-language.md"));
  int n_examples = 0;
  std::string example;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line == "```cpp") {
      inside = true;
      example.clear();
    } else if (line == "```" && inside) {
      inside = false;
      ++n_examples;
      EXPECT_NE(source.find(without_spaces(example)), std::string::npos) << example;
    } else if (inside) {
      example += line + "\n";
    }
  }
  EXPECT_GE(n_examples, 14);
}

}  // namespace
}  // namespace tessera::tile::test
