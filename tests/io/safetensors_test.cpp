#include "io/safetensors.h"

#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/io/expect_error.h"
#include "tests/io/safetensors_bytes.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

void expect_bad_file(const std::string& file, const std::string& sentence) {
  EXPECT_ERROR(SafetensorsFile::parse(as_bytes(file), "w"), ErrorCode::kBadSafetensors,
               "w" + sentence);
}

void expect_bad(std::string_view header, std::size_t n_data_bytes, const std::string& sentence) {
  expect_bad_file(safetensors_bytes(header, n_data_bytes), sentence);
}

TEST(Safetensors, ReadsEntriesInTheOrderOfTheData) {
  const std::string file = safetensors_bytes(
      R"({"b": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
          "a": {"dtype": "BF16", "shape": [3], "data_offsets": [8, 14]},
          "scalar": {"dtype": "I64", "shape": [], "data_offsets": [14, 22]},
          "__metadata__": {"format": "pt"}}   )",
      22);
  const auto weights = SafetensorsFile::parse(as_bytes(file), "w");
  ASSERT_EQ(weights.entries().size(), 3u);
  EXPECT_EQ(weights.entries()[0].name, "b");
  EXPECT_EQ(weights.entries()[1].name, "a");
  EXPECT_EQ(weights.metadata().at("format"), "pt");

  const SafetensorsEntry* a = weights.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, SafetensorsDType::kBF16);
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(weights.bytes(*a).size(), 6u);
  EXPECT_EQ(weights.bytes(*a).data(), as_bytes(file).data() + file.size() - 22 + 8);
  EXPECT_TRUE(weights.find("scalar")->shape.empty());
  EXPECT_EQ(weights.find("c"), nullptr);
  EXPECT_EQ(weights.find("__metadata__"), nullptr);
}

TEST(Safetensors, MayHoldNothing) {
  EXPECT_TRUE(SafetensorsFile::parse(as_bytes(safetensors_bytes("{}", 0)), "w").entries().empty());
}

TEST(Safetensors, MayHoldTensorsWithoutElements) {
  const std::string file = safetensors_bytes(
      R"({"a": {"dtype": "F32", "shape": [0, 5], "data_offsets": [0, 0]},
          "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
          "c": {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}})",
      4);
  EXPECT_EQ(SafetensorsFile::parse(as_bytes(file), "w").find("c")->n_bytes, 0u);
}

TEST(Safetensors, KnowsEveryTypeOfTheFormat) {
  for (const std::string name :
       {"BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
        "I16",  "U16", "F16", "BF16",    "I32",     "U32",     "F32",         "C64",
        "F64",  "I64", "U64", "F4",      "F6_E2M3", "F6_E3M2"}) {
    const auto dtype = safetensors_dtype_from_string(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(to_string(*dtype), name);
    const std::string n_bytes = std::to_string(size_in_bits(*dtype));  // of eight elements
    const std::string file =
        safetensors_bytes("{\"a\": {\"dtype\": \"" + name +
                              "\", \"shape\": [8], \"data_offsets\": [0, " + n_bytes + "]}}",
                          size_in_bits(*dtype));
    EXPECT_EQ(SafetensorsFile::parse(as_bytes(file), "w").entries()[0].dtype, *dtype);
  }
}

TEST(Safetensors, ComputesWithThreeTypes) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(compute_dtype(safetensors_dtype(dtype)), dtype);
  }
  EXPECT_EQ(compute_dtype(SafetensorsDType::kF8E4M3), std::nullopt);
}

TEST(Safetensors, RefusesAFileWithoutALength) {
  expect_bad_file("", ": has 0 bytes, too short for a safetensors file; download it again");
  expect_bad_file("1234567", ": has 7 bytes, too short for a safetensors file; download it again");
}

TEST(Safetensors, RefusesAHeaderLongerThanTheFile) {
  expect_bad_file(little_endian_64(3) + "{}",
                  ": announces a header of 3 bytes, but only 2 follow; the file is truncated, "
                  "download it again");
  expect_bad_file(
      little_endian_64(100'000'000),
      ": announces a header of 100000000 bytes, but only 0 follow; the file is truncated, "
      "download it again");
}

TEST(Safetensors, RefusesAHeaderLongerThanTheFormatAllows) {
  const std::string rest =
      " bytes, more than the 100000000 that the format allows; this is not a safetensors file";
  expect_bad_file(little_endian_64(100'000'001) + "{}", ": announces a header of 100000001" + rest);
  expect_bad_file(little_endian_64(std::uint64_t{1} << 63) + "{}",
                  ": announces a header of 9223372036854775808" + rest);
  expect_bad_file(little_endian_64(~std::uint64_t{0}) + "{}",
                  ": announces a header of 18446744073709551615" + rest);
}

TEST(Safetensors, RefusesAGitLfsPointer) {
  expect_bad_file("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 8\n",
                  ": is a Git LFS pointer, not the weights; run `git lfs pull` in its folder");
}

