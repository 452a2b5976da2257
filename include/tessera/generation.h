// What to generate, and what came out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/graph.h>

namespace tessera {

// How the next token is drawn. The filters apply in this order: repetition_penalty, temperature,
// top_k, top_p, min_p.
struct SamplingOptions {
  double temperature = 0.7;  // >= 0; 0 takes the likeliest token (greedy), whatever else is set
  std::int64_t top_k = 0;    // >= 0: keep the k likeliest; 0 keeps all
  double top_p = 1;          // (0, 1]: keep the likeliest that together reach this probability
  double min_p = 0;          // [0, 1]: drop what is less likely than this share of the likeliest
  double repetition_penalty =
      1;                   // > 0: logits of tokens already seen, divided (positive) or multiplied
  std::uint64_t seed = 0;  // the same seed gives the same tokens

  bool greedy() const { return temperature == 0; }
};

// Throws Error(kInvalidArgument) naming the first number that is out of its range or not finite.
void validate(const SamplingOptions& options);

enum class FinishReason {
  kEndToken,    // "stop": the model said that it is done
  kStopString,  // "stop_string": a stop string came up
  kLength,      // "length": max_new_tokens reached
  kContext,     // "context": the context is full
};

std::string_view to_string(FinishReason reason);

struct GenerationOptions {
  std::int64_t max_new_tokens = 100;  // 1 or more
  SamplingOptions sampling;
  // Generation ends before the first of these; each is UTF-8 and not empty.
  std::vector<std::string> stop;

  // Tokens that one sequence may reach, prompt included. 0: what prompt and max_new_tokens need, at
  // most the positions of the model. Memory for the KV cache is set aside for that many per
  // sequence.
  std::int64_t context = 0;
  // Prompt tokens per step, 1 or more. Each prompt is cut at multiples of it, and parts of fewer
  // tokens may be cut further.
  std::int64_t prefill_chunk = 512;

  // Before the first token, steps with that many tokens per sequence are run once, so that their
  // kernels are compiled or loaded; each from 1 to the positions of the model. Default: 1 and 2,
  // and none where all kernels are native.
  std::optional<std::vector<std::int64_t>> warmup_seq_lens;

  GraphOptions graph;

  // A file for the timeline of all steps but those of the warm-up, for Chrome's or Perfetto's
  // viewer; empty: none.
  std::string trace_file;

  // Called once, before the memory of the KV cache is taken: the tokens that it has room for, and
  // its bytes.
  std::function<void(std::int64_t tokens, std::size_t bytes)> on_kv_cache;

  // Called as text comes up, with the index of the prompt and a piece of complete UTF-8; all pieces
  // together are Completion::text.
  std::function<void(std::size_t prompt, std::string_view text)> on_text;
};

struct Completion {
  std::string text;                     // without end token and stop string
  std::vector<std::int32_t> token_ids;  // all that were generated, an end token included
  FinishReason finish_reason = FinishReason::kLength;
  std::int64_t prompt_tokens = 0;
  double time_to_first_token_s = 0;  // from the end of the warm-up
};

// Several sequences generated together. A sequence's tokens do not depend on the others; on
// prefill_chunk only through the form of attention that long parts of a prompt take
// (KernelOptions::attention_form), which changes logits within rounding.
struct GenerationResult {
  std::vector<Completion> completions;  // one per prompt, in order
  std::int64_t kv_cache_tokens = 0;     // that the KV cache had room for
  std::size_t kv_cache_bytes = 0;
  double warmup_s = 0;    // steps that only made kernels ready
  double generate_s = 0;  // the whole call after them
  double prefill_s = 0;   // steps that read prompts
  double decode_s = 0;    // steps of one token per sequence
  std::int64_t prefill_tokens = 0;
  std::int64_t decode_tokens =
      0;  // tokens that decode steps produced: all but each sequence's first
  GraphReport graph;
};

}  // namespace tessera
