"""Values of the MLA KV prolog that this project's code did not make: NumPy in float64, written from the paper and from
DeepSeek's modeling code, for src/ops/mla_prolog. Also numbers of the generator that docs/commands/verify.md describes.

    python tools/reference/prolog_values.py      writes tests/data/prolog/expected.safetensors

Inputs are fp32 numbers from NumPy's own generator and stand in the file; outputs are computed in float64 from them and
rounded to fp32 once.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

OUTPUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "prolog" / "expected.safetensors"

# name: batch, seq, hidden, heads, kv_rank, nope, rope, v, layout, bias
CASES = {
    "one_token": (1, 1, 24, 2, 12, 8, 4, 8, "interleaved", False),
    "sequence": (1, 5, 24, 3, 16, 8, 6, 10, "interleaved", False),
    "batch": (3, 1, 20, 2, 9, 4, 8, 6, "half_split", False),
    "batch_of_sequences": (2, 3, 24, 3, 16, 8, 6, 10, "interleaved", False),
    "half_split": (2, 3, 24, 3, 16, 8, 6, 10, "half_split", False),
    "odd_with_bias": (2, 4, 35, 3, 21, 7, 6, 5, "interleaved", True),
}


def rotate_interleaved(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Pairs (2i, 2i + 1) as complex numbers times cos + i sin."""
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * (cos + 1j * sin)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def rotate_half_split(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """x * cos + rotate_half(x) * sin, with the tables written twice side by side."""
    half = x.shape[-1] // 2
    rotated = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * np.concatenate([cos, cos], axis=-1) + rotated * np.concatenate([sin, sin], axis=-1)


def prolog(t: dict[str, np.ndarray], shape: tuple) -> dict[str, np.ndarray]:
    batch, seq, _, heads, kv_rank, nope, rope, v, layout, _ = shape
    t = {name: a if a.dtype == np.int64 else a.astype(np.float64) for name, a in t.items()}
    both = t["hidden"] @ t["kv_a"].T + t.get("kv_a_bias", 0.0)  # [batch, seq, kv_rank + rope]
    latent, k_pe = both[..., :kv_rank], both[..., kv_rank:]
    latent = latent / np.sqrt(np.mean(latent**2, axis=-1, keepdims=True) + t["eps"][0]) * t["norm"]
    rotate = {"interleaved": rotate_interleaved, "half_split": rotate_half_split}[layout]
    k_pe = rotate(k_pe, t["cos"][t["positions"]], t["sin"][t["positions"]])
    kv = (latent @ t["kv_b"].T).reshape(batch, seq, heads, nope + v).transpose(0, 2, 1, 3)
    return {"k_nope": kv[..., :nope], "value": kv[..., nope:], "k_pe": k_pe[:, None],
            "latent": np.concatenate([latent, k_pe], axis=-1)}


def make_case(index: int, shape: tuple) -> dict[str, np.ndarray]:
    batch, seq, hidden, heads, kv_rank, nope, rope, v, _, bias = shape
    random = np.random.default_rng(100 + index)

    def normal(*size: int) -> np.ndarray:
        return random.standard_normal(size).astype(np.float32)

    n_positions = seq + 9
    t = {"hidden": normal(batch, seq, hidden), "kv_a": normal(kv_rank + rope, hidden),
         "norm": normal(kv_rank), "kv_b": normal(heads * (nope + v), kv_rank),
         "cos": normal(n_positions, rope // 2), "sin": normal(n_positions, rope // 2),
         "positions": random.integers(0, n_positions, (batch, seq)), "eps": np.array([0.25], np.float32)}
    if bias:
        t["kv_a_bias"] = normal(kv_rank + rope)
    return {**t, **{name: a.astype(np.float32) for name, a in prolog(t, shape).items()}}


def generator(seed: int, name: str, n: int) -> np.ndarray:
    """Standard normal numbers as docs/commands/verify.md defines them."""
    mask = (1 << 64) - 1

    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return z ^ (z >> 31)

    hash = 0xCBF29CE484222325
    for byte in name.encode():
        hash = (hash ^ byte) * 0x100000001B3 & mask
    key = mix(seed ^ hash)
    z = [mix((key + (i + 1) * 0x9E3779B97F4A7C15) & mask) for i in range(n + n % 2)]
    u = np.array([((a >> 11) + 1) * 2.0**-53 for a in z[0::2]])
    v = np.array([(a >> 11) * 2.0**-53 for a in z[1::2]])
    radius = np.sqrt(-2 * np.log(u))
    both = np.stack([radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)], axis=-1)
    return both.reshape(-1)[:n].astype(np.float32)


def save(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    names = {np.dtype(np.float32): "F32", np.dtype(np.int64): "I64"}
    header, data = {"__metadata__": metadata}, b""
    for name, a in tensors.items():
        raw = np.ascontiguousarray(a).tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": names[a.dtype], "shape": list(a.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main() -> None:
    tensors = {}
    metadata = {}
    for index, (case, shape) in enumerate(CASES.items()):
        metadata[case] = " ".join(map(str, shape[:-1]))  # batch seq hidden heads kv_rank nope rope v layout
        tensors |= {f"{case}.{name}": a for name, a in make_case(index, shape).items()}
    tensors["generator.42.hidden_states"] = generator(42, "hidden_states", 9)
    tensors["generator.7.cos"] = generator(7, "cos", 8)
    # Tensors of eight bytes first, so that all are aligned.
    save(OUTPUT, dict(sorted(tensors.items(), key=lambda item: -item[1].itemsize)), metadata)
    print(f"{OUTPUT.name}: {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
