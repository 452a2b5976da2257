#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/command.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run_tessera;
using ::testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> warnings_of(const CommandResult& result) {
  std::vector<std::string> lines = lines_of(result.err);
  std::erase_if(lines, [](const std::string& line) { return line.find("warning") == line.npos; });
  return lines;
}

std::string shown(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"kernels", "show"});
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& sentence) {
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
  EXPECT_EQ(result.out, "");
}

TEST(Kernels, AreListedWithTheirSignatures) {
  const CommandResult result = run_tessera({"kernels", "list"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rms_norm  rms_norm tile\n"
                                    "    in x: fp32[t, n]\n"
                                    "    in weight: fp32[n]\n"
                                    "    in eps: fp32[1]\n"
                                    "    out y: fp32[t, n]\n"
                                    "    dims of DeepSeek-V2-Lite: n=2048,t=1\n"
                                    "    in the cache: "));
  EXPECT_THAT(result.out, HasSubstr("\nrope_half_split  rope tile\n"
                                    "    inout x: fp32[t, heads, 2 * half]\n"));
  EXPECT_THAT(result.out, HasSubstr("    weight kv_a: floating[latent, hidden]\n"));
}

TEST(Kernels, EveryOneCanBeShownAtEveryStage) {
  std::set<std::string> names;
  for (const std::string& line : lines_of(run_tessera({"kernels", "list"}).out)) {
    if (line.starts_with(" ")) continue;
    const std::string name = line.substr(0, line.find(' '));
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_THAT(shown({name}), StartsWith("kernel " + name + " {\n"));
    EXPECT_THAT(shown({name, "--stage", "scratch"}), HasSubstr("  phase {\n"));
    EXPECT_THAT(shown({name, "--stage", "llvm"}), HasSubstr("define "));
    EXPECT_THAT(shown({name, "--stage", "asm"}), HasSubstr("phase0:"));
  }
  EXPECT_GE(names.size(), 10u);
}

TEST(Kernels, AreShownForAShapeClass) {
  EXPECT_THAT(shown({"rms_norm"}),
              AllOf(HasSubstr("symbol t in 1..1\n"), HasSubstr("in x: fp32[t, 2048]\n")));
  EXPECT_THAT(shown({"rms_norm", "--shape", "t=5,n=300"}),
              AllOf(HasSubstr("symbol t in 5..8\n"), HasSubstr("in x: fp32[t, 300]\n")));
  EXPECT_THAT(shown({"mla_prolog_latent"}), HasSubstr("out cache: bf16[slots, 576]"));
  EXPECT_THAT(shown({"mla_prolog_latent", "--dtype", "fp16"}),
              AllOf(HasSubstr("in kv_a: fp16 panels[576, 2048]"), HasSubstr("in norm: fp32[512]")));
  EXPECT_THAT(shown({"rope_interleaved", "--gaps", "x"}),
              AllOf(HasSubstr("inout x: fp32[t, 16, 64] strides [x@0, x@1, 1]\n"),
                    HasSubstr("in cos: fp32[t, 32]\n")));
}

TEST(Kernels, AreCompiledForAnotherCpu) {
  EXPECT_THAT(shown({"rms_norm", "--stage", "asm", "--target-cpu", "haswell"}),
              AllOf(HasSubstr("%ymm"), Not(HasSubstr("%zmm"))));
  EXPECT_THAT(shown({"rms_norm", "--stage", "asm", "--target_cpu=skylake-avx512"}),
              HasSubstr("%zmm"));
  EXPECT_THAT(shown({"rms_norm", "--stage", "asm", "--target-cpu", "neoverse-n1"}),
              HasSubstr("fmla"));
}

TEST(Kernels, WhatDoesNotExistIsAnsweredWithWhatDoes) {
  const std::string all = run_tessera({"kernels", "show", "softmax"}).err;
  EXPECT_THAT(all, StartsWith("tessera: there is no kernel \"softmax\"; choose one of rms_norm, "
                              "rms_norm_in_place, rope_interleaved, "));
  expect_refused({"kernels", "show", "rms_norm", "--stage", "fast"},
                 "there is no stage \"fast\"; choose one of trace, unroll, infer_valid, fold, "
                 "epilogue, pairs, phases, in_place, parallel, scratch, llvm, asm");
  expect_refused({"kernels", "show", "rms_norm", "--shape", "b=1"},
                 "rms_norm has no dim \"b\"; choose among n, t");
  expect_refused({"kernels", "show", "rms_norm", "--shape", "t=0"},
                 "dim t of rms_norm must be from 1 to 1073741824, not 0");
  expect_refused({"kernels", "show", "rms_norm", "--shape", "t:4"},
                 "--shape takes dims such as t=4,n=512, not \"t:4\"");
  expect_refused({"kernels", "show", "rms_norm", "--shape", "t=4,t=5"},
                 "--shape names dim t twice");
  expect_refused({"kernels", "show", "rms_norm", "--gaps", "weight"},
                 "rms_norm has no tensor with rows \"weight\"; choose among x, y");
  expect_refused({"kernels", "show", "rms_norm", "--dtype", "fp16"},
                 "every element type of rms_norm is fixed; leave out --dtype (see tessera kernels "
                 "list)");
  expect_refused({"kernels", "lists"},
                 "there is no command \"kernels lists\"; choose one of list, show, cache");
  expect_refused({"kernels", "cache", "drop"},
                 "there is no command \"kernels cache drop\"; choose one of list, size, clear");
  EXPECT_EQ(run_tessera({"kernels"}).exit_code, 2);
  // What the kernel itself cannot do.
  const CommandResult too_long =
      run_tessera({"kernels", "show", "rms_norm", "--shape", "n=9999999"});
  EXPECT_EQ(too_long.exit_code, 2);
  EXPECT_THAT(too_long.err, HasSubstr("TL106"));
}

