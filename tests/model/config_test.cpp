#include "model/config.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "model/generation_config.h"
#include "tests/io/expect_error.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

using nlohmann::json;

const std::filesystem::path kLiteFolder =
    std::filesystem::path(TESSERA_TEST_DATA) / "configs/deepseek-v2-lite-chat";

json lite() {
  return read_json_file(kLiteFolder / "config.json");
}

// The large model: compressed queries, experts in groups, a scaling factor that is not 1.
json full() {
  json config = lite();
  config.update(json::parse(R"({
    "vocab_size": 102400, "hidden_size": 5120, "num_hidden_layers": 60, "num_attention_heads": 128,
    "num_key_value_heads": 128, "q_lora_rank": 1536, "intermediate_size": 12288,
    "moe_intermediate_size": 1536, "n_routed_experts": 160, "n_shared_experts": 2,
    "num_experts_per_tok": 6, "first_k_dense_replace": 1, "n_group": 8, "topk_group": 3,
    "topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0})"));
  return config;
}

json with(json config, const char* key, const json& value) {
  config[key] = value;
  return config;
}

json without(json config, const char* key) {
  config.erase(key);
  return config;
}

json with_rope(const char* key, const json& value) {
  json config = lite();
  config["rope_scaling"][key] = value;
  return config;
}

json without_rope(const char* key) {
  json config = lite();
  config["rope_scaling"].erase(key);
  return config;
}

ModelConfig parse(const json& config) {
  return ModelConfig::parse(config.dump(), "config.json");
}

void expect_bad(const json& config, const std::string& sentence) {
  EXPECT_ERROR(parse(config), ErrorCode::kBadConfig, "config.json: " + sentence);
}

void expect_unsupported(const json& config, const std::string& sentence) {
  EXPECT_ERROR(parse(config), ErrorCode::kUnsupported, "config.json: " + sentence);
}

TEST(ModelConfig, ReadsV2Lite) {
  const ModelConfig config = ModelConfig::load(kLiteFolder);
  EXPECT_EQ(config.vocab_size, 102400);
  EXPECT_EQ(config.hidden_size, 2048);
  EXPECT_EQ(config.n_layers, 27);
  EXPECT_EQ(config.max_positions, 163840);
  EXPECT_EQ(config.n_heads, 16);
  EXPECT_EQ(config.q_lora_rank, std::nullopt);
  EXPECT_EQ(config.kv_lora_rank, 512);
  EXPECT_EQ(config.qk_nope_dim, 128);
  EXPECT_EQ(config.qk_rope_dim, 64);
  EXPECT_EQ(config.qk_dim(), 192);
  EXPECT_EQ(config.v_dim, 128);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_EQ(config.first_dense_layers, 1);
  EXPECT_EQ(config.intermediate_size, 10944);
  EXPECT_EQ(config.moe_intermediate_size, 1408);
  EXPECT_EQ(config.n_routed_experts, 64);
  EXPECT_EQ(config.n_shared_experts, 2);
  EXPECT_EQ(config.n_experts_per_token, 6);
  EXPECT_EQ(config.topk_method, ops::TopKMethod::kGreedy);
  EXPECT_FALSE(config.norm_topk_prob);
  EXPECT_EQ(config.routed_scaling_factor, 1.0);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.rope.theta, 10000);
  ASSERT_TRUE(config.rope.yarn.has_value());
  EXPECT_EQ(config.rope.yarn->factor, 40);
  EXPECT_EQ(config.rope.yarn->original_context, 4096);
  EXPECT_EQ(config.rope.yarn->beta_fast, 32);
  EXPECT_EQ(config.rope.yarn->beta_slow, 1);
  EXPECT_EQ(config.rope.yarn->mscale, 0.707);
  EXPECT_EQ(config.rope.yarn->mscale_all_dim, 0.707);
  EXPECT_EQ(config.bos_token_id, 100000);
  EXPECT_EQ(config.eos_token_ids, (std::vector<std::int64_t>{100001}));
  EXPECT_FALSE(config.is_moe(0));
  EXPECT_TRUE(config.is_moe(1));
}

