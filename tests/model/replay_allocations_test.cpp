// A replay asks for no memory. The C library's functions are replaced here by ones that count.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "model/graph/step_graphs.h"
#include "model/kernels.h"
#include "model/weight_layout.h"
#include "model/weights.h"
#include "tests/always_parallel.h"
#include "tests/model/reference_data.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void count() {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t n, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count();
  return __libc_calloc(n, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
}

namespace tessera {
namespace {

int allocations_of(const auto& action) {
  allocations = 0;
  counting = true;
  action();
  counting = false;
  return allocations;
}

TEST(Replay, AllocatesNothing) {
  EXPECT_GT(allocations_of([] { testing::AlwaysParallel executor(1); }), 0);
  for (const char* form : {"latent", "expanded"}) {
    for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kInt4}) {
      testing::AlwaysParallel executor(2);
      const auto folder = testing::reference_folder("lite");
      const ModelConfig config = ModelConfig::load(folder);
      KernelOptions options;
      options.kv_cache = form;
      const KernelChoice choice = choose_kernels(options, config, format, nullptr);
      const ModelWeights weights =
          load_weights(folder, config, format, choice.kv_cache, executor, nullptr);
      ModelKernels kernels(choice, config, weights, executor);
      KvCache cache(config, cache_dtype(format), 8 * KvCache::kPageTokens, choice.kv_cache);
      GraphOptions graph;
      graph.strict = true;
      StepGraphs graphs(config, weights, executor, kernels, cache, graph);
      const std::vector<std::int32_t> token = {5};
      const std::vector<Segment> segments = {{cache.add_sequence(), token, 1},
                                             {cache.add_sequence(), token, 1}};
      ASSERT_NE(graphs.captured(2, 2), nullptr);
      // Over the end of a page, and past the replays that are measured.
      for (int i = 0; i < 80; ++i) {
        const int n = allocations_of([&] { ASSERT_TRUE(graphs.run(segments).has_value()); });
        if (i > 8) {
          EXPECT_EQ(n, 0) << "replay " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
