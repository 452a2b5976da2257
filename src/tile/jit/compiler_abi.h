/* The C interface between libtessera and its compiler plugin. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised with every change of this file. The library refuses a plugin of another version. */
#define TESSERA_COMPILER_ABI 1

struct tessera_text {
  const char* data;
  size_t size;
};

enum tessera_stage {
  TESSERA_STAGE_IMAGE = 0, /* a serialised CodeImage */
  TESSERA_STAGE_LLVM = 1,  /* LLVM IR */
  TESSERA_STAGE_ASM = 2
};

struct tessera_compile_request {
  struct tessera_text name;
  struct tessera_text front_end;
  struct tessera_text ir;
  struct tessera_text options;
  struct tessera_text cpu; /* empty: this machine */
  enum tessera_stage stage;
};

/* Receives the result, or the error's sentence, in one call. */
typedef void (*tessera_sink)(void* context, const char* data, size_t size);

/* 0, or 1 + the value of the tessera::ErrorCode that describes the failure. */
typedef int (*tessera_compile_fn)(const struct tessera_compile_request* request, tessera_sink sink,
                                  void* context);
typedef int (*tessera_compiler_abi_fn)(void);

/* The plugin's two symbols. */
#define TESSERA_COMPILE_SYMBOL "tessera_compile"
#define TESSERA_COMPILER_ABI_SYMBOL "tessera_compiler_abi"

#ifdef __cplusplus
}
#endif
