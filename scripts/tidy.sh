#!/usr/bin/env bash
# clang-tidy over the library, the command, the tests and the examples (or the files that are named).
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset clang >/dev/null
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cpp' 'tests/*.cpp' 'examples/*.cpp')
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" clang-tidy-19 -p build/clang --quiet
