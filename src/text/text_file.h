// Whole text files.
#pragma once

#include <filesystem>
#include <string>

namespace tessera::text {

// Throws Error(kIo), naming the file.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace tessera::text
