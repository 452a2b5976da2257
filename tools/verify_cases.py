"""Writes the cases of `tessera verify`: src/ops/*/cases.json. Needs nothing but Python.

    python3 tools/verify_cases.py

The first case of mla_prolog is the one of the original sample, unchanged. Seeds follow from the order, so new cases go
to the end of their list.
"""

from __future__ import annotations

import json
from pathlib import Path

OPS = Path(__file__).resolve().parent.parent / "src" / "ops"

NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
TOLERANCE = {"fp32": 1e-4, "bf16": 1e-2, "fp16": 1e-2}
# hidden, heads, kv_rank, nope, rope, v
DIMS = {
    "lite": (2048, 16, 512, 128, 64, 128),
    "v2": (5120, 128, 512, 128, 64, 128),
    "odd": (35, 3, 21, 7, 6, 5),
    "uneven": (100, 5, 48, 24, 10, 40),
}
TITLES = {"lite": "V2-Lite", "v2": "V2", "odd": "odd dimensions", "uneven": "uneven dimensions"}
ROWS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 300)
YARN = {"factor": 40, "original_context": 4096, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
        "mscale_all_dim": 0.707}


def tensor(shape: list[int], dtype: str, **more: object) -> dict:
    return {"shape": shape, "dtype": NAMES[dtype], **more}


class Cases:
    def __init__(self, op: str, seed: int) -> None:
        self.op, self.seed, self.cases = op, seed, []

    def add(self, description: str, dtype: str, input: dict, output: dict, **more: object) -> None:
        number = len(self.cases) + 1
        tolerance = TOLERANCE[dtype]
        self.cases.append({"id": f"{self.op}_{number:03}", "description": description, "seed": self.seed + number,
                           "input": input, "output": output, "rtol": tolerance, "atol": tolerance, **more})

    def write(self) -> None:
        lines = ["{", f'  "op": "{self.op}",', '  "test_cases": [']
        for i, case in enumerate(self.cases):
            lines.append("    {")
            fields = list(case.items())
            for j, (key, value) in enumerate(fields):
                comma = "," if j + 1 < len(fields) else ""
                if key in ("input", "output"):
                    lines.append(f'      "{key}": {{')
                    inner = [f'        "{name}": {json.dumps(t)}' for name, t in value.items()]
                    lines += [line + "," for line in inner[:-1]] + inner[-1:] + ["      }" + comma]
                else:
                    lines.append(f'      "{key}": {json.dumps(value)}{comma}')
            lines.append("    }" + ("," if i + 1 < len(self.cases) else ""))
        lines += ["  ]", "}", ""]
        (OPS / self.op / "cases.json").write_text("\n".join(lines), encoding="utf-8")
        print(f"{self.op}: {len(self.cases)} cases")


def prolog(cases: Cases, dims: str, dtype: str, batch: int, seq: int, layout: str, note: str = "", *,
           scales: dict | None = None, tolerances: dict | None = None, activations: str | None = None,
           outputs: tuple[str, ...] = ("k_nope", "value", "k_pe"), bias: bool = False, positions: object = None,
           tables: dict | None = None, n_positions: int | None = None, eps: float = 1e-6) -> None:
    hidden, heads, kv_rank, nope, rope, v = DIMS[dims]
    scales, tolerances, activations = scales or {}, tolerances or {}, activations or dtype
    n_positions = n_positions or seq + 40

    def scaled(name: str, shape: list[int], dtype: str) -> dict:
        return tensor(shape, dtype, **({"scale": scales[name]} if name in scales else {}))

    input = {"hidden_states": scaled("hidden_states", [batch, seq, hidden], activations),
             "kv_a_weight": scaled("kv_a_weight", [hidden, kv_rank + rope], dtype)}
    if bias:
        input["kv_a_bias"] = tensor([kv_rank + rope], "fp32")
    if "k_nope" in outputs:
        input["kv_b_weight"] = scaled("kv_b_weight", [kv_rank, heads * (nope + v)], dtype)
    input["ln_weight"] = scaled("ln_weight", [kv_rank], dtype)
    input["eps"] = {"value": eps}
    input["cos"] = tensor([n_positions, rope], dtype)
    input["sin"] = tensor([n_positions, rope], dtype)
    if positions != "none":
        input["pos_ids"] = {"shape": [batch, seq], "dtype": "int64", **({"values": positions} if positions else {})}
    shapes = {"k_nope": [batch, heads, seq, nope], "value": [batch, heads, seq, v], "k_pe": [batch, 1, seq, rope],
              "latent": [batch, seq, kv_rank + rope]}
    output = {name: tensor(shapes[name], dtype, **tolerances.get(name, {})) for name in outputs}
    size = f"{batch} x {seq} tokens" if batch > 1 else f"{seq} token{'s' if seq > 1 else ''}"
    description = f"{TITLES[dims]}, {dtype}, {size}, {layout.replace('_', '-')}" + (f": {note}" if note else "")
    cases.add(description, dtype, input, output, rope_layout=layout, **({"rope_tables": tables} if tables else {}))


