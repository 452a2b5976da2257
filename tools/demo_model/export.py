"""Write the trained weights as a Hugging Face folder in bfloat16, in the layout of the original checkpoints.

transformers keeps the experts of a layer in two fused tensors; the checkpoints of DeepSeek-V2 hold one
tensor per expert and projection. This script writes the latter, split into shards with an index.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from train import CONFIG

SHARDS = 3
GENERATION = {
    "bos_token_id": CONFIG["bos_token_id"],
    "eos_token_id": CONFIG["eos_token_id"],
    "do_sample": False,
}


def original_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors in bfloat16 under the names of the original checkpoints."""
    result: dict[str, Tensor] = {}
    for name, master in state.items():
        tensor = master.to(torch.bfloat16)
        if name.endswith(".mlp.experts.gate_up_proj"):
            stem = name.removesuffix(".gate_up_proj")
            for expert, fused in enumerate(tensor):
                gate, up = fused.chunk(2, dim=0)
                result[f"{stem}.{expert}.gate_proj.weight"] = gate
                result[f"{stem}.{expert}.up_proj.weight"] = up
        elif name.endswith(".mlp.experts.down_proj"):
            stem = name.removesuffix(".down_proj")
            for expert, down in enumerate(tensor):
                result[f"{stem}.{expert}.down_proj.weight"] = down
        else:
            result[name] = tensor
    return {name: tensor.contiguous().clone() for name, tensor in result.items()}


def order(name: str) -> tuple[int, int, int, str]:
    """Return the place of a tensor: embedding, layers in order, final norm, head."""
    parts = name.split(".")
    if name.startswith("model.layers."):
        expert = int(parts[5]) if parts[4] == "experts" else -1
        return 1, int(parts[2]), expert, name
    return (0 if "embed" in name else 2), 0, 0, name


def main() -> None:
    """Write config.json, generation_config.json, the shards and their index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="weights.safetensors written by train.py")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    tensors = original_names(load_file(arguments.weights))
    names = sorted(tensors, key=order)
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    shards: list[list[str]] = [[]]
    filled = 0
    for name in names:
        if filled >= total * len(shards) / SHARDS:
            shards.append([])
        shards[-1].append(name)
        filled += tensors[name].numel() * tensors[name].element_size()
    weight_map = {}
    for old in out.glob("model-*.safetensors"):
        old.unlink()
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):06d}.safetensors"
        save_file({name: tensors[name] for name in shard}, out / file, metadata={"format": "pt"})
        (out / file).chmod(0o644)
        weight_map |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": total}, "weight_map": {name: weight_map[name] for name in sorted(weight_map)}}
    for file, content in (
        ("config.json", CONFIG),
        ("generation_config.json", GENERATION),
        ("model.safetensors.index.json", index),
    ):
        (out / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"{len(tensors)} tensors, {total // 2} parameters, {total} bytes in {len(shards)} shards")


if __name__ == "__main__":
    main()
