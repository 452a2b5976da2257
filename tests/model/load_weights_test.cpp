// What load_weights() makes of checkpoints that do not fit their config.json.
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/convert.h"
#include "base/machine.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/weights.h"
#include "tests/always_parallel.h"
#include "tests/io/expect_error.h"
#include "tests/io/temporary_folder.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct StoredTensor {
  SafetensorsDType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

using Tensors = std::map<std::string, StoredTensor>;

Tensors read_tensors(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  Tensors tensors;
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto bytes = file.bytes(entry);
    tensors[entry.name] = {entry.dtype, entry.shape, {bytes.begin(), bytes.end()}};
  }
  return tensors;
}

// The reference model `lite` (BF16) in a temporary folder, where it can be damaged.
class LoadWeights : public ::testing::Test {
 protected:
  std::string file() const { return folder_.name() + "/model.safetensors"; }

  void write() const {
    std::vector<SafetensorsTensor> list;
    for (const auto& [name, t] : tensors_) list.push_back({name, t.dtype, t.shape, t.bytes});
    write_safetensors(file(), list);
  }

  ModelWeights load(WeightFormat format, const ProgressFn& progress = nullptr,
                    KvCacheForm form = KvCacheForm::kLatent) {
    write();
    return load_weights(folder_.path(), config_, format, form, executor_, progress);
  }

  void expect_refused(WeightFormat format, ErrorCode code, const std::string& sentence) {
    EXPECT_ERROR(load(format), code, sentence);
  }

  // A tensor of the checkpoint, as numbers.
  std::vector<double> stored(const std::string& name) const {
    const StoredTensor& tensor = tensors_.at(name);
    std::vector<float> values(tensor.bytes.size() / (size_in_bits(tensor.dtype) / 8));
    convert(tensor.bytes.data(), *compute_dtype(tensor.dtype), values.data(), DType::kF32,
            values.size());
    return {values.begin(), values.end()};
  }
  static std::vector<double> unpacked(const ops::PackedLinear& w, int which = 0) {
    std::vector<double> values(static_cast<std::size_t>(w.n() * w.k()));
    w.unpack(which, values.data());
    return values;
  }

  // A tensor of other element type, every element `value`.
  void store_as(const std::string& name, DType dtype, float value) {
    StoredTensor& tensor = tensors_.at(name);
    const std::size_t n = tensor.bytes.size() / (size_in_bits(tensor.dtype) / 8);
    tensor.dtype = safetensors_dtype(dtype);
    tensor.bytes.resize(n * size_in_bytes(dtype));
    const std::vector<float> values(n, value);
    convert(values.data(), DType::kF32, tensor.bytes.data(), dtype, n);
  }

  TemporaryFolder folder_;
  Tensors tensors_ = read_tensors(testing::reference_folder("lite") / "model.safetensors");
  ModelConfig config_ = ModelConfig::load(testing::reference_folder("lite"));
  testing::AlwaysParallel executor_{2};
};

TEST_F(LoadWeights, CountsBeforeItNamesTensors) {
  config_.n_layers = 4000;
  config_.n_routed_experts = 16000;
  write();
  EXPECT_ERROR(load_weights(folder_.path(), config_, WeightFormat::kF32, KvCacheForm::kLatent,
                            executor_, nullptr),
               ErrorCode::kMissingTensor,
               fmt::format("{}: holds {} tensors, but config.json asks for {}; check that both "
                           "come from the same checkpoint",
                           file(), tensors_.size(), 191'996'002));
}

TEST_F(LoadWeights, ReadsTheEmbeddingFromTheFile) {
  const ModelWeights weights = load(WeightFormat::kInt4);
  const std::vector<double> all = stored("model.embed_tokens.weight");
  std::vector<float> row(static_cast<std::size_t>(config_.hidden_size));
  for (std::int64_t token : {std::int64_t{0}, std::int64_t{7}, config_.vocab_size - 1}) {
    weights.embedding.row(static_cast<std::int32_t>(token), row);
    const auto first = all.begin() + token * config_.hidden_size;
    EXPECT_TRUE(std::equal(row.begin(), row.end(), first)) << token;
  }
}

