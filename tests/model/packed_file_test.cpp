// Packed models on disk: what is written is what is mapped, and nothing else is taken for it.
#include "model/packed/packed_file.h"

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/io/expect_error.h"
#include "tests/io/temporary_folder.h"
#include "tests/model/packed_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::file_content;
using ::testing::HasSubstr;
using testing::write_file;

class PackedFiles : public ::testing::Test {
 protected:
  fs::path file() const { return folder_ / "packed"; }

  ModelWeights pack(WeightFormat format = WeightFormat::kInt4,
                    KvCacheForm form = KvCacheForm::kLatent) {
    return testing::pack_folder(model_, file(), format, form, executor_);
  }
  ModelWeights read() {
    const PackedFile packed = PackedFile::open(file());
    packed.check_config(ModelConfig::load(model_), model_);
    ProgressCounter progress(nullptr, 0);
    return packed.weights(ModelConfig::load(model_), executor_, progress);
  }
  // Refused with an error of packed files that names the file and what is wrong.
  void expect_refused(const std::string& what) {
    try {
      read();
      ADD_FAILURE() << "taken, but expected: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadPackedFile) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(file().string()));
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  }

  TemporaryFolder folder_;
  fs::path model_ = testing::reference_folder("lite");
  testing::AlwaysParallel executor_{3};
};

TEST_F(PackedFiles, HoldExactlyWhatWasPacked) {
  for (const std::string& name : testing::reference_models()) {
    model_ = testing::reference_folder(name);
    const ModelConfig config = ModelConfig::load(model_);
    for (WeightFormat format : kWeightFormats) {
      for (KvCacheForm form : testing::kForms) {
        const ModelWeights written = pack(format, form);
        const ModelWeights mapped = read();
        ASSERT_EQ(mapped.arena.bytes.size(), written.arena.bytes.size());
        EXPECT_EQ(std::memcmp(mapped.arena.bytes.data(), written.arena.bytes.data(),
                              written.arena.bytes.size()),
                  0)
            << name << " " << to_string(format) << " " << to_string(form);
        // Every weight of both lies at the same place of its arena.
        ModelWeights expected;
        const WeightPlan plan(config, format, form, expected);
        plan.attach(mapped.arena.bytes.data());
        EXPECT_EQ(mapped.head.data(), expected.head.data());
        EXPECT_EQ(mapped.layers.back().attention.o.data(),
                  expected.layers.back().attention.o.data());
        EXPECT_EQ(mapped.head.data() - mapped.arena.bytes.data(),
                  written.head.data() - written.arena.bytes.data());
        EXPECT_EQ(std::memcmp(mapped.final_norm.floats(), written.final_norm.floats(),
                              written.final_norm.bytes()),
                  0);
        const auto a = mapped.embedding.bytes();
        const auto b = written.embedding.bytes();
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
        EXPECT_EQ(mapped.embedding.dtype(), written.embedding.dtype());
        EXPECT_EQ(mapped.embedding.n_tokens(), config.vocab_size);
      }
    }
  }
}

TEST_F(PackedFiles, AlignTheArena) {
  const ModelWeights written = pack();
  const PackedFile packed = PackedFile::open(file());
  EXPECT_EQ(packed.header().arena_offset % (2 << 20), 0u);
  EXPECT_EQ(packed.header().file_bytes(), fs::file_size(file()));
  for (const PackedHeader::Part& part : packed.header().parts) EXPECT_EQ(part.offset % 64, 0u);
}

TEST_F(PackedFiles, OutliveTheObjectThatOpenedThem) {
  pack(WeightFormat::kF32);
  const ModelWeights mapped = read();
  fs::remove(file());
  std::vector<float> row(static_cast<std::size_t>(mapped.embedding.hidden()));
  mapped.embedding.row(3, row);
  std::vector<double> head(static_cast<std::size_t>(mapped.head.n() * mapped.head.k()));
  mapped.head.unpack(0, head.data());
  EXPECT_NE(head, std::vector<double>(head.size()));
}

TEST_F(PackedFiles, EveryByteOfTheHeaderCounts) {
  pack();
  const std::string intact = file_content(file());
  const std::size_t end = intact.find_last_of('}', (2u << 20)) + 1;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < end; i += i < 64 ? 1 : 1 + random() % 97) {
    std::string damaged = intact;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << random() % 8));
    const auto start = std::as_bytes(std::span(damaged));
    EXPECT_THROW(PackedHeader::parse(start, damaged.size(), "file"), Error) << i;
  }
}

