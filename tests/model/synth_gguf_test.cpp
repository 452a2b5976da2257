// Synthetic models as GGUF: the container, and that its values are those of the safetensors folder.
// tools/gguf/compare.py holds whole models against the gguf package.
#include "model/synth_gguf.h"

#include <cmath>
#include <cstring>
#include <map>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tessera/error.h>

#include "io/checkpoint.h"
#include "io/text_file.h"
#include "model/synth/ggml_blocks.h"
#include "model/synth/presets.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Reads a file as the format's documentation has it, from the first byte to the last.
class File {
 public:
  struct Tensor {
    std::vector<std::uint64_t> sizes;  // fastest first
    std::uint32_t type = 0;
    std::string bytes;

    std::uint64_t n_values() const {
      std::uint64_t n = 1;
      for (const std::uint64_t size : sizes) n *= size;
      return n;
    }
  };
  using Value = std::variant<std::uint32_t, std::int32_t, float, bool, std::string,
                             std::vector<std::string>, std::vector<std::int32_t>>;

  explicit File(std::string text) : text_(std::move(text)) {
    EXPECT_EQ(text_.substr(0, 4), "GGUF");
    at_ = 4;
    EXPECT_EQ(take<std::uint32_t>(), 3u);
    const auto n_tensors = take<std::uint64_t>();
    const auto n_values = take<std::uint64_t>();
    for (std::uint64_t i = 0; i < n_values; ++i) {
      const std::string key = take_string();
      EXPECT_TRUE(values.emplace(key, take_value(take<std::uint32_t>())).second) << key;
    }
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < n_tensors; ++i) {
      order.push_back(take_string());
      Tensor tensor;
      tensor.sizes.resize(take<std::uint32_t>());
      for (std::uint64_t& size : tensor.sizes) size = take<std::uint64_t>();
      tensor.type = take<std::uint32_t>();
      offsets.push_back(take<std::uint64_t>());
      tensors.emplace(order.back(), tensor);
    }
    const std::size_t data = (at_ + 31) / 32 * 32;
    std::size_t end = data;
    for (std::size_t i = 0; i < order.size(); ++i) {
      Tensor& tensor = tensors.at(order[i]);
      EXPECT_EQ(offsets[i] % 32, 0u) << order[i];
      EXPECT_EQ(data + offsets[i], (end + 31) / 32 * 32) << order[i];  // no gap but the alignment
      tensor.bytes = text_.substr(data + offsets[i], bytes_of(tensor));
      end = data + offsets[i] + tensor.bytes.size();
    }
    EXPECT_EQ((end + 31) / 32 * 32, text_.size());
  }

  template <typename T>
  T value(const std::string& key) const {
    return std::get<T>(values.at(key));
  }

  std::map<std::string, Value> values;
  std::map<std::string, Tensor> tensors;
  std::vector<std::string> order;

 private:
  static std::size_t bytes_of(const Tensor& tensor) {
    switch (tensor.type) {
      case 0:
        return tensor.n_values() * 4;
      case 2:
        return tensor.n_values() / 32 * 18;
      case 8:
        return tensor.n_values() / 32 * 34;
      case 30:
        return tensor.n_values() * 2;
    }
    ADD_FAILURE() << "type " << tensor.type;
    return 0;
  }

  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, text_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::string take_string() {
    const auto size = take<std::uint64_t>();
    at_ += size;
    return text_.substr(at_ - size, size);
  }

  Value take_value(std::uint32_t type) {
    switch (type) {
      case 4:
        return take<std::uint32_t>();
      case 5:
        return take<std::int32_t>();
      case 6:
        return take<float>();
      case 7:
        return take<std::uint8_t>() == 1;
      case 8:
        return take_string();
      case 9:
        break;
      default:
        ADD_FAILURE() << "type " << type;
    }
    const auto of = take<std::uint32_t>();
    const auto n = take<std::uint64_t>();
    if (of == 5) {
      std::vector<std::int32_t> all(n);
      for (std::int32_t& each : all) each = take<std::int32_t>();
      return all;
    }
    EXPECT_EQ(of, 8u);
    std::vector<std::string> all(n);
    for (std::string& each : all) each = take_string();
    return all;
  }

  std::string text_;
  std::size_t at_ = 0;
};

// Odd sizes: rows of 40 are no blocks of 32, and a head's keys begin between blocks of 4 values.
std::string tiny_config(const json& changes = json::object()) {
  json config = json::parse(synth_config("deepseek-v2-lite"));
  config.update({{"vocab_size", 300},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"moe_intermediate_size", 40},
                 {"num_hidden_layers", 3},
                 {"n_routed_experts", 5},
                 {"num_experts_per_tok", 2},
                 {"num_attention_heads", 3},
                 {"num_key_value_heads", 3},
                 {"kv_lora_rank", 33},
                 {"qk_nope_head_dim", 7},
                 {"qk_rope_head_dim", 6},
                 {"v_head_dim", 5}});
  config.update(changes);
  return config.dump();
}