TEST(Safetensors, RefusesAHeaderThatIsNotAnObject) {
  const std::string sentence =
      ": its header does not start with '{'; this is not a safetensors file";
  expect_bad("", 0, sentence);
  expect_bad("[]", 0, sentence);
  expect_bad(" {}", 0, sentence);
}

TEST(Safetensors, RefusesAHeaderThatIsNotJson) {
  expect_bad("{\"a\" 1}", 0,
             " (header): line 1, column 6: this is not valid JSON; correct it or download the file "
             "again");
  expect_bad("{\"a\": ", 0,
             " (header): line 1, column 7: the JSON text ends too early; download the file again");
  expect_bad("{} x", 0,
             " (header): line 1, column 4: this is not valid JSON; correct it or download the file "
             "again");
}

TEST(Safetensors, RefusesANameTwice) {
  expect_bad(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                 "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
             2, " (header): the key \"a\" stands twice in the same object; remove one of them");
}

TEST(Safetensors, RefusesMetadataThatIsNotStrings) {
  expect_bad(R"({"__metadata__": []})", 0, ": \"__metadata__\" must be an object of strings");
  expect_bad(R"({"__metadata__": {"a": "x", "b": 1}})", 0,
             ": \"__metadata__\" must be an object of strings, but \"b\" is not a string");
}

TEST(Safetensors, RefusesAnEntryWithoutItsFields) {
  expect_bad(R"({"a": 1})", 0, ": the entry of tensor \"a\" must be an object");
  expect_bad(R"({"a": {"shape": [1], "data_offsets": [0, 1]}})", 1,
             ": tensor \"a\" has no \"dtype\"");
  expect_bad(R"({"a": {"dtype": "U8", "data_offsets": [0, 1]}})", 1,
             ": tensor \"a\" has no \"shape\"");
  expect_bad(R"({"a": {"dtype": "U8", "shape": [1]}})", 1,
             ": tensor \"a\" has no \"data_offsets\"");
}

TEST(Safetensors, RefusesATypeThatTheFormatDoesNotKnow) {
  expect_bad(R"({"a": {"dtype": 7, "shape": [1], "data_offsets": [0, 1]}})", 1,
             ": the dtype of tensor \"a\" must be a string");
  expect_bad(R"({"a": {"dtype": "F7", "shape": [1], "data_offsets": [0, 1]}})", 1,
             ": tensor \"a\" has the dtype \"F7\", which the format does not know");
}

TEST(Safetensors, RefusesAShapeThatIsNotSizes) {
  const auto expect_bad_shape = [](const std::string& shape, const std::string& sentence) {
    expect_bad("{\"a\": {\"dtype\": \"U8\", \"shape\": " + shape + ", \"data_offsets\": [0, 1]}}",
               1, ": the shape of tensor \"a\" " + sentence);
  };
  expect_bad_shape("1", "must be an array");
  expect_bad_shape("[-1]", "must hold integers from 0 up, not -1");
  expect_bad_shape("[1.5]", "must hold integers from 0 up, not 1.5");
  expect_bad_shape("[1.0]", "must hold integers from 0 up, not 1.0");
  expect_bad_shape("[\"1\"]", "must hold integers from 0 up, not \"1\"");
  expect_bad_shape("[[1]]", "must hold integers from 0 up, not an array or object");
  expect_bad_shape("[9223372036854775808]", "holds 9223372036854775808, which is too large");
}

TEST(Safetensors, RefusesAShapeThatOverflows) {
  expect_bad(
      R"({"a": {"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 1]}})", 1,
      ": the size of tensor \"a\" with shape [4294967296, 4294967296] does not fit in 63 bits");
  // 2^62 * 4 wraps to 0 in 64 bits, which would match no data at all.
  expect_bad(
      R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})", 0,
      ": the size of tensor \"a\" with shape [4611686018427387904, 4] does not fit in 63 bits");
  expect_bad(
      R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 0], "data_offsets": [0, 0]}})", 0,
      ": the size of tensor \"a\" with shape [4294967296, 4294967296, 0] does not fit in 63 bits");
}

TEST(Safetensors, RefusesPartOfAByte) {
  expect_bad(
      R"({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}})", 2,
      ": tensor \"a\" of shape [3] and dtype F4 takes 12 bits, which is not a whole number of "
      "bytes");
}

TEST(Safetensors, RefusesOffsetsThatAreNotTwoIntegers) {
  for (const std::string offsets : {"1", "[0]", "[0, 1, 2]", "[0, \"1\"]", "[-1, 1]", "[0.0, 1]",
                                    "[0, 18446744073709551616]", "{}"}) {
    expect_bad("{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": " + offsets + "}}", 1,
               ": the data_offsets of tensor \"a\" must be two integers from 0 up");
  }
}

TEST(Safetensors, RefusesReversedOffsets) {
  expect_bad(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}})", 1,
             ": the data_offsets of tensor \"a\" are reversed: [1, 0]");
}

