// TESSERA_MULTIVERSION compiles a plain loop for several x86-64 levels and picks one when the
// program loads, so that one binary runs everywhere and still uses the vector width at hand.
#pragma once

// Sanitizers instrument the resolver that picks a version, which then runs before they are ready.
#if defined(__x86_64__) && defined(__linux__) && !defined(TESSERA_SANITIZED)
#define TESSERA_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TESSERA_MULTIVERSION
#endif
