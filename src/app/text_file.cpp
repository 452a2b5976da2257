#include "app/text_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/fail.h"
#include "io/mapped_file.h"

namespace tessera::app {

namespace {

// The complete text under a temporary name in the same folder.
std::filesystem::path write_beside(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = path.string() + ".part";
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    fail(ErrorCode::kIo, "{}: cannot be written ({}); check the folder and the free space",
         path.string(), std::strerror(errno));
  }
  return temporary;
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = write_beside(path, text);
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) fail(ErrorCode::kIo, "{}: cannot be written ({})", path.string(), error.message());
}

void require_writable(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    fail(ErrorCode::kIo, "{}: is a folder; name a file in it", path.string());
  }
  std::filesystem::remove(write_beside(path, ""));
}

std::string read_sentences(const std::filesystem::path& path) {
  std::istringstream lines(read_text_file(path));
  std::string sentences;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (!sentences.empty()) sentences += '\n';
    sentences += line;
  }
  if (sentences.empty()) {
    fail(ErrorCode::kInvalidArgument, "{}: has no text; give a file with at least one sentence",
         path.string());
  }
  return sentences;
}

}  // namespace tessera::app
