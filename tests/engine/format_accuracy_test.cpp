// How far each weight format is from fp32, on the bundled model and the texts that it was asked
// for. docs/performance.md has the table that this prints.
#include "tests/engine/format_accuracy.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tessera/language_model.h>

#include "io/json_file.h"
#include "tests/engine/max_scaled.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

using testing::Accuracy;
using testing::compare;
using testing::logits_of;

// Prompt and answer of every stored case.
testing::Texts texts() {
  testing::Texts all;
  for (const auto& e : read_json_file(TESSERA_TEST_DATA "/demo/greedy.json")) {
    std::vector<std::int32_t> ids = e.at("prompt_ids");
    const std::vector<std::int32_t> answer = e.at("token_ids");
    ids.insert(ids.end(), answer.begin(), answer.end());
    all.push_back(std::move(ids));
  }
  return all;
}

TEST(FormatAccuracy, StaysWithinWhatIsPromised) {
  struct Bound {
    WeightFormat format;
    double cosine;  // of the logits, in the mean of the positions
    double agreement;
  };
  constexpr Bound kBounds[] = {{WeightFormat::kF16, 0.99999, 0.999},
                               {WeightFormat::kBF16, 0.999, 0.99},
                               {WeightFormat::kInt8, 0.9995, 0.99},
                               {WeightFormat::kMixed, 0.995, 0.95},
                               {WeightFormat::kInt4, 0.995, 0.95}};
  const std::vector<Logits> expected = logits_of(TESSERA_DEMO_MODEL, WeightFormat::kF32, texts());
  for (const Bound& bound : kBounds) {
    const Accuracy a = compare(logits_of(TESSERA_DEMO_MODEL, bound.format, texts()), expected);
    print(std::string(to_string(bound.format)), a);
    EXPECT_GE(a.mean_cosine, bound.cosine) << to_string(bound.format);
    EXPECT_GE(a.agreement, bound.agreement) << to_string(bound.format);
  }
}

TEST(FormatAccuracy, IsBetterThanScalesByTheLargestMagnitude) {
  const std::vector<Logits> expected = logits_of(TESSERA_DEMO_MODEL, WeightFormat::kF32, texts());
  for (WeightFormat format : {WeightFormat::kInt8, WeightFormat::kMixed, WeightFormat::kInt4}) {
    const TemporaryFolder plain_folder;
    testing::write_max_scaled(TESSERA_DEMO_MODEL, plain_folder.path(), format);
    const Accuracy plain = compare(logits_of(plain_folder.path(), format, texts()), expected);
    print(std::string(to_string(format)) + ", max", plain);
    const Accuracy ours = compare(logits_of(TESSERA_DEMO_MODEL, format, texts()), expected);
    // In 8 bits the rounding of the activations is most of the error.
    if (format == WeightFormat::kInt8) continue;
    EXPECT_LT(ours.mean_kl, plain.mean_kl) << to_string(format);
    EXPECT_GT(ours.mean_cosine, plain.mean_cosine) << to_string(format);
  }
}

}  // namespace
}  // namespace tessera
