// Where weights come from: given files, files in the folder, the cache, the checkpoint.
#include "model/weight_source.h"

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/packed/pack_cache.h"
#include "tests/io/expect_error.h"
#include "tests/io/temporary_folder.h"
#include "tests/model/packed_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::file_content;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::write_file;

constexpr KvCacheForm kLatent = KvCacheForm::kLatent;

class WeightSources : public ::testing::Test {
 protected:
  WeightSources() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(testing::reference_folder("lite") / name, model() / name);
    }
    cache_.folder = folder_ / "cache";
    cache_.max_bytes = std::uintmax_t{1} << 30;
    cache_.min_source_bytes = 0;
  }

  const fs::path& model() const { return model_.path(); }
  fs::path checkpoint_file() const { return model() / "model.safetensors"; }

  ModelWeights load(std::optional<WeightFormat> format = WeightFormat::kInt4,
                    const fs::path& packed = {}) {
    const WeightSource source(model(), packed, format);
    total_ = 0;
    return source.load(
        ModelConfig::load(model()), source.form().value_or(kLatent), cache_, executor_,
        [this](std::size_t, std::size_t all) { total_ = all; },
        [this](std::string_view s) { warnings_.emplace_back(s); });
  }
  // Whether the last load() mapped a file: no byte of the checkpoint counted.
  bool was_mapped(const fs::path& file) const {
    return total_ == fs::file_size(file) - PackedFile::open(file).header().arena_offset;
  }
  std::vector<fs::path> kept() const {
    std::vector<fs::path> files;
    if (!fs::exists(cache_.folder)) return files;
    for (const auto& entry : fs::directory_iterator(cache_.folder)) {
      if (entry.path().filename() != "lock") files.push_back(entry.path());
    }
    return files;
  }
  void expect_right(const ModelWeights& weights, WeightFormat format = WeightFormat::kInt4) {
    const ModelWeights expected =
        load_weights(model(), ModelConfig::load(model()), format, kLatent, executor_, nullptr);
    ASSERT_EQ(weights.arena.bytes.size(), expected.arena.bytes.size());
    EXPECT_EQ(std::memcmp(weights.arena.bytes.data(), expected.arena.bytes.data(),
                          expected.arena.bytes.size()),
              0);
  }
  void pack_beside(WeightFormat format, KvCacheForm form = kLatent) {
    testing::pack_folder(model(), packed_path(model(), format, form), format, form, executor_);
  }

  TemporaryFolder folder_;
  TemporaryFolder model_;
  PackCacheOptions cache_;
  testing::AlwaysParallel executor_{2};
  std::size_t total_ = 0;
  std::vector<std::string> warnings_;
};

