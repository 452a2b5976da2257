#include "io/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

namespace tessera {

namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_open(const std::string& name) {
  if (errno == ENOENT || errno == ENOTDIR) {
    fail(ErrorCode::kFileNotFound, "{}: no such file; check the path", name);
  }
  fail(ErrorCode::kIo, "{}: cannot be read ({})", name, std::strerror(errno));
}

void check_is_file(const std::string& name, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) {
    fail(ErrorCode::kIo, "{}: is a directory, but a file is needed here", name);
  }
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::kIo, "{}: is not a regular file", name);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : name_(path.string()) {
  struct stat status;
  // Looked at before it is opened: opening a named pipe would wait for its writer.
  if (::stat(path.c_str(), &status) != 0) fail_open(name_);
  check_is_file(name_, status);
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0) fail_open(name_);
  check_is_file(name_, status);

  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // an empty mapping is an error of its own; an empty span is right
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) {
    fail(ErrorCode::kIo, "{}: cannot be mapped into memory ({})", name_, std::strerror(errno));
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

// Advice: where the kernel refuses it, the pages stay as they are and nothing breaks.
void MappedFile::advise(std::size_t offset, std::size_t length, int advice) const {
  if (offset >= bytes_.size()) return;
  length = std::min(length, bytes_.size() - offset);
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset / page * page;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, offset + length - begin, advice);
}

void MappedFile::prefetch(std::size_t offset, std::size_t length) const {
  advise(offset, length, MADV_WILLNEED);
}

void MappedFile::use_huge_pages(std::size_t offset, std::size_t length) const {
  advise(offset, length, MADV_HUGEPAGE);
}

void MappedFile::populate(std::size_t offset, std::size_t length) const {
#ifdef MADV_POPULATE_READ
  advise(offset, length, MADV_POPULATE_READ);
#else
  advise(offset, length, MADV_WILLNEED);
#endif
}

void MappedFile::release(std::size_t offset, std::size_t length) const {
  advise(offset, length, MADV_DONTNEED);
}

}  // namespace tessera
