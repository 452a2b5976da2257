#include "engine/generator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/fail.h"
#include "engine/sampler.h"
#include "engine/step_trace.h"
#include "engine/stop_matcher.h"
#include "model/graph/step_graphs.h"
#include "text/stream_decoder.h"
#include "text/utf8.h"

namespace tessera {

namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One prompt on its way to a completion.
struct Sequence {
  Sequence(const GeneratorParts& parts, std::size_t index, std::span<const std::int32_t> prompt,
           const GenerationOptions& options, std::int64_t context)
      : index(index),
        tokens(prompt.begin(), prompt.end()),
        context(context),
        sampler(options.sampling, parts.format),
        stops(options.stop) {
    if (parts.tokenizer != nullptr) decoder.emplace(*parts.tokenizer);
    completion.prompt_tokens = std::ssize(prompt);
  }

  bool in_prefill() const { return n_cached < completion.prompt_tokens; }

  std::size_t index;
  SequenceId id = 0;
  std::vector<std::int32_t> tokens;  // prompt and completion
  std::int64_t n_cached = 0;         // tokens the model has seen
  std::int64_t context;
  bool done = false;
  Sampler sampler;
  StopMatcher stops;
  std::optional<text::StreamDecoder> decoder;
  Completion completion;
};

void check(const GeneratorParts& parts, const GenerationOptions& o) {
  validate(o.sampling);
  const auto require_positive = [](std::int64_t value, std::string_view name) {
    if (value < 1) fail(ErrorCode::kInvalidArgument, "{} must be 1 or more, not {}", name, value);
  };
  require_positive(o.max_new_tokens, "max_new_tokens");
  require_positive(o.prefill_chunk, "prefill_chunk");
  if (o.context < 0 || o.context > parts.config.max_positions) {
    fail(ErrorCode::kInvalidArgument,
         "context must be from 1 to {} (the positions of this model), not {}",
         parts.config.max_positions, o.context);
  }
  for (const std::int64_t length : o.warmup_seq_lens.value_or(std::vector<std::int64_t>())) {
    if (length < 1 || length > parts.config.max_positions) {
      fail(ErrorCode::kInvalidArgument,
           "warmup_seq_lens must be from 1 to {} (the positions of this model), not {}",
           parts.config.max_positions, length);
    }
  }
  for (std::size_t i = 0; i < o.stop.size(); ++i) {
    if (!text::is_valid_utf8(o.stop[i])) {
      fail(ErrorCode::kInvalidArgument,
           "stop string {} of {} is not valid UTF-8; give whole characters", i + 1, o.stop.size());
    }
  }
  if (parts.tokenizer == nullptr && !o.stop.empty()) {
    fail(ErrorCode::kInvalidArgument, "stop strings need a tokenizer, and none was loaded");
  }
}

// Runs action about one prompt; in a batch, its errors say which.
template <typename Action>
auto about_prompt(std::size_t index, std::size_t n_prompts, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    if (n_prompts == 1) throw;
    fail(error.code(), "prompt {}: {}", index + 1, error.what());
  }
}

void check_tokens(const GeneratorParts& parts, std::span<const std::int32_t> prompt) {
  for (std::int32_t token : prompt) {
    if (token < 0 || token >= parts.config.vocab_size) {
      fail(ErrorCode::kInvalidArgument, "token id {} is outside the vocabulary of {}", token,
           parts.config.vocab_size);
    }
  }
}

// Tokens the sequence of a prompt may reach.
std::int64_t context_for(const GeneratorParts& parts, std::span<const std::int32_t> prompt,
                         const GenerationOptions& options) {
  const std::int64_t n = std::ssize(prompt);
  if (n == 0) fail(ErrorCode::kInvalidArgument, "the prompt is empty; give it at least one token");
  const std::int64_t limit = options.context > 0 ? options.context : parts.config.max_positions;
  if (n >= limit) {
    fail(ErrorCode::kContextOverflow,
         "the prompt has {} tokens, and a context of {} leaves no room for an answer; shorten it{}",
         n, limit, limit < parts.config.max_positions ? " or raise --context" : "");
  }
  if (options.context > 0) return options.context;
  return n + std::min(options.max_new_tokens, limit - n);
}

class Run {
 public:
  Run(const GeneratorParts& parts, std::span<const std::vector<std::int32_t>> prompts,
      const GenerationOptions& options)
      : parts_(parts),
        options_(options),
        cache_(make_cache(parts, prompts, options)),
        forward_(parts.config, parts.weights, parts.executor, parts.kernels) {
    if (options.graph.enabled) {
      graphs_.emplace(parts.config, parts.weights, parts.executor, parts.kernels, cache_,
                      options.graph);
    }
    sequences_.reserve(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      Sequence& s = sequences_.emplace_back(parts, i, prompts[i], options,
                                            context_for(parts, prompts[i], options));
      s.id = cache_.add_sequence();
    }
  }

