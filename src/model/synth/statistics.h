// How the values of each tensor of a synthetic model are distributed.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/synth/random_values.h"
#include "model/weights.h"

namespace tessera {

struct StreamRun {
  RandomStream stream;
  std::size_t n;
};

// The streams whose first n values, one after another, are the tensor. All are normal:
//
//   embedding            std 1, so the residual stream starts with RMS 1
//   norms                1 +- 0.05
//   router               row e has std r_e / sqrt(hidden), r_e uniform in [0.8, 1.4]: the score of
//                        expert e has std r_e, so some experts are chosen several times as often as
//                        others and none is never chosen
//   o_proj, down_proj    their inputs brought back to RMS 1, times b = 1 / sqrt(2 layers): the 2
//                        layers branches together add about as much to the stream as it started
//                        with
//   down_proj, routed    also times sqrt(experts per token) / routed_scaling_factor, because the
//                        weights of the chosen experts are softmax scores times that factor
//   lm_head              std 2.5 / sqrt(hidden): logits of std 2.5
//   biases               0.1 of what they are added to
//   other matrices       1 / sqrt(inputs): outputs of RMS 1
//
// With tied embeddings the embedding has the head's std, and b the same factor.
std::vector<StreamRun> value_streams(const TensorShape& tensor, const ModelConfig& config,
                                     std::uint64_t seed);

}  // namespace tessera