TEST_F(WeightSources, KeepsWhatWasPackedAndTakesItAgain) {
  expect_right(load());
  ASSERT_EQ(kept().size(), 1u);
  const fs::path file = kept()[0];
  EXPECT_FALSE(was_mapped(file));
  expect_right(load());
  EXPECT_TRUE(was_mapped(file));
  expect_right(load(WeightFormat::kInt8), WeightFormat::kInt8);
  EXPECT_EQ(kept().size(), 2u);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(WeightSources, KeepsNothingThatIsQuicklyPacked) {
  load(std::nullopt);  // as stored
  load(WeightFormat::kBF16);
  cache_.min_source_bytes = fs::file_size(checkpoint_file());
  load(WeightFormat::kInt4);
  EXPECT_THAT(kept(), IsEmpty());
}

TEST_F(WeightSources, KeepsNothingWithoutAFolder) {
  cache_.folder.clear();
  expect_right(load());
  EXPECT_THAT(kept(), IsEmpty());
}

TEST_F(WeightSources, ADamagedEntryIsOneWarningAndIsMadeAgain) {
  load();
  const fs::path file = kept().at(0);
  const std::string intact = file_content(file);
  std::string damaged = intact;
  damaged[damaged.size() - 1000] ^= 1;
  for (const std::string& content :
       {damaged, intact.substr(0, intact.size() / 2), std::string(), std::string("foreign")}) {
    write_file(file, content);
    warnings_.clear();
    expect_right(load());
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the checkpoint is packed instead")));
    EXPECT_EQ(file_content(file), intact);
    expect_right(load());
    EXPECT_TRUE(was_mapped(file));
    EXPECT_EQ(warnings_.size(), 1u);
  }
}

TEST_F(WeightSources, AnotherCheckpointIsAnotherEntry) {
  load();
  fs::last_write_time(checkpoint_file(), fs::last_write_time(checkpoint_file()) + 1h);
  load();
  EXPECT_EQ(kept().size(), 2u);
  // Other numbers, the same time and sizes.
  const auto time = fs::last_write_time(checkpoint_file());
  std::string content = file_content(checkpoint_file());
  for (std::size_t i = content.size() / 4; i + 2 < content.size(); i += 64) content[i] ^= 1;
  write_file(checkpoint_file(), content);
  fs::last_write_time(checkpoint_file(), time);
  expect_right(load());
  EXPECT_EQ(kept().size(), 3u);
}

TEST_F(WeightSources, TheEntryUnusedForLongestGoesFirst) {
  load(WeightFormat::kInt4);
  const fs::path int4 = kept().at(0);
  load(WeightFormat::kInt8);
  const fs::path int8 = kept().at(0) == int4 ? kept().at(1) : kept().at(0);
  for (const fs::path& file : {int4, int8}) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - (file == int4 ? 3h : 2h));
  }
  load(WeightFormat::kInt4);  // used now
  cache_.max_bytes = 3 * fs::file_size(int8);
  cache_.max_bytes -= fs::file_size(int8) / 2;
  load(WeightFormat::kF32);
  EXPECT_TRUE(fs::exists(int4));
  EXPECT_FALSE(fs::exists(int8));
  EXPECT_EQ(kept().size(), 2u);
}

TEST_F(WeightSources, KeepsNothingWhereItDoesNotFit) {
  cache_.max_bytes = 1 << 20;
  expect_right(load());
  EXPECT_THAT(kept(), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(WeightSources, LeavesSpaceOnTheDisk) {
  const PackCache cache(folder_ / "cache", std::uintmax_t{1} << 62);
  write_file(cache.path_of("other"), "kept");
  const fs::space_info space = fs::space(folder_.path());
  const std::uintmax_t left = std::min(space.capacity / 10, std::uintmax_t{4} << 30);
  EXPECT_FALSE(cache.reserve(space.available - left / 2));
  EXPECT_TRUE(fs::exists(cache.path_of("other"))) << "removed though it could not help";
  if (space.available > 2 * left) {
    EXPECT_TRUE(cache.reserve(1 << 20));
  }
}

TEST_F(WeightSources, RemovesWhatKilledProcessesLeft) {
  load();
  write_file(cache_.folder / ".tessera-1-1.tmp", "half");
  load(WeightFormat::kInt8);
  EXPECT_FALSE(fs::exists(cache_.folder / ".tessera-1-1.tmp"));
}

TEST_F(WeightSources, AFolderThatCannotBeUsedIsOneWarning) {
  write_file(folder_ / "cache", "a file");
  expect_right(load());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("packed weights are not kept")));
}

TEST_F(WeightSources, WhileAnotherProcessWritesNothingIsKept) {
  const PackCache cache(cache_.folder, cache_.max_bytes);
  {
    const auto place = cache.reserve(1);
    ASSERT_TRUE(place);
    EXPECT_FALSE(cache.reserve(1));
    expect_right(load());
    EXPECT_THAT(kept(), IsEmpty());
  }
  expect_right(load());
  EXPECT_EQ(kept().size(), 1u);
}

TEST_F(WeightSources, SeveralProcessesAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      testing::AlwaysParallel executor(2);  // the parent's threads are not in this process
      const ModelConfig config = ModelConfig::load(model());
      bool right = true;
      for (int round = 0; round < 5 && right; ++round) {
        const WeightSource source(model(), {}, WeightFormat::kInt4);
        const ModelWeights weights = source.load(config, kLatent, cache_, executor, nullptr,
                                                 [&](std::string_view) { right = false; });
        const ModelWeights expected =
            load_weights(model(), config, WeightFormat::kInt4, kLatent, executor, nullptr);
        right = right && std::memcmp(weights.arena.bytes.data(), expected.arena.bytes.data(),
                                     expected.arena.bytes.size()) == 0;
      }
      ::_exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ASSERT_EQ(kept().size(), 1u);
  PackedFile::open(kept()[0]).check_data(executor_, nullptr);
}

