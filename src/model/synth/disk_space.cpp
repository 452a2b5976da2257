#include "model/synth/disk_space.h"

#include <cerrno>
#include <cstring>

#include <sys/statvfs.h>

#include "base/fail.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr double kDiskReserve = 1.05;

// Free bytes of the disk that the path is on, or will be on.
double free_disk_bytes(const fs::path& path) {
  std::error_code error;
  fs::path existing = fs::absolute(path, error);
  if (error) fail(ErrorCode::kIo, "{}: cannot be read ({})", path.string(), error.message());
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  struct statvfs disk = {};
  if (::statvfs(existing.c_str(), &disk) != 0) {
    fail(ErrorCode::kIo, "{}: cannot be read ({})", existing.string(), std::strerror(errno));
  }
  return static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
}

}  // namespace

void require_disk(const fs::path& path, std::size_t bytes) {
  const double needed = static_cast<double>(bytes) * kDiskReserve;
  const double available = free_disk_bytes(path);
  if (needed > available) {
    fail(ErrorCode::kIo,
         "{}: the model needs {:.1f} GB of disk, 5 % of reserve included, but {:.1f} GB are free; "
         "free space or write fewer layers",
         path.string(), needed / 1e9, available / 1e9);
  }
}

}  // namespace tessera
