"""tests/data/reference/yarn.json: rotary frequencies, cos/sin and softmax scales of several configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DeepseekV2Config
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as hf

from numpy_model import rope_tables

POSITIONS = (0, 1, 4095, 4096, 100000)

_LITE = {"factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
         "original_max_position_embeddings": 4096}  # fmt: skip
_NO_MSCALE = {k: v for k, v in _LITE.items() if not k.startswith("mscale")}

# name: (rope dim, nope dim, theta, YaRN parameters or None)
CASES: dict[str, tuple[int, int, float, dict[str, Any] | None]] = {
    "v2_lite": (64, 128, 10000.0, _LITE),
    "plain": (64, 128, 10000.0, None),
    "factor_1": (64, 128, 10000.0, {**_LITE, "factor": 1}),
    "mscale_differs": (64, 128, 10000.0, {**_LITE, "mscale": 1.0, "mscale_all_dim": 0.6}),
    "no_mscale": (64, 128, 10000.0, _NO_MSCALE),
    "betas_left_out": (64, 128, 10000.0, {k: v for k, v in _LITE.items() if not k.startswith("beta")}),
    "context_16": (64, 128, 10000.0, {**_LITE, "original_max_position_embeddings": 16}),
    "context_6": (64, 128, 10000.0, {**_LITE, "original_max_position_embeddings": 6}),
    "context_2": (64, 128, 10000.0, {**_LITE, "original_max_position_embeddings": 2}),
    "dim_6": (6, 11, 10000.0, _LITE),
    "dim_6_context_16": (6, 11, 10000.0, {**_LITE, "original_max_position_embeddings": 16}),
    "theta_500000": (64, 128, 500000.0, {**_LITE, "factor": 2.5}),
    "truncate_false": (64, 128, 10000.0, {**_LITE, "truncate": False}),
    "mscale_alone": (64, 128, 10000.0, {**_NO_MSCALE, "mscale": 0.707}),
    "mscale_all_dim_alone": (64, 128, 10000.0, {**_NO_MSCALE, "mscale_all_dim": 0.707}),
}
# Here transformers and DeepSeek's published code differ in the factor of cos and sin; the file gives both.
ATTENTION_SCALING_DIFFERS = {"mscale_alone", "mscale_all_dim_alone"}


def _case(name: str) -> dict[str, Any]:
    rope_dim, nope_dim, theta, yarn = CASES[name]
    scaling = {**yarn, "type": "yarn"} if yarn else None
    config = DeepseekV2Config(
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, hidden_size=8, q_lora_rank=None,
        kv_lora_rank=4, qk_nope_head_dim=nope_dim, qk_rope_head_dim=rope_dim, v_head_dim=4,
        max_position_embeddings=163840, rope_theta=theta, rope_scaling=dict(scaling) if scaling else None,
    )  # fmt: skip
    rotary = hf.DeepseekV2RotaryEmbedding(config)
    softmax_scale = hf.DeepseekV2Attention(config, 0).scaling
    inv_freq = rotary.inv_freq.to(torch.float64).numpy()

    freq, on_rope, on_softmax = rope_tables(rope_dim, theta, yarn)
    np.testing.assert_allclose(inv_freq, freq, rtol=2e-6, err_msg=name)
    np.testing.assert_allclose(softmax_scale, (nope_dim + rope_dim) ** -0.5 * on_softmax, rtol=1e-12, err_msg=name)
    agree = abs(rotary.attention_scaling - on_rope) < 1e-12
    assert agree == (name not in ATTENTION_SCALING_DIFFERS), (name, rotary.attention_scaling, on_rope)

    angles = np.outer(POSITIONS, inv_freq)
    return {
        "name": name,
        "qk_rope_head_dim": rope_dim,
        "qk_nope_head_dim": nope_dim,
        "rope_theta": theta,
        "rope_scaling": scaling,
        "inv_freq": inv_freq.tolist(),
        "attention_scaling": rotary.attention_scaling,
        "attention_scaling_deepseek": on_rope,
        "softmax_scale": softmax_scale,
        "cos": (rotary.attention_scaling * np.cos(angles)).tolist(),
        "sin": (rotary.attention_scaling * np.sin(angles)).tolist(),
    }


def write_yarn(path: Path) -> None:
    """One case per line block, one list per line, so that a change of a number is one line of a diff."""
    blocks = []
    for name in CASES:
        fields = ",\n".join(f"      {json.dumps(key)}: {json.dumps(value)}" for key, value in _case(name).items())
        blocks.append(f"    {{\n{fields}\n    }}")
    positions = json.dumps(list(POSITIONS))
    path.write_text(f'{{\n  "positions": {positions},\n  "cases": [\n' + ",\n".join(blocks) + "\n  ]\n}\n")
