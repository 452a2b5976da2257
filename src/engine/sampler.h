// Drawing the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <tessera/generation.h>

namespace tessera {

// One per sequence: its random numbers do not depend on what else is generated.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);  // throws what validate() throws

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
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace tessera