// Transcripts in the manual of the language.
TEST(Kernels, TheManualShowsWhatTheCommandPrints) {
  std::ifstream document(TESSERA_TEST_DATA "/../../docs/tile-language.md");
  int n_transcripts = 0;
  for (std::string line; std::getline(document, line);) {
    if (!line.starts_with("$ tessera ")) continue;
    std::vector<std::string> arguments;
    std::istringstream words(line.substr(std::string("$ tessera ").size()));
    for (std::string word; words >> word;) arguments.push_back(word);
    std::string expected;
    while (std::getline(document, line) && line != "```") expected += line + "\n";
    EXPECT_EQ(run_tessera(arguments).out, expected);
    ++n_transcripts;
  }
  EXPECT_GE(n_transcripts, 1);
}

class KernelCache : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& arguments) const {
    return run_tessera(arguments, {"TESSERA_CACHE_DIR=" + cache_.string()});
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& file : fs::directory_iterator(cache_)) all.push_back(file.path());
    return all;
  }
  void fill() const {
    const CommandResult result = run({"verify", "rope_001", "--impl", "tile"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
  }
  void damage() const {
    for (const fs::path& path : files()) fs::resize_file(path, fs::file_size(path) - 1);
  }

  TemporaryFolder folder_;
  fs::path cache_ = folder_.path() / "kernels";
};

TEST_F(KernelCache, TellsWhatIsInIt) {
  EXPECT_EQ(run({"kernels", "cache", "list"}).out, "");
  fill();
  const CommandResult list = run({"kernels", "cache", "list"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("  this CPU  "));
  EXPECT_THAT(list.out, HasSubstr("  rope_interleaved  t = 1, x: fp32[t, 1, 64], "
                                  "cos: fp32[t, 32], sin: fp32[t, 32]\n"));
  EXPECT_EQ(lines_of(list.out).size(), files().size());
  EXPECT_THAT(run({"kernels", "list"}).out, HasSubstr("    in the cache: 1 shape class\n"));
  EXPECT_EQ(run({"kernels", "cache", "size"}).out,
            cache_.string() + ": 1 kernels, 0.0 MiB of at most 256 MiB\n");
}

TEST_F(KernelCache, IsCleared) {
  fill();
  EXPECT_EQ(run({"kernels", "cache", "clear"}).out, cache_.string() + ": 1 kernels removed\n");
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(run({"kernels", "cache", "clear"}).out, cache_.string() + ": 0 kernels removed\n");
  fill();
}

TEST_F(KernelCache, LookingCostsNothingAndDamageShows) {
  fill();
  const fs::path file = files().front();
  const auto before = fs::file_time_type::clock::now() - std::chrono::hours(5);
  fs::last_write_time(file, before);
  run({"kernels", "cache", "list"});
  EXPECT_EQ(fs::last_write_time(file), before);  // which would have kept it from being evicted
  damage();
  EXPECT_THAT(run({"kernels", "cache", "list"}).out, HasSubstr("(damaged)\n"));
  EXPECT_THAT(run({"kernels", "list"}).out, Not(HasSubstr("in the cache: 1")));
}

TEST_F(KernelCache, ADamagedEntryIsToldOnce) {
  const std::vector<std::vector<std::string>> commands = {
      {"verify", "rope_001", "rope_002", "--impl", "tile"},
      {"ask", "--prompt", "hi", "--output-length", "4", "--greedy", "--use-rope"},
      {"logits", "--ids", "1,2,3", "--use-rope", "--output", (folder_.path() / "l").string()}};
  for (const std::vector<std::string>& command : commands) {
    EXPECT_EQ(run(command).exit_code, 0);
    damage();
    const CommandResult damaged = run(command);
    EXPECT_EQ(damaged.exit_code, 0) << damaged.err;
    std::vector<std::string> lines = warnings_of(damaged);
    EXPECT_FALSE(lines.empty()) << command[0];
    for (const std::string& line : lines) {
      EXPECT_THAT(line, AllOf(StartsWith("tessera: warning: " + cache_.string()),
                              HasSubstr("is compiled again")));
    }
    std::ranges::sort(lines);
    EXPECT_EQ(std::ranges::adjacent_find(lines), lines.end()) << damaged.err;
    EXPECT_THAT(warnings_of(run(command)), IsEmpty());  // mended
  }
}

TEST_F(KernelCache, AFolderThatCannotBeUsedIsToldOnce) {
  std::ofstream(folder_.path() / "kernels") << "a file";
  const CommandResult result = run({"verify", "--op", "rope", "--impl", "tile"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(lines_of(result.err),
              ::testing::ElementsAre(AllOf(StartsWith("tessera: warning: the cache folder "),
                                           HasSubstr("in memory only"))));
  const CommandResult nowhere =
      run_tessera({"kernels", "cache", "size"}, {"TESSERA_CACHE_DIR=", "XDG_CACHE_HOME=", "HOME="});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_EQ(nowhere.err,
            "tessera: there is no cache of compiled kernels; name its folder in "
            "TESSERA_CACHE_DIR\n");
}

}  // namespace
}  // namespace tessera