TEST(ModelConfig, ReadsTheLargeModel) {
  const ModelConfig config = parse(full());
  EXPECT_EQ(config.q_lora_rank, 1536);
  EXPECT_EQ(config.n_heads, 128);
  EXPECT_EQ(config.n_routed_experts, 160);
  EXPECT_EQ(config.topk_method, ops::TopKMethod::kGroupLimitedGreedy);
  EXPECT_EQ(config.n_groups, 8);
  EXPECT_EQ(config.top_k_groups, 3);
  EXPECT_EQ(config.routed_scaling_factor, 16.0);
}

TEST(ModelConfig, ReadsTheNewerSpellingOfRope) {
  json config = without(without(lite(), "rope_scaling"), "rope_theta");
  config["rope_parameters"] = json::parse(R"({
    "rope_type": "yarn", "type": "yarn", "rope_theta": 50000, "factor": 40, "beta_fast": 32,
    "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096})");
  EXPECT_EQ(parse(config).rope.theta, 50000);
  EXPECT_EQ(parse(config).rope.yarn->factor, 40);

  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500.5}};
  EXPECT_EQ(parse(config).rope.theta, 500.5);
  EXPECT_FALSE(parse(config).rope.yarn.has_value());

  config["rope_parameters"] = {{"rope_theta", 20000}};
  EXPECT_EQ(parse(config).rope.theta, 20000);
}

TEST(ModelConfig, HasPlainRopeWithoutScaling) {
  EXPECT_FALSE(parse(without(lite(), "rope_scaling")).rope.yarn.has_value());
  EXPECT_FALSE(parse(with(lite(), "rope_scaling", nullptr)).rope.yarn.has_value());
}

TEST(ModelConfig, TakesUsualValuesForWhatIsNotArchitecture) {
  json config = full();
  for (const char* key :
       {"max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "attention_bias",
        "rope_theta", "rope_scaling", "norm_topk_prob", "routed_scaling_factor", "topk_method",
        "n_group", "topk_group", "scoring_func", "hidden_act", "moe_layer_freq",
        "num_key_value_heads", "pretraining_tp", "architectures", "bos_token_id", "eos_token_id"}) {
    config.erase(key);
  }
  const ModelConfig read = parse(config);
  EXPECT_EQ(read.max_positions, 2048);
  EXPECT_EQ(read.rms_norm_eps, 1e-6);
  EXPECT_FALSE(read.tie_word_embeddings);
  EXPECT_FALSE(read.attention_bias);
  EXPECT_EQ(read.rope.theta, 10000);
  EXPECT_FALSE(read.norm_topk_prob);
  EXPECT_EQ(read.routed_scaling_factor, 1.0);
  EXPECT_EQ(read.topk_method, ops::TopKMethod::kGreedy);
  EXPECT_EQ(read.n_groups, 1);
  EXPECT_EQ(read.bos_token_id, std::nullopt);
  EXPECT_TRUE(read.eos_token_ids.empty());
}

TEST(ModelConfig, TakesUsualValuesForYarn) {
  json config = lite();
  config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 1024}};
  const ops::YarnParameters yarn = *parse(config).rope.yarn;
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_EQ(yarn.beta_slow, 1);
  EXPECT_EQ(yarn.mscale, 1);
  EXPECT_EQ(yarn.mscale_all_dim, 0);
}

TEST(ModelConfig, ReadsSwitches) {
  json config = full();
  config["norm_topk_prob"] = true;
  config["attention_bias"] = true;
  config["tie_word_embeddings"] = true;
  EXPECT_TRUE(parse(config).norm_topk_prob);
  EXPECT_TRUE(parse(config).attention_bias);
  EXPECT_TRUE(parse(config).tie_word_embeddings);
}

TEST(ModelConfig, IgnoresWhatMattersInTrainingOnly) {
  EXPECT_NO_THROW(parse(with(lite(), "pretraining_tp", 4)));
  EXPECT_NO_THROW(parse(with(lite(), "aux_loss_alpha", 0.5)));
  EXPECT_NO_THROW(parse(with(lite(), "quantization_config", nullptr)));
}

