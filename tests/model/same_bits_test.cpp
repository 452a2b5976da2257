// A token's logits have the same bits however its prompt is cut, whoever shares its steps, and on
// any number of threads: in every weight format and with every choice of kernels.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/forward.h"
#include "model/kernels.h"
#include "model/weight_layout.h"
#include "model/weights.h"
#include "tests/always_parallel.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

class SameBits : public ::testing::TestWithParam<std::tuple<WeightFormat, std::string>> {
 protected:
  WeightFormat format() const { return std::get<0>(GetParam()); }

  // The logits of all positions, `chunk` tokens a step, beside `company` sequences of other tokens.
  std::vector<float> logits(int threads, std::size_t chunk, int company) {
    const auto folder = testing::reference_folder("lite");
    testing::AlwaysParallel executor(threads);
    const ModelConfig config = ModelConfig::load(folder);
    KernelOptions options;
    options.mla_prolog = std::get<1>(GetParam());
    const KernelChoice choice = choose_kernels(options, config, format(), nullptr);
    const ModelWeights weights =
        load_weights(folder, config, format(), choice.kv_cache, executor, nullptr);
    ModelKernels kernels(choice, config, weights, executor);
    ForwardPass forward(config, weights, executor, kernels);
    KvCache cache(config, cache_dtype(format()), 64 * (company + 2), choice.kv_cache);

    std::vector<std::int32_t> tokens(29);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] =
          static_cast<std::int32_t>((7 * i + 3) % static_cast<std::size_t>(config.vocab_size));
    }
    std::vector<std::vector<std::int32_t>> others;
    std::vector<SequenceId> ids;
    for (int c = 0; c < company; ++c) {
      others.emplace_back(static_cast<std::size_t>(c) + 1, static_cast<std::int32_t>(c + 11));
      ids.push_back(cache.add_sequence());
    }
    const SequenceId mine = cache.add_sequence();
    std::vector<float> all;
    for (std::size_t first = 0; first < tokens.size(); first += chunk) {
      const std::size_t n = std::min(chunk, tokens.size() - first);
      std::vector<Segment> step;
      for (std::size_t c = 0; first == 0 && c < others.size(); ++c) {
        step.push_back({ids[c], others[c], 0});
      }
      step.push_back({mine, std::span(tokens).subspan(first, n), static_cast<std::int64_t>(n)});
      const ops::ConstRows rows = forward.run(step, cache);
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        all.insert(all.end(), rows.row(r).begin(), rows.row(r).end());
      }
    }
    return all;
  }
};

TEST_P(SameBits, ForEveryCutCompanyAndThreadCount) {
  const std::vector<float> expected = logits(1, 29, 0);
  for (const auto& [threads, chunk, company] :
       {std::tuple{1, 1, 0}, {2, 3, 0}, {1, 29, 3}, {2, 13, 5}, {3, 8, 1}}) {
    const std::vector<float> got = logits(threads, static_cast<std::size_t>(chunk), company);
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
        << threads << " threads, chunks of " << chunk << ", company of " << company;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SameBits,
                         ::testing::Combine(::testing::ValuesIn(kWeightFormats),
                                            ::testing::Values("auto", "native", "fused")),
                         [](const auto& info) {
                           return fmt::format("{}_{}", to_string(std::get<0>(info.param)),
                                              std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tessera
