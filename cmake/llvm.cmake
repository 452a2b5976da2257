# LLVM 19 as the target tessera_llvm. Static by default: the plugin then opens in a third of the time
# and needs half of the memory that libLLVM.so costs (docs/dependencies.md).
option(TESSERA_LLVM_SHARED "Link the compiler plugin with libLLVM.so" OFF)
find_package(LLVM 19.1 REQUIRED CONFIG)
add_library(tessera_llvm INTERFACE)
target_include_directories(tessera_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(tessera_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(tessera_llvm INTERFACE ${tessera_llvm_definitions})
if(TESSERA_LLVM_SHARED)
  target_link_libraries(tessera_llvm INTERFACE LLVM)
else()
  llvm_map_components_to_libnames(tessera_llvm_libraries
    core asmparser object runtimedyld target
    x86asmparser x86codegen x86desc x86info aarch64codegen aarch64desc aarch64info)
  target_link_libraries(tessera_llvm INTERFACE ${tessera_llvm_libraries})
endif()
