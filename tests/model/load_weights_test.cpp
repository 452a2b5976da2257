// What load_weights() makes of checkpoints that do not fit their config.json.
#include <cstring>
#include <filesystem>
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

  ModelWeights load(DType dtype, const ProgressFn& progress = nullptr) {
    write();
    return load_weights(folder_.path(), config_, dtype, executor_, progress);
  }

  void expect_refused(DType dtype, ErrorCode code, const std::string& sentence) {
    EXPECT_ERROR(load(dtype), code, sentence);
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
  EXPECT_ERROR(load_weights(folder_.path(), config_, DType::kF32, executor_, nullptr),
               ErrorCode::kMissingTensor,
               fmt::format("{}: holds {} tensors, but config.json asks for {}; check that both "
                           "come from the same checkpoint",
                           file(), tensors_.size(), 191'996'002));
}

TEST_F(LoadWeights, TakesTheCheckpointAsItIs) {
  const ModelWeights weights = load(DType::kBF16);
  const auto& stored = tensors_.at("model.embed_tokens.weight").bytes;
  ASSERT_EQ(weights.embedding.bytes(), stored.size());
  EXPECT_EQ(std::memcmp(weights.embedding.row(0), stored.data(), stored.size()), 0);
}

TEST_F(LoadWeights, StacksGateAndUp) {
  const ModelWeights weights = load(DType::kBF16);
  const ops::Weight& both = weights.layers[1].experts[2].gate_up;
  const auto& gate = tensors_.at("model.layers.1.mlp.experts.2.gate_proj.weight").bytes;
  const auto& up = tensors_.at("model.layers.1.mlp.experts.2.up_proj.weight").bytes;
  ASSERT_EQ(both.bytes(), gate.size() + up.size());
  EXPECT_EQ(std::memcmp(both.row(0), gate.data(), gate.size()), 0);
  EXPECT_EQ(std::memcmp(both.row(both.n() / 2), up.data(), up.size()), 0);
}

TEST_F(LoadWeights, KeepsNormsAndRouterInFp32) {
  const ModelWeights weights = load(DType::kF16);
  EXPECT_EQ(weights.layers[1].router.dtype(), DType::kF32);
  EXPECT_EQ(weights.layers[0].input_norm.dtype(), DType::kF32);
  EXPECT_EQ(weights.final_norm.dtype(), DType::kF32);
  EXPECT_EQ(weights.embedding.dtype(), DType::kF16);
}

TEST_F(LoadWeights, ReadsEveryElementTypeIntoEveryOther) {
  for (DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
    store_as("model.layers.0.self_attn.q_proj.weight", stored, -1.5f);
    for (DType wanted : {DType::kF32, DType::kBF16, DType::kF16}) {
      const ops::Weight q = std::move(load(wanted).layers[0].attention.q);
      std::vector<float> values(static_cast<std::size_t>(q.n() * q.k()));
      convert(q.row(0), wanted, values.data(), DType::kF32, values.size());
      EXPECT_EQ(values, std::vector<float>(values.size(), -1.5f))
          << to_string(stored) << " to " << to_string(wanted);
    }
  }
}

// Larger than the pieces in which tensors are converted and shared out among threads.
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
    const ModelWeights weights =
        load_weights(folder_.path(), config_, DType::kF32, executor, nullptr);
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      const ops::Weight& weight =
          std::string_view(name) == "lm_head.weight" ? weights.head : weights.embedding;
      const auto& stored = tensors_.at(name).bytes;
      std::vector<float> expected(stored.size() / 2);
      convert(stored.data(), DType::kBF16, expected.data(), DType::kF32, expected.size());
      EXPECT_EQ(std::memcmp(weight.row(0), expected.data(), expected.size() * 4), 0)
          << name << ", " << threads << " threads";
    }
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
  const ModelWeights weights =
      load_weights(folder_.path(), config_, DType::kBF16, executor_, nullptr);
  EXPECT_LT(peak_resident_bytes(), before + weight_bytes(config_, DType::kBF16) + kSlack);
}

