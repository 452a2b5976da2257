"""Running a model folder with transformers: the values of expected.safetensors, and what must hold for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import DeepseekV2ForCausalLM, DynamicCache

from numpy_model import FAULTS, NumpyModel
from reference_files import load_folder, save_tensors
from reference_models import BOS, EOS, ReferenceModel
from reference_rules import RouterProbe

TOKENS = 44  # of the main sequence; every YaRN model's original context is shorter
PREFILL = 12  # tokens before the decode steps; shorter than every original context, so that decoding crosses it
GREEDY_PROMPT, GREEDY_NEW = 8, 32

MAX_DECODE_ERROR = 2e-5  # of the largest |logit|
MAX_NUMPY_ERROR = 2e-5  # of the largest |logit|
MIN_BF16_COSINE = 0.9995  # per position, against fp32
MIN_ROUTER_GAP = 1e-4  # of scores, wherever fp32 values are recorded
PICK_LOG_GAP = 0.2  # of router logits, where tokens can be picked: far above what bf16 disturbs
MIN_GREEDY_MARGIN = 1e-3  # of the two best logits
MIN_GREEDY_VARIETY = 8  # different tokens among the 32
MIN_FAULT_ERROR = 1e-2  # of the largest |logit|: a fault this large counts as seen


class Unsuitable(AssertionError):
    """This seed's model does not meet a condition; another seed may."""


@dataclass(frozen=True)
class Report:
    name: str
    bf16_cosine: float
    router_gap: float
    greedy_margin: float
    greedy_variety: int
    decode_error: float
    numpy_error: float
    attention_entropy: float  # relative to uniform attention, over the second half of the sequence
    experts_used: str
    logit_std: float
    faults_seen: tuple[str, ...]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Unsuitable(message)


def _load(folder: Path, dtype: torch.dtype) -> DeepseekV2ForCausalLM:
    model, info = DeepseekV2ForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager", output_loading_info=True
    )
    problems = {kind: names for kind, names in info.items() if names}
    assert not problems, f"{folder.name}: {problems}"
    return model.eval()


