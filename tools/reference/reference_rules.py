"""Where the pinned transformers must be right (asserted), and where DeepSeek's rule replaces its own (patched)."""

from __future__ import annotations

import numpy as np
import torch
import transformers
from torch import nn
from transformers import DeepseekV2Config
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as hf

PINNED = "5.24.0"

# The numbers of DeepSeek-V2-Lite-Chat's config.json that its attention needs.
V2_LITE_ATTENTION = {
    "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": None,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "max_position_embeddings": 163840, "rope_theta": 10000,
    "rope_scaling": {
        "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 4096,
    },
}  # fmt: skip
V2_LITE_SOFTMAX_SCALE = 0.114721


class NormalisingRouter(hf.DeepseekV2TopkRouter):
    """The router with DeepSeek-V2's norm_topk_prob, which transformers reads from config.json and then ignores.

    If more than one expert is chosen and norm_topk_prob is true, the weights are divided by their sum and are not
    multiplied by routed_scaling_factor; otherwise they are multiplied, as in the parent.
    """

    def __init__(self, config: DeepseekV2Config) -> None:
        super().__init__(config)
        self.norm_topk_prob = bool(config.norm_topk_prob)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logits, weights, indices = super().forward(hidden_states)
        if self.norm_topk_prob and self.top_k > 1:
            chosen = logits.softmax(dim=-1, dtype=torch.float32).gather(1, indices)
            weights = chosen / (chosen.sum(dim=-1, keepdim=True) + 1e-20)
        return logits, weights, indices


_apply_rotary_emb = hf.apply_rotary_emb


def _rotary_of_contiguous(
    q: torch.Tensor, k: torch.Tensor, freqs_cis: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers views the rotary part as complex in place; odd head or latent sizes forbid that, a copy does not."""
    copy = torch.contiguous_format
    return _apply_rotary_emb(q.clone(memory_format=copy), k.clone(memory_format=copy), freqs_cis)


def install_rules() -> None:
    """Make every DeepSeek-V2 model built from here on normalise router weights and accept odd sizes."""
    hf.DeepseekV2TopkRouter = NormalisingRouter
    hf.apply_rotary_emb = _rotary_of_contiguous


def check_version() -> None:
    if transformers.__version__ != PINNED:
        raise SystemExit(f"transformers {transformers.__version__} is installed, but the values need {PINNED}")


def check_softmax_scale() -> float:
    """The softmax scale holds YaRN's mscale squared. transformers left it out until July 2026."""
    with torch.device("meta"):
        scale = hf.DeepseekV2Attention(DeepseekV2Config(**V2_LITE_ATTENTION), layer_idx=0).scaling
    assert round(scale, 6) == V2_LITE_SOFTMAX_SCALE, f"softmax scale is {scale}, not {V2_LITE_SOFTMAX_SCALE}"
    return scale


def check_router() -> None:
    """Each chosen expert is multiplied by its own score: the layer against a few lines of NumPy."""
    rng = np.random.default_rng(7)
    hidden, inter, experts, top_k, tokens, scaling = 4, 3, 6, 2, 9, 1.5
    for method, groups, kept in (("greedy", 1, 1), ("group_limited_greedy", 3, 1)):
        config = DeepseekV2Config(
            hidden_size=hidden, num_attention_heads=1, moe_intermediate_size=inter, n_routed_experts=experts,
            num_experts_per_tok=top_k, n_shared_experts=1, topk_method=method, n_group=groups, topk_group=kept,
            routed_scaling_factor=scaling,
        )  # fmt: skip
        config._experts_implementation = "eager"
        layer = hf.DeepseekV2Moe(config)
        w = {name: rng.standard_normal(tuple(p.shape)) for name, p in layer.named_parameters()}
        w["shared_experts.down_proj.weight"][:] = 0.0
        layer.load_state_dict({name: torch.from_numpy(value) for name, value in w.items()})
        x = rng.standard_normal((tokens, hidden))

        expected = np.zeros_like(x)
        for t in range(tokens):
            logits = w["gate.weight"] @ x[t]
            scores = np.exp(logits) / np.exp(logits).sum()
            size = experts // groups
            best_groups = np.argsort([-scores[g * size : (g + 1) * size].max() for g in range(groups)])[:kept]
            allowed = [e for e in range(experts) if e // size in best_groups]
            for e in sorted(allowed, key=lambda e: -scores[e])[:top_k]:
                gate, up = np.split(w["experts.gate_up_proj"][e] @ x[t], 2)
                expected[t] += scaling * scores[e] * (w["experts.down_proj"][e] @ (gate / (1.0 + np.exp(-gate)) * up))
        with torch.no_grad():
            actual = layer(torch.from_numpy(x).float()[None])[0]
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-4, atol=1e-5, err_msg=f"router, {method}")


class RouterProbe:
    """Collects, while a model runs, which experts each token chose and by how much the choice was decided."""

    def __init__(self, model: nn.Module) -> None:
        self._routers = [m for m in model.modules() if isinstance(m, hf.DeepseekV2TopkRouter)]
        self._hooks = [r.register_forward_hook(self._record) for r in self._routers]
        self.gaps: list[torch.Tensor] = []  # per router and token: difference of scores at the edge of the choice
        self.log_gaps: list[torch.Tensor] = []  # the same, as a difference of logits
        self.chosen: list[torch.Tensor] = []  # per router: [tokens, top_k], sorted

    def _record(self, router: hf.DeepseekV2TopkRouter, _: object, output: tuple[torch.Tensor, ...]) -> None:
        logits, _, indices = output
        scores = logits.softmax(dim=-1, dtype=torch.float32)
        edges = []
        allowed = scores
        if router.topk_method == "group_limited_greedy":
            groups = scores.view(-1, router.num_group, router.num_experts // router.num_group)
            best = groups.amax(-1)
            ordered = best.sort(-1, descending=True).values
            edges.append((ordered[:, router.topk_group - 1], ordered[:, router.topk_group]))
            keep = best >= ordered[:, router.topk_group - 1, None]
            allowed = (groups * keep[..., None]).view_as(scores)
        ordered = allowed.sort(-1, descending=True).values
        edges.append((ordered[:, router.top_k - 1], ordered[:, router.top_k]))
        self.gaps.append(torch.stack([a - b for a, b in edges]).amin(0))
        self.log_gaps.append(torch.stack([a.log() - b.log() for a, b in edges]).amin(0))
        self.chosen.append(indices.sort(-1).values)

    def __enter__(self) -> RouterProbe:
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def min_gap(self) -> float:
        return min((float(g.min()) for g in self.gaps), default=float("inf"))
