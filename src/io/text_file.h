// Whole text files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

// Is something there? Throws Error(kIo) where that cannot be found out (permissions, a name that is
// too long).
bool file_exists(const std::filesystem::path& path);

// What MappedFile takes: a regular file. Throws Error(kFileNotFound, kIo).
std::string read_text_file(const std::filesystem::path& path);

// As AtomicFile writes: complete or not at all.
void write_text_file(const std::filesystem::path& path, std::string_view text);

// Throws what write_text_file() would: called before long work whose result goes there.
void require_writable(const std::filesystem::path& path);

}  // namespace tessera
