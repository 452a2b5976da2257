// Compiled kernels as bytes: what the compiler hands over and the cache keeps.
//
// An image is machine code and its constants in one block that runs wherever it is mapped on a page
// boundary: the compiler has resolved every reference inside it, and there are none to the outside.
// Loading is therefore a copy, with nothing to link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::tile {

struct CodeImage {
  struct Entry {
    std::string name;
    std::uint64_t offset = 0;  // into code
  };
  // What it was compiled from, and by what: for people who look at the cache.
  struct Origin {
    std::string kernel;
    std::string shape_class;
    std::string cpu;       // as requested: empty for the machine at hand
    std::string compiler;  // compiler_identity()
  };

  Origin origin;
  std::vector<Entry> entries;
  // A sentence if the machine that compiled it cannot run it (code for another CPU), else empty.
  std::string cannot_run;
  std::vector<std::byte> code;

  std::vector<std::byte> serialize() const;
  // Throws Error(kCompiler) if the bytes are no image.
  static CodeImage parse(std::span<const std::byte> bytes);
};

}  // namespace tessera::tile