class SynthGguf : public ::testing::Test {
 protected:
  File write(const std::string& config, GgmlType type, int threads = 2,
             std::optional<std::filesystem::path> tokenizer = {}) const {
    SynthOptions options;
    options.config_json = config;
    options.seed = 5;
    options.threads = threads;
    options.tokenizer_folder = std::move(tokenizer);
    write_synthetic_gguf(folder_ / "model.gguf", options, "tiny", type, nullptr);
    return File(read_text_file(folder_ / "model.gguf"));
  }

  Checkpoint checkpoint(const std::string& config) const {
    SynthOptions options;
    options.config_json = config;
    options.seed = 5;
    write_synthetic_model(folder_ / "folder", options, nullptr);
    return Checkpoint::open(folder_ / "folder");
  }

  TemporaryFolder folder_;
};

std::vector<float> floats(const CheckpointTensor& tensor) {
  std::vector<float> values(tensor.bytes().size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    bf16 value;
    std::memcpy(&value, tensor.bytes().data() + 2 * i, 2);
    values[i] = to_float(value);
  }
  return values;
}

std::vector<float> floats(const File::Tensor& tensor) {
  std::vector<float> values(tensor.n_values());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.type == 0) {
      std::memcpy(&values[i], tensor.bytes.data() + 4 * i, 4);
    } else {
      bf16 value;
      std::memcpy(&value, tensor.bytes.data() + 2 * i, 2);
      values[i] = to_float(value);
    }
  }
  return values;
}

TEST_F(SynthGguf, HasTheTensorsOfTheFolder) {
  const File file = write(tiny_config(), GgmlType::kBF16);
  const Checkpoint folder = checkpoint(tiny_config());
  std::size_t n_values = 0;
  const auto expect_same = [&](const std::string& name, const std::string& in_folder,
                               std::vector<std::uint64_t> sizes) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(file.tensors.contains(name));
    const File::Tensor& tensor = file.tensors.at(name);
    EXPECT_EQ(tensor.sizes, sizes);
    EXPECT_EQ(floats(tensor), floats(folder.get(in_folder)));
    n_values += tensor.n_values();
  };
  expect_same("token_embd.weight", "model.embed_tokens.weight", {64, 300});
  expect_same("output_norm.weight", "model.norm.weight", {64});
  expect_same("output.weight", "lm_head.weight", {64, 300});
  for (int i = 0; i < 3; ++i) {
    const std::string here = "blk." + std::to_string(i) + ".";
    const std::string there = "model.layers." + std::to_string(i) + ".";
    expect_same(here + "attn_norm.weight", there + "input_layernorm.weight", {64});
    expect_same(here + "attn_q.weight", there + "self_attn.q_proj.weight", {64, 39});
    expect_same(here + "attn_kv_a_mqa.weight", there + "self_attn.kv_a_proj_with_mqa.weight",
                {64, 39});
    expect_same(here + "attn_kv_a_norm.weight", there + "self_attn.kv_a_layernorm.weight", {33});
    expect_same(here + "attn_output.weight", there + "self_attn.o_proj.weight", {15, 64});
    expect_same(here + "ffn_norm.weight", there + "post_attention_layernorm.weight", {64});
    if (i == 0) {
      expect_same(here + "ffn_gate.weight", there + "mlp.gate_proj.weight", {64, 96});
      expect_same(here + "ffn_up.weight", there + "mlp.up_proj.weight", {64, 96});
      expect_same(here + "ffn_down.weight", there + "mlp.down_proj.weight", {96, 64});
    } else {
      expect_same(here + "ffn_gate_inp.weight", there + "mlp.gate.weight", {64, 5});
      expect_same(here + "ffn_gate_shexp.weight", there + "mlp.shared_experts.gate_proj.weight",
                  {64, 80});
      expect_same(here + "ffn_up_shexp.weight", there + "mlp.shared_experts.up_proj.weight",
                  {64, 80});
      expect_same(here + "ffn_down_shexp.weight", there + "mlp.shared_experts.down_proj.weight",
                  {80, 64});
      for (const auto& [short_name, long_name, sizes] :
           {std::tuple("gate", "gate_proj", std::vector<std::uint64_t>{64, 40, 5}),
            std::tuple("up", "up_proj", std::vector<std::uint64_t>{64, 40, 5}),
            std::tuple("down", "down_proj", std::vector<std::uint64_t>{40, 64, 5})}) {
        const File::Tensor& merged = file.tensors.at(here + "ffn_" + short_name + "_exps.weight");
        EXPECT_EQ(merged.sizes, sizes);
        std::vector<float> all;
        for (int e = 0; e < 5; ++e) {
          const std::vector<float> expert = floats(
              folder.get(there + "mlp.experts." + std::to_string(e) + "." + long_name + ".weight"));
          all.insert(all.end(), expert.begin(), expert.end());
        }
        EXPECT_EQ(floats(merged), all);
        n_values += merged.n_values();
      }
    }
    // Per head 7 rows of keys, then 5 of values, of 33 inputs.
    const std::vector<float> both = floats(folder.get(there + "self_attn.kv_b_proj.weight"));
    const File::Tensor& keys = file.tensors.at(here + "attn_k_b.weight");
    const File::Tensor& values = file.tensors.at(here + "attn_v_b.weight");
    EXPECT_THAT(keys.sizes, ElementsAre(7, 33, 3));
    EXPECT_THAT(values.sizes, ElementsAre(33, 5, 3));
    const std::vector<float> k = floats(keys);
    const std::vector<float> v = floats(values);
    for (int head = 0; head < 3; ++head) {
      for (int latent = 0; latent < 33; ++latent) {
        for (int n = 0; n < 7; ++n) {
          EXPECT_EQ(k[(head * 33 + latent) * 7 + n], both[(head * 12 + n) * 33 + latent]);
        }
        for (int n = 0; n < 5; ++n) {
          EXPECT_EQ(v[(head * 5 + n) * 33 + latent], both[(head * 12 + 7 + n) * 33 + latent]);
        }
      }
    }
    n_values += both.size();
  }
  // Nothing is left out.
  std::size_t n_in_file = 0;
  for (const auto& [name, tensor] : file.tensors) {
    n_in_file += tensor.n_values();
    const bool exact = tensor.sizes.size() == 1 || name.ends_with("ffn_gate_inp.weight");
    EXPECT_EQ(tensor.type, exact ? 0u : 30u) << name;
  }
  EXPECT_EQ(n_values, n_in_file);
}

