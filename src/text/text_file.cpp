#include "text/text_file.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "base/fail.h"

namespace tessera::text {

std::string read_text_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  // An empty file leaves the failbit on content, not on file.
  if (file) content << file.rdbuf();
  if (!file) fail(ErrorCode::kIo, "{}: cannot be read", path.string());
  return std::move(content).str();
}

}  // namespace tessera::text
