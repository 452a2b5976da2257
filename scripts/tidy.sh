#!/usr/bin/env bash
# clang-tidy with .clang-tidy over every source, or over some:
#   tidy.sh                     the library, the command, the tests, the benchmarks and the examples
#   tidy.sh --changed [COMMIT]  what differs from COMMIT (default: the first parent of HEAD); without
#                               such a commit, as in a shallow clone, the library and the command
#   tidy.sh FILE...
# A header is checked by way of one source that includes it.
set -euo pipefail
cd "$(dirname "$0")/.."

# One source to check a header with: its own if there is one, else the first that includes it.
source_of_header() {
  local own=${1%.h}.cpp name=${1#src/}
  name=${name#include/}
  if [ -f "$own" ]; then
    echo "$own"
  else
    git grep -lF -e "#include \"$name\"" -e "#include <$name>" -- "${sources[@]}" | head -n 1 || true
  fi
}

sources=('src/*.cpp' 'tests/*.cpp' 'examples/*.cpp')
files=()
if [ "${1:-}" = --changed ]; then
  if base=$(git rev-parse --quiet --verify "${2:-HEAD^}^{commit}"); then
    mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- "${sources[@]}")
    while read -r header; do
      mapfile -t -O ${#files[@]} files < <(source_of_header "$header")
    done < <(git diff --name-only --diff-filter=d "$base" -- '*.h')
    mapfile -t files < <(printf '%s\n' "${files[@]}" | sed '/^$/d' | sort -u)
  else
    mapfile -t files < <(git ls-files 'src/*.cpp' ':!:*_test.cpp' ':!:*_bench.cpp')
  fi
elif [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files "${sources[@]}")
fi

echo "clang-tidy: ${#files[@]} files"
[ ${#files[@]} -gt 0 ] || exit 0
cmake --preset clang >/dev/null
# Clang counts the warnings of foreign headers, which are not shown, on the error stream.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 -p build/clang --quiet 2> >(grep -v ' warnings\? generated\.$' >&2)
