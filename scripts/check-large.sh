#!/usr/bin/env bash
# Checks at the real dimensions of DeepSeek-V2-Lite, with random weights, in build/large. Says what it
# skips and why.
set -euo pipefail
cd "$(dirname "$0")/.."

tessera=build/release/bin/tessera
work=build/large
mkdir -p "$work"

skip() { echo "SKIPPED $1: $2"; }
free_disk_mb() { df -Pm "$work" | awk 'NR == 2 {print $4}'; }
free_memory_mb() { awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo; }

check_layers() {  # LAYERS MEGABYTES
  local layers=$1 megabytes=$2 name="V2-Lite with $1 layers in bf16" folder="$work/v2-lite-$1"
  if [ ! -e "$folder" ] && [ "$(free_disk_mb)" -lt $((megabytes + 500)) ]; then
    skip "$name" "needs $megabytes MB of disk below $work, $(free_disk_mb) MB are free"
    return
  fi
  if [ "$(free_memory_mb)" -lt $((megabytes + megabytes / 10 + 500)) ]; then
    skip "$name" "needs about $megabytes MB of memory, $(free_memory_mb) MB are free"
    return
  fi
  [ -e "$folder" ] || "$tessera" synth "$folder" --like deepseek-v2-lite --layers "$layers" --seed 1 \
    --tokenizer models/demo
  echo "== $name: generate"
  "$tessera" ask --model-path "$folder" --dtype bf16 --raw --greedy --output_length 16 \
    --prompt 'The capital of France is' --report-file "$work/report-$layers.json" >/dev/null
  echo "== $name: the same bits for 1 and 2 threads"
  for threads in 1 2; do
    "$tessera" logits --model-path "$folder" --dtype bf16 --ids 1,2,3,4,5,6,7,8 --threads $threads \
      --output "$work/logits-$threads.safetensors" >/dev/null
  done
  cmp "$work/logits-1.safetensors" "$work/logits-2.safetensors"
  echo "PASSED $name"
}

check_layers 2 2200
check_layers 27 31500
