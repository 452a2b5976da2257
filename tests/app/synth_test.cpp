// tessera synth: what it asks for. Models of real size are too large for a test; tests/model writes
// small ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::own_folder;
using testing::run_tessera;

TEST(SynthCommand, WantsSomethingToWrite) {
  const CommandResult result = run_tessera({"synth", "--like", "deepseek-v2-lite"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "tessera: name a folder to write, or a file with --gguf\n");
}

TEST(SynthCommand, KnowsThreeTypesOfGguf) {
  const CommandResult result = run_tessera({"synth", "--like", "deepseek-v2-lite", "--gguf",
                                            own_folder() + "/x.gguf", "--gguf-type", "q5_1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, ::testing::HasSubstr("--gguf-type"));
  EXPECT_THAT(result.err, ::testing::HasSubstr("q8_0"));
}

TEST(SynthCommand, LooksForTheFolderOfTheFileFirst) {
  const CommandResult result =
      run_tessera({"synth", "--like", "deepseek-v2-lite", "--gguf", "/nowhere/x.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, ::testing::StartsWith("tessera: /nowhere/x.gguf: cannot be written"));
}

}  // namespace
}  // namespace tessera