  GenerationResult finish() && {
    GenerationResult result;
    result.kv_cache_tokens = cache_.capacity_tokens();
    result.kv_cache_bytes = cache_.bytes();
    warm_up(result);
    if (!options_.trace_file.empty()) start_trace();
    clock_ = Stopwatch();
    prefill(result);
    decode(result);
    for (Sequence& s : sequences_) result.completions.push_back(std::move(s.completion));
    result.generate_s = clock_.seconds();
    if (graphs_) result.graph = graphs_->report();
    if (trace_) trace_->write(options_.trace_file);
    return result;
  }

 private:
  static KvCache make_cache(const GeneratorParts& parts,
                            std::span<const std::vector<std::int32_t>> prompts,
                            const GenerationOptions& options) {
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::int64_t context = about_prompt(i, prompts.size(), [&] {
        check_tokens(parts, prompts[i]);
        return context_for(parts, prompts[i], options);
      });
      tokens += (context + KvCache::kPageTokens - 1) / KvCache::kPageTokens * KvCache::kPageTokens;
    }
    const KvCacheForm form = parts.kernels.kv_cache();
    if (options.on_kv_cache) {
      options.on_kv_cache(tokens,
                          KvCache::bytes_for(parts.config, parts.cache_dtype, tokens, form));
    }
    return KvCache(parts.config, parts.cache_dtype, tokens, form, parts.weights.mapped_bytes());
  }

  // Runs steps of the lengths to come, so that their kernels are compiled or loaded before the
  // first token.
  void warm_up(GenerationResult& result) {
    static constexpr std::int64_t kDecodeLengths[] = {1, 2};
    std::span<const std::int64_t> lengths = kDecodeLengths;
    if (options_.warmup_seq_lens) {
      lengths = *options_.warmup_seq_lens;
    } else if (parts_.kernels.all_native() && !graphs_) {
      return;
    }
    const Stopwatch watch;
    for (const std::int64_t length : lengths) {
      const bool cold = parts_.kernels.mark_warm(std::ssize(sequences_), length);
      if (!cold && !graphs_) continue;  // graphs are recorded anew for every cache
      try {
        warm_up_step(length);
      } catch (const Error& error) {
        if (graphs_ && options_.graph.strict) throw;
        parts_.kernels.warn(
            fmt::format("the warm-up with {} tokens a sequence failed ({}); its kernels are "
                        "compiled when they are needed",
                        length, error.what()));
      }
    }
    result.warmup_s = watch.seconds();
  }

  // As many sequences as there are prompts, which go when the step is over.
  void warm_up_step(std::int64_t length) {
    struct Scratch {
      explicit Scratch(KvCache& cache) : cache(cache) {}
      Scratch(const Scratch&) = delete;
      Scratch& operator=(const Scratch&) = delete;
      ~Scratch() {  // the last first, so that pages are handed out as if nothing had been
        while (!ids.empty()) {
          cache.remove_sequence(ids.back());
          ids.pop_back();
        }
      }
      KvCache& cache;
      std::vector<SequenceId> ids;
    };
    Scratch scratch(cache_);
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(length), 0);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      scratch.ids.push_back(cache_.add_sequence());
      segments.push_back({scratch.ids.back(), tokens, 1});
    }
    if (graphs_) graphs_->captured(count_tokens(segments), count_logits(segments));
    run(segments);
  }

  // Replayed where a graph serves the step, else eagerly.
  ops::ConstRows run(std::span<const Segment> segments) {
    if (graphs_) {
      if (const auto logits = graphs_->run(segments)) return *logits;
      graphs_->count_eager_step();
    }
    if (trace_) trace_->start_step();
    const ops::ConstRows logits = forward_.run(segments, cache_);
    if (trace_) trace_->stop_step();
    return logits;
  }

  void start_trace() {
    trace_.emplace(parts_.executor);
    if (!graphs_) return;
    graphs_->observe([this](const graph::Graph& graph, const graph::Timing& timing) {
      trace_->add(graph, timing);
    });
  }

  // What a prompt reads next: up to the next multiple of prefill_chunk. Where only less fits into
  // the step, a part so long that it attends in expanded form waits for the next step: its length
  // decides about its form, and company must change no bit.
  std::int64_t next_part(const Sequence& s, std::int64_t budget) const {
    const std::int64_t chunk = options_.prefill_chunk;
    const std::int64_t end = std::min(s.completion.prompt_tokens, (s.n_cached / chunk + 1) * chunk);
    const std::int64_t n = end - s.n_cached;
    if (n <= budget) return n;
    return parts_.kernels.expands(n) ? 0 : budget;
  }

  // Steps of up to prefill_chunk prompt tokens, filled from the prompts in order.
  void prefill(GenerationResult& result) {
    const Stopwatch watch;
    for (;;) {
      std::vector<Sequence*> chosen;
      std::vector<Segment> segments;
      std::int64_t budget = options_.prefill_chunk;
      for (Sequence& s : sequences_) {
        if (!s.in_prefill()) continue;
        const std::int64_t n = next_part(s, budget);
        if (n == 0) continue;
        const bool last = s.n_cached + n == s.completion.prompt_tokens;
        chosen.push_back(&s);
        segments.push_back({s.id, new_tokens(s, n), last ? 1 : 0});
        budget -= n;
        result.prefill_tokens += n;
      }
      if (segments.empty()) break;
      step(chosen, segments);
    }
    result.prefill_s = watch.seconds();
  }

  void decode(GenerationResult& result) {
    const Stopwatch watch;
    for (;;) {
      std::vector<Sequence*> chosen;
      std::vector<Segment> segments;
      for (Sequence& s : sequences_) {
        if (s.done) continue;
        chosen.push_back(&s);
        segments.push_back({s.id, new_tokens(s, 1), 1});
      }
      if (segments.empty()) break;
      step(chosen, segments);
      result.decode_tokens += std::ssize(segments);
    }
    result.decode_s = watch.seconds();
  }

  static std::span<const std::int32_t> new_tokens(const Sequence& s, std::int64_t n) {
    return std::span(s.tokens).subspan(static_cast<std::size_t>(s.n_cached),
                                       static_cast<std::size_t>(n));
  }

  void step(std::span<Sequence* const> chosen, std::span<const Segment> segments) {
    const ops::ConstRows logits = run(segments);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      Sequence& s = *chosen[i];
      s.n_cached += std::ssize(segments[i].tokens);
      if (segments[i].n_logits == 0) continue;
      const auto token = about_prompt(s.index, sequences_.size(),
                                      [&] { return s.sampler.pick(logits.row(row), s.tokens); });
      ++row;
      take_token(s, token);
    }
  }

  void take_token(Sequence& s, std::int32_t token) {
    Completion& c = s.completion;
    if (c.token_ids.empty()) c.time_to_first_token_s = clock_.seconds();
    s.tokens.push_back(token);
    c.token_ids.push_back(token);
    if (std::ranges::find(parts_.end_tokens, token) != parts_.end_tokens.end()) {
      return end(s, FinishReason::kEndToken);
    }
    // A model's vocabulary may be padded past the tokenizer's: such a token has no text.
    if (s.decoder && parts_.tokenizer->has(token)) emit(s, s.stops.push(s.decoder->push(token)));
    if (s.stops.stopped()) {
      end(s, FinishReason::kStopString);
    } else if (std::ssize(c.token_ids) == options_.max_new_tokens) {
      end(s, FinishReason::kLength);
    } else if (std::ssize(s.tokens) >= s.context) {
      end(s, FinishReason::kContext);
    }
  }

  void end(Sequence& s, FinishReason reason) {
    if (s.decoder && !s.stops.stopped()) {
      // The last half character or held-back text may still complete a stop string.
      emit(s, s.stops.push(s.decoder->finish()));
      if (!s.stops.stopped()) emit(s, s.stops.finish());
    }
    s.completion.finish_reason = s.stops.stopped() ? FinishReason::kStopString : reason;
    s.done = true;
    cache_.remove_sequence(s.id);
  }

  void emit(Sequence& s, std::string_view text) {
    if (text.empty()) return;
    s.completion.text += text;
    if (options_.on_text) options_.on_text(s.index, text);
  }

  const GeneratorParts& parts_;
  const GenerationOptions& options_;
  Stopwatch clock_;
  KvCache cache_;
  ForwardPass forward_;
  std::optional<StepGraphs> graphs_;
  std::optional<StepTrace> trace_;
  std::vector<Sequence> sequences_;
};

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
      return "stop";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
  }
  return "unknown";
}

GenerationResult generate(const GeneratorParts& parts,
                          std::span<const std::vector<std::int32_t>> prompts,
                          const GenerationOptions& options) {
  check(parts, options);
  return Run(parts, prompts, options).finish();
}

}  // namespace tessera
