// tessera pack, and runs with what it wrote.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/command.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::CommandResult;
using ::testing::HasSubstr;
using testing::run_tessera;
using ::testing::StartsWith;

using Arguments = std::vector<std::string>;

class PackCommand : public ::testing::Test {
 protected:
  PackCommand() {
    for (const auto& entry : fs::directory_iterator(TESSERA_DEMO_MODEL)) {
      fs::copy_file(entry.path(), folder_ / entry.path().filename().string());
    }
  }
  CommandResult ask(const Arguments& more) const {
    Arguments arguments = {"ask",      "--model-path",    folder_.name(),
                           "--greedy", "--output-length", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_tessera(arguments);
  }
  void expect_refused(const CommandResult& result, int exit_code, const std::string& sentence) {
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
  }

  TemporaryFolder folder_;
};

TEST_F(PackCommand, ARunAnswersTheSameFromThePackedFileAlone) {
  for (const std::string cache : {"latent", "expanded"}) {
    const CommandResult expected = ask({"--dtype", "int8", "--kv-cache", cache});
    ASSERT_EQ(expected.exit_code, 0) << expected.err;
    const CommandResult packed =
        run_tessera({"pack", folder_.name(), "--dtype", "int8", "--kv-cache", cache});
    ASSERT_EQ(packed.exit_code, 0) << packed.err;
    const std::string name =
        cache == "latent" ? "model-int8.tessera" : "model-int8-expanded.tessera";
    EXPECT_THAT(packed.out, StartsWith((folder_ / name).string() + ": int8 weights for the " +
                                       cache + " cache, "));
    EXPECT_EQ(ask({"--dtype", "int8", "--kv-cache", cache}).out, expected.out);

    // Elsewhere, and without the checkpoint: the file says what it is.
    TemporaryFolder other;
    fs::rename(folder_ / name, other / "packed");
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().extension() != ".safetensors") continue;
      fs::rename(entry.path(), other / entry.path().filename().string());
    }
    const CommandResult alone = ask({"--packed", (other / "packed").string()});
    EXPECT_EQ(alone.out, expected.out) << alone.err;
    EXPECT_THAT(alone.err, HasSubstr("int8"));
    EXPECT_THAT(alone.err, HasSubstr("kv_cache " + cache));
    for (const auto& entry : fs::directory_iterator(other.path())) {
      if (entry.path().extension() != ".safetensors") continue;
      fs::rename(entry.path(), folder_ / entry.path().filename().string());
    }
  }
}

TEST_F(PackCommand, ChecksAFile) {
  const std::string file = (folder_ / "packed").string();
  ASSERT_EQ(run_tessera({"pack", folder_.name(), "--dtype", "int4", "--output", file}).exit_code,
            0);
  const CommandResult intact = run_tessera({"pack", "--check", file});
  EXPECT_EQ(intact.exit_code, 0) << intact.err;
  EXPECT_THAT(intact.out, StartsWith(file + ": intact, int4 weights for the latent cache, "));

  const auto end = static_cast<std::streamoff>(fs::file_size(file));
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(end - 1).put('\x5a');
  const CommandResult damaged = run_tessera({"pack", "--check", file});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.err, HasSubstr(": is damaged (wrong checksum of the "));
  EXPECT_EQ(ask({"--packed", file}).exit_code, 1);
}

TEST_F(PackCommand, SaysWhatIsWrong) {
  const std::string usage =
      "give either the folder of a model to pack, or a packed file with --check";
  expect_refused(run_tessera({"pack"}), 2, usage);
  expect_refused(run_tessera({"pack", folder_.name(), "--check", "x"}), 2, usage);
  expect_refused(run_tessera({"pack", "--check", "/no/such/file"}), 1,
                 "/no/such/file: no such file; check the path");
  const std::string config = (folder_ / "config.json").string();
  expect_refused(run_tessera({"pack", "--check", config}), 1,
                 config + ": is not a packed model; make one with tessera pack");
  expect_refused(ask({"--packed", config}), 1,
                 config + ": is not a packed model; make one with tessera pack");
  expect_refused(run_tessera({"pack", folder_.name(), "--output", folder_.name()}), 1,
                 folder_.name() + ": is a folder; name a file in it");
  expect_refused(run_tessera({"pack", folder_.name(), "--output", "/dev/null"}), 2,
                 "/dev/null: is no regular file, which a packed model must be");
}

TEST_F(PackCommand, ReplacesPackedModelsAndNothingElse) {
  const CommandResult before = ask({});
  for (const auto& entry : fs::directory_iterator(folder_.name())) {
    const std::string path = entry.path().string();
    expect_refused(
        run_tessera({"pack", folder_.name(), "--output", path}), 2,
        path + ": exists and is not a packed model; name another file, or remove it first");
  }
  EXPECT_EQ(ask({}).out, before.out);

  const std::string file = (folder_ / "again.tessera").string();
  std::ofstream(file).close();
  for (const std::string dtype : {"int8", "int4"}) {
    const CommandResult packed =
        run_tessera({"pack", folder_.name(), "--dtype", dtype, "--output", file});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    EXPECT_THAT(packed.out, HasSubstr(dtype + " weights"));
  }
}

}  // namespace
}  // namespace tessera
