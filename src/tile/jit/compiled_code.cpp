#include "tile/jit/compiled_code.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"

namespace tessera::tile {

CompiledCode::CompiledCode(const CodeImage& image) {
  if (!image.cannot_run.empty()) throw Error(ErrorCode::kUnsupported, image.cannot_run);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes_ = (image.code.size() + page) / page * page;
  memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) {
    fail(ErrorCode::kOutOfMemory, "cannot map {} bytes for compiled code ({})", bytes_,
         std::strerror(errno));
  }
  std::memcpy(memory_, image.code.data(), image.code.size());
  if (::mprotect(memory_, bytes_, PROT_READ | PROT_EXEC) != 0) {
    const int reason = errno;
    ::munmap(memory_, bytes_);
    fail(ErrorCode::kUnsupported,
         "this system refuses executable memory ({}); run with --baseline, which needs none",
         std::strerror(reason));
  }
  auto* begin = static_cast<char*>(memory_);
  __builtin___clear_cache(begin, begin + image.code.size());
  for (const CodeImage::Entry& entry : image.entries) {
    entries_[entry.name] = begin + entry.offset;
  }
}

CompiledCode::~CompiledCode() {
  ::munmap(memory_, bytes_);
}

void* CompiledCode::address(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    fail(ErrorCode::kCompiler, "the compiled code has no function named {}", name);
  }
  return found->second;
}

}  // namespace tessera::tile
