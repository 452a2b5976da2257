"""The table of reference models, and their seeded random weights under the original checkpoint names."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reference_files import save_tensors

BOS, EOS = 0, 1
MAX_POSITIONS = 640


@dataclass(frozen=True)
class ReferenceModel:
    """One small model: what its config.json says, how it is stored, and the seed of its weights and tokens."""

    name: str
    seed: int
    why: str  # what this model shows that the others do not
    vocab: int = 128
    hidden: int = 48
    heads: int = 4
    layers: int = 3
    first_dense: int = 1
    q_lora: int | None = None
    kv_lora: int = 24
    nope: int = 8
    rope: int = 8
    v: int = 8
    inter: int = 64
    moe_inter: int = 12
    experts: int = 8
    top_k: int = 3
    shared: int = 2
    norm_topk: bool = False
    routed_scaling: float = 1.0
    topk_method: str = "greedy"
    n_group: int = 1
    topk_group: int = 1
    eps: float = 1e-5
    attention_bias: bool = False
    theta: float = 10000.0
    yarn: dict[str, float] | None = None  # None: plain RoPE
    new_spelling: bool = False  # rope_parameters + rope_type, instead of rope_scaling + type + a top-level rope_theta
    dtype: torch.dtype = torch.bfloat16
    shards: int = 1
    batch: tuple[int, ...] = ()  # lengths of further sequences

    @property
    def has_moe(self) -> bool:
        return self.first_dense < self.layers

    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        config: dict[str, Any] = {
            "architectures": ["DeepseekV2ForCausalLM"],
            "attention_bias": self.attention_bias,
            "attention_dropout": 0.0,
            "aux_loss_alpha": 0.001,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "first_k_dense_replace": self.first_dense,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.inter,
            "kv_lora_rank": self.kv_lora,
            "max_position_embeddings": MAX_POSITIONS,
            "model_type": "deepseek_v2",
            "moe_intermediate_size": self.moe_inter,
            "moe_layer_freq": 1,
            "n_group": self.n_group,
            "n_routed_experts": self.experts,
            "n_shared_experts": self.shared,
            "norm_topk_prob": self.norm_topk,
            "num_attention_heads": self.heads,
            "num_experts_per_tok": self.top_k,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.heads,
            "pretraining_tp": 1,
            "q_lora_rank": self.q_lora,
            "qk_nope_head_dim": self.nope,
            "qk_rope_head_dim": self.rope,
            "rms_norm_eps": self.eps,
            "routed_scaling_factor": self.routed_scaling,
            "scoring_func": "softmax",
            "seq_aux": True,
            "tie_word_embeddings": False,
            "topk_group": self.topk_group,
            "topk_method": self.topk_method,
            "use_cache": True,
            "v_head_dim": self.v,
            "vocab_size": self.vocab,
        }
        dtype_name = str(self.dtype).removeprefix("torch.")
        if self.new_spelling:
            rope_type = {"rope_type": "yarn" if self.yarn else "default", "rope_theta": self.theta}
            config |= {"rope_parameters": {**(self.yarn or {}), **rope_type}, "dtype": dtype_name}
        else:
            scaling = {**self.yarn, "type": "yarn"} if self.yarn else None
            config |= {"rope_scaling": scaling, "rope_theta": self.theta, "torch_dtype": dtype_name}
        return dict(sorted(config.items()))


def _lite_yarn(**changes: float) -> dict[str, float]:
    """V2-Lite's own YaRN numbers, but for an original context short enough for a test to leave it."""
    real = {"factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}
    return {**real, "original_max_position_embeddings": 16, **changes}


MODELS: tuple[ReferenceModel, ...] = (
    ReferenceModel(
        "lite", 1, "DeepSeek-V2-Lite in small: 16 heads, no query rank, one dense layer, its own YaRN numbers",
        heads=16, nope=6, rope=8, v=6, eps=1e-6, yarn=_lite_yarn(), batch=(1, 5, 17, 40),
    ),
    ReferenceModel(
        "full", 1, "DeepSeek-V2 in small: query rank, group-limited routing, scaled router weights; three shards",
        q_lora=40, kv_lora=32, nope=16, v=16, inter=96, moe_inter=8, experts=16, top_k=4, n_group=4, topk_group=2,
        topk_method="group_limited_greedy", routed_scaling=2.5, eps=0.02, theta=100.0,
        yarn=_lite_yarn(beta_fast=4, original_max_position_embeddings=24), shards=3, batch=(1, 5, 17, 40),
    ),
    ReferenceModel(
        "three_dense", 1, "three dense layers before the one with experts; a YaRN ramp with steps inside it",
        hidden=64, layers=4, first_dense=3, rope=16, theta=50.0, inter=80,
        yarn=_lite_yarn(factor=8, beta_fast=2, original_max_position_embeddings=32),
    ),
    ReferenceModel(
        "norm_topk", 1, "normalised router weights, which routed_scaling_factor must not touch; YaRN betas left out",
        norm_topk=True, routed_scaling=2.5,
        yarn={"factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 16},
    ),
    ReferenceModel(
        "no_rope_scaling", 2, "plain RoPE, rope_scaling null; stored as F32",
        hidden=32, kv_lora=16, inter=48, moe_inter=8, layers=2, dtype=torch.float32,
    ),
    ReferenceModel(
        "mscale_differs", 2, "mscale and mscale_all_dim differ, so that cos and sin are scaled as well; new spelling",
        hidden=64, rope=12, theta=200.0, new_spelling=True,
        yarn=_lite_yarn(factor=16, beta_fast=2, mscale=1.0, mscale_all_dim=0.6),
    ),
    ReferenceModel(
        "one_head", 1, "one head; top 1, scaled though norm_topk_prob is true; YaRN without mscale; stored as F16",
        hidden=64, heads=1, nope=24, rope=16, v=24, top_k=1, norm_topk=True, routed_scaling=1.5, dtype=torch.float16,
        yarn={"factor": 40, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 16},
    ),
    ReferenceModel(
        "six_heads", 1, "a head count that is no power of two; three shared experts; new spelling",
        hidden=60, heads=6, shared=3, new_spelling=True, yarn=_lite_yarn(original_max_position_embeddings=20),
    ),
    ReferenceModel(
        "odd_dims", 6, "no dimension is a multiple of 8; five experts; one shared expert",
        vocab=131, hidden=52, kv_lora=37, nope=11, rope=6, v=13, inter=77, moe_inter=23, experts=5, shared=1,
        routed_scaling=1.7, eps=0.02, yarn=_lite_yarn(),
    ),
    ReferenceModel(
        "all_dense", 1, "first_k_dense_replace beyond the last layer: no experts; plain RoPE in the new spelling",
        hidden=64, layers=2, first_dense=3, inter=96, theta=500000.0, new_spelling=True,
    ),
    ReferenceModel(
        "attention_bias", 1, "biases on q_a_proj, kv_a_proj_with_mqa and o_proj",
        q_lora=24, attention_bias=True, eps=0.02, yarn=_lite_yarn(),
    ),
)


def weight_shapes(m: ReferenceModel) -> Iterator[tuple[str, tuple[int, ...], float]]:
    """Every tensor of the checkpoint: name, shape, and gain (0 for a norm, negative for a bias).

    A matrix is drawn with standard deviation gain / sqrt(fan-in), so that a unit input gives an output of size gain.
    The gains make attention scores and router logits spread by one or two, which is what a trained model does.
    """

    def mlp(prefix: str, width: int) -> Iterator[tuple[str, tuple[int, ...], float]]:
        yield f"{prefix}.gate_proj.weight", (width, m.hidden), 1.2
        yield f"{prefix}.up_proj.weight", (width, m.hidden), 1.2
        yield f"{prefix}.down_proj.weight", (m.hidden, width), 0.8

    yield "model.embed_tokens.weight", (m.vocab, m.hidden), math.sqrt(m.hidden)
    for layer in range(m.layers):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", (m.hidden,), 0.0
        q_out = m.heads * (m.nope + m.rope)
        if m.q_lora is None:
            yield f"{at}.self_attn.q_proj.weight", (q_out, m.hidden), 1.0
        else:
            yield f"{at}.self_attn.q_a_proj.weight", (m.q_lora, m.hidden), 1.0
            if m.attention_bias:
                yield f"{at}.self_attn.q_a_proj.bias", (m.q_lora,), -0.5
            yield f"{at}.self_attn.q_a_layernorm.weight", (m.q_lora,), 0.0
            yield f"{at}.self_attn.q_b_proj.weight", (q_out, m.q_lora), 1.0
        kv_a_out = m.kv_lora + m.rope
        yield f"{at}.self_attn.kv_a_proj_with_mqa.weight", (kv_a_out, m.hidden), 1.0
        if m.attention_bias:
            yield f"{at}.self_attn.kv_a_proj_with_mqa.bias", (kv_a_out,), -0.5
        yield f"{at}.self_attn.kv_a_layernorm.weight", (m.kv_lora,), 0.0
        yield f"{at}.self_attn.kv_b_proj.weight", (m.heads * (m.nope + m.v), m.kv_lora), 1.0
        yield f"{at}.self_attn.o_proj.weight", (m.hidden, m.heads * m.v), 0.8
        if m.attention_bias:
            yield f"{at}.self_attn.o_proj.bias", (m.hidden,), -0.5
        yield f"{at}.post_attention_layernorm.weight", (m.hidden,), 0.0
        if layer < m.first_dense:
            yield from mlp(f"{at}.mlp", m.inter)
            continue
        yield f"{at}.mlp.gate.weight", (m.experts, m.hidden), 1.5
        for expert in range(m.experts):
            yield from mlp(f"{at}.mlp.experts.{expert}", m.moe_inter)
        yield from mlp(f"{at}.mlp.shared_experts", m.moe_inter * m.shared)
    yield "model.norm.weight", (m.hidden,), 0.0
    yield "lm_head.weight", (m.vocab, m.hidden), 2.0


def random_weights(m: ReferenceModel) -> dict[str, torch.Tensor]:
    """Seeded normal weights, rounded to the stored type. A norm's weights are 1 + 0.2 * normal."""
    rng = np.random.default_rng([m.seed, *m.name.encode()])
    weights: dict[str, torch.Tensor] = {}
    for name, shape, gain in weight_shapes(m):
        values = rng.standard_normal(shape)
        if gain == 0.0:
            values = 1.0 + 0.2 * values
        else:
            values *= -gain if gain < 0.0 else gain / math.sqrt(shape[-1])
        weights[name] = torch.from_numpy(values).to(torch.float32).to(m.dtype)
    return weights


def write_folder(m: ReferenceModel, folder: Path) -> None:
    """Write config.json and the weights, in one file or in shards with an index, as a Hugging Face folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(m.config(), indent=2) + "\n")
    weights = random_weights(m)
    if m.shards == 1:
        save_tensors(folder / "model.safetensors", weights, {"format": "pt"})
        return
    total = sum(t.nbytes for t in weights.values())
    shards: list[dict[str, torch.Tensor]] = [{} for _ in range(m.shards)]
    done = 0
    for name, tensor in weights.items():
        shards[done * m.shards // total][name] = tensor
        done += tensor.nbytes
    where: dict[str, str] = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{m.shards:05}.safetensors"
        save_tensors(folder / file, shard, {"format": "pt"})
        where |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
