#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/rope/rope.h"

namespace tessera::ops {

namespace {

// The pair whose wavelength fits `rotations` times into the original context (a real number).
double pair_of_rotations(double rotations, const RopeParameters& p) {
  return static_cast<double>(p.dim) *
         std::log(static_cast<double>(p.yarn->original_context) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(p.theta));
}

}  // namespace

double yarn_mscale(double scale, double mscale) {
  return scale > 1 ? 0.1 * mscale * std::log(scale) + 1 : 1;
}

double attention_scale(const RopeParameters& p, std::int64_t qk_dim) {
  double scale = 1 / std::sqrt(static_cast<double>(qk_dim));
  if (p.yarn && p.yarn->mscale_all_dim != 0) {
    const double mscale = yarn_mscale(p.yarn->factor, p.yarn->mscale_all_dim);
    scale *= mscale * mscale;
  }
  return scale;
}

RopeFrequencies::RopeFrequencies(const RopeParameters& p) {
  const std::int64_t n_pairs = p.dim / 2;
  inverse_frequency_.resize(static_cast<std::size_t>(n_pairs));

  // YaRN: pairs that turn often within the original context keep their frequency, pairs that turn
  // rarely are slowed down by the factor, and a linear ramp lies between.
  double low = 0;
  double high = 0;
  if (p.yarn) {
    low = std::max(std::floor(pair_of_rotations(p.yarn->beta_fast, p)), 0.0);
    high = std::min(std::ceil(pair_of_rotations(p.yarn->beta_slow, p)),
                    static_cast<double>(p.dim - 1));
    if (low == high) high += 0.001;
    cos_sin_scale_ = static_cast<float>(yarn_mscale(p.yarn->factor, p.yarn->mscale) /
                                        yarn_mscale(p.yarn->factor, p.yarn->mscale_all_dim));
  }
  for (std::int64_t i = 0; i < n_pairs; ++i) {
    const double plain =
        std::pow(p.theta, -2 * static_cast<double>(i) / static_cast<double>(p.dim));
    double frequency = plain;
    if (p.yarn) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      frequency = plain / p.yarn->factor * ramp + plain * (1 - ramp);
    }
    inverse_frequency_[static_cast<std::size_t>(i)] = static_cast<float>(frequency);
  }
}

void RopeFrequencies::cos_sin(std::int64_t position, std::span<float> cos,
                              std::span<float> sin) const {
  for (std::size_t i = 0; i < inverse_frequency_.size(); ++i) {
    // The angle is an fp32 product, as in the implementations the models were trained with.
    const float angle = static_cast<float>(position) * inverse_frequency_[i];
    cos[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * cos_sin_scale_;
    sin[i] = static_cast<float>(std::sin(static_cast<double>(angle))) * cos_sin_scale_;
  }
}

}  // namespace tessera::ops
