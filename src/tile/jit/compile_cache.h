// Compiled kernels by what they were compiled from, in memory and on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tile/jit/compiled_code.h"
#include "tile/jit/compiler.h"

namespace tessera::tile {

// One file per kernel, named after the 128-bit hash of the request, the compiler and this machine.
// A file is written beside its place and renamed into it, so a reader sees all of it or nothing,
// and several processes may use one folder. An entry that is damaged, cut off or not ours is
// compiled again, with one warning. A folder that cannot be used costs one warning, and kernels are
// then kept in memory.
class CompileCache {
 public:
  struct Options {
    std::filesystem::path folder;           // empty: in memory only
    std::uintmax_t max_bytes = 256u << 20;  // beyond it, entries unused for longest are removed
    std::function<void(const std::string&)> warn;  // called from any thread; may be empty
    std::function<CodeImage(const CompileRequest&)> compile;  // empty: the plugin
  };

  explicit CompileCache(Options options);

  // The code for a request: from memory, from disk, or compiled now. Throws what the compiler
  // throws. Requests for one key are compiled once; different keys are compiled at the same time.
  std::shared_ptr<const CompiledCode> get(const CompileRequest& request);

  struct Statistics {
    int from_memory = 0;
    int from_disk = 0;
    int compiled = 0;
    double compile_seconds = 0;  // summed over threads
  };
  Statistics statistics() const;

  const std::filesystem::path& folder() const { return options_.folder; }

  // Tells a sentence where the warnings of the cache go: of other files in its folder too.
  void warn(const std::string& sentence) const;

 private:
  using Code = std::shared_ptr<const CompiledCode>;

  Code load_or_compile(const CompileRequest& request, const Hash128& key);

  Options options_;
  mutable std::mutex mutex_;
  std::map<Hash128, std::shared_future<Code>> code_;
  Statistics statistics_;
  bool folder_works_ = true;   // decided by the constructor
  bool write_failed_ = false;  // and was told
};

// $TESSERA_CACHE_DIR, else $XDG_CACHE_HOME/tessera/kernels, else ~/.cache/tessera/kernels; empty if
// none of these is set.
std::filesystem::path default_cache_folder();

// The key of a request on this machine.
Hash128 cache_key(const CompileRequest& request);

}  // namespace tessera::tile