def _logits(model: DeepseekV2ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    return model(ids[None], use_cache=False).logits[0]


def pick_ids(model: DeepseekV2ForCausalLM, m: ReferenceModel, length: int, seed: int) -> torch.Tensor:
    """Random tokens, each passed over if it would leave some router undecided.

    A token's route depends on the tokens before it alone, so that a sequence can be built from left to right.
    """
    rng = np.random.default_rng(seed)
    ids = torch.empty(0, dtype=torch.long)
    while len(ids) < length:
        candidates = torch.from_numpy(rng.permutation(np.arange(EOS + 1, m.vocab))[:48])
        batch = torch.cat([ids.expand(len(candidates), -1), candidates[:, None]], dim=1)
        with RouterProbe(model) as probe:
            model(batch, use_cache=False)
        if probe.log_gaps:
            last = torch.stack([g.view(batch.shape)[:, -1] for g in probe.log_gaps]).amin(0)
            decided = (last > PICK_LOG_GAP).nonzero()[:, 0]
            _require(len(decided) > 0, f"no candidate for position {len(ids)} leaves the routers decided")
            ids = batch[decided[0]]
        else:
            ids = batch[0]
    return ids


def _greedy(model: DeepseekV2ForCausalLM, prompt: torch.Tensor) -> tuple[torch.Tensor, float]:
    """The most likely continuation, with a cache, and its smallest lead of the best logit over the second best."""
    cache = DynamicCache(config=model.config)
    step, new, margin = prompt, [], float("inf")
    for _ in range(GREEDY_NEW):
        best = model(step[None], cache=cache, use_cache=True).logits[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        step = best.indices[:1]
        new.append(int(step))
    return torch.tensor(new), margin


def _decode(model: DeepseekV2ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """Logits [len(ids) - PREFILL, vocab] of the single-token steps that follow a prefill of PREFILL tokens."""
    cache = DynamicCache(config=model.config)
    model(ids[None, :PREFILL], cache=cache, use_cache=True)
    steps = [model(ids[None, i : i + 1], cache=cache, use_cache=True) for i in range(PREFILL, len(ids))]
    return torch.cat([step.logits[0] for step in steps])


def _hidden_and_attention(
    model: DeepseekV2ForCausalLM, ids: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor], tuple[torch.Tensor, ...]]:
    hidden: list[torch.Tensor] = []
    hooks = [layer.register_forward_hook(lambda _m, _i, out: hidden.append(out[0])) for layer in model.model.layers]
    out = model(ids[None], use_cache=False, output_attentions=True)
    for hook in hooks:
        hook.remove()
    return out.logits[0], hidden, out.attentions


def _relative_attention_entropy(attentions: tuple[torch.Tensor, ...]) -> float:
    """1 for uniform attention, 0 for attention to one token; the mean over layers, heads and later tokens."""
    p = torch.stack(attentions)[:, 0, :, TOKENS // 2 :].double()
    entropy = -(p * p.clamp_min(1e-30).log()).sum(-1)
    uniform = torch.arange(TOKENS // 2 + 1, TOKENS + 1).double().log()
    return float((entropy / uniform).mean())


def _error(actual: torch.Tensor | np.ndarray, expected: torch.Tensor) -> float:
    return float((torch.as_tensor(actual) - expected).abs().max() / expected.abs().max())


@torch.no_grad()
def make_expected(m: ReferenceModel, folder: Path) -> Report:
    """Run the folder, check every condition, and write expected.safetensors."""
    model = _load(folder, torch.float32)
    out: dict[str, torch.Tensor] = {}
    ids = pick_ids(model, m, TOKENS, m.seed)
    out["ids"] = ids
    out["greedy_ids"], margin = _greedy(model, ids[:GREEDY_PROMPT])
    out["fp32.decode_logits"] = _decode(model, ids)
    for i, length in enumerate(m.batch):
        out[f"batch.{i}.ids"] = pick_ids(model, m, length, 1000 * (i + 1) + m.seed)
    with RouterProbe(model) as probe:
        logits, hidden, attentions = _hidden_and_attention(model, ids)
        chosen = probe.chosen.copy()
        out["fp32.logits"] = logits
        out |= {f"fp32.hidden.{n}": state for n, state in enumerate(hidden)}
        for i in range(len(m.batch)):
            out[f"batch.{i}.fp32.logits"] = _logits(model, out[f"batch.{i}.ids"])
        _logits(model, torch.cat([ids[:GREEDY_PROMPT], out["greedy_ids"]]))  # for its routers' gaps
        router_gap = probe.min_gap()

    low = _load(folder, torch.bfloat16)
    with RouterProbe(low) as probe:
        out["bf16.logits"] = _logits(low, ids).float()
        low_chosen = probe.chosen

    cosine = float(torch.cosine_similarity(out["bf16.logits"].double(), logits.double(), dim=-1).min())
    decode_error = _error(out["fp32.decode_logits"], logits[PREFILL:])
    greedy = set(out["greedy_ids"].tolist())
    variety = len(greedy)
    _require(all(torch.equal(a, b) for a, b in zip(chosen, low_chosen, strict=True)), "bf16 chooses other experts")
    _require(cosine >= MIN_BF16_COSINE, f"cosine of bf16 with fp32 is {cosine:.6f}")
    _require(router_gap > MIN_ROUTER_GAP, f"router gap is {router_gap:.2e}")
    _require(margin > MIN_GREEDY_MARGIN, f"greedy margin is {margin:.2e}")
    _require(variety >= MIN_GREEDY_VARIETY, f"greedy path has {variety} different tokens")
    _require(not {BOS, EOS} & greedy, "greedy path holds bos or eos")
    assert decode_error < MAX_DECODE_ERROR, f"{m.name}: decode differs from prefill by {decode_error:.2e}"

    weights, config = load_folder(folder), json.loads((folder / "config.json").read_text())
    numpy_error = _error(NumpyModel(config, weights).logits(ids.numpy()), logits)
    assert numpy_error < MAX_NUMPY_ERROR, f"{m.name}: NumPy differs from transformers by {numpy_error:.2e}"
    errors = {f: _error(NumpyModel(config, weights, f).logits(ids.numpy()), logits) for f in FAULTS}
    seen = tuple(f for f, error in errors.items() if error > MIN_FAULT_ERROR)

    out = {name: t.to(torch.int32 if name.endswith("ids") else torch.float32) for name, t in out.items()}
    facts = {
        "bf16_min_cosine": f"{cosine:.7f}",
        "greedy_min_margin": f"{margin:.6f}",
        "greedy_prompt_tokens": str(GREEDY_PROMPT),
        "prefill_tokens": str(PREFILL),
        "router_min_gap": f"{router_gap:.6f}" if m.has_moe else "none",
    }
    save_tensors(folder / "expected.safetensors", out, facts)
    used = "/".join(str(len(c.unique())) for c in chosen)
    return Report(
        m.name, cosine, router_gap, margin, variety, decode_error, numpy_error,
        _relative_attention_entropy(attentions), f"{used} of {m.experts}" if used else "-", float(logits.std()), seen,
    )  # fmt: skip