TEST_F(PackedFiles, CutOffOrLonger) {
  pack();
  const std::string intact = file_content(file());
  for (std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{23}}) {
    write_file(file(), intact.substr(0, size));
    expect_refused("is not a packed model");
  }
  for (std::size_t size : {24, 100, 2000}) {
    write_file(file(), intact.substr(0, static_cast<std::size_t>(size)));
    expect_refused("cut off within the header");
  }
  for (std::size_t size : {std::size_t{2} << 20, intact.size() - 1}) {
    write_file(file(), intact.substr(0, size));
    expect_refused("bytes, but its header says " + std::to_string(intact.size()));
  }
  write_file(file(), intact + "x");
  expect_refused("bytes, but its header says " + std::to_string(intact.size()));
}

TEST_F(PackedFiles, DamagedData) {
  pack();
  const std::string intact = file_content(file());
  PackedFile::open(file()).check_data(executor_, nullptr);
  const std::size_t arena = PackedFile::open(file()).header().arena_offset;
  for (std::size_t place : {arena, (arena + intact.size()) / 2, intact.size() - 1}) {
    std::string damaged = intact;
    damaged[place] = static_cast<char>(damaged[place] ^ 4);
    write_file(file(), damaged);
    expect_refused("is damaged (wrong checksum");
    EXPECT_THROW(PackedFile::open(file()).check_data(executor_, nullptr), Error) << place;
  }
}

TEST_F(PackedFiles, ForeignFiles) {
  fs::copy_file(model_ / "model.safetensors", file());
  expect_refused("is not a packed model; make one with tessera pack");
  write_file(file(), std::string(5000, '\0'));
  expect_refused("is not a packed model");
}

TEST_F(PackedFiles, OtherVersions) {
  pack();
  const std::string intact = file_content(file());
  std::string json = intact.substr(24, intact.find_last_of('}', (2u << 20)) - 23);
  const std::string key = "\"layout_version\":2";
  json.replace(json.find(key), key.size(), "\"layout_version\":3");
  std::string other = testing::packed_start(json);
  other += intact.substr(other.size());
  write_file(file(), other);
  expect_refused("was packed by another version of tessera");
}

TEST_F(PackedFiles, AnotherModel) {
  pack();
  const PackedFile packed = PackedFile::open(file());
  const fs::path other = testing::reference_folder("six_heads");
  EXPECT_ERROR(packed.check_config(ModelConfig::load(other), other), ErrorCode::kBadPackedFile,
               file().string() + ": holds a model of other sizes than " +
                   (other / "config.json").string() + "; use the folder that it was packed from");
  EXPECT_ERROR(packed.check_checkpoint("00", other), ErrorCode::kBadPackedFile,
               file().string() + ": was packed from other weights than those in " + other.string() +
                   "; pack the model again");
  ModelConfig endless = ModelConfig::load(model_);  // whose names would not fit into memory
  endless.n_layers = 1'000'000;
  endless.n_routed_experts = 1'000'000;
  EXPECT_THROW(packed.check_config(endless, model_), Error);
  EXPECT_NO_THROW(packed.check_checkpoint(checkpoint_digest(Checkpoint::open(model_)), model_));
}

// A header that is right in itself but says what cannot be.
TEST_F(PackedFiles, ImpossiblePlaces) {
  pack();
  const std::string intact = file_content(file());
  const std::string json = intact.substr(24, intact.find_last_of('}', (2u << 20)) - 23);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = json;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    std::string start = testing::packed_start(changed);
    if (start.size() < intact.size()) start += intact.substr(start.size());
    write_file(file(), start);
  };
  with("\"offset\":0}", "\"offset\":64}");
  expect_refused("does not lie where it should");
  with("\"arena_offset\":2097152", "\"arena_offset\":0");
  expect_refused("an impossible place of the arena");
  with("\"arena_bytes\":", "\"arena_bytes\":9");
  expect_refused("its header says");
  with("\"arena_bytes\":", "\"arena_bytes\":-");
  expect_refused("arena_bytes");
  with("\"checksums\":\"", "\"checksums\":\"0123456789abcdef");
  expect_refused("checksums of another number");
  with("\"checksums\":\"", "\"checksums\":\"0x");
  expect_refused("checksum");
  with("\"n\":", "\"n\":4294967296,\"x\":");
  expect_refused("does not lie where it should");
}

}  // namespace
}  // namespace tessera
