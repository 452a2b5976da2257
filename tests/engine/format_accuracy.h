// How far the logits of one kind of weights are from those of another, over all positions of some
// texts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tessera/language_model.h>

namespace tessera::testing {

using Texts = std::vector<std::vector<std::int32_t>>;

inline std::vector<Logits> logits_of(const std::filesystem::path& folder, WeightFormat format,
                                     const Texts& texts) {
  LoadOptions options;
  options.format = format;
  options.threads = 2;
  options.use_pack_cache = false;
  LanguageModel model = LanguageModel::load_without_tokenizer(folder, options);
  std::vector<Logits> all;
  for (const auto& ids : texts) all.push_back(model.logits(ids, true));
  return all;
}

inline double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

inline std::vector<double> log_softmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (float x : logits) sum += std::exp(x - largest);
  std::vector<double> result;
  for (float x : logits) result.push_back(x - largest - std::log(sum));
  return result;
}

struct Accuracy {
  double smallest_cosine = 1;         // of the logits
  double mean_cosine = 0;             // of the logits
  double smallest_hidden_cosine = 1;  // after the last layer
  double mean_kl = 0;                 // from the expected ones, in nats
  double agreement = 0;               // share of positions with the same largest logit
};

inline Accuracy compare(const std::vector<Logits>& got, const std::vector<Logits>& expected) {
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

inline void print(const std::string& name, const Accuracy& a) {
  fmt::print(
      "{:12} cosine of logits {:.6f} mean {:.6f} smallest, of hidden states {:.6f}; KL {:.2e}; "
      "same token {:.2f} %\n",
      name, a.mean_cosine, a.smallest_cosine, a.smallest_hidden_cosine, a.mean_kl,
      100 * a.agreement);
}

}  // namespace tessera::testing
