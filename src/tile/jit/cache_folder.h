// The files of the compile cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tile/jit/hash.h"

namespace tessera::tile {

// Creates the folder if it is missing. Returns a sentence if it must not be used: it cannot be
// created, or someone else could put code into it.
std::string prepare_cache_folder(const std::filesystem::path& folder);

std::filesystem::path entry_path(const std::filesystem::path& folder, const Hash128& key);

struct EntryRead {
  std::optional<std::vector<std::byte>> payload;
  std::string damage;  // a sentence, if there is a file but it cannot be used
};

// Reads an entry and marks it as used now.
EntryRead read_entry(const std::filesystem::path& folder, const Hash128& key);

// Writes beside, then renames. Returns a sentence if it fails.
std::string write_entry(const std::filesystem::path& folder, const Hash128& key,
                        std::span<const std::byte> payload);

// Removes the entries used longest ago until max_bytes are left, and what broken-off writes left
// behind.
void evict_entries(const std::filesystem::path& folder, std::uintmax_t max_bytes);

struct CacheEntry {
  std::filesystem::path path;
  std::uintmax_t bytes = 0;
  std::filesystem::file_time_type used;
  EntryRead content;
};
// All entries, those used last first; looking at them does not count as use.
std::vector<CacheEntry> read_entries(const std::filesystem::path& folder);

struct CacheUse {
  std::size_t n_entries = 0;
  std::uintmax_t bytes = 0;
};
CacheUse cache_use(const std::filesystem::path& folder);
void clear_cache(const std::filesystem::path& folder);

}  // namespace tessera::tile
