#include <algorithm>
#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include <tessera/language_model.h>

#include "base/fail.h"
#include "base/machine.h"
#include "engine/generator.h"
#include "engine/loaded_model.h"
#include "engine/sampler.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/generation_config.h"
#include "model/kernels.h"
#include "model/weight_layout.h"
#include "model/weights.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::int32_t> end_tokens(const ModelConfig& config, const GenerationConfig& generation,
                                     const text::Tokenizer* tokenizer) {
  std::vector<std::int32_t> ends;
  const auto& configured =
      generation.eos_token_ids.empty() ? config.eos_token_ids : generation.eos_token_ids;
  ends.reserve(configured.size());
  for (std::int64_t id : configured) ends.push_back(static_cast<std::int32_t>(id));
  if (ends.empty() && tokenizer != nullptr && tokenizer->eos_id())
    ends.push_back(*tokenizer->eos_id());
  return ends;
}

// Special tokens that the model cannot give or take.
void check_special_tokens(const std::filesystem::path& folder, const GenerationConfig& generation,
                          const ModelConfig& config) {
  const auto check = [&](std::string_view key, std::int64_t id) {
    if (id < config.vocab_size) return;
    fail(ErrorCode::kBadConfig,
         "{}: {} {} is beyond the vocab_size {} of config.json; check that both come from the same "
         "model",
         (folder / "generation_config.json").string(), key, id, config.vocab_size);
  };
  if (generation.bos_token_id) check("bos_token_id", *generation.bos_token_id);
  for (std::int64_t id : generation.eos_token_ids) check("eos_token_id", id);
}

void check_vocabulary(const std::filesystem::path& folder, const text::Tokenizer& tokenizer,
                      const ModelConfig& config) {
  const std::int64_t largest = tokenizer.vocab_size() - std::int64_t{1};
  if (largest < config.vocab_size) return;
  fail(ErrorCode::kBadTokenizer,
       "{}: token id {} is beyond the vocab_size {} of config.json; check that both come from the "
       "same model",
       (folder / "tokenizer.json").string(), largest, config.vocab_size);
}

}  // namespace

struct LanguageModel::Impl : LoadedModel {
  Impl(const std::filesystem::path& folder, const LoadOptions& options, bool with_tokenizer)
      : LoadedModel(folder, options), generation_config(GenerationConfig::load(folder)) {
    check_special_tokens(folder, generation_config, config);
    if (with_tokenizer) {
      const auto start = Clock::now();
      tokenizer = text::Tokenizer::load(folder);
      check_vocabulary(folder, *tokenizer, config);
      chat_template = text::ChatTemplate::load(folder);
      tokenizer_load_s = seconds_since(start);
    }
    load(options);
  }

  const text::Tokenizer& need_tokenizer() const {
    if (!tokenizer) {
      fail(ErrorCode::kInvalidArgument,
           "this needs a tokenizer, and the model was loaded without one");
    }
    return *tokenizer;
  }

  GenerationConfig generation_config;
  std::optional<text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  double tokenizer_load_s = 0;
};

LanguageModel::LanguageModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LanguageModel::~LanguageModel() = default;
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;

LanguageModel LanguageModel::load(const std::filesystem::path& folder, const LoadOptions& options) {
  return LanguageModel(std::make_unique<Impl>(folder, options, true));
}

LanguageModel LanguageModel::load_without_tokenizer(const std::filesystem::path& folder,
                                                    const LoadOptions& options) {
  return LanguageModel(std::make_unique<Impl>(folder, options, false));
}

WeightFormat LanguageModel::format() const {
  return impl_->format;
}
int LanguageModel::threads() const {
  return impl_->executor.n_threads();
}
std::int64_t LanguageModel::vocab_size() const {
  return impl_->config.vocab_size;
}
std::int64_t LanguageModel::max_context() const {
  return impl_->config.max_positions;
}
KernelNames LanguageModel::kernels() const {
  return impl_->kernels->names();
}
double LanguageModel::tokenizer_load_s() const {
  return impl_->tokenizer_load_s;
}
double LanguageModel::model_load_s() const {
  return impl_->load_s;
}

SamplingOptions LanguageModel::default_sampling() const {
  const GenerationConfig& g = impl_->generation_config;
  SamplingOptions sampling;
  sampling.temperature = g.temperature.value_or(sampling.temperature);
  sampling.top_k = g.top_k.value_or(sampling.top_k);
  sampling.min_p = g.min_p.value_or(sampling.min_p);
  sampling.top_p = g.top_p.value_or(sampling.top_p);
  sampling.repetition_penalty = g.repetition_penalty.value_or(sampling.repetition_penalty);
  if (g.do_sample == false) sampling.temperature = 0;
  return sampling;
}