TEST_F(LoadWeights, PacksGateAndUpTogether) {
  const ModelWeights weights = load(WeightFormat::kBF16);
  const ops::PackedLinear& both = weights.layers[1].experts[2].gate_up;
  EXPECT_EQ(unpacked(both, 0), stored("model.layers.1.mlp.experts.2.gate_proj.weight"));
  EXPECT_EQ(unpacked(both, 1), stored("model.layers.1.mlp.experts.2.up_proj.weight"));
}

// kv_b has for each head the rows of W_UK, then those of W_UV.
TEST_F(LoadWeights, CutsTheExpansionByHeadForALatentCacheOnly) {
  const std::string name = "model.layers.1.self_attn.kv_b_proj.weight";
  const std::vector<double> all = stored(name);
  const ModelWeights expanded = load(WeightFormat::kBF16, nullptr, KvCacheForm::kExpanded);
  EXPECT_EQ(unpacked(expanded.layers[1].attention.kv_b), all);
  EXPECT_TRUE(expanded.layers[1].attention.key_to_latent.empty());
  EXPECT_TRUE(expanded.layers[1].attention.latent_to_key.empty());

  const ModelWeights weights = load(WeightFormat::kBF16);
  const AttentionWeights& w = weights.layers[1].attention;
  EXPECT_TRUE(w.kv_b.empty());
  const std::int64_t rank = config_.kv_lora_rank, nope = config_.qk_nope_dim, v = config_.v_dim;
  ASSERT_EQ(std::ssize(w.key_to_latent), config_.n_heads);
  for (std::int64_t h = 0; h < config_.n_heads; ++h) {
    const auto i = static_cast<std::size_t>(h);
    const std::vector<double> key = unpacked(w.key_to_latent[i]);      // [rank, nope]
    const std::vector<double> value = unpacked(w.latent_to_value[i]);  // [v, rank]
    const double* head = all.data() + h * (nope + v) * rank;
    const std::vector<double> to_key = unpacked(w.latent_to_key[i]);  // [nope, rank]
    EXPECT_TRUE(std::equal(to_key.begin(), to_key.end(), head)) << "head " << h;
    for (std::int64_t r = 0; r < rank; ++r) {
      for (std::int64_t j = 0; j < nope; ++j) {
        ASSERT_EQ(key[static_cast<std::size_t>(r * nope + j)], head[j * rank + r]);
      }
    }
    EXPECT_TRUE(std::equal(value.begin(), value.end(), head + nope * rank)) << "head " << h;
  }
}

TEST_F(LoadWeights, KeepsNormsAndRouterInFp32) {
  for (WeightFormat format : kWeightFormats) {
    const ModelWeights weights = load(format);
    EXPECT_EQ(unpacked(weights.layers[1].router), stored("model.layers.1.mlp.gate.weight"));
    const std::vector<double> norm = stored("model.norm.weight");
    EXPECT_TRUE(std::equal(norm.begin(), norm.end(), weights.final_norm.floats()));
  }
}

TEST_F(LoadWeights, ReadsEveryElementTypeIntoEveryFormat) {
  for (DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
    store_as("model.layers.0.self_attn.q_proj.weight", stored, -1.5f);
    for (WeightFormat format : kWeightFormats) {
      const ModelWeights weights = load(format);
      for (double value : unpacked(weights.layers[0].attention.q)) {
        ASSERT_NEAR(value, -1.5, format < WeightFormat::kInt8 ? 0 : 1e-3)
            << to_string(stored) << " to " << to_string(format);
      }
    }
  }
}

