#!/usr/bin/env bash
# Checks at the real dimensions of DeepSeek-V2-Lite, with random weights, in build/large, and those that
# need a browser. Says what it skips and why.
set -euo pipefail
cd "$(dirname "$0")/.."

tessera=build/release/bin/tessera
work=build/large
mkdir -p "$work"

skip() { echo "SKIPPED $1: $2"; }
free_disk_mb() { df -Pm "$work" | awk 'NR == 2 {print $4}'; }
free_memory_mb() { awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo; }

check_layers() {  # LAYERS DTYPE MEGABYTES_OF_DISK MEGABYTES_OF_MEMORY
  local layers=$1 dtype=$2 disk=$3 memory=$4 name="V2-Lite with $1 layers in $2" folder="$work/v2-lite-$1"
  if [ ! -e "$folder" ] && [ "$(free_disk_mb)" -lt $((disk + 500)) ]; then
    skip "$name" "needs $disk MB of disk below $work, $(free_disk_mb) MB are free"
    return
  fi
  if [ "$(free_memory_mb)" -lt $((memory + 500)) ]; then
    skip "$name" "needs about $memory MB of memory, $(free_memory_mb) MB are free"
    return
  fi
  [ -e "$folder" ] || "$tessera" synth "$folder" --like deepseek-v2-lite --layers "$layers" --seed 1 \
    --tokenizer models/demo
  echo "== $name: generate"
  "$tessera" ask --model-path "$folder" --dtype "$dtype" --raw --greedy --output_length 16 \
    --prompt 'The capital of France is' --report-file "$work/report-$layers-$dtype.json" >/dev/null
  echo "== $name: the same bits for 1 and 2 threads"
  for threads in 1 2; do
    "$tessera" logits --model-path "$folder" --dtype "$dtype" --ids 1,2,3,4,5,6,7,8 --threads $threads \
      --output "$work/logits-$threads.safetensors" >/dev/null
  done
  cmp "$work/logits-1.safetensors" "$work/logits-2.safetensors"
  echo "PASSED $name"
}

echo "== every case of tessera verify, as on this CPU and as on one with AVX2 only"
for cpu in native haswell; do
  [ "$cpu" = native ] && target=() || target=(--target-cpu "$cpu")
  "$tessera" verify "${target[@]}" >"$work/verify-$cpu.txt" || { tail -n 1 "$work/verify-$cpu.txt"; exit 1; }
  tail -n 1 "$work/verify-$cpu.txt"
done

if [ -x build/release/bin/browser_test ]; then
  echo "== the page of tessera analyze in chromium"
  build/release/bin/browser_test --gtest_brief=1
else
  skip "the page of tessera analyze in a browser" \
    "chromium was not found when the build was configured, or the tests are not built"
fi

check_layers 2 bf16 2200 2600
check_layers 2 int8 2200 1500
check_layers 2 int4 2200 1100
check_layers 27 bf16 31500 34500
check_layers 27 int4 31500 11000