TEST_F(WeightSources, TakesTheFileInTheFolder) {
  pack_beside(WeightFormat::kInt4);
  expect_right(load());
  EXPECT_TRUE(was_mapped(packed_path(model(), WeightFormat::kInt4, kLatent)));
  EXPECT_THAT(kept(), IsEmpty());
  expect_right(load(WeightFormat::kInt8), WeightFormat::kInt8);  // which is not there
}

TEST_F(WeightSources, AnOldFileInTheFolderIsOneWarning) {
  pack_beside(WeightFormat::kInt4);
  std::string content = file_content(checkpoint_file());
  for (std::size_t i = content.size() / 4; i + 2 < content.size(); i += 64) content[i] ^= 1;
  write_file(checkpoint_file(), content);
  expect_right(load());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("was packed from other weights than those in")));
}

TEST_F(WeightSources, AFileUnderAnotherName) {
  pack_beside(WeightFormat::kInt8);
  fs::rename(packed_path(model(), WeightFormat::kInt8, kLatent),
             packed_path(model(), WeightFormat::kInt4, kLatent));
  expect_right(load());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("holds other weights than its name says")));
}

TEST_F(WeightSources, NeedsNoCheckpointBesideAPackedFile) {
  pack_beside(WeightFormat::kMixed, KvCacheForm::kExpanded);
  fs::remove(checkpoint_file());
  const WeightSource source(model(), {}, std::nullopt);
  EXPECT_EQ(source.format(), WeightFormat::kMixed);
  EXPECT_EQ(source.form(), KvCacheForm::kExpanded);
  load(std::nullopt);
  EXPECT_ERROR(load(WeightFormat::kInt8), ErrorCode::kFileNotFound,
               model().string() +
                   ": holds no weights (looked for model.safetensors and "
                   "model.safetensors.index.json)");
}

TEST_F(WeightSources, OneOfSeveralIsChosen) {
  pack_beside(WeightFormat::kInt4);
  pack_beside(WeightFormat::kInt8);
  const ModelWeights expected = load();
  fs::remove(checkpoint_file());
  EXPECT_ERROR(load(std::nullopt), ErrorCode::kInvalidArgument,
               model().string() +
                   ": holds several packed models (model-int8.tessera, model-int4.tessera); choose "
                   "with --packed");
  EXPECT_EQ(load(WeightFormat::kInt4).arena.bytes.size(), expected.arena.bytes.size());
}

TEST_F(WeightSources, AGivenFileIsTakenOrRefused) {
  const fs::path file = folder_ / "given";
  testing::pack_folder(model(), file, WeightFormat::kInt4, KvCacheForm::kExpanded, executor_);
  load(std::nullopt, file);
  EXPECT_TRUE(was_mapped(file));
  EXPECT_ERROR(
      load(WeightFormat::kInt8, file), ErrorCode::kInvalidArgument,
      file.string() + ": holds int4 weights, not int8; leave out --dtype or pack the model again");
  const WeightSource source(model(), file, std::nullopt);
  EXPECT_ERROR(
      source.load(ModelConfig::load(model()), kLatent, cache_, executor_, nullptr, nullptr),
      ErrorCode::kInvalidArgument,
      file.string() +
          ": is for the expanded cache, but the chosen kernels need the latent one; choose "
          "others, or pack with --kv-cache latent");
  EXPECT_ERROR(load(std::nullopt, folder_ / "none"), ErrorCode::kFileNotFound,
               (folder_ / "none").string() + ": no such file; check the path");
  write_file(file, "foreign");
  EXPECT_ERROR(load(std::nullopt, file), ErrorCode::kBadPackedFile,
               file.string() + ": is not a packed model; make one with tessera pack");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(WeightSources, AGivenFileOfOtherWeights) {
  const fs::path file = folder_ / "given";
  testing::pack_folder(testing::reference_folder("six_heads"), file, WeightFormat::kInt4, kLatent,
                       executor_);
  EXPECT_ERROR(load(std::nullopt, file), ErrorCode::kBadPackedFile,
               file.string() + ": holds a model of other sizes than " +
                   (model() / "config.json").string() + "; use the folder that it was packed from");
}

}  // namespace
}  // namespace tessera
