"""DeepSeek-V2 in NumPy and float64, from config.json and the checkpoint alone: a second opinion on transformers.

It can also be told to make one of the mistakes that implementations make (FAULTS). make_reference.py asserts that each
shows in the logits of some reference model: that the values would catch it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

LATENT_NORM_EPS = 1e-6  # q_a_layernorm and kv_a_layernorm, whatever rms_norm_eps says

FAULTS: dict[str, str] = {
    "latent_eps": "rms_norm_eps used for q_a_layernorm and kv_a_layernorm too",
    "no_softmax_mscale": "softmax scale without mscale(factor, mscale_all_dim)^2",
    "no_rope_mscale": "cos and sin not multiplied by mscale / mscale_all_dim",
    "plain_frequencies": "YaRN ignored in the frequencies",
    "half_split": "RoPE pairs (i, i + d/2) instead of (2i, 2i + 1)",
    "token_major": "k_nope and value reshaped to heads instead of transposed",
    "neighbour_weight": "expert multiplied by the score of the next chosen one",
    "ignore_norm": "norm_topk_prob ignored",
    "scale_normed": "routed_scaling_factor applied to normalised weights too",
    "ignore_scaling": "routed_scaling_factor ignored",
    "ignore_groups": "group_limited_greedy treated as greedy",
    "no_bias": "attention biases ignored",
}


def mscale(scale: float, m: float) -> float:
    return 0.1 * m * math.log(scale) + 1.0 if scale > 1 else 1.0


def rope_of(config: dict[str, Any]) -> tuple[float, dict[str, Any] | None]:
    """(theta, YaRN parameters or None), in either spelling of config.json."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = scaling.get("rope_theta", config.get("rope_theta"))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    assert kind in ("default", "yarn"), kind
    return theta, scaling if kind == "yarn" else None


def rope_tables(dim: int, theta: float, yarn: dict[str, Any] | None) -> tuple[np.ndarray, float, float]:
    """(inv_freq, factor of cos and sin, factor of the softmax scale), as DeepSeek's published code has them."""
    freq = theta ** (-np.arange(0, dim, 2) / dim)
    if yarn is None:
        return freq, 1.0, 1.0
    factor, context = yarn["factor"], yarn["original_max_position_embeddings"]

    def pair_that_turns(times: float) -> float:
        return dim * math.log(context / (times * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_that_turns(yarn.get("beta_fast", 32)), pair_that_turns(yarn.get("beta_slow", 1))
    if yarn.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)  # dim - 1, though there are only dim / 2 frequencies
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0.0, 1.0)
    all_dim = yarn.get("mscale_all_dim", 0)
    on_rope = mscale(factor, yarn.get("mscale", 1)) / mscale(factor, all_dim)
    return freq * (1.0 - ramp) + freq / factor * ramp, on_rope, mscale(factor, all_dim) ** 2


