#include "io/atomic_file.h"

#include <csignal>
#include <iterator>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/text_file.h"
#include "tests/io/expect_error.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::size_t files_in(const TemporaryFolder& folder) {
  const fs::directory_iterator files(folder.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(AtomicFile, LeavesTheOldFileUntilCommit) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a", "old");
  {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(std::string_view("new"))));
    EXPECT_EQ(read_text_file(path), "old");
  }
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(files_in(folder), 1u);
  write_text_file(path, "new");
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, RewritesItsStart) {
  TemporaryFolder folder;
  {
    AtomicFile file(folder / "a");
    file.write(std::as_bytes(std::span(std::string_view("....5678"))));
    file.rewrite_start(std::as_bytes(std::span(std::string_view("1234"))));
    file.write(std::as_bytes(std::span(std::string_view("9"))));
    file.commit();
  }
  EXPECT_EQ(read_text_file(folder / "a"), "123456789");
  AtomicFile pipe("/dev/full");
  EXPECT_ERROR(pipe.rewrite_start(std::as_bytes(std::span(std::string_view("x")))), ErrorCode::kIo,
               "/dev/full: cannot be written, the disk is full; free space and try again");
}

TEST(AtomicFile, AKilledProcessLeavesNothing) {
  TemporaryFolder folder;
  const int probe = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(probe);
  const fs::path path = folder.write("a", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(std::string_view("half"))));
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, KeepsPermissions) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  write_text_file(path, "new");
  EXPECT_EQ(static_cast<int>(fs::status(path).permissions()), 0640);
}

TEST(AtomicFile, LinksStayLinks) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a", "old");
  fs::create_symlink("a", folder / "link");
  fs::create_symlink(folder / "b", folder / "dangling");
  write_text_file(folder / "link", "new");
  write_text_file(folder / "dangling", "made");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_EQ(read_text_file(folder / "b"), "made");
  fs::create_symlink("loop", folder / "loop");
  EXPECT_ERROR(write_text_file(folder / "loop", "x"), ErrorCode::kIo,
               folder.name() +
                   "/loop: cannot be written (Too many levels of symbolic links); check the folder "
                   "and the free space");
}

TEST(AtomicFile, WhatIsNoFileIsWrittenDirectly) {
  const TemporaryFolder folder;
  const std::string pipe = folder.name() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  require_writable(pipe);  // does not wait for a reader
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_text_file(pipe, "abc");
  char bytes[8];
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 3);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(files_in(folder), 1u);
  EXPECT_ERROR(write_text_file("/dev/full", "x"), ErrorCode::kIo,
               "/dev/full: cannot be written, the disk is full; free space and try again");
}

TEST(AtomicFile, RequireWritableThrowsOnlyErrors) {
  const TemporaryFolder folder;
  EXPECT_ERROR(require_writable(folder.path()), ErrorCode::kIo,
               folder.name() + ": is a folder; name a file in it");
  EXPECT_ERROR(require_writable(""), ErrorCode::kInvalidArgument,
               "the name of the file to write is empty");
  const std::string name(300, 'x');
  EXPECT_ERROR(require_writable(folder / name), ErrorCode::kIo,
               folder.name() + "/" + name +
                   ": cannot be written (File name too long); check the folder and the free space");
  require_writable(folder / "a");
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(FileExists, ThrowsWhereItCannotBeKnown) {
  const TemporaryFolder folder;
  EXPECT_TRUE(file_exists(folder.path()));
  EXPECT_FALSE(file_exists(folder / "a"));
  const std::string name(300, 'x');
  EXPECT_ERROR(file_exists(folder / name), ErrorCode::kIo,
               folder.name() + "/" + name +
                   ": cannot be read (File name too long); check the path and its permissions");
}

}  // namespace
}  // namespace tessera
