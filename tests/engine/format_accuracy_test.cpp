// How far each weight format is from fp32, on the bundled model and the texts that it was asked
// for. docs/performance.md has the table that this prints.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tessera/language_model.h>

#include "io/json_file.h"

namespace tessera {
namespace {

// Prompt and answer of every stored case.
std::vector<std::vector<std::int32_t>> texts() {
  std::vector<std::vector<std::int32_t>> all;
  for (const auto& e : read_json_file(TESSERA_TEST_DATA "/demo/greedy.json")) {
    std::vector<std::int32_t> ids = e.at("prompt_ids");
    const std::vector<std::int32_t> answer = e.at("token_ids");
    ids.insert(ids.end(), answer.begin(), answer.end());
    all.push_back(std::move(ids));
  }
  return all;
}

std::vector<Logits> logits_of(WeightFormat format) {
  LoadOptions options;
  options.format = format;
  options.threads = 2;
  LanguageModel model = LanguageModel::load_without_tokenizer(TESSERA_DEMO_MODEL, options);
  std::vector<Logits> all;
  for (const auto& ids : texts()) all.push_back(model.logits(ids, true));
  return all;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

std::vector<double> log_softmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (float x : logits) sum += std::exp(x - largest);
  std::vector<double> result;
  for (float x : logits) result.push_back(x - largest - std::log(sum));
  return result;
}

// Over all positions of all texts.
struct Accuracy {
  double smallest_cosine = 1;         // of the logits
  double mean_cosine = 0;             // of the logits
  double smallest_hidden_cosine = 1;  // after the last layer
  double mean_kl = 0;                 // from fp32, in nats
  double agreement = 0;               // share of positions with the same largest logit
};

Accuracy compare(const std::vector<Logits>& got, const std::vector<Logits>& expected) {
  Accuracy a;
  double n = 0;
  for (std::size_t text = 0; text < got.size(); ++text) {
    for (std::int64_t t = 0; t < got[text].n_tokens; ++t, ++n) {
      const auto row = [&](const std::vector<float>& values, std::int64_t width) {
        return std::span(values).subspan(static_cast<std::size_t>(t * width),
                                         static_cast<std::size_t>(width));
      };
      const auto x = row(got[text].logits, got[text].vocab_size);
      const auto y = row(expected[text].logits, got[text].vocab_size);
      const double c = cosine(x, y);
      a.smallest_cosine = std::min(a.smallest_cosine, c);
      a.mean_cosine += c;
      a.smallest_hidden_cosine =
          std::min(a.smallest_hidden_cosine,
                   cosine(row(got[text].hidden.back(), got[text].hidden_size),
                          row(expected[text].hidden.back(), got[text].hidden_size)));
      const std::vector<double> p = log_softmax(y);
      const std::vector<double> q = log_softmax(x);
      for (std::size_t i = 0; i < p.size(); ++i) a.mean_kl += std::exp(p[i]) * (p[i] - q[i]);
      const auto top = [](std::span<const float> logits) {
        return std::ranges::max_element(logits) - logits.begin();
      };
      a.agreement += top(x) == top(y) ? 1 : 0;
    }
  }
  a.mean_cosine /= n;
  a.mean_kl /= n;
  a.agreement /= n;
  return a;
}

TEST(FormatAccuracy, StaysWithinWhatIsPromised) {
  struct Bound {
    WeightFormat format;
    double cosine;  // of the logits, in the mean of the positions
    double agreement;
  };
  constexpr Bound kBounds[] = {{WeightFormat::kF16, 0.99999, 0.999},
                               {WeightFormat::kBF16, 0.999, 0.99},
                               {WeightFormat::kInt8, 0.9995, 0.99},
                               {WeightFormat::kMixed, 0.995, 0.95},
                               {WeightFormat::kInt4, 0.995, 0.95}};
  const std::vector<Logits> expected = logits_of(WeightFormat::kF32);
  for (const Bound& bound : kBounds) {
    const Accuracy a = compare(logits_of(bound.format), expected);
    fmt::print(
        "{:6} cosine of logits {:.6f} mean {:.6f} smallest, of hidden states {:.6f}; KL {:.2e}; "
        "same token {:.2f} %\n",
        to_string(bound.format), a.mean_cosine, a.smallest_cosine, a.smallest_hidden_cosine,
        a.mean_kl, 100 * a.agreement);
    EXPECT_GE(a.mean_cosine, bound.cosine) << to_string(bound.format);
    EXPECT_GE(a.agreement, bound.agreement) << to_string(bound.format);
  }
}

}  // namespace
}  // namespace tessera
