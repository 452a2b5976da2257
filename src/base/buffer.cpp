#include "base/buffer.h"

#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include "base/fail.h"

namespace tessera {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

bool is_mapped(std::size_t bytes) {
  return bytes >= kHugePage;
}

std::byte* map_huge(std::size_t bytes) {
  // Over-allocate by one huge page, then give back what lies outside the aligned block.
  const std::size_t length = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* raw = ::mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<std::size_t>(begin);
  auto* aligned = begin + ((kHugePage - address % kHugePage) % kHugePage);
  if (aligned != begin) ::munmap(begin, aligned - begin);
  if (aligned != begin + kHugePage) ::munmap(aligned + length, begin + kHugePage - aligned);
  ::madvise(aligned, length, MADV_HUGEPAGE);  // advice: without it the block still works
  return aligned;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (is_mapped(bytes)) {
    data_ = map_huge(bytes);
  } else {
    data_ =
        static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kAlignment}, std::nothrow));
  }
  if (data_ == nullptr) {
    fail(ErrorCode::kOutOfMemory,
         "cannot allocate {:.1f} MB; free memory or use a smaller --context", bytes / 1e6);
  }
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (is_mapped(bytes_)) {
    ::munmap(data_, (bytes_ + kHugePage - 1) / kHugePage * kHugePage);
  } else {
    ::operator delete(data_, std::align_val_t{kAlignment});
  }
}

}  // namespace tessera