std::vector<std::int32_t> LanguageModel::text_prompt(std::string_view text,
                                                     bool parse_special) const {
  return impl_->need_tokenizer().encode_prompt(
      text, parse_special ? text::SpecialTokens::kParse : text::SpecialTokens::kPlain);
}

std::vector<std::int32_t> LanguageModel::chat_prompt(std::span<const Message> messages,
                                                     bool parse_special) const {
  const text::Tokenizer& tokenizer = impl_->need_tokenizer();
  if (!impl_->chat_template) {
    fail(ErrorCode::kUnsupported,
         "this model has no chat template; use --raw to complete the prompt as it is");
  }
  auto list = nlohmann::ordered_json::array();
  for (const Message& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  const text::MarkedText rendered =
      impl_->chat_template->render_chat(list, true, tokenizer.bos_token(), tokenizer.eos_token());
  return parse_special ? tokenizer.encode_prompt(rendered.text, text::SpecialTokens::kParse)
                       : tokenizer.encode_prompt(rendered);
}

std::string LanguageModel::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  const text::Tokenizer& tokenizer = impl_->need_tokenizer();
  std::vector<std::int32_t> known(ids.begin(), ids.end());
  // A model's vocabulary may be padded past the tokenizer's: such a token has no text.
  std::erase_if(known, [&](std::int32_t id) {
    return 0 <= id && id < impl_->config.vocab_size && !tokenizer.has(id);
  });
  return tokenizer.decode(known, skip_special);
}

GenerationResult LanguageModel::generate_ids(std::span<const std::vector<std::int32_t>> prompts,
                                             const GenerationOptions& options) {
  const text::Tokenizer* tokenizer = impl_->tokenizer ? &*impl_->tokenizer : nullptr;
  return generate(
      {impl_->config, impl_->weights, tokenizer, impl_->executor, *impl_->kernels, impl_->format,
       cache_dtype(impl_->format), end_tokens(impl_->config, impl_->generation_config, tokenizer)},
      prompts, options);
}

Completion LanguageModel::chat(std::span<const Message> messages) {
  GenerationOptions options;
  options.sampling = default_sampling();
  return chat(messages, options);
}

Completion LanguageModel::chat(std::span<const Message> messages,
                               const GenerationOptions& options) {
  const std::vector<std::int32_t> prompt = chat_prompt(messages);
  return std::move(generate_ids(std::span(&prompt, 1), options).completions.front());
}

Logits LanguageModel::logits(std::span<const std::int32_t> ids, bool with_hidden) {
  if (ids.empty())
    fail(ErrorCode::kInvalidArgument, "the sequence is empty; give at least one token");
  const auto wanted = static_cast<double>(std::ssize(ids)) * 2 * sizeof(float) *
                      static_cast<double>(impl_->config.vocab_size);
  if (wanted > static_cast<double>(available_memory_bytes())) {
    fail(ErrorCode::kOutOfMemory,
         "logits of {} tokens take {:.1f} GB, but {:.1f} GB are free; give fewer tokens",
         ids.size(), wanted / 1e9, static_cast<double>(available_memory_bytes()) / 1e9);
  }
  KvCache cache(impl_->config, cache_dtype(impl_->format), std::ssize(ids),
                impl_->kernels->kv_cache());
  ForwardPass forward(impl_->config, impl_->weights, impl_->executor, *impl_->kernels);
  const Segment segment{cache.add_sequence(), ids, std::ssize(ids)};

  const auto copy_of = [](const ops::ConstRows& rows) {
    return std::vector<float>(rows.data, rows.data + rows.rows * rows.columns);
  };
  Logits result;
  LayerObserver observe;
  if (with_hidden) {
    observe = [&](std::int64_t, const ops::ConstRows& hidden) {
      result.hidden.push_back(copy_of(hidden));
    };
  }
  const ops::ConstRows rows = forward.run(std::span(&segment, 1), cache, observe);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    require_finite(rows.row(i), impl_->format, fmt::format(" at position {}", i));
  }
  result.n_tokens = rows.rows;
  result.vocab_size = rows.columns;
  result.hidden_size = impl_->config.hidden_size;
  result.logits = copy_of(rows);
  return result;
}

std::string_view version() {
  return TESSERA_VERSION;
}

}  // namespace tessera
