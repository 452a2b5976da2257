#include "tile/jit/host_cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <fstream>
#include <string>

#include <sys/auxv.h>
#endif

namespace tessera::tile {

#if defined(__x86_64__)

namespace {

// Leaf 1's ebx holds the number of the core that happens to run this, and bit 27 of its ecx is the
// system's choice, which xgetbv reports in full.
void add_leaf(Hasher& hasher, unsigned leaf, unsigned subleaf) {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx);
  if (leaf == 1) ebx = 0;
  for (const unsigned value : {eax, ebx, ecx, edx}) hasher.add(std::uint64_t{value});
}

}  // namespace

void add_host_cpu(Hasher& hasher) {
  add_leaf(hasher, 0, 0);
  add_leaf(hasher, 1, 0);
  add_leaf(hasher, 7, 0);
  add_leaf(hasher, 7, 1);
  add_leaf(hasher, 0x80000001u, 0);
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  if ((ecx & bit_OSXSAVE) != 0) {  // which registers the system saves
    unsigned low = 0;
    unsigned high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    hasher.add((std::uint64_t{high} << 32) | low);
  }
}

#else

void add_host_cpu(Hasher& hasher) {
  hasher.add(std::uint64_t{::getauxval(AT_HWCAP)});
  hasher.add(std::uint64_t{::getauxval(AT_HWCAP2)});
  std::ifstream file("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  std::string model;
  std::getline(file, model);
  hasher.add(model);
}

#endif

}  // namespace tessera::tile
