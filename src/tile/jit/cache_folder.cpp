#include "tile/jit/cache_folder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera::tile {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMagic = 0x314c4e524b535354u;  // "TSSKRNL1"
constexpr const char* kSuffix = ".kernel";
constexpr const char* kUnfinished = ".part";
constexpr std::chrono::hours kUnfinishedLifetime{1};

struct Header {
  std::uint64_t magic = kMagic;
  Hash128 key;
  std::uint64_t payload_bytes = 0;
  Hash128 checksum;
};
static_assert(sizeof(Header) == 48);

class File {
 public:
  File(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }

  bool write(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    while (size > 0) {
      const ssize_t n = ::write(fd_, bytes, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes += n;
      size -= static_cast<std::size_t>(n);
    }
    return true;
  }
  bool read(void* data, std::size_t size) {
    auto* bytes = static_cast<std::byte*>(data);
    while (size > 0) {
      const ssize_t n = ::read(fd_, bytes, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes += n;
      size -= static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

std::string why() {
  return std::strerror(errno);
}

struct Entry {
  fs::path path;
  std::uintmax_t bytes = 0;
  fs::file_time_type used;
};

std::vector<Entry> entries_of(const fs::path& folder, const char* extension) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != extension) continue;
    // Another process may remove a file between any two of these calls.
    std::error_code gone;
    Entry entry{it->path(), it->file_size(gone), it->last_write_time(gone)};
    if (!gone) entries.push_back(std::move(entry));
  }
  return entries;
}

// Of any key, without one.
EntryRead read_file(const fs::path& path, const std::optional<Hash128>& key) {
  const auto damaged = [&](std::string_view reason) {
    return EntryRead{std::nullopt, fmt::format("{} {}", path.string(), reason)};
  };
  File file(path, O_RDONLY);
  if (file.fd() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return damaged(fmt::format("cannot be read ({})", why()));
  }
  struct stat info{};
  Header header;
  if (::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) return damaged("is not a file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < sizeof(header) || !file.read(&header, sizeof(header))) return damaged("is cut off");
  if (header.magic != kMagic) return damaged("is not a kernel of this version");
  if (key && header.key != *key) return damaged("holds another kernel than its name says");
  if (header.payload_bytes != size - sizeof(header)) return damaged("has the wrong length");
  std::vector<std::byte> payload(static_cast<std::size_t>(header.payload_bytes));
  if (!file.read(payload.data(), payload.size())) return damaged("is cut off");
  if (hash_of(payload) != header.checksum) return damaged("is damaged (wrong checksum)");
  return {std::move(payload), ""};
}

}  // namespace

std::string prepare_cache_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return fmt::format("the cache folder {} cannot be created ({})", folder.string(), why());
  }
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return fmt::format("the cache folder {} is not a folder that can be read", folder.string());
  }
  // What lies there will be executed.
  const bool is_ours = info.st_uid == ::geteuid() || info.st_uid == 0;
  if (!is_ours || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("the cache folder {} can be written by other users; it needs mode 0700",
                       folder.string());
  }
  return "";
}

fs::path entry_path(const fs::path& folder, const Hash128& key) {
  return folder / (key.to_hex() + kSuffix);
}

EntryRead read_entry(const fs::path& folder, const Hash128& key) {
  const fs::path path = entry_path(folder, key);
  EntryRead entry = read_file(path, key);
  // Used now; may fail on a read-only folder, where nothing is evicted.
  if (entry.payload) ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return entry;
}

std::vector<CacheEntry> read_entries(const fs::path& folder) {
  std::vector<CacheEntry> entries;
  for (Entry& entry : entries_of(folder, kSuffix)) {
    EntryRead content = read_file(entry.path, std::nullopt);
    entries.push_back({std::move(entry.path), entry.bytes, entry.used, std::move(content)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntry& a, const CacheEntry& b) { return a.used > b.used; });
  return entries;
}

std::string write_entry(const fs::path& folder, const Hash128& key,
                        std::span<const std::byte> payload) {
  static std::atomic<int> counter{0};
  const fs::path path = entry_path(folder, key);
  const fs::path part =
      folder / fmt::format("{}.{}.{}{}", key.to_hex(), ::getpid(), counter++, kUnfinished);
  {
    File file(part, O_WRONLY | O_CREAT | O_EXCL);
    if (file.fd() < 0) return fmt::format("{} cannot be written ({})", part.string(), why());
    Header header;
    header.key = key;
    header.payload_bytes = payload.size();
    header.checksum = hash_of(payload);
    if (!file.write(&header, sizeof(header)) || !file.write(payload.data(), payload.size())) {
      const std::string reason = why();
      ::unlink(part.c_str());
      return fmt::format("{} cannot be written ({})", part.string(), reason);
    }
  }
  if (::rename(part.c_str(), path.c_str()) != 0) {
    const std::string reason = why();
    ::unlink(part.c_str());
    return fmt::format("{} cannot be written ({})", path.string(), reason);
  }
  return "";
}

void evict_entries(const fs::path& folder, std::uintmax_t max_bytes) {
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  for (const Entry& part : entries_of(folder, kUnfinished)) {
    if (now - part.used > kUnfinishedLifetime) fs::remove(part.path, ignored);
  }
  std::vector<Entry> entries = entries_of(folder, kSuffix);
  std::uintmax_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes) break;
    fs::remove(entry.path, ignored);
    total -= entry.bytes;
  }
}

CacheUse cache_use(const fs::path& folder) {
  CacheUse use;
  for (const Entry& entry : entries_of(folder, kSuffix)) {
    ++use.n_entries;
    use.bytes += entry.bytes;
  }
  return use;
}

void clear_cache(const fs::path& folder) {
  std::error_code ignored;
  for (const char* extension : {kSuffix, kUnfinished}) {
    for (const Entry& entry : entries_of(folder, extension)) fs::remove(entry.path, ignored);
  }
}

}  // namespace tessera::tile
