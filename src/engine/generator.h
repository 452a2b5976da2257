// Generating several sequences together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <tessera/generation.h>

#include "model/forward.h"
#include "text/tokenizer.h"

namespace tessera {

// What a run of the generator works with; all must outlive it.
struct GeneratorParts {
  const ModelConfig& config;
  const ModelWeights& weights;
  const text::Tokenizer* tokenizer;  // null: no text, no stop strings, on_text is not called
  ops::Executor& executor;
  ModelKernels& kernels;
  WeightFormat format;
  DType cache_dtype;
  std::vector<std::int32_t> end_tokens;
};

// Warms the kernels up (a step that fails there is a warning), reads all prompts in chunks, then
// decodes one token per live sequence and step. Throws Error: kInvalidArgument for an option out of
// range, an empty prompt or one with an unknown token; kContextOverflow for a prompt longer than
// the context; kOutOfMemory before a cache that does not fit is allocated; kNotFinite.
GenerationResult generate(const GeneratorParts& parts,
                          std::span<const std::vector<std::int32_t>> prompts,
                          const GenerationOptions& options);

}  // namespace tessera
