"""Reading and writing safetensors files, byte for byte the same on every run."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import torch
from safetensors.torch import load_file, save


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and metadata. The library orders metadata by chance, so its header is written again, sorted."""
    data = save({name: t.contiguous() for name, t in tensors.items()})
    (header_size,) = struct.unpack("<Q", data[:8])
    header = {"__metadata__": dict(sorted(metadata.items())), **json.loads(data[8 : 8 + header_size])}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + header_size :])


def load_folder(folder: Path) -> dict[str, torch.Tensor]:
    """All weights of a Hugging Face folder, sharded or not."""
    weights: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("model*.safetensors")):
        weights |= load_file(path)
    return weights
