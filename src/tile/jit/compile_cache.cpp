#include "tile/jit/compile_cache.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <tessera/error.h>

#include "tile/jit/cache_folder.h"

namespace tessera::tile {

namespace {

// Raised when CodeImage's bytes or the meaning of an entry change.
constexpr std::uint64_t kFormatVersion = 2;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path default_cache_folder() {
  if (std::string folder = environment("TESSERA_CACHE_DIR"); !folder.empty()) return folder;
  if (std::string base = environment("XDG_CACHE_HOME"); !base.empty() && base.front() == '/') {
    return std::filesystem::path(base) / "tessera" / "kernels";
  }
  if (std::string home = environment("HOME"); !home.empty()) {
    return std::filesystem::path(home) / ".cache" / "tessera" / "kernels";
  }
  return {};
}

Hash128 cache_key(const CompileRequest& request) {
  static const Hash128 identity = compiler_identity();
  Hasher hasher;
  hasher.add(kFormatVersion);
  hasher.add(identity.high);
  hasher.add(identity.low);
  for (const std::string& part : {request.front_end, request.ir, request.options, request.cpu}) {
    hasher.add(part);
  }
  return hasher.result();
}

CompileCache::CompileCache(Options options) : options_(std::move(options)) {
  if (!options_.compile) options_.compile = compile;
  if (options_.folder.empty()) {
    folder_works_ = false;
    return;
  }
  if (const std::string reason = prepare_cache_folder(options_.folder); !reason.empty()) {
    folder_works_ = false;
    warn(reason + "; compiled kernels are kept in memory only");
  }
}

void CompileCache::warn(const std::string& sentence) const {
  if (options_.warn) options_.warn(sentence);
}

std::shared_ptr<const CompiledCode> CompileCache::get(const CompileRequest& request) {
  const Hash128 key = cache_key(request);
  std::promise<Code> promise;
  {
    std::unique_lock lock(mutex_);
    const auto found = code_.find(key);
    if (found != code_.end()) {
      ++statistics_.from_memory;
      const std::shared_future<Code> code = found->second;
      lock.unlock();
      return code.get();
    }
    code_.emplace(key, promise.get_future().share());
  }
  try {
    Code code = load_or_compile(request, key);
    promise.set_value(code);
    return code;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    code_.erase(key);  // the next request tries again
    throw;
  }
}

CompileCache::Code CompileCache::load_or_compile(const CompileRequest& request,
                                                 const Hash128& key) {
  std::string damage;
  if (folder_works_) {
    EntryRead entry = read_entry(options_.folder, key);
    damage = std::move(entry.damage);
    if (entry.payload) {
      try {
        const CodeImage image = CodeImage::parse(*entry.payload);
        Code code = std::make_shared<CompiledCode>(image);
        const std::lock_guard lock(mutex_);
        ++statistics_.from_disk;
        return code;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kCompiler) throw;
        damage = fmt::format("{}: {}", entry_path(options_.folder, key).string(), error.what());
      }
    }
  }
  if (!damage.empty()) warn(fmt::format("{}; {} is compiled again", damage, request.name));

  const auto start = std::chrono::steady_clock::now();
  CodeImage image = options_.compile(request);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  Code code = std::make_shared<CompiledCode>(image);
  std::string failure;
  if (folder_works_) {
    image.origin = {request.name, request.shape_class, request.cpu, compiler_identity().to_hex()};
    failure = write_entry(options_.folder, key, image.serialize());
    if (failure.empty()) evict_entries(options_.folder, options_.max_bytes);
  }
  bool first_failure = false;
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.compiled;
    statistics_.compile_seconds += elapsed.count();
    first_failure = !failure.empty() && !std::exchange(write_failed_, true);
  }
  if (first_failure) warn(failure + "; newly compiled kernels are kept in memory only");
  return code;
}

CompileCache::Statistics CompileCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace tessera::tile
