#include "io/text_file.h"

#include <span>
#include <system_error>

#include "base/fail.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"

namespace tessera {

bool file_exists(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return false;
  if (status.type() == std::filesystem::file_type::none) {
    fail(ErrorCode::kIo, "{}: cannot be read ({}); check the path and its permissions",
         path.string(), error.message());
  }
  return true;
}

std::string read_text_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void require_writable(const std::filesystem::path& path) {
  AtomicFile::require_writable(path);
}

}  // namespace tessera
