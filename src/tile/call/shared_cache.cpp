#include "tile/call/shared_cache.h"

#include <mutex>
#include <set>
#include <string>

namespace tessera::tile {

namespace {

std::mutex mutex;
std::shared_ptr<CompileCache> cache;

std::mutex warnings_mutex;
std::function<void(std::string_view)> warnings;
std::set<std::string> told;

void warn(const std::string& sentence) {
  const std::lock_guard lock(warnings_mutex);
  if (warnings && told.insert(sentence).second) warnings(sentence);
}

}  // namespace

std::shared_ptr<CompileCache> shared_cache() {
  const std::lock_guard lock(mutex);
  if (cache == nullptr) {
    CompileCache::Options options;
    options.folder = default_cache_folder();
    options.warn = warn;
    cache = std::make_shared<CompileCache>(std::move(options));
  }
  return cache;
}

void set_shared_cache(std::shared_ptr<CompileCache> value) {
  const std::lock_guard lock(mutex);
  cache = std::move(value);
}

void set_cache_warnings(std::function<void(std::string_view)> warn) {
  const std::lock_guard lock(warnings_mutex);
  warnings = std::move(warn);
}

}  // namespace tessera::tile