TEST(Safetensors, RefusesASizeThatIsNotShapeTimesType) {
  expect_bad(
      R"({"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 10]}})", 10,
      ": tensor \"a\" of shape [2, 3] and dtype BF16 takes 12 bytes, but its data_offsets span "
      "10");
}

TEST(Safetensors, RefusesDataBeyondTheEnd) {
  expect_bad(
      R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 7,
      ": tensor \"a\" ends at byte 8 of the data, but the file holds only 7; it is truncated, "
      "download it again");
  expect_bad(
      R"({"a": {"dtype": "U8", "shape": [1],
                "data_offsets": [18446744073709551614, 18446744073709551615]}})",
      7,
      ": tensor \"a\" ends at byte 18446744073709551615 of the data, but the file holds only 7; it "
      "is "
      "truncated, download it again");
}

TEST(Safetensors, RefusesOverlappingTensors) {
  expect_bad(
      R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                 "b": {"dtype": "U8", "shape": [4], "data_offsets": [3, 7]}})",
      7, ": tensor \"b\" starts at byte 3 of the data, inside tensor \"a\", which ends at byte 4");
  expect_bad(
      R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                 "b": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})",
      4, ": tensor \"b\" starts at byte 0 of the data, inside tensor \"a\", which ends at byte 4");
}

TEST(Safetensors, RefusesHoles) {
  expect_bad(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                 "b": {"dtype": "U8", "shape": [2], "data_offsets": [5, 7]}})",
             7, ": bytes 2 to 5 of the data, before tensor \"b\", belong to no tensor");
  expect_bad(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})", 3,
             ": bytes 0 to 1 of the data, before tensor \"a\", belong to no tensor");
}

TEST(Safetensors, RefusesBytesAfterTheLastTensor) {
  expect_bad(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})", 5,
             ": 3 bytes follow the last tensor and belong to none");
  expect_bad("{}", 1, ": 1 bytes follow the last tensor and belong to none");
}

TEST(Safetensors, KeepsMessagesOnOneLine) {
  expect_bad(R"({"a\nb\u001b": 1})", 0, ": the entry of tensor \"a\\nb\\x1b\" must be an object");
}

TEST(SafetensorsFile, NamesTheFileThatItOpened) {
  const TemporaryFolder folder;
  EXPECT_ERROR(
      SafetensorsFile::open(folder.write("a.safetensors", "abc")), ErrorCode::kBadSafetensors,
      folder.name() +
          "/a.safetensors: has 3 bytes, too short for a safetensors file; download it again");
  EXPECT_ERROR(SafetensorsFile::open(folder / "b.safetensors"), ErrorCode::kFileNotFound,
               folder.name() + "/b.safetensors: no such file; check the path");
}

TEST(SafetensorsFile, ReadsBeyondFourGigabytes) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"big": {"dtype": "U8", "shape": [5, 1073741824], "data_offsets": [0, 5368709120]},
          "last": {"dtype": "U8", "shape": [4], "data_offsets": [5368709120, 5368709124]}})";
  const auto path = folder.write("a.safetensors", safetensors_bytes(header, 0));
  // A sparse file: five gigabytes of nothing, then four bytes.
  const int fd = ::open(path.c_str(), O_WRONLY);
  const off_t end = static_cast<off_t>(8 + header.size()) + 5368709120;
  const bool written = ::ftruncate(fd, end) == 0 && ::pwrite(fd, "tail", 4, end) == 4;
  ::close(fd);
  if (!written) GTEST_SKIP() << "this file system holds no file of five gigabytes";

  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto last = file.bytes(*file.find("last"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(last.data()), last.size()), "tail");
  EXPECT_EQ(file.find("big")->n_bytes, 5368709120u);
  EXPECT_EQ(file.bytes(*file.find("big")).back(), std::byte{0});
  file.release(*file.find("big"), 0, (*file.find("big")).n_bytes);

  ASSERT_EQ(::truncate(path.c_str(), end + 3), 0);
  EXPECT_ERROR(SafetensorsFile::open(path), ErrorCode::kBadSafetensors,
               path.string() +
                   ": tensor \"last\" ends at byte 5368709124 of the data, but the file holds only "
                   "5368709123; it is truncated, download it again");
}

TEST(SafetensorsFile, MovesWithItsEntries) {
  const TemporaryFolder folder;
  SafetensorsFile a = SafetensorsFile::open(folder.write(
      "a",
      safetensors_bytes(R"({"x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", 1)));
  const SafetensorsEntry* x = a.find("x");
  const SafetensorsFile b = std::move(a);
  EXPECT_EQ(b.find("x"), x);
  EXPECT_EQ(b.bytes(*x)[0], std::byte{0});
}

TEST(ShapeToString, CutsLongShapes) {
  EXPECT_EQ(shape_to_string({}), "[]");
  EXPECT_EQ(shape_to_string(std::vector<std::int64_t>{2, 3}), "[2, 3]");
  EXPECT_EQ(shape_to_string(std::vector<std::int64_t>(9, 1)), "[1, 1, 1, 1, 1, 1, 1, 1, ...]");
}

}  // namespace
}  // namespace tessera
