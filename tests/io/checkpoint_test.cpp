#include "io/checkpoint.h"

#include <string>

#include <gtest/gtest.h>

#include "io/safetensors_writer.h"
#include "tests/io/expect_error.h"
#include "tests/io/safetensors_bytes.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  // A file of one-byte tensors with these names.
  void write_weights(std::string_view file, const std::vector<std::string>& names) {
    std::vector<SafetensorsTensor> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, SafetensorsDType::kU8, {1}, as_bytes("x")});
    }
    write_safetensors(folder_ / file, tensors);
  }

  void write_index(std::string_view weight_map) {
    folder_.write(
        "model.safetensors.index.json",
        "{\"metadata\": {\"total_size\": 3}, \"weight_map\": " + std::string(weight_map) + "}");
  }

  void expect_error(ErrorCode code, const std::string& sentence) {
    EXPECT_ERROR(Checkpoint::open(folder_.path()), code, folder_.name() + sentence);
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, OpensASingleFile) {
  write_weights("model.safetensors", {"b", "a"});
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(checkpoint.total_bytes(), 2u);
  ASSERT_NE(checkpoint.find("a"), nullptr);
  EXPECT_EQ(checkpoint.find("a")->bytes()[0], std::byte{'x'});
  EXPECT_EQ(checkpoint.find("a")->dtype(), SafetensorsDType::kU8);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST_F(CheckpointTest, OpensShards) {
  write_weights("model-00001-of-00002.safetensors", {"a", "b"});
  write_weights("model-00002-of-00002.safetensors", {"c"});
  write_index(R"({"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
                  "c": "model-00002-of-00002.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(checkpoint.total_bytes(), 3u);
  const CheckpointTensor& c = checkpoint.get("c");
  EXPECT_EQ(c.file->name(), folder_.name() + "/model-00002-of-00002.safetensors");
  c.release(0, c.bytes().size());
  EXPECT_EQ(c.bytes()[0], std::byte{'x'});
}

TEST_F(CheckpointTest, PrefersTheSingleFile) {
  write_weights("model.safetensors", {"a"});
  write_index("{}");
  EXPECT_EQ(Checkpoint::open(folder_.path()).size(), 1u);
}

TEST_F(CheckpointTest, StaysValidWhenMoved) {
  write_weights("model.safetensors", {"a"});
  Checkpoint first = Checkpoint::open(folder_.path());
  const CheckpointTensor* a = first.find("a");
  const Checkpoint second = std::move(first);
  EXPECT_EQ(second.find("a"), a);
  EXPECT_EQ(a->bytes()[0], std::byte{'x'});
}

TEST_F(CheckpointTest, NamesATensorThatIsNotThere) {
  write_weights("model.safetensors", {"a"});
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  EXPECT_ERROR(checkpoint.get("b"), ErrorCode::kMissingTensor,
               folder_.name() + "/model.safetensors: holds no tensor \"b\"");
}

TEST_F(CheckpointTest, NamesAMissingFolder) {
  EXPECT_ERROR(Checkpoint::open(folder_ / "no"), ErrorCode::kFileNotFound,
               folder_.name() + "/no: no such folder; check the path");
  folder_.write("a", "");
  EXPECT_ERROR(Checkpoint::open(folder_ / "a"), ErrorCode::kIo,
               folder_.name() + "/a: is not a folder; give the folder that holds the model");
}

TEST_F(CheckpointTest, SaysWhatAnEmptyFolderLacks) {
  expect_error(
      ErrorCode::kFileNotFound,
      ": holds no weights (looked for model.safetensors and model.safetensors.index.json)");
  folder_.write("config.json", "{}");
  expect_error(
      ErrorCode::kFileNotFound,
      ": holds no weights (looked for model.safetensors and model.safetensors.index.json)");
}

TEST_F(CheckpointTest, NamesOtherFormats) {
  folder_.write("config.json", "{}");
  folder_.write("weights.gguf", "");
  expect_error(ErrorCode::kUnsupported,
               ": holds \"weights.gguf\", but .gguf weights are not supported; give a folder with "
               "model.safetensors or model.safetensors.index.json");
  folder_.write("pytorch_model.bin", "");
  expect_error(
      ErrorCode::kUnsupported,
      ": holds \"pytorch_model.bin\", but .bin weights are not supported; give a folder with "
      "model.safetensors or model.safetensors.index.json");
}

TEST_F(CheckpointTest, SaysThatTheIndexIsMissing) {
  write_weights("model-00001-of-00002.safetensors", {"a"});
  folder_.write("pytorch_model.bin", "");
  expect_error(ErrorCode::kFileNotFound,
               ": holds \"model-00001-of-00002.safetensors\", but neither model.safetensors nor "
               "model.safetensors.index.json; download the missing file");
}

TEST_F(CheckpointTest, NamesAMissingShard) {
  write_index(R"({"a": "model-00001-of-00001.safetensors"})");
  expect_error(
      ErrorCode::kFileNotFound,
      "/model.safetensors.index.json: names the file \"model-00001-of-00001.safetensors\", "
      "which is missing; download it");
}

TEST_F(CheckpointTest, NamesADamagedShard) {
  folder_.write("s.safetensors", "abc");
  write_index(R"({"a": "s.safetensors"})");
  expect_error(ErrorCode::kBadSafetensors,
               "/s.safetensors: has 3 bytes, too short for a safetensors file; download it again");
}

TEST_F(CheckpointTest, NamesATensorThatItsShardLacks) {
  write_weights("s.safetensors", {"a"});
  write_index(R"({"a": "s.safetensors", "b": "s.safetensors"})");
  expect_error(
      ErrorCode::kMissingTensor,
      "/model.safetensors.index.json: places tensor \"b\" in \"s.safetensors\", which does "
      "not hold it");
}

TEST_F(CheckpointTest, NamesATensorThatTheIndexDoesNotList) {
  write_weights("s.safetensors", {"a", "b"});
  write_index(R"({"a": "s.safetensors"})");
  expect_error(
      ErrorCode::kUnexpectedTensor,
      "/s.safetensors: holds tensor \"b\", which model.safetensors.index.json does not list");
}

TEST_F(CheckpointTest, NamesATensorInTwoShards) {
  write_weights("s.safetensors", {"a"});
  write_weights("t.safetensors", {"a", "b"});
  write_index(R"({"a": "s.safetensors", "b": "t.safetensors"})");
  expect_error(ErrorCode::kBadSafetensors,
               "/t.safetensors: tensor \"a\" is also in " + folder_.name() + "/s.safetensors");
}

TEST_F(CheckpointTest, RefusesShardsOutsideTheFolder) {
  for (const std::string name : {"../s.safetensors", "/tmp/s.safetensors", "sub/s.safetensors",
                                 "..", "", "config.json", "..\\\\s.safetensors", ".safetensors"}) {
    write_index("{\"a\": \"" + name + "\"}");
    expect_error(ErrorCode::kBadJson,
                 "/model.safetensors.index.json: places tensor \"a\" in \"" + name +
                     "\", which is not the name of a .safetensors file in this "
                     "folder");
  }
  write_index(R"({"a": "s\u0000.safetensors"})");
  expect_error(
      ErrorCode::kBadJson,
      "/model.safetensors.index.json: places tensor \"a\" in \"s\\x00.safetensors\", which is "
      "not the name of a .safetensors file in this folder");
}

TEST_F(CheckpointTest, RefusesABrokenIndex) {
  folder_.write("model.safetensors.index.json", "{");
  expect_error(ErrorCode::kBadJson,
               "/model.safetensors.index.json: line 1, column 2: the JSON text ends too early; "
               "download the file again");
  folder_.write("model.safetensors.index.json", "{}");
  expect_error(ErrorCode::kBadJson,
               "/model.safetensors.index.json: \"weight_map\" is missing, but it is needed");
  write_index("{}");
  expect_error(ErrorCode::kBadJson,
               "/model.safetensors.index.json: \"weight_map\" lists no tensor");
  write_index("[]");
  expect_error(ErrorCode::kBadJson,
               "/model.safetensors.index.json: \"weight_map\" must be an object, not an array");
  write_index("{\"a\": 1}");
  expect_error(ErrorCode::kBadJson,
               "/model.safetensors.index.json: \"weight_map.a\" must be a string, not 1");
}

}  // namespace
}  // namespace tessera