TEST_F(LoadWeights, TellsProgressUpToTheEnd) {
  std::size_t last = 0;
  std::size_t total = 0;
  load(DType::kF32, [&](std::size_t done, std::size_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  std::size_t stored = 0;
  for (const auto& [name, tensor] : tensors_) stored += tensor.bytes.size();
  EXPECT_EQ(last, stored);
  EXPECT_EQ(total, stored);
}

TEST_F(LoadWeights, MissingTensor) {
  tensors_.erase("model.layers.1.self_attn.kv_b_proj.weight");
  expect_refused(DType::kBF16, ErrorCode::kMissingTensor,
                 file() +
                     ": tensor \"model.layers.1.self_attn.kv_b_proj.weight\" is missing, which "
                     "config.json asks for; download the checkpoint again");
}

TEST_F(LoadWeights, SeveralMissingTensors) {
  tensors_.erase("model.norm.weight");
  tensors_.erase("lm_head.weight");
  expect_refused(DType::kBF16, ErrorCode::kMissingTensor,
                 file() +
                     ": tensor \"model.norm.weight\" (and 1 more) is missing, which config.json "
                     "asks for; download the checkpoint again");
}

TEST_F(LoadWeights, UnexpectedTensor) {
  tensors_["model.layers.0.self_attn.q_proj.bias"] = tensors_.at("model.norm.weight");
  expect_refused(DType::kBF16, ErrorCode::kUnexpectedTensor,
                 file() +
                     ": tensor \"model.layers.0.self_attn.q_proj.bias\" belongs to no part of the "
                     "model that config.json describes; check that both come from the same "
                     "checkpoint");
}

TEST_F(LoadWeights, WrongShape) {
  tensors_.at("model.layers.2.mlp.gate.weight").shape = {48, 8};
  expect_refused(DType::kBF16, ErrorCode::kWrongShape,
                 file() +
                     ": tensor \"model.layers.2.mlp.gate.weight\" has shape [48, 8], but "
                     "config.json asks for [8, 48]; check that both come from the same checkpoint");
}

TEST_F(LoadWeights, AVectorIsNotAMatrixOfOneRow) {
  tensors_.at("model.norm.weight").shape = {1, 48};
  expect_refused(DType::kBF16, ErrorCode::kWrongShape,
                 file() +
                     ": tensor \"model.norm.weight\" has shape [1, 48], but config.json asks for "
                     "[48]; check that both come from the same checkpoint");
}

TEST_F(LoadWeights, UnsupportedElementType) {
  tensors_.at("model.norm.weight").dtype = SafetensorsDType::kI16;
  expect_refused(DType::kBF16, ErrorCode::kUnsupported,
                 file() +
                     ": tensor \"model.norm.weight\" has element type I16, which cannot be loaded; "
                     "supported are F32, BF16 and F16");
}

TEST_F(LoadWeights, ValuesThatFp16CannotHold) {
  store_as("model.layers.0.mlp.up_proj.weight", DType::kF32, 65520.0f);
  expect_refused(
      DType::kF16, ErrorCode::kUnsupported,
      file() +
          ": tensor \"model.layers.0.mlp.up_proj.weight\" has values beyond 65504, which "
          "fp16 cannot hold; use --dtype bf16 or fp32");
  EXPECT_NO_THROW(load(DType::kBF16));
  store_as("model.layers.0.mlp.up_proj.weight", DType::kF32, -65504.0f);
  EXPECT_NO_THROW(load(DType::kF16));
}

TEST_F(LoadWeights, TiedEmbeddingsNeedNoHead) {
  config_.tie_word_embeddings = true;
  tensors_.erase("lm_head.weight");
  const ModelWeights weights = load(DType::kBF16);
  EXPECT_EQ(&weights.output_head(), &weights.embedding);
}

TEST_F(LoadWeights, UntiedEmbeddingsNeedAHead) {
  tensors_.erase("lm_head.weight");
  expect_refused(DType::kBF16, ErrorCode::kMissingTensor,
                 file() +
                     ": tensor \"lm_head.weight\" is missing, which config.json asks for; download "
                     "the checkpoint again");
}

TEST_F(LoadWeights, StoredRotaryFrequenciesAreIgnored) {
  tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
      SafetensorsDType::kF64, {4}, std::vector<std::byte>(32, std::byte{0xff})};
  EXPECT_NO_THROW(load(DType::kBF16));
}

TEST_F(LoadWeights, WeightBytesAreWhatIsHeld) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const ModelWeights w = load(dtype);
    std::size_t held = w.embedding.bytes() + w.final_norm.bytes() + w.head.bytes();
    for (const LayerWeights& layer : w.layers) {
      const AttentionWeights& a = layer.attention;
      for (const ops::Weight* weight :
           {&layer.input_norm, &layer.post_attention_norm, &layer.router, &layer.dense.gate_up,
            &layer.dense.down, &layer.shared.gate_up, &layer.shared.down, &a.q, &a.kv_a,
            &a.kv_a_norm, &a.kv_b, &a.o}) {
        held += weight->bytes();
      }
      for (const ops::FeedForward& e : layer.experts) held += e.gate_up.bytes() + e.down.bytes();
    }
    EXPECT_EQ(weight_bytes(config_, dtype), held) << to_string(dtype);
  }
}

}  // namespace
}  // namespace tessera
