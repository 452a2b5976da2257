// The compiler as the library sees it: IR text in, code or text out.
//
// It is a plugin, libtessera_compiler.so, because LLVM costs tens of milliseconds and megabytes
// that a process with a warm cache need not pay. It is opened at the first request and stays open.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tile/jit/code_image.h"
#include "tile/jit/hash.h"

namespace tessera::tile {

struct CompileRequest {
  std::string name;       // for messages
  std::string front_end;  // which language `ir` is in: "llvm", or a front end of the plugin
  std::string ir;
  std::string options;           // handed to the front end as they are
  std::string cpu;               // LLVM's name; empty for this machine
  std::string shape_class = {};  // what it is of the kernel, for people
};

// $TESSERA_TARGET_CPU, or empty for the machine at hand.
std::string target_cpu_from_environment();

// Compiles with the plugin. Throws the front end's Error, or Error(kCompiler) if the plugin is
// missing or fails. Safe to call from several threads.
CodeImage compile(const CompileRequest& request);

// The text of a stage: "llvm" (LLVM IR as lowered) or "asm"; works for CPUs other than this one.
std::string compile_to_text(const CompileRequest& request, std::string_view stage);

// Where the plugin lies: $TESSERA_COMPILER, beside the program or library, or in the install
// folder. Empty if it is nowhere.
std::filesystem::path compiler_path();

// Everything besides the request that decides what the compiler returns on this machine: versions,
// the plugin file's size and time, and the machine's CPU (found without LLVM).
Hash128 compiler_identity();

}  // namespace tessera::tile
