#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "base/fail.h"
#include "io/quote.h"
#include "model/kernels.h"
#include "model/weight_layout.h"
#include "ops/registry.h"

namespace tessera {

namespace {

// A call of one token as the forward pass makes it, to ask implementations whether they can run it.
// Nothing reads its memory.
struct Probe {
  Probe(const ops::MlaDims& d, WeightFormat format, bool bias, KvCacheForm form) {
    weights.dims = d;
    weights.kv_a.layout = layout_of(format, WeightRole::kAttention);
    weights.kv_b.layout = weights.kv_a.layout;
    weights.kv_a_bias = bias ? &number_ : nullptr;
    weights.norm = &number_;
    call.hidden = {&number_, 1, d.hidden};
    call.cos = {&number_, 1, d.rope / 2};
    call.sin = call.cos;
    call.blocks = 1;
    call.block_tokens = KvCache::kPageTokens;
    const DType cache = cache_dtype(format);
    if (form == KvCacheForm::kLatent) {
      call.latent = {byte(), cache};
      return;
    }
    const auto heads = [&](std::int64_t n_heads, std::int64_t dim) {
      return ops::HeadTensor::dense(byte(), cache, n_heads, call.block_tokens, dim);
    };
    call.k_nope = heads(d.heads, d.nope);
    call.value = heads(d.heads, d.v);
    call.k_pe = heads(1, d.rope);
  }

  std::string unsupported(const ops::MlaPrologImplementation& implementation) const {
    return implementation.unsupported(weights, call);
  }

  ops::MlaPrologWeights weights;
  ops::MlaPrologCall call;

