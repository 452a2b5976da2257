// Small text files that commands read and write.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tessera::app {

// Throw Error(kFileNotFound, kIo).
std::string read_text_file(const std::filesystem::path& path);
void write_text_file(const std::filesystem::path& path, std::string_view text);

// Throws what write_text_file() would: called before long work whose result goes there.
void require_writable(const std::filesystem::path& path);

// The non-empty lines of a file, joined by newlines. Throws Error(kInvalidArgument) if there is none.
std::string read_sentences(const std::filesystem::path& path);

}  // namespace tessera::app
