// Writing the GGUF container, version 3: the file format of llama.cpp and its relatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"

namespace tessera {

// Element types, by their numbers in the file.
enum class GgmlType : std::uint32_t { kF32 = 0, kQ4_0 = 2, kQ8_0 = 8, kBF16 = 30 };

// Values that are stored together, and the bytes that they take: one, or a block of 32.
std::size_t block_values(GgmlType type);
std::size_t block_bytes(GgmlType type);

// Keys and values in the order in which they are added. Integers and floats are as wide as readers
// of these keys expect: 32 bits.
class GgufMetadata {
 public:
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<std::int32_t>& values);

  std::size_t size() const { return n_entries_; }
  const std::string& bytes() const { return bytes_; }  // as in the file

 private:
  void begin(std::string_view key, std::uint32_t type);

  std::string bytes_;
  std::size_t n_entries_ = 0;
};

struct GgufTensor {
  std::string name;
  std::vector<std::int64_t>
      shape;  // slowest dimension first; the file has them the other way round
  GgmlType type;

  std::size_t bytes() const;  // the last dimension is a multiple of the type's block
};

// Writes one file, tensor after tensor. The file appears under its name, complete and on disk, at
// finish(), as AtomicFile has it. Errors: kIo as there.
class GgufWriter {
 public:
  static constexpr std::size_t kAlignment = 32;  // of the data, and of each tensor in it

  // Writes everything before the data.
  GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
             std::vector<GgufTensor> tensors);

  // The next bytes of the data, in pieces of any size: the tensors in their order, without gaps.
  // Not more than they have.
  void append(std::span<const std::byte> bytes);
  // Once, after all data.
  void finish();

  // What a file of these takes.
  static std::size_t file_bytes(const GgufMetadata& metadata,
                                const std::vector<GgufTensor>& tensors);

 private:
  void pad();

  std::optional<AtomicFile> file_;
  std::vector<GgufTensor> tensors_;
  std::size_t current_ = 0;     // the tensor whose data is next
  std::size_t bytes_left_ = 0;  // of it
  std::size_t position_ = 0;    // in the data
};

}  // namespace tessera