TEST_F(SynthGguf, SaysWhatTheConfigSays) {
  const File file = write(tiny_config(), GgmlType::kQ8_0);
  const auto count = [&](const char* key) {
    return file.value<std::uint32_t>("deepseek2." + std::string(key));
  };
  EXPECT_EQ(file.value<std::string>("general.architecture"), "deepseek2");
  EXPECT_EQ(file.value<std::string>("general.name"), "tiny");
  EXPECT_EQ(file.value<std::uint32_t>("general.file_type"), 7u);
  EXPECT_EQ(count("block_count"), 3u);
  EXPECT_EQ(count("context_length"), 163840u);
  EXPECT_EQ(count("embedding_length"), 64u);
  EXPECT_EQ(count("vocab_size"), 300u);
  EXPECT_EQ(count("feed_forward_length"), 96u);
  EXPECT_EQ(count("attention.head_count"), 3u);
  EXPECT_EQ(count("attention.head_count_kv"), 1u);
  EXPECT_EQ(count("attention.q_lora_rank"), 0u);
  EXPECT_EQ(count("attention.kv_lora_rank"), 33u);
  EXPECT_EQ(count("attention.key_length"), 33u + 6);
  EXPECT_EQ(count("attention.value_length"), 33u);
  EXPECT_EQ(count("attention.key_length_mla"), 7u + 6);
  EXPECT_EQ(count("attention.value_length_mla"), 5u);
  EXPECT_EQ(count("rope.dimension_count"), 6u);
  EXPECT_EQ(count("leading_dense_block_count"), 1u);
  EXPECT_EQ(count("expert_count"), 5u);
  EXPECT_EQ(count("expert_used_count"), 2u);
  EXPECT_EQ(count("expert_shared_count"), 2u);
  EXPECT_EQ(count("expert_feed_forward_length"), 40u);
  EXPECT_EQ(count("expert_gating_func"), 1u);
  EXPECT_EQ(file.value<std::string>("deepseek2.rope.scaling.type"), "yarn");
  EXPECT_EQ(file.value<float>("deepseek2.rope.scaling.factor"), 40);
  EXPECT_EQ(count("rope.scaling.original_context_length"), 4096u);
  EXPECT_FLOAT_EQ(file.value<float>("deepseek2.rope.scaling.yarn_log_multiplier"), 0.0707f);
  EXPECT_FLOAT_EQ(file.value<float>("deepseek2.attention.layer_norm_rms_epsilon"), 1e-6f);
  EXPECT_FALSE(file.value<bool>("deepseek2.expert_weights_norm"));
}