def write_prolog() -> None:
    cases = Cases("mla_prolog", 1000)
    original = {
        "id": "mla_prolog_001", "description": "minimal prefill, one token, fp16", "seed": 42,
        "input": {
            "hidden_states": tensor([1, 1, 2048], "fp16"), "kv_a_weight": tensor([2048, 576], "fp16"),
            "kv_b_weight": tensor([512, 4096], "fp16"), "ln_weight": tensor([512], "fp16"), "eps": {"value": 1e-6},
            "cos": tensor([1, 64], "fp16"), "sin": tensor([1, 64], "fp16"),
            "pos_ids": {"shape": [1, 1], "dtype": "int64"}},
        "output": {"k_nope": tensor([1, 16, 1, 128], "fp16"), "value": tensor([1, 16, 1, 128], "fp16"),
                   "k_pe": tensor([1, 1, 1, 64], "fp16")},
        "rtol": 0.01, "atol": 0.01}
    cases.cases.append(original)

    for seq in ROWS:
        prolog(cases, "lite", "bf16", 1, seq, "interleaved")
    for seq in (2, 3, 8, 17, 64, 129):
        prolog(cases, "lite", "fp16", 1, seq, "half_split")
    for seq in (1, 2, 7, 16, 33, 128):
        prolog(cases, "lite", "fp32", 1, seq, "interleaved" if seq % 2 else "half_split")
    for dtype, batch, seq, layout in (
            ("bf16", 2, 1, "interleaved"), ("bf16", 2, 8, "half_split"), ("bf16", 5, 1, "interleaved"),
            ("bf16", 5, 13, "interleaved"), ("fp16", 2, 9, "interleaved"), ("fp16", 5, 3, "half_split"),
            ("fp32", 2, 32, "interleaved"), ("fp32", 5, 13, "half_split")):
        prolog(cases, "lite", dtype, batch, seq, layout)
    for dtype, batch, seq, layout in (
            ("bf16", 1, 1, "interleaved"), ("bf16", 1, 2, "interleaved"), ("bf16", 1, 17, "interleaved"),
            ("fp16", 1, 3, "interleaved"), ("fp32", 1, 1, "half_split"), ("fp32", 2, 4, "interleaved")):
        prolog(cases, "v2", dtype, batch, seq, layout)
    shapes = {"fp32": ((1, 1), (2, 9), (1, 300)), "bf16": ((1, 17), (5, 13), (2, 64)),
              "fp16": ((1, 127), (5, 3), (2, 1))}
    for dtype, sizes in shapes.items():
        for layout in ("interleaved", "half_split"):
            for batch, seq in sizes:
                prolog(cases, "odd" if layout == "interleaved" else "uneven", dtype, batch, seq, layout)

    # Stage 1 normalises: large and tiny hidden states show in k_pe, and in the latent once eps counts.
    for dtype, scale in (("bf16", 1e4), ("fp16", 1e3), ("fp32", 1e2)):
        prolog(cases, "lite", dtype, 1, 9, "interleaved", "large hidden states", scales={"hidden_states": scale})
    for dtype, rtol, atol in (("bf16", 1e-2, 1e-6), ("fp16", 1e-2, 1e-6), ("fp32", 1e-4, 1e-8)):
        prolog(cases, "lite", dtype, 2, 4, "interleaved", "tiny hidden states, below eps",
               scales={"hidden_states": 1e-4}, tolerances={"k_pe": {"rtol": rtol, "atol": atol}})
    for dtype, atol in (("bf16", 1e-6), ("fp16", 1e-5), ("fp32", 1e-8)):
        prolog(cases, "uneven", dtype, 2, 7, "half_split", "tiny norm weight", scales={"ln_weight": 1e-3},
               tolerances={"k_nope": {"atol": 1e3 * atol}, "value": {"atol": 1e3 * atol}})
    prolog(cases, "uneven", "fp32", 2, 7, "interleaved", "large norm weight", scales={"ln_weight": 100},
           tolerances={"k_nope": {"atol": 1e-3}, "value": {"atol": 1e-3}})
    prolog(cases, "lite", "bf16", 1, 4, "interleaved", "large eps", eps=0.5)

    # As in the model: fp32 activations, YaRN tables, rows of the latent cache, biases.
    everything = ("k_nope", "value", "k_pe", "latent")
    yarn = {"theta": 10000, "yarn": YARN}
    # Implementations may round such hidden states to bf16, so the norm weight is that of a model, not ten times it.
    prolog(cases, "lite", "bf16", 1, 8, "interleaved", "fp32 hidden states, YaRN, latent", activations="fp32",
           outputs=everything, tables=yarn, n_positions=8192, scales={"ln_weight": 0.1})
    prolog(cases, "lite", "bf16", 5, 13, "interleaved", "latent alone, YaRN", activations="fp32", outputs=("latent",),
           tables=yarn, n_positions=8192, scales={"ln_weight": 0.1})
    prolog(cases, "lite", "fp32", 2, 33, "interleaved", "latent alone", outputs=("latent",))
    prolog(cases, "odd", "fp32", 5, 3, "interleaved", "bias, latent", outputs=everything, bias=True)
    prolog(cases, "uneven", "bf16", 2, 9, "half_split", "bias, latent", outputs=everything, bias=True)
    prolog(cases, "uneven", "fp16", 2, 31, "interleaved", "latent, plain tables", outputs=everything,
           tables={"theta": 10000}, n_positions=512)
    prolog(cases, "odd", "fp32", 2, 3, "interleaved", "positions out of order", positions=[7, 0, 42, 1, 1, 3])
    prolog(cases, "odd", "bf16", 2, 3, "half_split", "a table row for each token", positions="none", n_positions=6)
    cases.write()


