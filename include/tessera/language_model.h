// A model, its tokenizer and its chat template, ready to answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/error.h>
#include <tessera/generation.h>
#include <tessera/kernels.h>
#include <tessera/weight_format.h>

namespace tessera {

struct LoadOptions {
  std::optional<WeightFormat> format;  // of the weights in memory; default: that of the files
  // A file that `tessera pack` made of this model; empty: model-FORMAT.tessera in the folder, where
  // that exists, else the checkpoint.
  std::filesystem::path packed;
  // Whether weights that were packed in another format than the checkpoint's are kept for the next
  // run, in $TESSERA_CACHE_DIR/packed or ~/.cache/tessera/packed, and the most that these take.
  bool use_pack_cache = true;
  std::uintmax_t pack_cache_bytes = std::uintmax_t{40} << 30;
  int threads = 0;  // 0: the CPUs this process may use
  // Keeps each thread that is started on one CPU. Without effect where there are more threads than
  // CPUs. The calling thread is never pinned.
  bool pin_threads = false;
  KernelOptions kernels;
  WarnFn warn;  // called while loading and, as long as the model lives, while running
  // Called while weights are read, from one thread at a time, with bytes_done rising to
  // bytes_total.
  std::function<void(std::size_t bytes_done, std::size_t bytes_total)> progress;
};

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// Logits of every position of one sequence; hidden states on request.
struct Logits {
  std::int64_t n_tokens = 0;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::vector<float> logits;               // [n_tokens, vocab_size]
  std::vector<std::vector<float>> hidden;  // per layer [n_tokens, hidden_size]: the state after it
};

// Functions throw Error. One call at a time.
class LanguageModel {
 public:
  // Opens a Hugging Face folder: config.json, safetensors weights, tokenizer.json, and where they
  // exist tokenizer_config.json, generation_config.json and chat_template.jinja.
  static LanguageModel load(const std::filesystem::path& folder, const LoadOptions& options = {});

  // The same without a tokenizer: only generate_ids() and logits() may be called.
  static LanguageModel load_without_tokenizer(const std::filesystem::path& folder,
                                              const LoadOptions& options = {});
  ~LanguageModel();
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;

  WeightFormat format() const;
  int threads() const;
  std::int64_t vocab_size() const;
  std::int64_t max_context() const;  // positions of the model
  KernelNames kernels() const;       // what ran so far, or what would
  double tokenizer_load_s() const;
  double model_load_s() const;

  // What generation_config.json asks for; temperature 0.7 where it is silent about sampling, and
  // greedy where it says do_sample false.
  SamplingOptions default_sampling() const;

  // Token ids of a prompt, with exactly one beginning-of-sequence token where the tokenizer has
  // one. chat renders the chat template up to where the assistant's answer starts. Text that looks
  // like a control token ("<｜end▁of▁sentence｜>") stays plain text unless parse_special is set.
  std::vector<std::int32_t> text_prompt(std::string_view text, bool parse_special = false) const;
  std::vector<std::int32_t> chat_prompt(std::span<const Message> messages,
                                        bool parse_special = false) const;
  // The text of ids; those of the model that the tokenizer does not know have none.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const;

  // Completes every prompt, all together as one batch.
  GenerationResult generate_ids(std::span<const std::vector<std::int32_t>> prompts,
                                const GenerationOptions& options);

  // One answer to one conversation, the short way; without options with default_sampling().
  Completion chat(std::span<const Message> messages);
  Completion chat(std::span<const Message> messages, const GenerationOptions& options);

  // One forward pass. Takes n_tokens * vocab_size floats twice over. Throws Error(kOutOfMemory)
  // first where they do not fit, and Error(kNotFinite) naming the first position with a logit that
  // is NaN or infinite.
  Logits logits(std::span<const std::int32_t> ids, bool with_hidden = false);

 private:
  struct Impl;
  explicit LanguageModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "0.1.0".
std::string_view version();

}  // namespace tessera
