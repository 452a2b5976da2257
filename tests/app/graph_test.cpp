// Graph mode from the command line: the same answers, and what the reports and plans say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "tests/app/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::own_folder;
using testing::run_tessera;

nlohmann::json ask(std::vector<std::string> arguments) {
  const std::string path = own_folder() + "/report.json";
  const std::vector<std::string> all = {
      "ask", "--prompt", "你好", "--greedy", "--output_length", "20", "--report_file", path};
  arguments.insert(arguments.begin(), all.begin(), all.end());
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return read_json_file(path);
}

TEST(GraphMode, AnswersAsEagerStepsDo) {
  const nlohmann::json eager = ask({"--baseline", "--no-graph"});
  EXPECT_FALSE(eager.contains("graph"));
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--baseline"},
           {"--baseline", "--use_acl_graph"},
           {"--use_pto", "--use_rope", "--use_kv_fusion", "--use_graph"},
           {"--use_graph", "--graph_mode", "default", "--frozen_parameter", "off",
            "--tiling_schedule_optimize", "off"}}) {
    const nlohmann::json report = ask(flags);
    EXPECT_EQ(report.at("token_ids"), eager.at("token_ids"));
    EXPECT_EQ(report.at("aclgraph_backend"), "tessera");
    EXPECT_GT(report.at("aclgraph_compile_s"), 0);
    const nlohmann::json& graph = report.at("graph");
    EXPECT_THAT(graph.at("buckets"), ::testing::Contains(1));
    EXPECT_GE(graph.at("replays"), 19);
    EXPECT_LE(graph.at("arena_bytes"), 0.6 * graph.at("eager_bytes").get<double>());
    EXPECT_EQ(graph.at("barriers").get<int>() + static_cast<int>(graph.at("buckets").size()),
              graph.at("phases"));
  }
}

TEST(GraphMode, StepsOutsideTheBucketsRunEagerlyAndAreCounted) {
  const nlohmann::json report =
      ask({"--use_graph", "--graph_buckets", "4", "--warmup_seq_lens", "1"});
  EXPECT_EQ(report.at("graph").at("replays"), 0);
  EXPECT_GE(report.at("graph").at("eager_steps"), 19);
}

TEST(GraphMode, BenchMeasuresBothInTurn) {
  const std::string path = own_folder() + "/bench.json";
  const CommandResult result =
      run_tessera({"bench", "decode", "--use_graph", "--against_eager", "--output_tokens", "2",
                   "--repeat", "3", "--by_op", "--json", path});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json results = read_json_file(path).at("results");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].at("steps"), "eager");
  EXPECT_EQ(results[1].at("steps"), "replayed");
  EXPECT_GE(results[1].at("graph").at("replays"), 7);
  EXPECT_EQ(results[1].at("experts_per_step").at("median"),
            results[0].at("experts_per_step").at("median"));
  const CommandResult alone = run_tessera({"bench", "decode", "--against_eager"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("give --use-graph too"));
}

TEST(GraphShow, PrintsAPlan) {
  const CommandResult text = run_tessera({"graph", "show", "--batch", "2"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("layer 0 attention"));
  EXPECT_THAT(text.out, HasSubstr("lifetime"));
  const CommandResult json = run_tessera({"graph", "show", "--format", "json"});
  EXPECT_GT(nlohmann::json::parse(json.out).at("phases").size(), 10u);
  EXPECT_THAT(run_tessera({"graph", "show", "--format", "dot"}).out, HasSubstr("digraph"));
  const CommandResult none = run_tessera({"graph", "show", "--batch", "40"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.err,
            "tessera: no graph serves steps of 40 tokens; choose --graph-buckets with that "
            "number\n");
}

}  // namespace
}  // namespace tessera
