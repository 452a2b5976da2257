#include "io/safetensors_writer.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "tests/io/expect_error.h"
#include "tests/io/ordinary_user.h"
#include "tests/io/safetensors_bytes.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t files_in(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(WriteSafetensors, ReadsBackTheSame) {
  const TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  write_safetensors(path,
                    {{"odd", SafetensorsDType::kU8, {3}, as_bytes("abc")},
                     {"权重 \"q\"\n", SafetensorsDType::kBF16, {2, 2}, as_bytes("12345678")},
                     {"empty", SafetensorsDType::kF32, {0, 7}, {}},
                     {"scalar", SafetensorsDType::kF32, {}, as_bytes("wxyz")}},
                    {{"format", "pt"}, {"note", "é"}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.metadata().at("note"), "é");
  EXPECT_EQ(text_of(file.bytes(*file.find("odd"))), "abc");
  EXPECT_EQ(text_of(file.bytes(*file.find("权重 \"q\"\n"))), "12345678");
  EXPECT_EQ(file.find("empty")->shape, (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(text_of(file.bytes(*file.find("scalar"))), "wxyz");
  EXPECT_EQ(file.find("odd")->offset % 8, 0u) << "the data starts at a multiple of 8";
}

TEST(WriteSafetensors, WritesTheBytesThatTheFormatWants) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  write_safetensors(path, {{"x", SafetensorsDType::kI16, {1}, as_bytes("ab")}});
  EXPECT_EQ(content_of(path),
            std::string("\x38\0\0\0\0\0\0\0", 8) +
                "{\"x\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[0,2]}}  ab");
}

TEST(SafetensorsWriter, TakesTheDataInPieces) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "a",
                           {{"x", SafetensorsDType::kU8, {2}}, {"y", SafetensorsDType::kU8, {3}}});
  writer.append(as_bytes("1"));
  writer.append(as_bytes("234"));
  writer.append({});
  writer.append(as_bytes("5"));
  writer.finish();
  const SafetensorsFile file = SafetensorsFile::open(folder / "a");
  EXPECT_EQ(text_of(file.bytes(*file.find("y"))), "345");
}

TEST(SafetensorsWriter, KeepsTheOldFileUntilTheNewOneIsComplete) {
  const TemporaryFolder folder;
  const auto path = folder.write("a", "old");
  {
    SafetensorsWriter writer(path, {{"x", SafetensorsDType::kU8, {2}}});
    writer.append(as_bytes("1"));
    EXPECT_EQ(content_of(path), "old");
    EXPECT_ERROR(writer.finish(), ErrorCode::kInvalidArgument,
                 path.string() + ": 1 bytes of data are missing");
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder), 1u) << "the temporary file is gone";
  write_safetensors(path, {});
  EXPECT_TRUE(SafetensorsFile::open(path).entries().empty());
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(SafetensorsWriter, RefusesMoreDataThanAnnounced) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "a", {{"x", SafetensorsDType::kU8, {2}}});
  EXPECT_ERROR(writer.append(as_bytes("123")), ErrorCode::kInvalidArgument,
               folder.name() + "/a: 3 bytes of data were given where 2 are left to write");
}

TEST(WriteSafetensors, RefusesDataThatDoesNotMatchTheShape) {
  const TemporaryFolder folder;
  EXPECT_ERROR(
      write_safetensors(folder / "a", {{"x", SafetensorsDType::kF32, {2}, as_bytes("1234")}}),
      ErrorCode::kInvalidArgument,
      folder.name() + "/a: tensor \"x\" of shape [2] and dtype F32 takes 8 bytes, not 4");
  EXPECT_ERROR(write_safetensors(folder / "a", {{"x", SafetensorsDType::kF32, {-1}, {}}}),
               ErrorCode::kInvalidArgument,
               folder.name() + "/a: tensor \"x\" cannot have the shape [-1] with dtype F32");
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(SafetensorsWriter, RefusesNamesThatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& first, const std::string& second) {
    write_safetensors(folder / "a", {{first, SafetensorsDType::kU8, {0}, {}},
                                     {second, SafetensorsDType::kU8, {0}, {}}});
  };
  EXPECT_ERROR(write("x", "x"), ErrorCode::kInvalidArgument,
               folder.name() + "/a: the tensor name \"x\" is used twice or reserved");
  EXPECT_ERROR(write("x", "__metadata__"), ErrorCode::kInvalidArgument,
               folder.name() + "/a: the tensor name \"__metadata__\" is used twice or reserved");
  EXPECT_ERROR(write("x", "\xff"), ErrorCode::kInvalidArgument,
               folder.name() + "/a: a tensor name or a metadata string is not UTF-8");
}

TEST(WriteSafetensors, NamesAPathThatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_ERROR(write_safetensors(folder / "no/a", {}), ErrorCode::kIo,
               folder.name() +
                   "/no/a: cannot be written (No such file or directory); check the folder and "
                   "the free space");
  std::filesystem::create_directory(folder / "d");
  EXPECT_ERROR(write_safetensors(folder / "d", {}), ErrorCode::kIo,
               folder.name() + "/d: is a folder; name a file in it");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(WriteSafetensors, NamesAFolderThatMayNotBeWritten) {
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  const OrdinaryUser user;
  if (!user) GTEST_SKIP() << "this user may write everywhere";
  EXPECT_ERROR(write_safetensors(folder / "a", {}), ErrorCode::kIo,
               folder.name() +
                   "/a: cannot be written (Permission denied); check the folder and the free "
                   "space");
}

// What write_safetensors() says about 64 KB in a child process whose room `limit` cuts; empty where
// limit cannot.
template <typename Limit>
std::string sentence_in_child(const std::filesystem::path& path, Limit limit) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return "";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string sentence;
    if (limit()) {
      const std::string data(65536, 'x');
      try {
        write_safetensors(path, {{"x", SafetensorsDType::kU8, {65536}, as_bytes(data)}});
        sentence = "nothing was thrown";
      } catch (const Error& error) {
        sentence = error.what();
      }
    }
    const bool sent = ::write(pipe_ends[1], sentence.data(), sentence.size()) >= 0;
    ::_exit(sent ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  std::string sentence(4096, '\0');
  const ssize_t length = ::read(pipe_ends[0], sentence.data(), sentence.size());
  ::close(pipe_ends[0]);
  ::waitpid(child, nullptr, 0);
  sentence.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return sentence;
}

TEST(WriteSafetensors, NamesAFullDisk) {
  const TemporaryFolder folder;
  const std::string sentence = sentence_in_child(folder / "a", [&] {
    // A file system of two pages, seen by the child alone.
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=8k") == 0;
  });
  if (sentence.empty()) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(sentence,
            folder.name() + "/a: cannot be written, the disk is full; free space and try again");
}

TEST(WriteSafetensors, NamesAFileSizeLimitAndCleansUp) {
  const TemporaryFolder folder;
  const std::string sentence = sentence_in_child(folder / "a", [] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
  });
  EXPECT_EQ(sentence,
            folder.name() +
                "/a: cannot be written (File too large); check the folder and the free space");
  EXPECT_EQ(files_in(folder), 0u);
}

}  // namespace
}  // namespace tessera
