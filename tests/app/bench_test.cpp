// tessera bench: what its reports hold, and that the numbers in them agree. No test looks at how
// large a time is.
#include <cmath>
#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "ops/mla_prolog/selection.h"
#include "tests/app/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::own_folder;
using testing::run_tessera;

nlohmann::json report_of(std::vector<std::string> arguments,
                         const std::vector<std::string>& environment = {}) {
  const std::string path = own_folder() + "/bench-report.json";
  arguments.insert(arguments.begin(), "bench");
  arguments.push_back("--json=" + path);
  const CommandResult result = run_tessera(arguments, environment);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  nlohmann::json report = read_json_file(path);
  std::filesystem::remove(path);
  return report;
}

void expect_failure(std::vector<std::string> arguments, int exit_code,
                    const std::string& sentence) {
  arguments.insert(arguments.begin(), "bench");
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
  EXPECT_EQ(result.out, "");
}

std::vector<double> samples(const nlohmann::json& series) {
  return series.at("samples").get<std::vector<double>>();
}

// All samples are positive, and the median stands between the extremes.
void expect_series(const nlohmann::json& of, const std::string& key, std::size_t n) {
  const nlohmann::json& series = of.at(key);
  const std::vector<double> all = samples(series);
  EXPECT_EQ(all.size(), n) << key;
  EXPECT_EQ(series.at("min"), *std::ranges::min_element(all)) << key;
  EXPECT_EQ(series.at("max"), *std::ranges::max_element(all)) << key;
  EXPECT_LE(series.at("min"), series.at("median")) << key;
  EXPECT_LE(series.at("median"), series.at("max")) << key;
  EXPECT_GT(series.at("min"), 0) << key;
}

void expect_close(double a, double b) {
  EXPECT_NEAR(a, b, 1e-9 * std::abs(b));
}

// What holds for each sample of a result.
void expect_consistent(const nlohmann::json& result, std::size_t n) {
  for (const char* key :
       {"tokens_per_second", "bytes_per_token", "gb_per_second", "gflop_per_second", "limit",
        "share_of_limit", "read_gb_per_second", "dot_gflop_per_second", "experts_per_step"}) {
    expect_series(result, key, n);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = [&](const char* key) { return samples(result.at(key))[i]; };
    expect_close(at("gb_per_second"), at("tokens_per_second") * at("bytes_per_token") / 1e9);
    expect_close(at("share_of_limit"), at("tokens_per_second") / at("limit"));
    const double operations = at("gflop_per_second") / at("tokens_per_second");
    expect_close(at("limit"), std::min(at("read_gb_per_second") * 1e9 / at("bytes_per_token"),
                                       at("dot_gflop_per_second") / operations));
  }
  EXPECT_THAT(result.at("limited_by"), ::testing::AnyOf("memory_read", "dot_peak"));
}

// The bundled model, whose weights all count: 4 layers of 6 heads, the first without experts.
constexpr double kHidden = 192, kHeads = 6, kNope = 32, kRope = 16, kValue = 32, kRank = 64;
constexpr double kDense = 512, kExpert = 96, kExperts = 16, kShared = 2, kVocab = 2560;

double padded(double n) {  // panels have 32 columns
  return std::ceil(n / 32) * 32;
}

// Bytes of one step in bf16 that reads so many experts, summed over the layers, without the cache.
double weights_of_step(double experts) {
  const double attention = padded(kHeads * (kNope + kRope)) * kHidden +
                           padded(kRank + kRope) * kHidden + kHeads * kRank * kNope +
                           kHeads * kValue * kRank + kHidden * kHeads * kValue;
  const double dense = 3 * kDense * kHidden;
  const double shared = 3 * kShared * kExpert * kHidden;
  const double router = 4 * padded(kExperts) * kHidden;
  const double norms = 4 * 9 * kHidden;
  return 2 * (4 * attention + dense + 3 * shared + experts * 3 * kExpert * kHidden +
              kVocab * kHidden) +
         3 * router + norms;
}

