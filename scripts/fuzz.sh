#!/usr/bin/env bash
# Runs every fuzzer for the given number of seconds (default 300), from its seeds in fuzz/corpus.
# New inputs go to build/fuzz/corpus; a crash leaves its input there and stops.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-300}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -- --quiet
for fuzzer in build/fuzz/bin/*_fuzzer; do
  name=$(basename "$fuzzer" _fuzzer)
  found=build/fuzz/corpus/$name
  mkdir -p "$found"
  echo "fuzzing $name for $seconds s"
  "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="$found/crash-" "$found" "fuzz/corpus/$name"
done
