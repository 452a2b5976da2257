#!/usr/bin/env bash
# Build the demo model from its dialogues: tokenizer, training, export, checks.
# Usage: tools/demo_model/build.sh [WORK_FOLDER]
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="${1:-$root/build/demo_model}"
model="$root/models/demo"
python="${PYTHON:-python3}"

"$python" "$here/build_tokenizer.py" --out "$model"
"$python" "$here/train.py" --tokenizer "$model/tokenizer.json" --out "$work"
"$python" "$here/export.py" --weights "$work/weights.safetensors" --out "$model"
"$python" "$here/check.py" --model "$model" --json "$root/tests/data/demo/greedy.json"
