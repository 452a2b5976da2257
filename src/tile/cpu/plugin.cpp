// The compiler plugin's two symbols (tile/jit/compiler_abi.h).
#include <exception>
#include <string>
#include <vector>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "base/fail.h"
#include "tile/cpu/code_generator.h"
#include "tile/cpu/front_end.h"
#include "tile/jit/compiler_abi.h"

namespace {

using tessera::Error;
using tessera::ErrorCode;
using namespace tessera::tile::cpu;

std::string_view view(const tessera_text& text) {
  return {text.data, text.size};
}

const FrontEnd& find_front_end(std::string_view name) {
  for (const FrontEnd& front_end : front_ends()) {
    if (front_end.name == name) return front_end;
  }
  tessera::fail(ErrorCode::kCompiler, "the compiler has no front end named {}", name);
}

std::string compile(const tessera_compile_request& request) {
  const Target target = describe_target(view(request.cpu));
  llvm::LLVMContext context;  // one for each call: contexts are not shared between threads
  const auto module = find_front_end(view(request.front_end))
                          .lower(view(request.ir), view(request.options), target, context);
  module->setModuleIdentifier(std::string(view(request.name)));
  switch (request.stage) {
    case TESSERA_STAGE_LLVM:
      return print_module(*module);
    case TESSERA_STAGE_ASM:
      return generate_asm(*module, target);
    case TESSERA_STAGE_IMAGE:
      break;
  }
  const std::vector<std::byte> bytes = generate_image(*module, target).serialize();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

#define TESSERA_EXPORT extern "C" __attribute__((visibility("default")))

TESSERA_EXPORT int tessera_compiler_abi() {
  return TESSERA_COMPILER_ABI;
}

TESSERA_EXPORT int tessera_compile(const tessera_compile_request* request, tessera_sink sink,
                                   void* context) {
  std::string result;
  int status = 0;
  try {
    result = compile(*request);
  } catch (const Error& error) {
    result = error.what();
    status = 1 + static_cast<int>(error.code());
  } catch (const std::exception& error) {
    result = std::string("the compiler failed: ") + error.what();
    status = 1 + static_cast<int>(ErrorCode::kCompiler);
  }
  sink(context, result.data(), result.size());
  return status;
}
