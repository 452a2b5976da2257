// Packed models kept between runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace tessera {

// One file per model and format, named after a key. Files appear complete or not at all, and
// several processes may use one folder: one at a time writes, the others run without keeping what
// they packed. Mapped files that are removed stay usable to those who have them.
class PackCache {
 public:
  // Creates the folder where it is missing. Throws Error(kIo) with a sentence where it must not be
  // used.
  PackCache(std::filesystem::path folder, std::uintmax_t max_bytes);

  std::filesystem::path path_of(std::string_view key) const;
  // Marks a file as used now: those unused for longest go first.
  static void touch(const std::filesystem::path& path);

  // The right to write one file; given up when it ends.
  class Reservation {
   public:
    explicit Reservation(int lock) : lock_(lock) {}
    ~Reservation();
    Reservation(Reservation&& other) noexcept : lock_(std::exchange(other.lock_, -1)) {}
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(lock_, other.lock_);
      return *this;
    }

   private:
    int lock_;
  };
  // Makes room for a new file of that many bytes, where that leaves the cache below its limit and a
  // tenth of the disk free, or 4 GiB where that is less. Nothing: no room, or another process is
  // writing.
  std::optional<Reservation> reserve(std::uintmax_t bytes) const;

 private:
  bool make_room(std::uintmax_t bytes) const;

  std::filesystem::path folder_;
  std::uintmax_t max_bytes_;
};

// $TESSERA_CACHE_DIR/packed, else $XDG_CACHE_HOME/tessera/packed, else ~/.cache/tessera/packed;
// empty if none of these is set.
std::filesystem::path default_pack_cache_folder();

}  // namespace tessera
