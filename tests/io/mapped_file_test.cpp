#include "io/mapped_file.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/io/expect_error.h"
#include "tests/io/ordinary_user.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, HoldsTheWholeFile) {
  const TemporaryFolder folder;
  const MappedFile file(folder.write("a", "hello"));
  EXPECT_EQ(text_of(file), "hello");
  EXPECT_EQ(file.name(), (folder / "a").string());
}

TEST(MappedFile, OfAnEmptyFileIsEmpty) {
  const TemporaryFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("a", "")).bytes().empty());
}

TEST(MappedFile, MovesWithItsBytes) {
  const TemporaryFolder folder;
  MappedFile a(folder.write("a", "first"));
  MappedFile b(folder.write("b", "second"));
  a = std::move(b);
  EXPECT_EQ(text_of(a), "second");
  const MappedFile c(std::move(a));
  EXPECT_EQ(text_of(c), "second");
}

TEST(MappedFile, StaysReadableAfterRelease) {
  const TemporaryFolder folder;
  const std::string content(100'000, 'x');
  const MappedFile file(folder.write("a", content));
  EXPECT_EQ(text_of(file), content);
  file.release(5, 50'000);
  file.release(99'999, 1'000'000);  // clamped
  file.release(1'000'000, 1);       // outside: nothing to do
  file.release(0, std::string::npos);
  EXPECT_EQ(text_of(file), content);
}

// Bytes of this process's memory that come from files.
std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:")) return std::stoul(line.substr(8)) * 1024;
  }
  return 0;
}

TEST(MappedFile, ReleaseGivesMemoryBack) {
  const TemporaryFolder folder;
  constexpr std::size_t kBytes = 32 << 20;
  const MappedFile file(folder.write("a", std::string(kBytes, 'x')));
  ASSERT_EQ(text_of(file).size(), kBytes);
  const std::size_t before = resident_file_bytes();
  if (before < kBytes) GTEST_SKIP() << "this system does not count file pages";
  file.release(0, kBytes);
  EXPECT_LE(resident_file_bytes() + kBytes / 2, before);
}

TEST(MappedFile, NamesAMissingFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MappedFile(folder / "a"), ErrorCode::kFileNotFound,
               folder.name() + "/a: no such file; check the path");
}

TEST(MappedFile, NamesAMissingFolder) {
  const TemporaryFolder folder;
  folder.write("a", "");
  EXPECT_ERROR(MappedFile(folder / "a/b"), ErrorCode::kFileNotFound,
               folder.name() + "/a/b: no such file; check the path");
}

TEST(MappedFile, RefusesADirectory) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MappedFile(folder.path()), ErrorCode::kIo,
               folder.name() + ": is a directory, but a file is needed here");
}

TEST(MappedFile, RefusesASocket) {
  const TemporaryFolder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (folder / "socket").string();
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_ERROR(MappedFile{path}, ErrorCode::kIo, path + ": is not a regular file");
  ::close(fd);
}

TEST(MappedFile, RefusesANamedPipeWithoutWaitingForIt) {
  const TemporaryFolder folder;
  const std::string path = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile{path}, ErrorCode::kIo, path + ": is not a regular file");
}

TEST(MappedFile, NamesAFileThatMayNotBeRead) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "secret").string();
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const OrdinaryUser user;
  if (!user) GTEST_SKIP() << "this user may read everything";
  EXPECT_ERROR(MappedFile{path}, ErrorCode::kIo, path + ": cannot be read (Permission denied)");
}

}  // namespace
}  // namespace tessera