TEST_F(LoadWeights, ALargeTensorIsCompleteForEveryThreadCount) {
  config_.vocab_size = 25000;  // 1.2 million elements
  std::mt19937 random(1);
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    StoredTensor& tensor = tensors_.at(name);
    tensor.shape = {config_.vocab_size, config_.hidden_size};
    tensor.bytes.resize(static_cast<std::size_t>(config_.vocab_size * config_.hidden_size) * 2);
    for (std::size_t i = 0; i < tensor.bytes.size(); i += 2) {  // bf16 in [0.5, 2)
      tensor.bytes[i] = static_cast<std::byte>(random());
      tensor.bytes[i + 1] = std::byte{0x3f};
    }
  }
  write();
  for (int threads : {1, 3}) {
    testing::AlwaysParallel executor(threads);
    const ModelWeights weights = load_weights(folder_.path(), config_, WeightFormat::kF32,
                                              KvCacheForm::kLatent, executor, nullptr);
    EXPECT_EQ(unpacked(weights.head), stored("lm_head.weight")) << threads << " threads";
  }
}

// Read pages of the file are given back on the way: held at the end, they would double the memory.
TEST_F(LoadWeights, NeedsLittleMoreMemoryThanTheWeights) {
#ifdef TESSERA_SANITIZED
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  config_.vocab_size = 400'000;  // embedding and head: 38 MB each
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    StoredTensor& tensor = tensors_.at(name);
    tensor.shape = {config_.vocab_size, config_.hidden_size};
    tensor.bytes.resize(static_cast<std::size_t>(config_.vocab_size * config_.hidden_size) * 2);
  }
  write();
  tensors_.clear();

  const std::size_t before = resident_bytes();
  reset_peak_resident();
  constexpr std::size_t kSlack = std::size_t{24} << 20;  // a few chunks, huge pages, the heap
  if (peak_resident_bytes() > before + kSlack) GTEST_SKIP() << "the kernel keeps the old peak";
  const ModelWeights weights = load_weights(folder_.path(), config_, WeightFormat::kBF16,
                                            KvCacheForm::kLatent, executor_, nullptr);
  EXPECT_LT(peak_resident_bytes(),
            before + weight_bytes(config_, WeightFormat::kBF16, KvCacheForm::kLatent) + kSlack);
}

