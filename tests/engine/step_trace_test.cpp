// What a timeline holds.
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tessera/language_model.h>

#include "io/json_file.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

nlohmann::json events_of(bool graph) {
  const TemporaryFolder folder;
  LoadOptions load;
  load.threads = 2;
  LanguageModel model = LanguageModel::load_without_tokenizer(TESSERA_DEMO_MODEL, load);
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.max_new_tokens = 6;
  options.graph.enabled = graph;
  options.trace_file = (folder.path() / "trace.json").string();
  const std::vector<std::vector<std::int32_t>> prompts = {{5, 6, 7}};
  model.generate_ids(prompts, options);
  return read_json_file(options.trace_file).at("traceEvents");
}

TEST(StepTrace, NamesTheLaunchesOfReplaysAndThePartsOfEagerSteps) {
  for (const bool graph : {false, true}) {
    std::set<std::string> names;
    for (const auto& event : events_of(graph)) {
      if (event.at("ph") != "X") continue;
      names.insert(event.at("name"));
      EXPECT_GT(event.at("dur"), 0);
      EXPECT_GE(event.at("ts"), 0);
    }
    if (graph) {
      EXPECT_TRUE(names.contains("layer 0 attention"));
      EXPECT_TRUE(names.contains("waiting"));
    } else {
      EXPECT_TRUE(names.contains("step"));
      EXPECT_TRUE(names.contains("head"));
    }
  }
}

TEST(StepTrace, SaysOfALaunchWhatItReadAndHowFast) {
  bool seen = false;
  for (const auto& event : events_of(true)) {
    if (event.at("name") != "head") continue;
    if (!event.contains("args")) continue;  // the eager prefill's
    seen = true;
    const auto& args = event.at("args");
    EXPECT_NEAR(args.at("GB/s").get<double>(),
                args.at("bytes").get<double>() / event.at("dur").get<double>() / 1e3, 1e-6);
    EXPECT_GE(args.at("phase"), 1);
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace tessera
