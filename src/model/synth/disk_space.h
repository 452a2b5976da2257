// Is there room for what is about to be written?
#pragma once

#include <cstddef>
#include <filesystem>

namespace tessera {

// Throws Error(kIo) where the disk of the path, of which parts need not exist yet, has less than 5
// % more than so many bytes free.
void require_disk(const std::filesystem::path& path, std::size_t bytes);

}  // namespace tessera
