// Writing the safetensors container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/safetensors_dtype.h"

namespace tessera {

struct SafetensorsLayout {
  std::string name;
  SafetensorsDType dtype;
  std::vector<std::int64_t> shape;
};

// Writes one file, tensor after tensor, without holding more than the caller does. The file appears
// under its name, complete and on disk, at finish(), as AtomicFile has it.
//
// Errors: kInvalidArgument for names that repeat, are not UTF-8 or are "__metadata__", for negative
// sizes, and for bytes that do not match the layout; kIo when the folder cannot be written or the
// disk is full.
class SafetensorsWriter {
 public:
  using Metadata = std::map<std::string, std::string>;

  // Writes the header. The data of the tensors follows it in the order of layout.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsLayout> layout,
                    const Metadata& metadata = {});

  // The next bytes of the data, in pieces of any size.
  void append(std::span<const std::byte> bytes);
  // Once, after all data. The writer is of no use afterwards.
  void finish();

 private:
  std::string name_;  // the path, as errors name it
  std::optional<AtomicFile> file_;
  std::size_t bytes_left_ = 0;
};

struct SafetensorsTensor {
  std::string name;
  SafetensorsDType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// All of it at once, with the writer's errors.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<SafetensorsTensor>& tensors,
                       const SafetensorsWriter::Metadata& metadata = {});

}  // namespace tessera
