// Synthetic models: what is written, that it can be run, and what is refused.
#include "model/synth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <tessera/error.h>

#include "io/checkpoint.h"
#include "model/forward.h"
#include "model/generation_config.h"
#include "model/synth/presets.h"
#include "model/synth/random_values.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class Synth : public ::testing::Test {
 protected:
  Synth() : root_(fs::temp_directory_path() / ("tessera_synth_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directory(root_);
  }
  ~Synth() override { fs::remove_all(root_); }

  fs::path write(const std::string& name, const SynthOptions& options) const {
    fs::path folder = root_ / name;
    write_synthetic_model(folder, options, nullptr);
    return folder;
  }

  fs::path root_;
};

// A preset's config with small sizes.
std::string tiny_config(std::string_view preset, const nlohmann::json& changes = {}) {
  auto config = nlohmann::json::parse(synth_config(preset));
  config.update({{"vocab_size", 500},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2},
                 {"hidden_size", 256},
                 {"intermediate_size", 160},
                 {"moe_intermediate_size", 40},
                 {"num_hidden_layers", 6},
                 {"n_routed_experts", 64},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 4},
                 {"kv_lora_rank", 48},
                 {"qk_nope_head_dim", 24},
                 {"qk_rope_head_dim", 16},
                 {"v_head_dim", 24}});
  if (!config["q_lora_rank"].is_null()) config["q_lora_rank"] = 56;
  if (!changes.is_null()) config.update(changes);
  return config.dump();
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::map<std::string, std::string> all_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = contents(entry.path());
  }
  return files;
}

double rms(std::span<const float> values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// What a model does with random tokens.
struct Behaviour {
  double logits_rms;
  std::vector<double> stream_rms;        // after each layer
  std::vector<std::vector<int>> chosen;  // per MoE layer and expert: how many tokens
};

// A layer's choices, recomputed from the stream after it (close to what the router sees).
std::vector<int> choices(const ModelConfig& c, const LayerWeights& w, const ops::ConstRows& stream,
                         ops::Executor& executor) {
  std::vector<float> normed(static_cast<std::size_t>(stream.rows * c.hidden_size));
  std::vector<float> scores(static_cast<std::size_t>(stream.rows * c.n_routed_experts));
  const ops::Rows normed_rows(normed.data(), stream.rows, c.hidden_size);
  const ops::Rows score_rows(scores.data(), stream.rows, c.n_routed_experts);
  ops::rms_norm(stream, w.post_attention_norm.floats(), 1e-6f, normed_rows, executor);
  ops::linear(normed_rows, w.router, score_rows, executor);
  const ops::RouterParameters parameters{.top_k = c.n_experts_per_token,
                                         .method = c.topk_method,
                                         .n_groups = c.n_groups,
                                         .top_k_groups = c.top_k_groups};
  const auto n_choices = static_cast<std::size_t>(stream.rows * c.n_experts_per_token);
  std::vector<std::int32_t> experts(n_choices);
  std::vector<float> weights(n_choices);
  ops::route(score_rows, parameters, experts, weights);
  std::vector<int> counts(static_cast<std::size_t>(c.n_routed_experts));
  for (std::int32_t e : experts) ++counts[static_cast<std::size_t>(e)];
  return counts;
}

Behaviour run_random_tokens(const fs::path& folder, int n_tokens) {
  ops::Executor executor(2);
  const ModelConfig config = ModelConfig::load(folder);
  const ModelWeights weights =
      load_weights(folder, config, WeightFormat::kBF16, KvCacheForm::kLatent, executor, nullptr);
  KvCache cache(config, DType::kF32, n_tokens);
  ModelKernels kernels({}, config, weights, executor);
  ForwardPass forward(config, weights, executor, kernels);

  std::mt19937 random(7);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n_tokens));
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % config.vocab_size);
  Behaviour seen;
  const Segment segment{cache.add_sequence(), tokens, n_tokens};
  const auto logits =
      forward.run(std::span(&segment, 1), cache, [&](std::int64_t i, const ops::ConstRows& stream) {
        const auto n = static_cast<std::size_t>(stream.rows * stream.columns);
        seen.stream_rms.push_back(rms({stream.data, n}));
        if (!config.is_moe(i)) return;
        const LayerWeights& layer = weights.layers[static_cast<std::size_t>(i)];
        seen.chosen.push_back(choices(config, layer, stream, executor));
      });
  seen.logits_rms = rms({logits.data, static_cast<std::size_t>(logits.rows * logits.columns)});
  return seen;
}