TEST(ModelConfig, ReadsOneOrManyEndTokens) {
  EXPECT_EQ(parse(with(lite(), "eos_token_id", {1, 2})).eos_token_ids,
            (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(parse(with(lite(), "eos_token_id", nullptr)).eos_token_ids.empty());
}

TEST(ModelConfig, MayHaveOnlyDenseLayers) {
  json config = with(lite(), "first_k_dense_replace", 100);
  for (const char* key : {"moe_intermediate_size", "n_routed_experts", "n_shared_experts",
                          "num_experts_per_tok", "n_group", "topk_group"}) {
    config.erase(key);
  }
  const ModelConfig read = parse(config);
  EXPECT_EQ(read.first_dense_layers, 27);
  EXPECT_FALSE(read.has_moe());
  EXPECT_EQ(read.n_routed_experts, 0);
}

TEST(ModelConfig, MayHaveNoDenseLayers) {
  const json config = without(without(lite(), "first_k_dense_replace"), "intermediate_size");
  EXPECT_EQ(parse(config).first_dense_layers, 0);
  EXPECT_TRUE(parse(config).is_moe(0));
}

TEST(ModelConfig, MayHaveNoSharedExperts) {
  EXPECT_EQ(parse(with(lite(), "n_shared_experts", 0)).n_shared_experts, 0);
  EXPECT_EQ(parse(with(lite(), "n_shared_experts", nullptr)).n_shared_experts, 0);
}

TEST(ModelConfig, IgnoresGroupsThatGreedyDoesNotUse) {
  json config = lite();
  config["n_group"] = 7;
  config["topk_group"] = 9;
  EXPECT_EQ(parse(config).n_groups, 1);
  EXPECT_EQ(parse(config).top_k_groups, 1);
}

TEST(ModelConfig, NamesTheFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(ModelConfig::load(folder.path()), ErrorCode::kFileNotFound,
               folder.name() + "/config.json: no such file; check the path");
  folder.write("config.json", "{\"a\": 1,\n}");
  EXPECT_ERROR(
      ModelConfig::load(folder.path()), ErrorCode::kBadJson,
      folder.name() +
          "/config.json: line 2, column 1: this is not valid JSON; correct it or download the "
          "file again");
  folder.write("config.json", "[]");
  EXPECT_ERROR(ModelConfig::load(folder.path()), ErrorCode::kBadConfig,
               folder.name() + "/config.json: must hold a JSON object, not an array");
}

TEST(ModelConfig, RefusesAnotherArchitecture) {
  expect_unsupported(with(lite(), "model_type", "llama"),
                     "model_type \"llama\" is not supported, only \"deepseek_v2\" "
                     "(DeepseekV2ForCausalLM) is");
  expect_unsupported(with(lite(), "model_type", "deepseek_v3"),
                     "model_type \"deepseek_v3\" is not supported, only \"deepseek_v2\" "
                     "(DeepseekV2ForCausalLM) is");
  expect_unsupported(with(lite(), "architectures", {"DeepseekV2Model"}),
                     "architecture \"DeepseekV2Model\" is not supported, only "
                     "\"DeepseekV2ForCausalLM\" is");
  expect_bad(without(lite(), "model_type"), "\"model_type\" is missing, but it is needed");
  expect_bad(with(lite(), "model_type", 2), "\"model_type\" must be a string, not 2");
}

TEST(ModelConfig, RefusesQuantisedWeights) {
  expect_unsupported(
      with(lite(), "quantization_config", {{"quant_method", "fp8"}}),
      "the weights are quantised (quant_method \"fp8\"), which is not supported; use "
      "the folder with the original weights");
  expect_unsupported(
      with(lite(), "quantization_config", json::object()),
      "the weights are quantised (quant_method \"unknown\"), which is not supported; "
      "use the folder with the original weights");
}

TEST(ModelConfig, RefusesVariantsItCannotRun) {
  expect_unsupported(with(lite(), "hidden_act", "gelu"),
                     "hidden_act \"gelu\" is not supported, only \"silu\" is");
  expect_unsupported(with(lite(), "scoring_func", "sigmoid"),
                     "scoring_func \"sigmoid\" is not supported, only \"softmax\" is");
  expect_unsupported(with(lite(), "topk_method", "noaux_tc"),
                     "topk_method \"noaux_tc\" is not supported, only \"greedy\" and "
                     "\"group_limited_greedy\" are");
  expect_unsupported(with(lite(), "moe_layer_freq", 2),
                     "moe_layer_freq 2 is not supported, only 1 is");
  expect_unsupported(with(lite(), "mlp_bias", true),
                     "mlp_bias true is not supported, only false is");
  expect_unsupported(with(lite(), "num_key_value_heads", 8),
                     "num_key_value_heads 8 differs from num_attention_heads 16, which is not "
                     "supported");
}

TEST(ModelConfig, RefusesOtherRopes) {
  for (const std::string type : {"linear", "dynamic", "llama3", "longrope", "su"}) {
    expect_unsupported(
        with_rope("type", type),
        "rope type \"" + type + "\" is not supported, only \"yarn\" and \"default\" are");
  }
  expect_unsupported(
      with_rope("attention_factor", 1.5),
      "\"rope_scaling.attention_factor\" is not supported, mscale and mscale_all_dim "
      "are");
  expect_unsupported(with_rope("truncate", false),
                     "\"rope_scaling.truncate\" false is not supported, only true is");
  expect_unsupported(with_rope("partial_rotary_factor", 0.5),
                     "rope_scaling has the key \"partial_rotary_factor\", which is not supported");
}

TEST(ModelConfig, RefusesRopesThatContradictThemselves) {
  expect_bad(with(lite(), "rope_parameters", {{"rope_type", "default"}}),
             "has both \"rope_scaling\" and \"rope_parameters\"; remove one of them");
  expect_bad(with_rope("rope_type", "linear"),
             "\"rope_scaling.rope_type\" is \"linear\", but \"rope_scaling.type\" is \"yarn\"");
  expect_bad(with_rope("rope_theta", 5000),
             "\"rope_theta\" is 10000, but \"rope_scaling.rope_theta\" is 5000");
  expect_bad(without_rope("type"),
             "\"rope_scaling\" has a factor, but neither \"rope_type\" nor \"type\"");
  expect_bad(with_rope("beta_slow", 33),
             "\"rope_scaling.beta_fast\" 32 is less than \"rope_scaling.beta_slow\" 33");
  for (const json& config : {without_rope("mscale"), without_rope("mscale_all_dim"),
                             with_rope("mscale", 0), with_rope("mscale_all_dim", 0)}) {
    expect_bad(
        config,
        "\"rope_scaling.mscale\" and \"rope_scaling.mscale_all_dim\" must be given together");
  }
}

TEST(ModelConfig, RefusesRopeNumbersOutOfRange) {
  expect_bad(with_rope("factor", 0),
             "\"rope_scaling.factor\" must be a number greater than 0, not 0");
  expect_bad(with_rope("factor", "40"), "\"rope_scaling.factor\" must be a number, not \"40\"");
  expect_bad(without_rope("factor"), "\"rope_scaling.factor\" is missing, but it is needed");
  expect_bad(with_rope("original_max_position_embeddings", 4096.5),
             "\"rope_scaling.original_max_position_embeddings\" must be an integer from 1 to "
             "1073741824, not 4096.5");
  expect_bad(without_rope("original_max_position_embeddings"),
             "\"rope_scaling.original_max_position_embeddings\" is missing, but it is needed");
  expect_bad(with_rope("beta_fast", -1),
             "\"rope_scaling.beta_fast\" must be a number greater than 0, not -1");
  expect_bad(with_rope("mscale", -1), "\"rope_scaling.mscale\" must be a number from 0 up, not -1");
  expect_bad(with(lite(), "rope_theta", 1),
             "\"rope_theta\" must be a number greater than 1, not 1");
  expect_bad(with(lite(), "rope_theta", -10000.0),
             "\"rope_theta\" must be a number greater than 1, not -10000.0");
  expect_bad(with(lite(), "rope_scaling", "yarn"),
             "\"rope_scaling\" must be an object, not \"yarn\"");
}

TEST(ModelConfig, RefusesNumbersThatAreNotFinite) {
  EXPECT_ERROR(ModelConfig::parse("{\"rms_norm_eps\": NaN}", "config.json"), ErrorCode::kBadJson,
               "config.json: line 1, column 18: this is not valid JSON; correct it or download the "
               "file again");
  EXPECT_ERROR(ModelConfig::parse("{\"rope_theta\": 1e400}", "config.json"), ErrorCode::kBadJson,
               "config.json: line 1, column 20: the number is too large");
}

TEST(ModelConfig, NeedsEverySize) {
  for (const std::string key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank",
        "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "intermediate_size",
        "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"}) {
    expect_bad(without(lite(), key.c_str()), "\"" + key + "\" is missing, but it is needed");
    expect_bad(with(lite(), key.c_str(), nullptr), "\"" + key + "\" is null, but it is needed");
  }
  expect_bad(without(lite(), "q_lora_rank"),
             "\"q_lora_rank\" is missing; give its size, or null for one query projection");
  expect_bad(without(lite(), "n_shared_experts"),
             "\"n_shared_experts\" is missing; give their number, or 0 for none");
}

TEST(ModelConfig, RefusesSizesOutOfRange) {
  for (const json& value : {json(0), json(-1), json(1.5), json(2048.0), json("2048"), json(true),
                            json(1048577), json(std::uint64_t{1} << 63), json(1e30)}) {
    expect_bad(with(lite(), "hidden_size", value),
               "\"hidden_size\" must be an integer from 1 to 1048576, not " + value.dump());
  }
  expect_bad(with(lite(), "q_lora_rank", 0),
             "\"q_lora_rank\" must be an integer from 1 to 1048576, not 0");
  expect_bad(with(lite(), "first_k_dense_replace", -1),
             "\"first_k_dense_replace\" must be an integer from 0 to 1048576, not -1");
  expect_bad(with(lite(), "n_shared_experts", -1),
             "\"n_shared_experts\" must be an integer from 0 to 16384, not -1");
  expect_bad(with(lite(), "max_position_embeddings", 0),
             "\"max_position_embeddings\" must be an integer from 1 to 1073741824, not 0");
  expect_bad(with(lite(), "rms_norm_eps", 0),
             "\"rms_norm_eps\" must be a number greater than 0, not 0");
  expect_bad(with(lite(), "routed_scaling_factor", -1.0),
             "\"routed_scaling_factor\" must be a number greater than 0, not -1.0");
}

TEST(ModelConfig, RefusesSizesWhoseProductIsAbsurd) {
  json config = lite();
  config["hidden_size"] = 1048576;
  config["moe_intermediate_size"] = 1048576;
  config["n_routed_experts"] = 16384;
  expect_bad(config, "the sizes make a model of 1.4e+18 parameters, more than any machine holds");
}

TEST(ModelConfig, RefusesAnOddRopeDimension) {
  expect_bad(with(lite(), "qk_rope_head_dim", 63),
             "\"qk_rope_head_dim\" must be even, because rotations act on pairs, not 63");
}

TEST(ModelConfig, RefusesMoreExpertsPerTokenThanThereAre) {
  expect_bad(with(lite(), "num_experts_per_tok", 65),
             "\"num_experts_per_tok\" 65 is more than \"n_routed_experts\" 64");
}

TEST(ModelConfig, RefusesGroupsThatDoNotFit) {
  expect_bad(with(full(), "n_group", 7), "\"n_group\" 7 does not divide \"n_routed_experts\" 160");
  expect_bad(with(full(), "n_group", 320), "\"n_group\" must be an integer from 1 to 160, not 320");
  expect_bad(with(full(), "topk_group", 9), "\"topk_group\" 9 is more than \"n_group\" 8");
  expect_bad(with(full(), "num_experts_per_tok", 61),
             "\"num_experts_per_tok\" 61 is more than the 60 experts of \"topk_group\" 3 groups");
  expect_bad(with(full(), "n_group", nullptr), "\"n_group\" is null, but it is needed");
  expect_bad(without(full(), "topk_group"), "\"topk_group\" is missing, but it is needed");
}

TEST(ModelConfig, RefusesTokensOutsideTheVocabulary) {
  expect_bad(with(lite(), "bos_token_id", 102400),
             "\"bos_token_id\" must be an integer from 0 to 102399, not 102400");
  expect_bad(with(lite(), "eos_token_id", {1, -1}),
             "\"eos_token_id[1]\" must be an integer from 0 to 102399, not -1");
  expect_bad(with(lite(), "eos_token_id", "</s>"),
             "\"eos_token_id\" must be an integer from 0 to 102399, not \"</s>\"");
}

TEST(GenerationConfig, ReadsV2Lite) {
  const GenerationConfig config = GenerationConfig::load(kLiteFolder);
  EXPECT_EQ(config.do_sample, true);
  EXPECT_EQ(config.temperature, 0.3);
  EXPECT_EQ(config.top_p, 0.95);
  EXPECT_EQ(config.top_k, std::nullopt);
  EXPECT_EQ(config.repetition_penalty, std::nullopt);
  EXPECT_EQ(config.bos_token_id, 100000);
  EXPECT_EQ(config.eos_token_ids, (std::vector<std::int64_t>{100001}));
}

TEST(GenerationConfig, IsEmptyWithoutTheFile) {
  const TemporaryFolder folder;
  const GenerationConfig config = GenerationConfig::load(folder.path());
  EXPECT_EQ(config.do_sample, std::nullopt);
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(GenerationConfig, ReadsEveryValue) {
  const GenerationConfig config = GenerationConfig::parse(
      R"({"do_sample": false, "temperature": 0, "top_p": 1, "min_p": 0.1, "top_k": 50,
          "repetition_penalty": 1.1, "eos_token_id": [3, 4]})",
      "g.json");
  EXPECT_EQ(config.do_sample, false);
  EXPECT_EQ(config.temperature, 0);
  EXPECT_EQ(config.top_k, 50);
  EXPECT_EQ(config.min_p, 0.1);
  EXPECT_EQ(config.repetition_penalty, 1.1);
  EXPECT_EQ(config.eos_token_ids, (std::vector<std::int64_t>{3, 4}));
}

