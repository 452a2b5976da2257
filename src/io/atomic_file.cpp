#include "io/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

namespace tessera {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // as many as Linux follows

[[noreturn]] void fail_write(const std::string& name) {
  if (errno == ENOSPC || errno == EDQUOT) {
    fail(ErrorCode::kIo, "{}: cannot be written, the disk is full; free space and try again", name);
  }
  fail(ErrorCode::kIo, "{}: cannot be written ({}); check the folder and the free space", name,
       std::strerror(errno));
}

// N where the path is /proc/self/fd/N of this process, by whatever links.
std::optional<int> own_descriptor(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(path.parent_path(), error);
  if (error || folder != fmt::format("/proc/{}/fd", ::getpid())) return std::nullopt;
  const std::string number = path.filename().string();
  int descriptor = -1;
  const auto [end, bad] = std::from_chars(number.data(), number.data() + number.size(), descriptor);
  if (bad != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return descriptor;
}

// Where the symbolic links of the path lead, whether or not something is there. The links of open
// descriptors are not followed: they name what cannot be opened a second time.
fs::path linked(fs::path path) {
  std::error_code error;
  for (int i = 0; i < kMaxLinks && !own_descriptor(path); ++i) {
    const fs::path next = fs::read_symlink(path, error);
    if (error) break;  // not a link
    path = path.parent_path() / next;
  }
  return path;
}

// What a write must not replace by a new file.
bool is_special(const std::string& target, const struct stat& status) {
  return own_descriptor(target).has_value() || !S_ISREG(status.st_mode);
}

int open_directly(const std::string& target) {
  // The descriptor itself: its offset moves along, and a socket can be opened in no other way.
  if (const auto descriptor = own_descriptor(target)) {
    return ::fcntl(*descriptor, F_DUPFD_CLOEXEC, 3);
  }
  return ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
}

// Does something stand there? Fails where it cannot be replaced.
bool look_at(const std::string& name, const std::string& target, struct stat& status) {
  if (target.empty()) fail(ErrorCode::kInvalidArgument, "the name of the file to write is empty");
  if (::stat(target.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    fail_write(name);
  }
  if (S_ISDIR(status.st_mode)) fail(ErrorCode::kIo, "{}: is a folder; name a file in it", name);
  if (!own_descriptor(target) && ::access(target.c_str(), W_OK) != 0) fail_write(name);
  return true;
}

std::string temporary_name(const fs::path& folder) {
  static std::atomic<unsigned> counter{0};
  return (folder / fmt::format(".tessera-{}-{}.tmp", ::getpid(), counter++)).string();
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path)
    : name_(path.string()), target_(linked(path).string()) {
  struct stat status = {};
  const bool exists = look_at(name_, target_, status);
  if (exists && is_special(target_, status)) {
    is_direct_ = true;
    fd_ = open_directly(target_);
    if (fd_ < 0) fail_write(name_);
    return;
  }
  open_beside();
  // The new file takes the place of the old one, and its permissions.
  if (exists) std::ignore = ::fchmod(fd_, status.st_mode & 07777);
}

void AtomicFile::open_beside() {
  // Beside the target, because rename() does not cross file systems.
  const fs::path parent = fs::path(target_).parent_path();
  const fs::path folder = parent.empty() ? fs::path(".") : parent;
#ifdef O_TMPFILE
  // Without a name, where the file system has that: a process that is killed leaves nothing behind.
  // It gets its name by way of /proc.
  if (::access("/proc/self/fd", X_OK) == 0) {
    fd_ = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (fd_ >= 0) return;
  }
#endif
  do {
    temporary_ = temporary_name(folder);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);  // left behind by a process that was killed
  if (fd_ < 0) fail_write(name_);
}

void AtomicFile::name_it() {
  const std::string self = fmt::format("/proc/self/fd/{}", fd_);
  std::string name;
  int linked = 0;
  do {
    name = temporary_name(fs::path(target_).parent_path());
    linked = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
  } while (linked != 0 && errno == EEXIST);
  if (linked != 0) fail_write(name_);
  temporary_ = name;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30;  // Linux writes less than 2 GB per call
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxPiece));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_write(name_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::rewrite_start(std::span<const std::byte> bytes) {
  for (off_t at = 0; !bytes.empty();) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), at);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_write(name_);
    }
    at += written;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (!is_direct_) {
    // Data first, name second: a crash in between leaves the old file or none, never half of a new
    // one.
    if (::fsync(fd_) != 0) fail_write(name_);
    if (temporary_.empty()) name_it();
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_write(name_);
  }
  ::close(std::exchange(fd_, -1));
}

void AtomicFile::require_writable(const fs::path& path) {
  const std::string target = linked(path).string();
  struct stat status = {};
  // A pipe is not opened: that would wait for its reader, and end what he reads.
  if (look_at(path.string(), target, status) && is_special(target, status)) return;
  const AtomicFile probe(path);
}

}  // namespace tessera
