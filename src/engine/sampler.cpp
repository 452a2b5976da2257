#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/fail.h"

namespace tessera {

namespace {

void require(bool holds, std::string_view name, double value, std::string_view range) {
  if (!holds) {
    fail(ErrorCode::kInvalidArgument, "{} must be {}, not {}", name, range, value);
  }
}

}  // namespace

void validate(const SamplingOptions& o) {
  require(std::isfinite(o.temperature) && o.temperature >= 0, "temperature", o.temperature,
          "a number from 0 up");
  require(o.top_k >= 0, "top_k", static_cast<double>(o.top_k), "0 (all tokens) or more");
  require(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p, "above 0 and at most 1");
  require(o.min_p >= 0 && o.min_p <= 1, "min_p", o.min_p, "from 0 to 1");
  require(std::isfinite(o.repetition_penalty) && o.repetition_penalty > 0, "repetition_penalty",
          o.repetition_penalty, "a number above 0");
}

void require_finite(std::span<const float> logits, WeightFormat weights, std::string_view place) {
  const auto bad = std::ranges::find_if_not(logits, [](float x) { return std::isfinite(x); });
  if (bad == logits.end()) return;
  fail(ErrorCode::kNotFinite, "the logit of token {}{} is {}: the weights are damaged{}",
       bad - logits.begin(), place, std::isnan(*bad) ? "NaN" : "infinite",
       weights == WeightFormat::kF32 ? "; check them or download them again"
                                     : " or overflow; try --dtype fp32");
}

Sampler::Sampler(const SamplingOptions& options, WeightFormat weights)
    : options_(options), weights_(weights), random_(options.seed) {
  validate(options);
}

double Sampler::uniform() {
  return static_cast<double>(random_() >> 11) * 0x1p-53;
}

std::int32_t Sampler::pick(std::span<const float> logits, std::span<const std::int32_t> seen) {
  require_finite(logits, weights_);
  candidates_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates_[i] = {logits[i], static_cast<std::int32_t>(i)};
  }
  if (options_.repetition_penalty != 1) penalise(seen);
  if (options_.greedy()) {
    // The first of equals.
    return std::ranges::max_element(candidates_, {}, &Candidate::logit)->token;
  }
  return draw();
}

// Keskar et al. 2019, section 4.1, with the sign rule that keeps a penalty a penalty.
void Sampler::penalise(std::span<const std::int32_t> seen) {
  // In double and kept finite: a penalty or a product that fp32 cannot hold would become infinite
  // or NaN.
  constexpr double kMax = std::numeric_limits<float>::max();
  const double penalty = options_.repetition_penalty;
  for (std::int32_t token : std::unordered_set<std::int32_t>(seen.begin(), seen.end())) {
    float& logit = candidates_[static_cast<std::size_t>(token)].logit;
    const double penalised = logit > 0 ? logit / penalty : logit * penalty;
    logit = static_cast<float>(std::clamp(penalised, -kMax, kMax));
  }
}

std::int32_t Sampler::draw() {
  const double largest = std::ranges::max_element(candidates_, {}, &Candidate::logit)->logit;
  const auto unnormalised = [&](const Candidate& c) {
    return std::exp((static_cast<double>(c.logit) - largest) / options_.temperature);
  };

  const std::size_t n = candidates_.size();
  const std::size_t limit =
      options_.top_k == 0 ? n : std::min<std::size_t>(n, static_cast<std::size_t>(options_.top_k));

  const bool needs_order = limit < n || options_.top_p < 1;
  double total = 0;
  if (limit == n) {
    for (const Candidate& c : candidates_) total += unnormalised(c);
  }
  std::vector<double> weights;
  std::vector<std::int32_t> tokens;
  const auto keep = [&](const Candidate& c) {
    weights.push_back(unnormalised(c));
    tokens.push_back(c.token);
  };
  if (!needs_order) {  // by token id
    for (const Candidate& c : candidates_) keep(c);
  } else {
    // A heap gives candidates from the likeliest down, as far as any filter needs them, without
    // sorting a whole vocabulary.
    const auto less_likely = [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit < b.logit : a.token > b.token;
    };
    std::ranges::make_heap(candidates_, less_likely);
    auto end = candidates_.end();
    double cumulative = 0;
    while (tokens.size() < limit) {
      std::pop_heap(candidates_.begin(), end, less_likely);
      --end;
      keep(*end);
      cumulative += weights.back();
      // Without top_k the total is known, and the walk can stop as soon as top_p is reached.
      if (limit == n && cumulative >= options_.top_p * total) break;
    }
    if (limit < n) {
      total = cumulative;
      double reached = 0;
      std::size_t kept = 0;
      while (kept < weights.size() && reached < options_.top_p * total) reached += weights[kept++];
      weights.resize(std::max<std::size_t>(kept, 1));
    }
  }

  // The likeliest has weight 1, so min_p is a bound on the weights themselves.
  double sum = 0;
  for (double& w : weights) {
    if (w < options_.min_p) w = 0;
    sum += w;
  }
  double target = uniform() * sum;
  std::size_t last_kept = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last_kept = i;
    target -= weights[i];
    if (target < 0) break;
  }
  return tokens[last_kept];
}

}  // namespace tessera