def _rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class NumpyModel:
    def __init__(self, config: dict[str, Any], weights: dict[str, torch.Tensor], fault: str | None = None) -> None:
        assert fault is None or fault in FAULTS, fault
        self.c, self.fault = config, fault
        self.w = {name: tensor.to(torch.float64).numpy() for name, tensor in weights.items()}
        theta, yarn = rope_of(config)
        dim = config["qk_rope_head_dim"]
        self.inv_freq, self.rope_scale, softmax_mscale = rope_tables(dim, theta, yarn)
        if fault == "plain_frequencies":
            self.inv_freq = rope_tables(dim, theta, None)[0]
        if fault == "no_rope_mscale":
            self.rope_scale = 1.0
        if fault == "no_softmax_mscale":
            softmax_mscale = 1.0
        self.softmax_scale = (config["qk_nope_head_dim"] + dim) ** -0.5 * softmax_mscale
        self.latent_eps = config["rms_norm_eps"] if fault == "latent_eps" else LATENT_NORM_EPS

    def logits(self, ids: np.ndarray) -> np.ndarray:
        eps = self.c["rms_norm_eps"]
        x = self.w["model.embed_tokens.weight"][ids]
        for i in range(self.c["num_hidden_layers"]):
            at = f"model.layers.{i}"
            x = x + self._attention(f"{at}.self_attn", _rms_norm(x, self.w[f"{at}.input_layernorm.weight"], eps))
            x = x + self._feed_forward(i, _rms_norm(x, self.w[f"{at}.post_attention_layernorm.weight"], eps))
        return _rms_norm(x, self.w["model.norm.weight"], eps) @ self.w["lm_head.weight"].T

    def _linear(self, at: str, x: np.ndarray) -> np.ndarray:
        y = x @ self.w[f"{at}.weight"].T
        bias = None if self.fault == "no_bias" else self.w.get(f"{at}.bias")
        return y if bias is None else y + bias

    def _rope(self, x: np.ndarray) -> np.ndarray:
        """x is [tokens, heads, dim], and token t stands at position t."""
        angle = np.arange(len(x))[:, None, None] * self.inv_freq
        cos, sin = self.rope_scale * np.cos(angle), self.rope_scale * np.sin(angle)
        half = x.shape[-1] // 2
        first, second = slice(0, None, 2), slice(1, None, 2)
        if self.fault == "half_split":
            first, second = slice(0, half), slice(half, None)
        a, b = x[..., first], x[..., second]
        out = np.empty_like(x)
        out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
        return out

    def _attention(self, at: str, x: np.ndarray) -> np.ndarray:
        c, tokens, heads = self.c, len(x), self.c["num_attention_heads"]
        nope, rank = c["qk_nope_head_dim"], c["kv_lora_rank"]
        if c["q_lora_rank"] is None:
            q = self._linear(f"{at}.q_proj", x)
        else:
            latent = self._linear(f"{at}.q_a_proj", x)
            latent = _rms_norm(latent, self.w[f"{at}.q_a_layernorm.weight"], self.latent_eps)
            q = self._linear(f"{at}.q_b_proj", latent)
        q = q.reshape(tokens, heads, -1)
        kv_a = self._linear(f"{at}.kv_a_proj_with_mqa", x)
        latent = _rms_norm(kv_a[:, :rank], self.w[f"{at}.kv_a_layernorm.weight"], self.latent_eps)
        kv = self._linear(f"{at}.kv_b_proj", latent).reshape(tokens, heads, -1)
        k_nope, value = kv[..., :nope].transpose(1, 0, 2), kv[..., nope:].transpose(1, 0, 2)  # [heads, tokens, dim]
        if self.fault == "token_major":
            k_nope, value = (part.transpose(1, 0, 2).reshape(part.shape) for part in (k_nope, value))
        q_rope, k_rope = self._rope(q[..., nope:]), self._rope(kv_a[:, None, rank:])[:, 0]
        scores = np.einsum("thd,hsd->hts", q[..., :nope], k_nope) + np.einsum("thd,sd->hts", q_rope, k_rope)
        scores = scores * self.softmax_scale + np.triu(np.full((tokens, tokens), -np.inf), 1)
        mixed = np.einsum("hts,hsd->thd", _softmax(scores), value)
        return self._linear(f"{at}.o_proj", mixed.reshape(tokens, -1))

    def _mlp(self, at: str, x: np.ndarray) -> np.ndarray:
        gate = self._linear(f"{at}.gate_proj", x)
        return self._linear(f"{at}.down_proj", gate / (1.0 + np.exp(-gate)) * self._linear(f"{at}.up_proj", x))

    def _feed_forward(self, layer: int, x: np.ndarray) -> np.ndarray:
        c, at = self.c, f"model.layers.{layer}.mlp"
        if layer < c["first_k_dense_replace"]:
            return self._mlp(at, x)
        scores = _softmax(x @ self.w[f"{at}.gate.weight"].T)
        top_k, scaling = c["num_experts_per_tok"], c["routed_scaling_factor"]
        out = self._mlp(f"{at}.shared_experts", x)
        for t in range(len(x)):
            allowed = scores[t].copy()
            if c["topk_method"] == "group_limited_greedy" and self.fault != "ignore_groups":
                groups = allowed.reshape(c["n_group"], -1)  # a view
                groups[np.argsort(-groups.max(-1), kind="stable")[c["topk_group"] :]] = 0.0
            chosen = np.argsort(-allowed, kind="stable")[:top_k]
            weight = allowed[chosen]
            if c["norm_topk_prob"] and top_k > 1 and self.fault != "ignore_norm":
                weight = weight / (weight.sum() + 1e-20) * (scaling if self.fault == "scale_normed" else 1.0)
            elif self.fault != "ignore_scaling":
                weight = weight * scaling
            if self.fault == "neighbour_weight":
                weight = np.roll(weight, 1)
            for expert, w in zip(chosen, weight, strict=True):
                out[t] += w * self._mlp(f"{at}.experts.{expert}", x[t])
        return out
