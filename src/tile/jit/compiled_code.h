// Machine code that can be called.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "tile/jit/code_image.h"

namespace tessera::tile {

// Owns the executable mapping of an image; its functions are valid while it lives. The memory is
// written once and then made read-only and executable: never both.
class CompiledCode {
 public:
  // Throws Error(kUnsupported) if the image is for a CPU that this machine is not,
  // Error(kOutOfMemory) if executable memory is refused.
  explicit CompiledCode(const CodeImage& image);
  ~CompiledCode();
  CompiledCode(const CompiledCode&) = delete;
  CompiledCode& operator=(const CompiledCode&) = delete;

  // A named entry point: code.function<void(const float*, float*)>("kernel"). Throws
  // Error(kCompiler) if there is none of that name.
  template <typename Signature>
  Signature* function(std::string_view name) const {
    return reinterpret_cast<Signature*>(address(name));
  }
  void* address(std::string_view name) const;

  std::size_t size() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::map<std::string, void*, std::less<>> entries_;
};

}  // namespace tessera::tile
