// Reading the safetensors container.
//
// A file is: the header's length (8 bytes, little-endian), the header (JSON, perhaps padded with
// spaces), the data. The header maps each tensor's name to {dtype, shape, data_offsets: [begin,
// end]}, offsets counted from the start of the data. Tensors are row-major, lie in any order, and
// cover the data without overlap, gap or rest. "__metadata__" maps strings to strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/mapped_file.h"
#include "io/safetensors_dtype.h"

namespace tessera {

struct SafetensorsEntry {
  std::string name;
  SafetensorsDType dtype;
  std::vector<std::int64_t> shape;  // empty for a scalar; the element count fits in 63 bits
  std::size_t offset;               // of the first byte, from the start of the file
  std::size_t n_bytes;
};

// The shape as errors write it, "[2, 3]", cut after eight dimensions.
std::string shape_to_string(std::span<const std::int64_t> shape);

// A file whose header was checked in full: every entry's bytes lie inside it. Nothing but the
// header has been read.
class SafetensorsFile {
 public:
  static constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the limit that the format sets

  // Throws what MappedFile throws, and Error(kBadSafetensors) naming the file, the tensor and the
  // numbers.
  static SafetensorsFile open(const std::filesystem::path& path);

  // The same for bytes in memory, which must outlive the result. name is what errors call them.
  static SafetensorsFile parse(std::span<const std::byte> file, std::string name);

  const std::string& name() const { return name_; }
  const std::vector<SafetensorsEntry>& entries() const {
    return entries_;
  }  // as they lie in the file
  const SafetensorsEntry* find(std::string_view name) const;  // nullptr: not there
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The entry's content. The format does not align it: it may start at an odd address.
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const {
    return file_.subspan(entry.offset, entry.n_bytes);
  }

  // Starts reading the entry's bytes from the disk (MappedFile::prefetch).
  void prefetch(const SafetensorsEntry& entry) const;
  // Drops the pages of n of the entry's bytes from memory once they have been read
  // (MappedFile::release).
  void release(const SafetensorsEntry& entry, std::size_t first, std::size_t n) const;

 private:
  SafetensorsFile(std::span<const std::byte> file, std::string name);

  std::optional<MappedFile> mapping_;  // none for parse()
  std::span<const std::byte> file_;
  std::string name_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> by_name_;  // index into entries_
  std::map<std::string, std::string> metadata_;
};

}  // namespace tessera