TEST(GenerationConfig, NamesWhatIsWrong) {
  const auto expect_bad = [](const std::string& text, const std::string& sentence) {
    EXPECT_ERROR(GenerationConfig::parse(text, "g.json"), ErrorCode::kBadConfig,
                 "g.json: " + sentence);
  };
  expect_bad(R"({"do_sample": 1})", "\"do_sample\" must be true or false, not 1");
  expect_bad(R"({"temperature": "hot"})", "\"temperature\" must be a number, not \"hot\"");
  expect_bad(R"({"temperature": -0.1})", "\"temperature\" must be a number from 0 up, not -0.1");
  expect_bad(R"({"top_p": 0})", "\"top_p\" must be a number greater than 0 and at most 1, not 0");
  expect_bad(R"({"top_p": 1.01})",
             "\"top_p\" must be a number greater than 0 and at most 1, not 1.01");
  expect_bad(R"({"min_p": 2})", "\"min_p\" must be a number from 0 to 1, not 2");
  expect_bad(R"({"top_k": 1.5})", "\"top_k\" must be an integer from 0 to 2147483647, not 1.5");
  expect_bad(R"({"repetition_penalty": 0})",
             "\"repetition_penalty\" must be a number greater than 0, not 0");
  expect_bad(R"({"eos_token_id": [1, "x"]})",
             "\"eos_token_id[1]\" must be an integer from 0 to 2147483647, not \"x\"");
  expect_bad("[]", "must hold a JSON object, not an array");
}

TEST(GenerationConfig, DoesNotHideABrokenFile) {
  const TemporaryFolder folder;
  folder.write("generation_config.json", "{");
  EXPECT_ERROR(GenerationConfig::load(folder.path()), ErrorCode::kBadJson,
               folder.name() +
                   "/generation_config.json: line 1, column 2: the JSON text ends too "
                   "early; download the file again");
  std::filesystem::remove(folder / "generation_config.json");
  std::filesystem::create_directory(folder / "generation_config.json");
  EXPECT_ERROR(
      GenerationConfig::load(folder.path()), ErrorCode::kIo,
      folder.name() + "/generation_config.json: is a directory, but a file is needed here");
}

}  // namespace
}  // namespace tessera
