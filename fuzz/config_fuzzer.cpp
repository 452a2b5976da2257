// config.json and generation_config.json: an input is read as both.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <tessera/error.h>

#include "model/config.h"
#include "model/generation_config.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

template <typename Read>
void expect_errors_only(Read read) {
  try {
    read();
  } catch (const tessera::Error& error) {
    require(std::strchr(error.what(), '\n') == nullptr);
  }
}

// What the rest of the program relies on without looking again.
void check(const tessera::ModelConfig& config) {
  require(config.vocab_size > 0 && config.hidden_size > 0 && config.n_layers > 0);
  require(config.n_heads > 0 && config.kv_lora_rank > 0 && config.v_dim > 0);
  require(config.qk_rope_dim > 0 && config.qk_rope_dim % 2 == 0);
  require(config.first_dense_layers >= 0 && config.first_dense_layers <= config.n_layers);
  require(config.first_dense_layers == 0 || config.intermediate_size > 0);
  require(config.rms_norm_eps > 0 && config.rope.theta > 1);
  if (config.has_moe()) {
    require(config.n_experts_per_token > 0 && config.moe_intermediate_size > 0);
    require(config.n_routed_experts % config.n_groups == 0);
    require(config.top_k_groups <= config.n_groups);
    require(config.n_experts_per_token <=
            config.n_routed_experts / config.n_groups * config.top_k_groups);
  }
  for (std::int64_t token : config.eos_token_ids) require(token >= 0 && token < config.vocab_size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_errors_only([&] { check(tessera::ModelConfig::parse(text, "config.json")); });
  expect_errors_only([&] { tessera::GenerationConfig::parse(text, "generation_config.json"); });
  return 0;
}
