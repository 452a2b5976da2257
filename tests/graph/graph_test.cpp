// What a replay computes does not depend on how it is planned.
#include "graph/graph.h"

#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/thread_pool.h"
#include "graph/print.h"
#include "tests/graph/toy_step.h"

namespace tessera::graph {
namespace {

using testing::Numbers;
using testing::numbers;
using testing::sum;

// Chains over shared buffers, copies of every worker and one worker's own; sizes with tails.
struct Toy {
  std::int64_t n;
  Numbers result;

  void record(Recorder& recorder) {
    const Numbers a = numbers(recorder, "a", n);
    const Numbers own = numbers(recorder, "own", 3, true);
    const Numbers b = numbers(recorder, "b", 2 * n + 1);
    const Numbers small = numbers(recorder, "small", 5);
    BufferInfo info;
    info.name = "result";
    info.bytes = static_cast<std::size_t>(n) * 8;
    info.to_outside = true;
    result = {recorder.buffer(info), n};
    sum(recorder, "first", {}, a, Spread::kShared, 7);
    sum(recorder, "every", {a}, own, Spread::kEvery);
    sum(recorder, "second", {own}, b);
    sum(recorder, "one", {a}, small, Spread::kOne);
    sum(recorder, "one more", {small}, small, Spread::kOne, 1);
    sum(recorder, "last", {b, small, own}, result);
  }

  static std::vector<std::int64_t> expected(std::int64_t n) {
    const auto made = [](std::int64_t count, std::int64_t base) {
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < count; ++i) values.push_back(base + i);
      return values;
    };
    const auto total = [](const std::vector<std::int64_t>& values) {
      std::int64_t all = 0;
      for (const std::int64_t v : values) all += v;
      return all;
    };
    const auto a = made(n, 7);
    const auto own = made(3, total(a));
    const auto b = made(2 * n + 1, total(own));
    auto small = made(5, total(a));
    small = made(5, total(small) + 1);
    return made(n, total(b) + total(small) + total(own));
  }
};

TEST(Graph, ComputesTheSameHoweverItIsPlanned) {
  for (const int workers : {1, 2, 3}) {
    ThreadPool pool(workers);
    for (const std::int64_t n : {1, 2, 63, 64, 65, 129}) {
      for (const Merging merging : {Merging::kNone, Merging::kPhases}) {
        for (const bool static_shares : {false, true}) {
          Toy toy{n, {}};
          Graph graph = Graph::capture(workers, {merging, static_shares, true},
                                       [&](Recorder& recorder) { toy.record(recorder); });
          for (int replay = 0; replay < 20; ++replay) {
            std::memset(graph.arena().data(), 0xff, graph.arena().size());
            graph.replay(pool);
            const std::vector<std::int64_t> got(toy.result.of(0), toy.result.of(0) + n);
            ASSERT_EQ(got, Toy::expected(n)) << workers << " workers, replay " << replay;
          }
        }
      }
    }
  }
}

TEST(Graph, WaitsOnlyWhereDataNeedsIt) {
  Toy toy{64, {}};
  const auto record = [&](Recorder& recorder) { toy.record(recorder); };
  const Graph merged = Graph::capture(2, {Merging::kPhases, true, true}, record);
  EXPECT_EQ(merged.n_phases(), 3);  // a | own, b, small | result
  EXPECT_EQ(Graph::capture(2, {Merging::kNone, true, true}, record).n_phases(), 6);
}

TEST(Graph, PartsOfABufferThatDoNotTouchShareAPhase) {
  const auto phases = [](Parts first, Parts second) {
    return Graph::capture(2, {},
                          [&](Recorder& recorder) {
                            const Numbers a = numbers(recorder, "a", 8);
                            for (const Parts parts : {first, second}) {
                              LaunchInfo info;
                              info.name = "write";
                              info.writes = {a.use(parts)};
                              recorder.launch(info, testing::SumBody{{}, a, 0});
                            }
                          })
        .n_phases();
  };
  EXPECT_EQ(phases(1, 2), 1);
  EXPECT_EQ(phases(1, 3), 2);
  EXPECT_EQ(phases(kWhole, 2), 2);
}

TEST(Graph, AWriterWaitsForReaders) {
  const Graph graph = Graph::capture(2, {}, [](Recorder& recorder) {
    const Numbers a = numbers(recorder, "a", 8);
    const Numbers b = numbers(recorder, "b", 8);
    sum(recorder, "read", {a}, b);
    sum(recorder, "overwrite", {}, a);
  });
  EXPECT_EQ(graph.n_phases(), 2);
}

TEST(Graph, OneWorkersCopyIsNotWhatOthersRead) {
  const Graph graph = Graph::capture(2, {}, [](Recorder& recorder) {
    const Numbers own = numbers(recorder, "own", 8, true);
    const Numbers b = numbers(recorder, "b", 8);
    sum(recorder, "one", {}, own, Spread::kOne);
    sum(recorder, "shared", {own}, b);
  });
  EXPECT_EQ(graph.n_phases(), 2);
}

TEST(Graph, IsPrintedAsTextDotAndJson) {
  Toy toy{4, {}};
  const Graph graph = Graph::capture(2, {}, [&](Recorder& recorder) { toy.record(recorder); });
  const std::string text = to_text(graph);
  EXPECT_THAT(text, ::testing::HasSubstr("6 launches in 3 phases on 2 workers"));
  EXPECT_THAT(text, ::testing::HasSubstr("phases 2 to the end"));
  const std::string dot = to_dot(graph);
  EXPECT_THAT(dot, ::testing::StartsWith("digraph step {"));
  EXPECT_THAT(dot, ::testing::HasSubstr("n0 -> n1 [label=\"a\"]"));
  const auto json = nlohmann::json::parse(to_json(graph));
  EXPECT_EQ(json.at("phases").size(), 3u);
  EXPECT_EQ(json.at("phases")[1].size(), 4u);
  EXPECT_EQ(json.at("buffers").size(), 5u);
  EXPECT_EQ(json.at("arena_bytes"), graph.placement().arena_bytes);
}

}  // namespace
}  // namespace tessera::graph