TEST(Bench, DecodeCountsWhatAStepReads) {
  const nlohmann::json report = report_of({"decode", "--dtype", "bf16", "--threads", "2", "--depth",
                                           "100", "--output_tokens", "3", "--repeat", "4"});
  EXPECT_EQ(report.at("command"), "bench decode");
  EXPECT_EQ(report.at("version"), "0.1.0");
  EXPECT_EQ(report.at("threads"), 2);
  EXPECT_EQ(report.at("dtype"), "bf16");
  EXPECT_EQ(report.at("mode"), "auto");
  EXPECT_EQ(report.at("repeat"), 4);
  EXPECT_FALSE(report.at("machine").at("cpu").get<std::string>().empty());
  for (const char* key : {"model", "layers", "kernels", "flags"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  ASSERT_EQ(report.at("results").size(), 1u);
  const nlohmann::json& result = report.at("results").at(0);
  EXPECT_EQ(result.at("batch"), 1);
  EXPECT_EQ(result.at("depth"), 100);
  EXPECT_FALSE(result.contains("by_op"));
  expect_consistent(result, 4);
  // Three layers with four experts a token; tokens see 101, 102 and 103 rows of the cache.
  EXPECT_EQ(result.at("experts_per_step").at("max"), 12);
  const double cache = 102 * (kRank + kRope) * 2 * 4;
  for (const double bytes : samples(result.at("bytes_per_token"))) {
    expect_close(bytes, weights_of_step(12) + cache);
  }
}

TEST(Bench, BatchHasOneResultForEachSize) {
  const nlohmann::json report =
      report_of({"batch", "--batch", "1,3", "--depth=5", "--output-tokens", "2", "--repeat", "2"});
  ASSERT_EQ(report.at("results").size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const nlohmann::json& result = report.at("results").at(i);
    const double batch = i == 0 ? 1 : 3;
    EXPECT_EQ(result.at("batch"), batch);
    expect_consistent(result, 2);
    const double experts = result.at("experts_per_step").at("median");
    EXPECT_GE(experts, 12);
    EXPECT_LE(experts, 12 * batch);
    const double rows = 6.5;  // of the cache, of each sequence
    for (std::size_t s = 0; s < 2; ++s) {
      expect_close(samples(result.at("bytes_per_token"))[s],
                   weights_of_step(samples(result.at("experts_per_step"))[s]) / batch +
                       rows * (kRank + kRope) * 2 * 4);
    }
  }
}

TEST(Bench, PrefillCountsEveryProduct) {
  const nlohmann::json report = report_of({"prefill", "--prompt_tokens", "3,70", "--prefill-chunk",
                                           "32", "--repeat", "2", "--dtype", "fp32"});
  ASSERT_EQ(report.at("results").size(), 2u);
  for (const nlohmann::json& result : report.at("results")) {
    expect_consistent(result, 2);
    const double tokens = result.at("new_tokens");
    // Multiplications and additions of a token, and of the head once a prompt.
    const double attention = kHeads * (kNope + kRope) * kHidden + (kRank + kRope) * kHidden +
                             kHeads * kRank * (kNope + kValue) + kHidden * kHeads * kValue;
    const double experts = 3 * kHidden * kExpert * (4 + kShared) + kExperts * kHidden;
    const double pairs = (tokens + 1) / 2;  // a token and what it attends to
    const double scores = 4 * pairs * kHeads * (2 * kRank + kRope);
    const double expected = 2 * (4 * attention + 3 * kHidden * kDense + 3 * experts + scores +
                                 kHidden * kVocab / tokens);
    for (std::size_t i = 0; i < 2; ++i) {
      expect_close(samples(result.at("gflop_per_second"))[i],
                   expected * samples(result.at("tokens_per_second"))[i] / 1e9);
    }
  }
}

TEST(Bench, PartsAddUpToTheStep) {
  for (const std::string cache : {"latent", "expanded"}) {
    const nlohmann::json report = report_of(
        {"decode", "--by_op", "--kv_cache", cache, "--repeat", "3", "--output-tokens", "2"});
    const nlohmann::json& result = report.at("results").at(0);
    double bytes = 0;
    std::vector<double> seconds(3);
    std::vector<double> shares(3);
    std::vector<std::string> names;
    for (const nlohmann::json& part : result.at("by_op")) {
      names.push_back(part.at("op"));
      bytes += part.at("bytes_per_step").get<double>();
      for (std::size_t i = 0; i < 3; ++i) {
        seconds[i] += samples(part.at("seconds_per_step"))[i];
        shares[i] += samples(part.at("share_of_time"))[i];
        EXPECT_LE(samples(part.at("kernel_seconds_per_step"))[i],
                  samples(part.at("seconds_per_step"))[i]);
      }
    }
    EXPECT_THAT(names, ::testing::IsSupersetOf({"outside", "embedding", "norms", "query", "prolog",
                                                "attention", "output", "router", "dense",
                                                "experts up", "experts down", "head"}));
    EXPECT_EQ(std::ranges::count(names, "absorb"), cache == "latent" ? 1 : 0);
    for (std::size_t i = 0; i < 3; ++i) {
      // Less the starting and the stopping of the clock.
      EXPECT_LE(seconds[i], 1 / samples(result.at("tokens_per_second"))[i]);
      EXPECT_LE(shares[i], 1);
      EXPECT_GT(shares[i], 0);
    }
    expect_close(bytes, samples(result.at("bytes_per_token"))[2]);
  }
}

TEST(Bench, MemoryAddsUp) {
  const nlohmann::json report =
      report_of({"memory", "--context", "130", "--batch", "2", "--dtype", "bf16"});
  const nlohmann::json& weights = report.at("weight_bytes");
  double sum = 0;
  for (const auto& [name, bytes] : weights.items()) {
    if (name != "total") sum += bytes.get<double>();
  }
  EXPECT_EQ(weights.at("total"), sum);
  EXPECT_EQ(weights.at("experts"), 3 * kExperts * 3 * kExpert * kHidden * 2);
  EXPECT_EQ(weights.at("head"), kVocab * kHidden * 2);
  EXPECT_EQ(report.at("cache_bytes_per_token"), (kRank + kRope) * 2 * 4);
  EXPECT_EQ(report.at("cache_bytes"), 2 * 192 * (kRank + kRope) * 2 * 4);  // whole pages of 64
  EXPECT_GT(report.at("peak_bytes"), weights.at("total"));
  EXPECT_GE(report.at("load_peak_bytes"), report.at("resident_bytes"));
}

TEST(Bench, PrologSavesWhatTheModelChoosesBy) {
  const std::string cache = own_folder() + "/bench-prolog-cache";
  std::filesystem::create_directories(cache);
  std::filesystem::permissions(cache, std::filesystem::perms::owner_all);
  const nlohmann::json report = report_of({"prolog", "--model-path", TESSERA_DEMO_MODEL, "--rows",
                                           "1,5", "--repeat", "2", "--threads", "1", "--save"},
                                          {"TESSERA_CACHE_DIR=" + cache});
  EXPECT_EQ(report.at("form"), "expanded");
  ASSERT_EQ(report.at("results").size(), 2u);
  for (const nlohmann::json& result : report.at("results")) {
    std::vector<std::string> names;
    for (const nlohmann::json& implementation : result.at("implementations")) {
      names.push_back(implementation.at("implementation"));
      for (const char* key :
           {"seconds", "times_as_fast", "gb_per_second", "gflop_per_second", "share_of_limit"}) {
        expect_series(implementation, key, 2);
      }
    }
    EXPECT_THAT(names, ::testing::ElementsAre("auto", "fused", "hybrid", "baseline", "stage 2"));
    EXPECT_THAT(result.at("fastest"), ::testing::AnyOf("fused", "hybrid", "baseline"));
  }
  EXPECT_EQ(report.at("skipped").at(0).at("implementation"), "latent");

  std::filesystem::path table;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    if (entry.path().extension() == ".json") table = entry.path();
  }
  const auto selection = ops::PrologSelection::read(table);
  ASSERT_EQ(selection.measurements().size(), 2u);
  const ops::PrologMeasurement& first = selection.measurements()[0];
  EXPECT_EQ(first.rows, 1);
  EXPECT_EQ(first.shape.dims, (ops::MlaDims{192, 6, 64, 32, 16, 32}));
  EXPECT_FALSE(first.shape.latent);
  EXPECT_EQ(first.shape.threads, 1);
  EXPECT_EQ(first.seconds.size(), 3u);  // neither auto nor the stage alone
  EXPECT_TRUE(first.seconds.contains("fused"));
  std::filesystem::remove_all(cache);
}

TEST(Bench, PrologInLatentFormIsAnotherTable) {
  const nlohmann::json report = report_of({"prolog", "--model-path", TESSERA_DEMO_MODEL, "--rows",
                                           "2", "--repeat", "1", "--latent", "--dtype", "fp32"});
  EXPECT_EQ(report.at("form"), "latent");
  std::vector<std::string> names;
  for (const nlohmann::json& i : report.at("results").at(0).at("implementations")) {
    names.push_back(i.at("implementation"));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("auto", "latent", "baseline"));
}

TEST(Bench, KernelsAreThoseOfTheRegistry) {
  const nlohmann::json report =
      report_of({"kernels", "--model-path", TESSERA_DEMO_MODEL, "--rows", "1,4", "--repeat", "2"});
  ASSERT_EQ(report.at("results").size(), 8u);  // two norms and two rotations
  for (const nlohmann::json& result : report.at("results")) {
    std::vector<std::string> names;
    for (const nlohmann::json& i : result.at("implementations")) {
      names.push_back(i.at("implementation"));
      if (names.back() == "native") {
        EXPECT_EQ(i.at("times_as_fast").at("median"), 1);
      }
    }
    EXPECT_THAT(names, ::testing::Contains("native"));
    EXPECT_THAT(names, ::testing::Not(::testing::Contains("reference")));
  }
}

TEST(Bench, BadRequests) {
  expect_failure({"nonsense"}, 2,
                 "there is no command \"bench nonsense\"; choose one of decode, prefill, batch, "
                 "memory, prolog, kernels, compare");
  expect_failure({"decode", "--depth", "2040"}, 2,
                 "2040 tokens in the cache and 16 new ones are more than the 2048 positions of the "
                 "model; choose less");
  expect_failure({"memory", "--context", "4096"}, 2,
                 "4095 tokens in the cache and 1 new ones are more than the 2048 positions of the "
                 "model; choose less");
  expect_failure({"batch", "--batch", "1,0"}, 2,
                 "--batch: must be numbers of sequences from 1 to 65536 such as 1,2,8, not 1,0 "
                 "(see --help)");
  expect_failure({"prefill", "--repeat", "0"}, 2,
                 "--repeat: must be a whole number from 1 to 10000, not 0 (see --help)");
  EXPECT_EQ(run_tessera({"bench"}).exit_code, 2);
  EXPECT_EQ(run_tessera({"bench", "decode", "--json", "/nowhere/report.json"}).exit_code, 1);
  EXPECT_EQ(run_tessera({"bench", "decode", "--help"}).exit_code, 0);
}

TEST(Bench, PrintsATable) {
  const CommandResult result =
      run_tessera({"bench", "decode", "--repeat", "1", "--output-tokens", "1", "--by-op"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("% of limit"));
  EXPECT_THAT(result.out, HasSubstr("ms outside kernels"));
  EXPECT_THAT(result.out, HasSubstr("experts down"));
}

}  // namespace
}  // namespace tessera