def write_rms_norm() -> None:
    cases = Cases("rms_norm", 2000)

    def add(shape: list[int], dtype: str, note: str = "", scale: float | None = None, eps: float = 1e-6,
            **tolerances: float) -> None:
        x = tensor(shape, dtype, **({"scale": scale} if scale else {}))
        size = " x ".join(map(str, shape[:-1])) + f" rows of {shape[-1]}"
        cases.add(f"{size}, {dtype}" + (f": {note}" if note else ""), dtype,
                  {"x": x, "weight": tensor(shape[-1:], dtype), "eps": {"value": eps}},
                  {"y": tensor(shape, dtype, **tolerances)})

    for dtype in NAMES:
        for shape in ([1, 2048], [2, 2048], [2, 5, 512], [17, 512], [33, 1], [7, 15], [300, 33], [9, 5120]):
            add(shape, dtype)
    for dtype, scale in (("bf16", 1e15), ("fp16", 1e4), ("fp32", 1e15)):
        add([3, 512], dtype, "large", scale)
    for dtype, scale, atol in (("bf16", 1e-5, 1e-4), ("fp16", 1e-3, 1e-2), ("fp32", 1e-5, 1e-6)):
        add([3, 512], dtype, "tiny, eps counts", scale, atol=atol)
    add([4, 2048], "bf16", "large eps", eps=0.02)
    cases.write()


def write_rope() -> None:
    cases = Cases("rope", 3000)

    def add(shape: list[int], dtype: str, layout: str, note: str = "", tables: dict | None = None,
            n_positions: int | None = None, scale: float | None = None) -> None:
        batch, heads, seq, dim = shape
        n_positions = n_positions or seq + 10
        description = f"{batch} x {seq} tokens, {heads} heads of {dim}, {dtype}, {layout.replace('_', '-')}"
        cases.add(description + (f": {note}" if note else ""), dtype,
                  {"x": tensor(shape, dtype, **({"scale": scale} if scale else {})),
                   "cos": tensor([n_positions, dim], dtype), "sin": tensor([n_positions, dim], dtype),
                   "pos_ids": {"shape": [batch, seq], "dtype": "int64"}},
                  {"y": tensor(shape, dtype)}, rope_layout=layout, **({"rope_tables": tables} if tables else {}))

    for dtype in NAMES:
        for layout in ("interleaved", "half_split"):
            for shape in ([1, 1, 1, 64], [1, 16, 1, 64], [2, 16, 9, 64], [5, 3, 7, 6], [1, 2, 129, 2]):
                add(shape, dtype, layout)
    for layout in ("interleaved", "half_split"):
        add([2, 16, 17, 64], "fp32", layout, "YaRN", {"theta": 10000, "yarn": YARN}, 16384)
        add([1, 4, 31, 64], "bf16", layout, "plain tables", {"theta": 500000}, 4096)
    add([1, 2, 3, 64], "fp32", "interleaved", "large", scale=100)
    add([1, 2, 3, 64], "fp16", "half_split", "large", scale=1000)
    cases.write()


if __name__ == "__main__":
    write_prolog()
    write_rms_norm()
    write_rope()
