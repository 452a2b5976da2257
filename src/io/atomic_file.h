// Files that appear under their name complete or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace tessera {

// Writes under a temporary name in the same folder; commit() puts the file, complete and on disk,
// under its own name. Until then, and for ever if commit() is not reached, what stood there before
// stays, and the temporary file is removed again; where the file system has files without a name,
// even a process that is killed leaves nothing behind. A symbolic link stays one: the file that it
// names is written. What exists and is not a regular file (a device, a pipe, /dev/stdout) is
// written directly and stays what it is.
//
// Throws Error(kIo) naming the path: for a folder, for what may not be written, for a full disk.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Replaces the first bytes of what was written. What is written directly may not have that: kIo.
  void rewrite_start(std::span<const std::byte> bytes);
  void commit();  // once, after all bytes

  // Throws what the constructor would, and leaves nothing behind.
  static void require_writable(const std::filesystem::path& path);

 private:
  void open_beside();  // the temporary file
  void name_it();      // where it has no name yet

  std::string name_;    // the path, as errors name it
  std::string target_;  // where the links of the path lead
  bool is_direct_ = false;
  std::string temporary_;  // the name of the temporary file, if it has one
  int fd_ = -1;
};

}  // namespace tessera