TEST_F(LoadWeights, TellsProgressUpToTheEnd) {
  std::size_t last = 0;
  std::size_t total = 0;
  load(WeightFormat::kF32, [&](std::size_t done, std::size_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  std::size_t stored = 0;
  for (const auto& [name, tensor] : tensors_) {
    if (name != "model.embed_tokens.weight") stored += tensor.bytes.size();  // stays in the file
  }
  EXPECT_EQ(last, stored);
  EXPECT_EQ(total, stored);
}

TEST_F(LoadWeights, MissingTensor) {
  tensors_.erase("model.layers.1.self_attn.kv_b_proj.weight");
  expect_refused(WeightFormat::kBF16, ErrorCode::kMissingTensor,
                 file() +
                     ": tensor \"model.layers.1.self_attn.kv_b_proj.weight\" is missing, which "
                     "config.json asks for; download the checkpoint again");
}

TEST_F(LoadWeights, SeveralMissingTensors) {
  tensors_.erase("model.norm.weight");
  tensors_.erase("lm_head.weight");
  expect_refused(WeightFormat::kBF16, ErrorCode::kMissingTensor,
                 file() +
                     ": tensor \"model.norm.weight\" (and 1 more) is missing, which config.json "
                     "asks for; download the checkpoint again");
}

TEST_F(LoadWeights, UnexpectedTensor) {
  tensors_["model.layers.0.self_attn.q_proj.bias"] = tensors_.at("model.norm.weight");
  expect_refused(WeightFormat::kBF16, ErrorCode::kUnexpectedTensor,
                 file() +
                     ": tensor \"model.layers.0.self_attn.q_proj.bias\" belongs to no part of the "
                     "model that config.json describes; check that both come from the same "
                     "checkpoint");
}

TEST_F(LoadWeights, WrongShape) {
  tensors_.at("model.layers.2.mlp.gate.weight").shape = {48, 8};
  expect_refused(WeightFormat::kBF16, ErrorCode::kWrongShape,
                 file() +
                     ": tensor \"model.layers.2.mlp.gate.weight\" has shape [48, 8], but "
                     "config.json asks for [8, 48]; check that both come from the same checkpoint");
}

TEST_F(LoadWeights, AVectorIsNotAMatrixOfOneRow) {
  tensors_.at("model.norm.weight").shape = {1, 48};
  expect_refused(WeightFormat::kBF16, ErrorCode::kWrongShape,
                 file() +
                     ": tensor \"model.norm.weight\" has shape [1, 48], but config.json asks for "
                     "[48]; check that both come from the same checkpoint");
}

TEST_F(LoadWeights, UnsupportedElementType) {
  tensors_.at("model.norm.weight").dtype = SafetensorsDType::kI16;
  expect_refused(WeightFormat::kBF16, ErrorCode::kUnsupported,
                 file() +
                     ": tensor \"model.norm.weight\" has element type I16, which cannot be loaded; "
                     "supported are F32, BF16 and F16");
}

TEST_F(LoadWeights, ValuesThatFp16CannotHold) {
  store_as("model.layers.0.mlp.up_proj.weight", DType::kF32, 65520.0f);
  expect_refused(
      WeightFormat::kF16, ErrorCode::kUnsupported,
      file() +
          ": tensor \"model.layers.0.mlp.up_proj.weight\" has values beyond 65504, which "
          "fp16 cannot hold; use --dtype bf16 or fp32");
  EXPECT_NO_THROW(load(WeightFormat::kBF16));
  store_as("model.layers.0.mlp.up_proj.weight", DType::kF32, -65504.0f);
  EXPECT_NO_THROW(load(WeightFormat::kF16));
}

TEST_F(LoadWeights, WhatIsNotFiniteCannotBeQuantised) {
  const std::string name = "model.layers.1.mlp.experts.3.down_proj.weight";
  for (float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    store_as(name, DType::kBF16, bad);
    expect_refused(WeightFormat::kInt4, ErrorCode::kUnsupported,
                   file() + ": tensor \"" + name +
                       "\" has values that are NaN or infinite, which cannot be quantised; use "
                       "--dtype bf16 or fp32");
    EXPECT_NO_THROW(load(WeightFormat::kBF16));
  }
}

TEST_F(LoadWeights, TiedEmbeddingsAreTheHead) {
  config_.tie_word_embeddings = true;
  tensors_.erase("lm_head.weight");
  EXPECT_EQ(unpacked(load(WeightFormat::kBF16).head), stored("model.embed_tokens.weight"));
}

TEST_F(LoadWeights, UntiedEmbeddingsNeedAHead) {
  tensors_.erase("lm_head.weight");
  expect_refused(WeightFormat::kBF16, ErrorCode::kMissingTensor,
                 file() +
                     ": tensor \"lm_head.weight\" is missing, which config.json asks for; download "
                     "the checkpoint again");
}

TEST_F(LoadWeights, StoredRotaryFrequenciesAreIgnored) {
  tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
      SafetensorsDType::kF64, {4}, std::vector<std::byte>(32, std::byte{0xff})};
  EXPECT_NO_THROW(load(WeightFormat::kBF16));
}

TEST_F(LoadWeights, WeightBytesAreWhatIsHeld) {
  for (WeightFormat format : kWeightFormats) {
    for (KvCacheForm form : {KvCacheForm::kLatent, KvCacheForm::kExpanded}) {
      const ModelWeights w = load(format, nullptr, form);
      std::size_t held = w.final_norm.bytes() + w.head.bytes();
      const auto add = [&](const auto&... weights) { held += (weights.bytes() + ...); };
      for (const LayerWeights& layer : w.layers) {
        const AttentionWeights& a = layer.attention;
        add(layer.input_norm, layer.post_attention_norm, layer.router, layer.dense.gate_up,
            layer.dense.down, layer.shared.gate_up, layer.shared.down, a.q, a.kv_a, a.kv_a_norm,
            a.kv_b, a.o);
        for (const ops::PackedLinear& head : a.key_to_latent) add(head);
        for (const ops::PackedLinear& head : a.latent_to_value) add(head);
        for (const ops::PackedLinear& head : a.latent_to_key) add(head);
        for (const ops::FeedForward& e : layer.experts) add(e.gate_up, e.down);
      }
      EXPECT_EQ(weight_bytes(config_, format, form), held) << to_string(format);
    }
  }
}

}  // namespace
}  // namespace tessera
