#include "model/packed/pack_cache.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "tile/jit/cache_folder.h"
#include "tile/jit/compile_cache.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSuffix = ".tessera";
constexpr std::string_view kUnfinished = ".tmp";  // AtomicFile's
// What stays free of the disk: a tenth, but of a large one not more than other programs miss.
constexpr std::uintmax_t kFreeShare = 10;
constexpr std::uintmax_t kMostFree = std::uintmax_t{4} << 30;

struct Entry {
  fs::path path;
  std::uintmax_t bytes = 0;
  fs::file_time_type used;
};

// Used longest ago first.
std::vector<Entry> entries_of(const fs::path& folder, std::string_view suffix) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != suffix) continue;
    std::error_code gone;
    Entry entry{it->path(), it->file_size(gone), it->last_write_time(gone)};
    if (!gone) entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &Entry::used);
  return entries;
}

// Once `removed` more bytes are free.
bool leaves_space(const fs::path& folder, std::uintmax_t bytes, std::uintmax_t removed = 0) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return !error &&
         space.available + removed >= bytes + std::min(space.capacity / kFreeShare, kMostFree);
}

}  // namespace

fs::path default_pack_cache_folder() {
  const fs::path kernels = tile::default_cache_folder();
  if (kernels.empty()) return {};
  const char* given = std::getenv("TESSERA_CACHE_DIR");
  const bool is_given = given != nullptr && *given != '\0';
  return (is_given ? kernels : kernels.parent_path()) / "packed";
}

PackCache::PackCache(fs::path folder, std::uintmax_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  // The folder above may become that of the kernels: it gets the same permissions.
  for (const fs::path& path : {folder_.parent_path(), folder_}) {
    std::error_code ignored;
    if (path != folder_ && fs::exists(path, ignored)) continue;
    const std::string reason = tile::prepare_cache_folder(path);
    if (!reason.empty()) fail(ErrorCode::kIo, "{}", reason);
  }
}

fs::path PackCache::path_of(std::string_view key) const {
  return folder_ / fmt::format("{}{}", key, kSuffix);
}

void PackCache::touch(const fs::path& path) {
  std::ignore = ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // fails where all is read-only
}

PackCache::Reservation::~Reservation() {
  if (lock_ >= 0) ::close(lock_);  // which unlocks
}

std::optional<PackCache::Reservation> PackCache::reserve(std::uintmax_t bytes) const {
  if (bytes > max_bytes_) return std::nullopt;
  const int lock =
      ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return std::nullopt;
  Reservation reservation(lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  if (!make_room(bytes)) return std::nullopt;
  return reservation;
}

bool PackCache::make_room(std::uintmax_t bytes) const {
  std::error_code ignored;
  // Nobody else writes now: what processes that were killed left behind.
  for (const Entry& entry : entries_of(folder_, kUnfinished)) fs::remove(entry.path, ignored);
  std::vector<Entry> entries = entries_of(folder_, kSuffix);
  std::uintmax_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (!leaves_space(folder_, bytes, total)) return false;  // whatever is removed
  for (const Entry& entry : entries) {
    if (total + bytes <= max_bytes_ && leaves_space(folder_, bytes)) return true;
    if (!fs::remove(entry.path, ignored)) continue;
    total -= entry.bytes;
  }
  return total + bytes <= max_bytes_ && leaves_space(folder_, bytes);
}

}  // namespace tessera
