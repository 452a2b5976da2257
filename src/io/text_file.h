// Whole text files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

// Throw Error(kFileNotFound, kIo).
std::string read_text_file(const std::filesystem::path& path);
void write_text_file(const std::filesystem::path& path, std::string_view text);

// Throws what write_text_file() would: called before long work whose result goes there.
void require_writable(const std::filesystem::path& path);

}  // namespace tessera