void expect_error(ErrorCode code, const ::testing::Matcher<std::string>& sentence,
                  const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(std::string(error.what()), sentence);
  }
}

class SynthOfPreset : public Synth, public ::testing::WithParamInterface<std::string> {};

TEST_P(SynthOfPreset, RunsWithSensibleStatistics) {
  const Behaviour seen =
      run_random_tokens(write("model", {.config_json = tiny_config(GetParam())}), 1500);
  EXPECT_THAT(seen.stream_rms,
              ::testing::Each(::testing::AllOf(::testing::Ge(0.9), ::testing::Le(1.8))));
  EXPECT_THAT(seen.logits_rms, ::testing::AllOf(::testing::Ge(2.0), ::testing::Le(3.0)));
  ASSERT_FALSE(seen.chosen.empty());
  for (const std::vector<int>& counts : seen.chosen) {
    const auto [least, most] = std::ranges::minmax_element(counts);
    EXPECT_GT(*least, 0);
    EXPECT_GT(*most, 2 * *least);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SynthOfPreset,
                         ::testing::Values("deepseek-v2-lite", "deepseek-v2", "deepseek-v3-shape"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(Synth, StreamKeepsItsSizeOver60Layers) {
  const std::string config = tiny_config(
      "deepseek-v2", {{"num_hidden_layers", 60}, {"n_routed_experts", 16}, {"topk_group", 6}});
  const Behaviour seen = run_random_tokens(write("model", {.config_json = config}), 100);
  EXPECT_THAT(seen.stream_rms.back(), ::testing::AllOf(::testing::Ge(1.0), ::testing::Le(1.8)));
}

TEST_F(Synth, BiasesAndTiedEmbeddingsAreWritten) {
  const std::string config =
      tiny_config("deepseek-v2-lite", {{"attention_bias", true}, {"tie_word_embeddings", true}});
  const Behaviour seen = run_random_tokens(write("model", {.config_json = config}), 100);
  EXPECT_TRUE(std::isfinite(seen.logits_rms));
}

TEST_F(Synth, SameBytesForEveryThreadCountAndShardSize) {
  const std::string config = tiny_config("deepseek-v2-lite");
  const auto one = all_files(write("one", {.config_json = config, .seed = 5, .threads = 1}));
  EXPECT_EQ(one, all_files(write("three", {.config_json = config, .seed = 5, .threads = 3})));

  const fs::path sharded =
      write("sharded", {.config_json = config, .seed = 5, .max_shard_bytes = 300'000});
  const Checkpoint whole = Checkpoint::open(root_ / "one");
  const Checkpoint parts = Checkpoint::open(sharded);
  ASSERT_EQ(whole.names(), parts.names());
  for (const std::string& name : whole.names()) {
    EXPECT_TRUE(std::ranges::equal(whole.get(name).bytes(), parts.get(name).bytes())) << name;
  }
}

TEST_F(Synth, AnotherSeedGivesOtherValues) {
  const std::string config = tiny_config("deepseek-v2-lite");
  const fs::path first = write("first", {.config_json = config, .seed = 1});
  const fs::path second = write("second", {.config_json = config, .seed = 2});
  const std::string shard = "model-00001-of-00001.safetensors";
  EXPECT_NE(contents(first / shard), contents(second / shard));
}

TEST_F(Synth, ShardsStayBelowTheLimit) {
  const fs::path folder =
      write("model", {.config_json = tiny_config("deepseek-v2-lite"), .max_shard_bytes = 300'000});
  int shards = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++shards;
    std::size_t bytes = 0;
    const auto file = SafetensorsFile::open(entry.path());
    for (const auto& tensor : file.entries()) bytes += tensor.n_bytes;
    EXPECT_LE(bytes, 300'000u) << entry.path();
  }
  EXPECT_GT(shards, 3);
}

TEST_F(Synth, GenerationIsGreedyAndEndsAtTheEndToken) {
  const fs::path folder = write("model", {.config_json = tiny_config("deepseek-v2-lite")});
  const GenerationConfig generation = GenerationConfig::load(folder);
  EXPECT_EQ(generation.do_sample, false);
  EXPECT_EQ(generation.eos_token_ids, std::vector<std::int64_t>{2});
}

TEST_F(Synth, ProgressRisesToTheBytesOfTheWeights) {
  std::size_t last = 0;
  std::size_t total = 0;
  const auto progress = [&](std::size_t done, std::size_t of) {
    EXPECT_GT(done, last);
    last = done;
    total = of;
  };
  write_synthetic_model(
      root_ / "model", {.config_json = tiny_config("deepseek-v2-lite"), .max_shard_bytes = 300'000},
      progress);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, Checkpoint::open(root_ / "model").total_bytes());
}

TEST_F(Synth, AnInterruptedModelDoesNotLoad) {
  const auto stop = [](std::size_t, std::size_t) { throw std::runtime_error("stop"); };
  EXPECT_THROW(
      write_synthetic_model(
          root_ / "model",
          {.config_json = tiny_config("deepseek-v2-lite"), .max_shard_bytes = 300'000}, stop),
      std::runtime_error);
  expect_error(ErrorCode::kFileNotFound, ::testing::_, [&] { Checkpoint::open(root_ / "model"); });
}

TEST_F(Synth, CopiesATokenizer) {
  std::ofstream(root_ / "tokenizer.json") << "{}";
  std::ofstream(root_ / "tokenizer_config.json") << "{\"a\": 1}";
  const fs::path folder =
      write("model", {.config_json = tiny_config("deepseek-v2-lite"), .tokenizer_folder = root_});
  EXPECT_EQ(contents(folder / "tokenizer.json"), "{}");
  EXPECT_EQ(contents(folder / "tokenizer_config.json"), "{\"a\": 1}");
}

TEST_F(Synth, RefusesAMissingTokenizerBeforeWriting) {
  const SynthOptions options{.config_json = tiny_config("deepseek-v2-lite"),
                             .tokenizer_folder = root_ / "nothing"};
  expect_error(ErrorCode::kFileNotFound,
               ::testing::HasSubstr((root_ / "nothing/tokenizer.json").string()),
               [&] { write("model", options); });
  EXPECT_FALSE(fs::exists(root_ / "model"));
}

TEST_F(Synth, RefusesAFolderThatIsNotEmpty) {
  const fs::path full = root_ / "full";
  fs::create_directory(full);
  std::ofstream(full / "file") << "x";
  const SynthOptions options{.config_json = tiny_config("deepseek-v2-lite")};
  expect_error(ErrorCode::kInvalidArgument,
               full.string() + ": the folder is not empty; name a new one, or delete what it holds",
               [&] { write("full", options); });
  expect_error(ErrorCode::kInvalidArgument,
               (full / "file").string() + ": is not a folder; name a new one",
               [&] { write("full/file", options); });
}

TEST_F(Synth, RefusesWhatTheDiskCannotHold) {
  const std::string config =
      tiny_config("deepseek-v2-lite", {{"hidden_size", 1 << 20}, {"vocab_size", 1 << 24}});
  expect_error(
      ErrorCode::kIo,
      ::testing::MatchesRegex(
          ".*/model: the model needs 739[0-9]+\\.[0-9] GB of disk, 5 % of reserve included, but "
          "[0-9]+\\.[0-9] GB are free; free space or write fewer layers"),
      [&] { write("model", {.config_json = config}); });
  EXPECT_FALSE(fs::exists(root_ / "model"));
}

TEST(RandomStream, PartsEqualTheWhole) {
  const RandomStream stream{stream_key(3, "a"), 0, 1};
  std::vector<bf16> whole(5000);
  stream.fill(0, whole);
  for (std::size_t first : {4u, 1020u, 1024u, 3000u}) {
    std::vector<bf16> part(1501);
    stream.fill(first, part);
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + first, part.size() * sizeof(bf16)), 0);
  }
}

// The bytes of a seed are part of what a benchmark's result means.
TEST(RandomStream, ValuesAreTheSameOnEveryMachine) {
  const RandomStream stream{stream_key(1, "model.norm.weight"), 1, 0.05f};
  std::vector<bf16> values(1 << 20);
  stream.fill(0, values);
  std::uint64_t sum = 0;
  for (bf16 v : values) sum = sum * 31 + v.bits;
  EXPECT_EQ(sum, 2172450440166250071u);
}

TEST(RandomStream, IsNormal) {
  const RandomStream stream{stream_key(1, "a"), 0, 0.5f};
  std::vector<bf16> values(1 << 20);
  stream.fill(0, values);
  std::array<double, 5> moments = {};
  for (bf16 v : values) {
    for (int i = 1; i <= 4; ++i) moments[i] += std::pow(to_float(v) / 0.5, i) / 0x1p20;
  }
  EXPECT_NEAR(moments[1], 0, 0.005);
  EXPECT_NEAR(moments[2], 1, 0.01);
  EXPECT_NEAR(moments[3], 0, 0.02);
  EXPECT_NEAR(moments[4], 3, 0.05);
}

TEST(SynthConfig, RefusesAnUnknownModel) {
  expect_error(ErrorCode::kInvalidArgument,
               "there is no model \"deepseek-v9\" to be like; choose one of deepseek-v2-lite, "
               "deepseek-v2, deepseek-v3-shape",
               [] { synth_config("deepseek-v9"); });
}

TEST(SynthConfig, RefusesTooFewAndTooManyLayers) {
  expect_error(ErrorCode::kInvalidArgument,
               "a model like deepseek-v2-lite can have 1 to 108 layers, not 0",
               [] { synth_config("deepseek-v2-lite", 0); });
  expect_error(ErrorCode::kInvalidArgument,
               "a model like deepseek-v2-lite can have 1 to 108 layers, not 109",
               [] { synth_config("deepseek-v2-lite", 109); });
}

TEST(SynthConfig, KeepsTheDenseLayersWithinTheLayers) {
  const auto config = ModelConfig::parse(synth_config("deepseek-v3-shape", 2), "config.json");
  EXPECT_EQ(config.n_layers, 2);
  EXPECT_EQ(config.first_dense_layers, 2);
  EXPECT_EQ(ModelConfig::parse(synth_config("deepseek-v3-shape", 4), "").first_dense_layers, 3);
}

// Parameters as the models' authors count them, in billions.
TEST(SynthConfig, PresetsHaveTheKnownNumberOfParameters) {
  const std::map<std::string, double> billions = {
      {"deepseek-v2-lite", 15.7}, {"deepseek-v2", 235.7}, {"deepseek-v3-shape", 671.0}};
  for (const auto& [preset, expected] : billions) {
    const auto config = ModelConfig::parse(synth_config(preset), "config.json");
    double parameters = 0;
    for (const TensorShape& tensor : checkpoint_tensors(config)) {
      double n = 1;
      for (const std::int64_t dim : tensor.shape) n *= static_cast<double>(dim);
      parameters += n;
    }
    EXPECT_NEAR(parameters / 1e9, expected, 0.002 * expected) << preset;
  }
}

}  // namespace
}  // namespace tessera
