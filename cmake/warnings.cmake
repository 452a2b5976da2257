# Flags that every target of this repository gets; nothing of it reaches a program that links libtessera.
add_library(tessera_flags INTERFACE)
target_compile_options(tessera_flags INTERFACE -Wall -Wextra -Werror -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # std::stable_partition and std::stable_sort of libstdc++ 12 use what C++20 deprecates.
  target_compile_options(tessera_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(TESSERA_SANITIZE)
  target_compile_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer
                                                 -fno-sanitize-recover=all)
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
  target_compile_definitions(tessera_flags INTERFACE TESSERA_SANITIZED=1)
endif()
