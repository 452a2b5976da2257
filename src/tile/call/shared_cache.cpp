#include "tile/call/shared_cache.h"

#include <mutex>

namespace tessera::tile {

namespace {

std::mutex mutex;
std::shared_ptr<CompileCache> cache;

}  // namespace

std::shared_ptr<CompileCache> shared_cache() {
  const std::lock_guard lock(mutex);
  if (cache == nullptr) {
    CompileCache::Options options;
    options.folder = default_cache_folder();
    cache = std::make_shared<CompileCache>(std::move(options));
  }
  return cache;
}

void set_shared_cache(std::shared_ptr<CompileCache> value) {
  const std::lock_guard lock(mutex);
  cache = std::move(value);
}

}  // namespace tessera::tile
