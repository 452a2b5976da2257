// Read-only access to a whole file through the page cache.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace tessera {

// Maps a regular file. Nothing is read until the bytes are touched, and pages that were touched
// stay resident until release(). The file must keep its length while it is mapped: touching a page
// that was cut off raises SIGBUS.
class MappedFile {
 public:
  // Throws Error: kFileNotFound when nothing is there; kIo for a directory, a socket or any other
  // thing that is not a regular file, and for a file that this user may not read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : name_(std::move(other.name_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  const std::string& name() const { return name_; }            // the path, as errors name it
  std::span<const std::byte> bytes() const { return bytes_; }  // starts on a page boundary

  // Advice to the kernel on [offset, offset + length), clamped to the file.
  void prefetch(std::size_t offset, std::size_t length) const;        // read soon
  void use_huge_pages(std::size_t offset, std::size_t length) const;  // where it has such for files
  // Reads the range and enters it into this process's page table, without touching every page.
  void populate(std::size_t offset, std::size_t length) const;

  // Drops the resident pages that hold [offset, offset + length), clamped to the file. The bytes
  // stay readable: they come back from the page cache or the disk.
  void release(std::size_t offset, std::size_t length) const;

 private:
  void advise(std::size_t offset, std::size_t length, int advice) const;

  std::string name_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera
