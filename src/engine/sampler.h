// Drawing the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include <tessera/generation.h>
#include <tessera/weight_format.h>

namespace tessera {

// Throws Error(kNotFinite) naming the first logit that is NaN or infinite and, where it is not
// empty, the place (" at position 3"). weights: their format in memory, for the advice.
void require_finite(std::span<const float> logits, WeightFormat weights,
                    std::string_view place = {});

// One per sequence: its random numbers do not depend on what else is generated.
class Sampler {
 public:
  // Throws what validate() throws. weights: the format that errors give advice about.
  explicit Sampler(const SamplingOptions& options, WeightFormat weights = WeightFormat::kF32);

  // seen: the tokens of the sequence so far, prompt included (for the repetition penalty). Throws
  // Error(kNotFinite) when a logit is NaN or infinite.
  std::int32_t pick(std::span<const float> logits, std::span<const std::int32_t> seen);

 private:
  struct Candidate {
    float logit;
    std::int32_t token;
  };
  void penalise(std::span<const std::int32_t> seen);
  std::int32_t draw();
  double uniform();  // [0, 1)

  SamplingOptions options_;
  WeightFormat weights_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace tessera
