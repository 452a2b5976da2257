# Flags that every target of this repository gets; nothing of it reaches a program that links libtessera.
add_library(tessera_flags INTERFACE)
target_compile_options(tessera_flags INTERFACE -Wall -Wextra -Werror -Wno-psabi)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer
                                                 -fno-sanitize-recover=all)
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
  target_compile_definitions(tessera_flags INTERFACE TESSERA_SANITIZED=1)
endif()
