// A program that must be refused: expects the error's number and its line, and prints the sentence.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include <tessera/tile.h>

namespace tessera::tile::test {

// Exit status 0 if make() throws KernelError `number` at a line in [first, last] of the calling
// file (or anywhere if first is 0) and its sentence contains `words`.
inline int expect_refused(const char* number, const char* words, int first, int last,
                          const std::function<void()>& make) {
  try {
    make();
  } catch (const KernelError& error) {
    std::puts(error.what());
    const std::string sentence = error.what();
    const bool place =
        first == 0 || (first <= error.location().line && error.location().line <= last);
    if (error.number() == number && place && sentence.find(words) != std::string::npos) return 0;
    std::printf("expected %s at lines %d to %d with \"%s\", not %s at line %d\n", number, first,
                last, words, error.number().c_str(), error.location().line);
    return 1;
  }
  std::puts("not refused");
  return 1;
}

// Traces a kernel for 5 rows of 40 numbers x, y and a weight [n, k] = [64, 40].
template <typename F>
void trace(F body) {
  const Dim t = Dim::dynamic("t");
  const Kernel kernel =
      jit("refused", {in("x", {t, 40}), weight("w", {64, 40}), out("y", {t, 40})}, body);
  const Argument arguments[] = {argument(nullptr, Element::kF32, {5, 40}),
                                packed_argument(nullptr, Element::kF32, 64, 40),
                                argument(nullptr, Element::kF32, {5, 40})};
  kernel.stage("scratch", arguments);
}

// The same for a tensor x of 5 rows of 40 numbers that is updated in place, another one a, and a
// weight [40, 40].
template <typename F>
void trace_in_place(F body) {
  const Dim t = Dim::dynamic("t");
  const Kernel kernel =
      jit("refused",
          {inout("x", {t, 40}), in("a", {t, 40}), weight("w", {40, 40}), out("y", {t, 40})}, body);
  const Argument arguments[] = {
      argument(nullptr, Element::kF32, {5, 40}), argument(nullptr, Element::kF32, {5, 40}),
      packed_argument(nullptr, Element::kF32, 40, 40), argument(nullptr, Element::kF32, {5, 40})};
  kernel.stage("scratch", arguments);
}

}  // namespace tessera::tile::test
