// The second stage of the KV prolog as one tile kernel: expansion of the normalised latent, split,
// rotation and assembly.
#pragma once

#include "ops/mla_prolog/prolog_tiles.h"

namespace tessera::ops::prolog {

class Stage2 {
 public:
  // Packs kv_b; of the other weights only the dims are used.
  Stage2(const MlaPrologWeights& weights, Executor& executor);

  // projected [T, kv_rank + rope] without gaps: the normalised latent, then the unrotated key. Of
  // the call everything but the hidden states is used.
  void run(const Rows& projected, const MlaPrologCall& call, Executor& executor) const;
  void record(graph::Recorder& recorder, const RecordedRows& projected,
              const RecordedProlog& call) const;

 private:
  std::vector<tile::Argument> arguments(const Rows& projected, const Tokens& tokens,
                                        const MlaPrologCall& outputs) const;

  MlaDims dims_;
  PackedMatrix kv_b_;
};

}  // namespace tessera::ops::prolog
