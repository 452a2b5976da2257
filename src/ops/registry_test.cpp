#include "ops/registry.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tessera/error.h>

namespace tessera::ops {
namespace {

template <typename Call>
std::string sentence_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Registry, EveryListEndsInTheReference) {
  for (std::string_view op : operator_names()) {
    const auto names = implementation_names(op);
    EXPECT_EQ(names.back(), "reference") << op;
    EXPECT_GE(names.size(), 2u) << op;
  }
}

TEST(Registry, NamesAreUnique) {
  for (std::string_view op : operator_names()) {
    auto names = implementation_names(op);
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << op;
  }
}

TEST(Registry, FindsByName) {
  EXPECT_EQ(&rms_norm_implementation("native"), &kRmsNormNative);
  EXPECT_EQ(&rope_implementation("reference"), &kRopeReference);
  EXPECT_EQ(&mla_prolog_implementation("baseline"), &kMlaPrologBaseline);
}

TEST(Registry, AnUnknownNameListsThoseThereAre) {
  EXPECT_EQ(sentence_of([] { mla_prolog_implementation("fast"); }),
            "mla_prolog has no implementation \"fast\"; choose one of auto, latent, fused, hybrid, "
            "baseline, reference");
  EXPECT_EQ(sentence_of([] { rms_norm_implementation(""); }),
            "rms_norm has no implementation \"\"; choose one of tile, native, reference");
  EXPECT_EQ(sentence_of([] { rope_implementation("Native"); }),
            "rope has no implementation \"Native\"; choose one of tile, native, reference");
  EXPECT_EQ(sentence_of([] { implementation_names("softmax"); }),
            "there is no operator \"softmax\"; choose one of rms_norm, rope, mla_prolog");
}

TEST(Registry, TheReferenceSupportsEverything) {
  EXPECT_EQ(kRmsNormReference.unsupported(300, 1), "");
  EXPECT_EQ(kRopeReference.unsupported(2, RopeLayout::kHalfSplit), "");
  EXPECT_EQ(kMlaPrologReference.unsupported({}, {}), "");
}

}  // namespace
}  // namespace tessera::ops