TEST_F(SynthGguf, MatricesAreRoundedWhereTheirRowsAreWholeBlocks) {
  const Checkpoint folder = checkpoint(tiny_config());
  for (const GgmlType type : {GgmlType::kQ8_0, GgmlType::kQ4_0}) {
    const bool bytes = type == GgmlType::kQ8_0;
    const File file = write(tiny_config(), type);
    EXPECT_EQ(file.tensors.at("blk.1.ffn_down_exps.weight").type, 30u);  // rows of 40
    EXPECT_EQ(file.tensors.at("blk.0.attn_norm.weight").type, 0u);
    const File::Tensor& tensor = file.tensors.at("blk.0.ffn_down.weight");
    EXPECT_EQ(tensor.type, bytes ? 8u : 2u);
    const std::vector<float> exact = floats(folder.get("model.layers.0.mlp.down_proj.weight"));
    const std::size_t size = bytes ? 34 : 18;
    for (std::size_t b = 0; b < exact.size() / 32; ++b) {
      const char* block = tensor.bytes.data() + b * size;
      f16 half;
      std::memcpy(&half, block, 2);
      const double scale = to_float(half);
      double extreme = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        const double x = exact[b * 32 + i];
        if (std::abs(x) > std::abs(extreme)) extreme = x;
        const auto byte = static_cast<unsigned char>(block[2 + (bytes ? i : i % 16)]);
        const int code = bytes    ? static_cast<signed char>(byte)
                         : i < 16 ? (byte & 15) - 8
                                  : (byte >> 4) - 8;
        // Half of a step, and what fp16 took from the scale; the largest code of Q4_0 is 7 of 8.
        const double room = std::abs(scale) * (bytes || code < 7 ? 0.5 : 1) + 0.004 * std::abs(x);
        EXPECT_NEAR(scale * code, x, room);
      }
      EXPECT_NEAR(scale, bytes ? std::abs(extreme) / 127 : extreme / -8, std::abs(scale) / 1000);
    }
  }
}

TEST_F(SynthGguf, IsTheSameForEveryNumberOfThreads) {
  write(tiny_config(), GgmlType::kQ4_0, 1);
  const std::string one = read_text_file(folder_ / "model.gguf");
  write(tiny_config(), GgmlType::kQ4_0, 3);
  EXPECT_EQ(read_text_file(folder_ / "model.gguf"), one);
}

TEST_F(SynthGguf, QueriesOfTwoProjections) {
  const File file = write(tiny_config({{"q_lora_rank", 24}}), GgmlType::kBF16);
  EXPECT_EQ(file.value<std::uint32_t>("deepseek2.attention.q_lora_rank"), 24u);
  EXPECT_THAT(file.tensors.at("blk.2.attn_q_a.weight").sizes, ElementsAre(64, 24));
  EXPECT_THAT(file.tensors.at("blk.2.attn_q_a_norm.weight").sizes, ElementsAre(24));
  EXPECT_THAT(file.tensors.at("blk.2.attn_q_b.weight").sizes, ElementsAre(24, 39));
  EXPECT_FALSE(file.tensors.contains("blk.2.attn_q.weight"));
}

TEST_F(SynthGguf, HasTheTokenizerOfTheFolder) {
  const std::filesystem::path demo = TESSERA_DEMO_MODEL;
  const File file = write(tiny_config({{"vocab_size", 2600}}), GgmlType::kQ4_0, 2, demo);
  EXPECT_EQ(file.value<std::string>("tokenizer.ggml.model"), "gpt2");
  const auto tokens = file.value<std::vector<std::string>>("tokenizer.ggml.tokens");
  const auto kinds = file.value<std::vector<std::int32_t>>("tokenizer.ggml.token_type");
  ASSERT_EQ(tokens.size(), 2600u);
  ASSERT_EQ(kinds.size(), 2600u);
  const json tokenizer = json::parse(read_text_file(demo / "tokenizer.json"));
  for (const auto& [spelling, id] : tokenizer["model"]["vocab"].items()) {
    EXPECT_EQ(tokens[id.get<std::size_t>()], spelling);
  }
  for (const json& added : tokenizer["added_tokens"]) {
    EXPECT_EQ(tokens[added["id"].get<std::size_t>()], added["content"]);
    if (added["special"]) {
      EXPECT_EQ(kinds[added["id"].get<std::size_t>()], 3);
    }
  }
  EXPECT_EQ(tokens[2599], "[PAD2599]");
  EXPECT_EQ(kinds[2599], 5);
  EXPECT_EQ(file.value<std::vector<std::string>>("tokenizer.ggml.merges").size(),
            tokenizer["model"]["merges"].size());
  EXPECT_EQ(file.value<std::uint32_t>("tokenizer.ggml.bos_token_id"), 1u);
}

