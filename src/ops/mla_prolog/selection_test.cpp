#include "ops/mla_prolog/selection.h"

#include <gtest/gtest.h>

#include "io/text_file.h"
#include "tests/io/expect_error.h"
#include "tests/io/temporary_folder.h"

namespace tessera::ops {
namespace {

constexpr PrologShape kShape{{64, 2, 32, 16, 8, 16}, PanelLayout::kBF16, false, 2};
constexpr std::string_view kBoth[] = {"fused", "baseline"};

PrologSelection table() {
  PrologSelection t;
  t.add({kShape, 1, {{"fused", 1.0}, {"baseline", 2.0}}});
  t.add({kShape, 16, {{"fused", 3.0}, {"baseline", 2.0}, {"hybrid", 1.0}}});
  return t;
}

TEST(PrologSelection, TakesTheFastestAtTheNearestRowCount) {
  EXPECT_EQ(table().choose(kShape, 1, kBoth), "fused");
  EXPECT_EQ(table().choose(kShape, 3, kBoth), "fused");
  EXPECT_EQ(table().choose(kShape, 5, kBoth), "baseline");
  EXPECT_EQ(table().choose(kShape, 4096, kBoth), "baseline");
}

TEST(PrologSelection, WithoutAMeasurementTakesTheFirst) {
  PrologShape other = kShape;
  other.threads = 1;
  EXPECT_EQ(table().choose(other, 16, kBoth), "fused");
  const std::string_view unknown[] = {"latent"};
  EXPECT_EQ(table().choose(kShape, 16, unknown), "latent");
}

TEST(PrologSelection, ALaterMeasurementReplacesAnEarlierOne) {
  PrologSelection t = table();
  t.add({kShape, 16, {{"fused", 1.0}, {"baseline", 2.0}}});
  EXPECT_EQ(t.measurements().size(), 2u);
  EXPECT_EQ(t.choose(kShape, 16, kBoth), "fused");
}

TEST(PrologSelection, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "table.json";
  table().write(path);
  const PrologSelection again = PrologSelection::read(path);
  ASSERT_EQ(again.measurements().size(), 2u);
  EXPECT_EQ(again.measurements()[1].shape, kShape);
  EXPECT_EQ(again.measurements()[1].rows, 16);
  EXPECT_EQ(again.measurements()[1].seconds, table().measurements()[1].seconds);
}

TEST(PrologSelection, RefusesWhatIsNoTable) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "table.json";
  write_text_file(path, R"({"measurements": [{"hidden": 64}]})");
  EXPECT_ERROR(PrologSelection::read(path), ErrorCode::kBadJson,
               path.string() + R"(: "measurements[0].heads" is missing, but it is needed)");
}

}  // namespace
}  // namespace tessera::ops