 private:
  std::byte* byte() { return reinterpret_cast<std::byte*>(&number_); }
  float number_ = 0;
};

// Why the model's own prolog cannot be run; empty: it can.
std::string unsupported(const ops::MlaPrologImplementation& implementation, const ModelConfig& c,
                        WeightFormat format, KvCacheForm form) {
  const ops::MlaDims dims{c.hidden_size, c.n_heads,     c.kv_lora_rank,
                          c.qk_nope_dim, c.qk_rope_dim, c.v_dim};
  return Probe(dims, format, c.attention_bias, form).unsupported(implementation);
}

// Whether it writes that form for anybody: for plain dims without bias.
bool writes(const ops::MlaPrologImplementation& implementation, WeightFormat format,
            KvCacheForm form) {
  constexpr ops::MlaDims kPlain{64, 2, 64, 64, 64, 64};
  return Probe(kPlain, format, false, form).unsupported(implementation).empty();
}

[[noreturn]] void refuse(const std::string& prolog, KvCacheForm only) {
  fail(ErrorCode::kInvalidArgument,
       "the {} prolog writes the {} form of the KV cache and no other; leave out --kv-cache or "
       "choose another with --kv-fusion",
       prolog, to_string(only));
}

std::optional<KvCacheForm> cache_form(const std::string& name) {
  if (name == "auto") return std::nullopt;
  for (const KvCacheForm form : {KvCacheForm::kLatent, KvCacheForm::kExpanded}) {
    if (name == to_string(form)) return form;
  }
  fail(ErrorCode::kInvalidArgument,
       "there is no form {} of the KV cache; choose one of latent, expanded, auto",
       in_quotes(name));
}

// The first of a list, which is ordered from the fastest down to the reference, which runs
// everything.
template <typename Implementation, typename Runs>
const Implementation& fastest(std::span<const Implementation* const> list, const Runs& runs) {
  return **std::ranges::find_if(list, [&](const Implementation* i) { return runs(*i); });
}

const ops::RmsNormImplementation& choose_rms_norm(const std::string& name, const ModelConfig& c) {
  if (name != "auto") return ops::rms_norm_implementation(name);
  return fastest(ops::rms_norm_implementations(), [&](const auto& implementation) {
    return implementation.unsupported(1, c.hidden_size).empty() &&
           implementation.unsupported(1, c.kv_lora_rank).empty() &&
           (!c.q_lora_rank || implementation.unsupported(1, *c.q_lora_rank).empty());
  });
}

const ops::RopeImplementation& choose_rope(const std::string& name, const ModelConfig& c) {
  if (name != "auto") return ops::rope_implementation(name);
  return fastest(ops::rope_implementations(), [&](const auto& implementation) {
    return implementation.unsupported(c.qk_rope_dim, ops::RopeLayout::kInterleaved).empty();
  });
}

// The forward pass has the baseline's sequence of operators itself, with the chosen norm and
// rotation in it.
bool is_native(const ops::MlaPrologImplementation& implementation) {
  return &implementation == &ops::kMlaPrologBaseline;
}

bool is_fusion(const ops::MlaPrologImplementation& implementation) {
  return !is_native(implementation) && &implementation != &ops::kMlaPrologAuto &&
         &implementation != &ops::kMlaPrologReference;
}

// Why no prolog that is more than a sequence of native operators can run the model: the sentence
// about the fastest that writes this form of cache. Empty: one can.
std::string no_fusion(const ModelConfig& c, WeightFormat format, KvCacheForm form) {
  std::string sentence;
  for (const ops::MlaPrologImplementation* candidate : ops::mla_prolog_implementations()) {
    if (!is_fusion(*candidate) || !writes(*candidate, format, form)) continue;
    const std::string why = unsupported(*candidate, c, format, form);
    if (why.empty()) return {};
    if (sentence.empty()) sentence = native_instead("mla_prolog", candidate->name, why);
  }
  return sentence;
}

void choose_prolog(KernelChoice& choice, const KernelOptions& options, const ModelConfig& c,
                   WeightFormat format, const WarnFn& warn) {
  const std::string& name = options.mla_prolog;
  const std::optional<KvCacheForm> form = cache_form(options.kv_cache);
  choice.kv_cache = form.value_or(KvCacheForm::kLatent);
  if (name == "native") return;
  if (name == "auto" || name == "fusion") {
    const std::string why_not = no_fusion(c, format, choice.kv_cache);
    if (why_not.empty()) {
      choice.mla_prolog = &ops::kMlaPrologAuto;
    } else if (name == "fusion" && warn) {
      warn(why_not);
    }
    return;
  }

  const ops::MlaPrologImplementation& named = ops::mla_prolog_implementation(name);
  const bool writes_latent = writes(named, format, KvCacheForm::kLatent);
  const bool writes_expanded = writes(named, format, KvCacheForm::kExpanded);
  if (!writes_latent && writes_expanded) {
    if (form == KvCacheForm::kLatent) refuse(name, KvCacheForm::kExpanded);
    choice.kv_cache = KvCacheForm::kExpanded;
  }
  if (writes_latent && !writes_expanded && form == KvCacheForm::kExpanded) {
    refuse(name, KvCacheForm::kLatent);
  }
  if (const std::string why = unsupported(named, c, format, choice.kv_cache); !why.empty()) {
    if (warn) warn(native_instead("mla_prolog", name, why));
    choice.kv_cache = form.value_or(KvCacheForm::kLatent);
  } else if (!is_native(named)) {
    choice.mla_prolog = &named;
  }
}

AttentionForm choose_attention(const std::string& name, KvCacheForm cache) {
  const std::optional<AttentionForm> form = attention_form_from_string(name);
  if (!form) {
    fail(ErrorCode::kInvalidArgument,
         "there is no form {} of attention; choose one of auto, absorbed, expanded",
         in_quotes(name));
  }
  if (form == AttentionForm::kAbsorbed && cache == KvCacheForm::kExpanded) {
    fail(ErrorCode::kInvalidArgument,
         "attention in absorbed form needs a latent KV cache, and this one is expanded; leave out "
         "--attention-form or choose --kv-cache latent");
  }
  return *form;
}

}  // namespace

KernelChoice choose_kernels(const KernelOptions& options, const ModelConfig& config,
                            WeightFormat format, const WarnFn& warn) {
  KernelChoice choice;
  choice.rms_norm = &choose_rms_norm(options.rms_norm, config);
  choice.rope = &choose_rope(options.rope, config);
  choose_prolog(choice, options, config, format, warn);
  choice.attention = choose_attention(options.attention_form, choice.kv_cache);
  return choice;
}

}  // namespace tessera
