#include "tile/jit/compiler.h"

#include <cstdlib>
#include <span>
#include <system_error>

#include <dlfcn.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "tile/jit/compiler_abi.h"
#include "tile/jit/host_cpu.h"

namespace tessera::tile {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPluginFile = "libtessera_compiler.so";

// The file that this code was linked into: the program, or a shared libtessera.
fs::path this_binary() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&this_binary), &info) == 0) return {};
  std::error_code error;
  const fs::path binary = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : binary;
}

struct Plugin {
  tessera_compile_fn compile = nullptr;
};

Plugin open_plugin() {
  const fs::path path = compiler_path();
  if (path.empty()) {
    fail(ErrorCode::kCompiler,
         "the compiler plugin {} is neither beside the program nor in {}; name it in "
         "TESSERA_COMPILER",
         kPluginFile, TESSERA_PLUGIN_DIR);
  }
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorCode::kCompiler, "the compiler plugin cannot be opened: {}", ::dlerror());
  }
  const auto abi =
      reinterpret_cast<tessera_compiler_abi_fn>(::dlsym(library, TESSERA_COMPILER_ABI_SYMBOL));
  Plugin plugin;
  plugin.compile = reinterpret_cast<tessera_compile_fn>(::dlsym(library, TESSERA_COMPILE_SYMBOL));
  if (abi == nullptr || plugin.compile == nullptr || abi() != TESSERA_COMPILER_ABI) {
    ::dlclose(library);
    fail(ErrorCode::kCompiler, "{} is not the compiler plugin of this version", path.string());
  }
  return plugin;
}

// Opened once; a failure is tried again by the next request. Never closed: LLVM does not unload
// cleanly.
const Plugin& plugin() {
  static const Plugin opened = open_plugin();
  return opened;
}

tessera_text text(std::string_view view) {
  return {view.data(), view.size()};
}

std::string run_stage(const CompileRequest& request, tessera_stage stage) {
  const tessera_compile_request abi{text(request.name), text(request.front_end),
                                    text(request.ir),   text(request.options),
                                    text(request.cpu),  stage};
  std::string result;
  const int status = plugin().compile(
      &abi,
      [](void* context, const char* data, std::size_t size) {
        static_cast<std::string*>(context)->assign(data, size);
      },
      &result);
  if (status != 0) throw Error(static_cast<ErrorCode>(status - 1), result);
  return result;
}

}  // namespace

std::string target_cpu_from_environment() {
  const char* cpu = std::getenv("TESSERA_TARGET_CPU");
  return cpu == nullptr ? "" : cpu;
}

CodeImage compile(const CompileRequest& request) {
  const std::string bytes = run_stage(request, TESSERA_STAGE_IMAGE);
  return CodeImage::parse(std::as_bytes(std::span(bytes)));
}

std::string compile_to_text(const CompileRequest& request, std::string_view stage) {
  if (stage == "llvm") return run_stage(request, TESSERA_STAGE_LLVM);
  if (stage == "asm") return run_stage(request, TESSERA_STAGE_ASM);
  fail(ErrorCode::kInvalidArgument, "the compiler has no stage named {}; it has llvm and asm",
       stage);
}

std::filesystem::path compiler_path() {
  if (const char* named = std::getenv("TESSERA_COMPILER"); named != nullptr && *named != '\0') {
    return named;
  }
  const fs::path folder = this_binary().parent_path();
  std::error_code error;
  for (const fs::path& candidate :
       {folder / kPluginFile, folder / TESSERA_PLUGIN_FROM_BIN / kPluginFile,
        fs::path(TESSERA_PLUGIN_DIR) / kPluginFile}) {
    if (fs::exists(candidate, error)) return candidate;
  }
  return {};
}

Hash128 compiler_identity() {
  Hasher hasher;
  hasher.add(std::string_view(TESSERA_VERSION));
  hasher.add(std::uint64_t{TESSERA_COMPILER_ABI});
  struct stat info{};
  if (::stat(compiler_path().c_str(), &info) == 0) {
    hasher.add(static_cast<std::uint64_t>(info.st_size));
    hasher.add(static_cast<std::uint64_t>(info.st_mtim.tv_sec));
    hasher.add(static_cast<std::uint64_t>(info.st_mtim.tv_nsec));
  }
  add_host_cpu(hasher);
  return hasher.result();
}

}  // namespace tessera::tile