TEST_F(SynthGguf, WithoutATokenizerTokensAreBytes) {
  const File file = write(tiny_config(), GgmlType::kQ4_0);
  const auto tokens = file.value<std::vector<std::string>>("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 300u);
  EXPECT_EQ(tokens['A'], "A");
  EXPECT_EQ(tokens[' '], "Ġ");
  EXPECT_EQ(tokens['\n'], "Ċ");
  EXPECT_EQ(tokens[256], "ĠĠ");
  EXPECT_EQ(tokens[257], "[PAD257]");
  EXPECT_THAT(file.value<std::vector<std::string>>("tokenizer.ggml.merges"), ElementsAre("Ġ Ġ"));
}

std::string refusal(const std::string& config,
                    std::optional<std::filesystem::path> tokenizer = {}) {
  const TemporaryFolder folder;
  SynthOptions options;
  options.config_json = config;
  options.tokenizer_folder = std::move(tokenizer);
  try {
    write_synthetic_gguf(folder / "x.gguf", options, "x", GgmlType::kBF16, nullptr);
  } catch (const Error& error) {
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    return error.what();
  }
  return "accepted";
}

TEST_F(SynthGguf, WhatTheArchitectureCannotSay) {
  EXPECT_EQ(refusal(tiny_config({{"attention_bias", true}})),
            "GGUF files of this architecture have no place for the tensor "
            "\"model.layers.0.self_attn.kv_a_proj_with_mqa.bias\"");
  EXPECT_EQ(refusal(tiny_config({{"n_shared_experts", nullptr}})),
            "GGUF files of this architecture have shared experts");
  json yarn = json::parse(tiny_config());
  yarn["rope_scaling"]["mscale"] = 1;
  EXPECT_THAT(refusal(yarn.dump()), HasSubstr("mscale 1 and mscale_all_dim 0.707 differ"));
  EXPECT_THAT(refusal(tiny_config(), TESSERA_DEMO_MODEL),
              HasSubstr("but the vocabulary of the model ends at 299"));
}

// Worked by hand.
TEST(GgmlBlocks, RoundAsGgmlDoes) {
  std::vector<bf16> values(32, to_bf16(0));
  values[0] = to_bf16(127);
  values[1] = to_bf16(-127);
  values[2] = to_bf16(0.5);
  values[3] = to_bf16(-2.5);
  values[4] = to_bf16(2.25);
  std::vector<std::byte> q8(34);
  encode_ggml(GgmlType::kQ8_0, values, q8);
  const auto byte = [](const std::vector<std::byte>& all, std::size_t i) {
    return std::to_integer<int>(all[i]);
  };
  EXPECT_EQ(byte(q8, 0) | byte(q8, 1) << 8, 0x3c00);  // 1
  EXPECT_THAT((std::vector<int>{byte(q8, 2), byte(q8, 3), byte(q8, 4), byte(q8, 5), byte(q8, 6)}),
              ElementsAre(127, 256 - 127, 1, 256 - 3, 2));

  values.assign(32, to_bf16(0));
  values[0] = to_bf16(16);   // the largest is positive, so the scale is negative: -2
  values[1] = to_bf16(-16);  // would be 16, and is 15
  values[2] = to_bf16(1);    // -0.5 + 8.5 = 8
  values[16] = to_bf16(-3);  // 1.5 + 8.5 = 10
  std::vector<std::byte> q4(18);
  encode_ggml(GgmlType::kQ4_0, values, q4);
  EXPECT_EQ(byte(q4, 0) | byte(q4, 1) << 8, 0xc000);
  EXPECT_EQ(byte(q4, 2), 0 | 10 << 4);
  EXPECT_EQ(byte(q4, 3), 15 | 8 << 4);
  EXPECT_EQ(byte(q4, 4), 8 | 8 << 4);

  values.assign(32, to_bf16(0));
  encode_ggml(GgmlType::kQ4_0, values, q4);
  EXPECT_EQ(byte(q4, 0) | byte(q4, 1) << 8, 0x8000);  // 0 / -8
  EXPECT_EQ(byte(q4, 2), 8 | 8 << 4);
  encode_ggml(GgmlType::kQ8_0, values, q8);
  EXPECT_EQ(byte(q8, 0) | byte(q8, 1) << 8, 0);
}

}  // namespace
}  // namespace tessera
