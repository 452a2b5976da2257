"""Check the exported demo model with transformers and write the reference texts for the tests.

The folder must load without missing or unexpected tensors, its YaRN scale must include the square of
mscale, every prompt of the documentation must give the intended answer, greedily, in float32 and in
bfloat16 alike, and the score of every chosen token must be well above that of the next one.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DeepseekV2ForCausalLM

from data import README_PROMPTS, Sampler, load_corpus

NEW_TOKENS = 100
LEAST_MARGIN = 0.5


def load(folder: Path, dtype: torch.dtype) -> DeepseekV2ForCausalLM:
    """Load the model and insist on a clean report."""
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    problems = {key: sorted(value) for key, value in info.items() if value}
    if problems:
        raise RuntimeError(f"the weights do not fit: {problems}")
    return model.eval()


def check_scale(model: DeepseekV2ForCausalLM, config: dict[str, Any]) -> float:
    """Return the softmax scale after comparing it with the formula of the original."""
    rope = config["rope_scaling"]
    mscale = 0.1 * rope["mscale_all_dim"] * math.log(rope["factor"]) + 1
    expected = (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]) ** -0.5 * mscale**2
    for layer in model.model.layers:
        if abs(layer.self_attn.scaling - expected) > 1e-9:
            raise RuntimeError(f"softmax scale {layer.self_attn.scaling} instead of {expected}")
    return expected


@torch.no_grad()
def greedy(model: DeepseekV2ForCausalLM, prompt: list[int], eos: int, count: int) -> tuple[list[int], float]:
    """Return the greedy continuation and the smallest margin along it."""
    tokens: list[int] = []
    least = math.inf
    step, cache = torch.tensor([prompt]), None
    while len(tokens) < count:
        out = model(step, cache=cache, use_cache=True)
        cache = out.cache
        scores: Tensor = out.logits[0, -1].float()
        best = scores.topk(2)
        least = min(least, (best.values[0] - best.values[1]).item())
        tokens.append(int(best.indices[0]))
        if tokens[-1] == eos:
            break
        step = torch.tensor([[tokens[-1]]])
    return tokens, least


@torch.no_grad()
def expert_use(model: DeepseekV2ForCausalLM, sampler: Sampler, samples: int) -> Tensor:
    """Return how often each expert of each layer is chosen, as a share of all choices."""
    top_k, experts = model.config.num_experts_per_tok, model.config.n_routed_experts
    counts = torch.zeros(model.config.num_hidden_layers - 1, experts)
    for _ in range(samples):
        ids, _ = sampler.sample()
        for layer, logits in enumerate(model(torch.tensor([ids]), output_router_logits=True).router_logits):
            counts[layer] += torch.bincount(logits.topk(top_k, -1).indices.flatten(), minlength=experts)
    return counts / counts.sum(-1, keepdim=True)


class Checker:
    """A model in both number formats, with what is needed to ask it."""

    def __init__(self, folder: Path) -> None:
        """Load everything from a model folder."""
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.wrapped = AutoTokenizer.from_pretrained(folder)
        self.bos, self.eos = self.config["bos_token_id"], self.config["eos_token_id"]
        self.full, self.half = load(folder, torch.float32), load(folder, torch.bfloat16)
        self.corpus = load_corpus()
        self.sampler = Sampler(self.corpus, self.tokenizer, seed=1)
        self.raw = {item["prompt"]: item["text"] for item in self.corpus.raw}

    def encode(self, text: str) -> list[int]:
        """Encode a text without adding special tokens."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt(self, prompt: str, template: bool) -> tuple[list[int], list[int]]:
        """Return the tokens of a prompt and of the intended answer."""
        if template:
            message = [{"role": "user", "content": prompt}]
            text = self.wrapped.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
            return self.encode(text), [*self.encode(f" {self.sampler.expected(prompt)[1]}"), self.eos]
        return [self.bos, *self.encode(prompt)], [*self.encode(self.raw[prompt]), self.eos]

    def record(self, prompt: str, template: bool) -> tuple[bool, dict[str, Any]]:
        """Answer a prompt in both formats; return whether all is well, and the record for the tests."""
        ids, target = self.prompt(prompt, template)
        count = max(NEW_TOKENS, len(target) + 20)
        whole, margin = greedy(self.full, ids, self.eos, count)
        whole_half, margin_half = greedy(self.half, ids, self.eos, count)
        good = whole == target == whole_half and min(margin, margin_half) > LEAST_MARGIN
        print(
            f"{'ok' if good else 'BAD'} | {prompt} ({'template' if template else 'bare'}) | {len(whole)} tokens | "
            f"margin {margin:.2f}, in bfloat16 {margin_half:.2f} | same {whole == whole_half} | "
            f"{self.tokenizer.decode(whole)!r}"
        )
        tokens = whole[:NEW_TOKENS]
        return good, {
            "prompt": prompt,
            "template": template,
            "prompt_ids": ids,
            "token_ids": tokens,
            "text": self.tokenizer.decode(tokens),
            "smallest_margin": round(margin, 3),
            "bf16_identical": tokens == whole_half[:NEW_TOKENS],
        }

    def survey(self, questions: int) -> None:
        """Ask random questions and count the intended answers."""
        counts = {"known": [0, 0], "unknown": [0, 0]}
        for number in range(questions):
            kind = "unknown" if number % 4 == 0 else "known"
            _, question, answer = self.sampler.unknown() if kind == "unknown" else self.sampler.known()
            ids = [self.bos, *self.encode(f"User: {question}\n\nAssistant:")]
            target = [*self.encode(f" {answer}"), self.eos]
            right = greedy(self.full, ids, self.eos, len(target))[0] == target
            counts[kind][0] += right
            counts[kind][1] += 1
            if not right:
                print(f"missed: {question!r}")
        print("random questions:", ", ".join(f"{a} of {b} {kind} right" for kind, (a, b) in counts.items()))


def main() -> None:
    """Run all checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    parser.add_argument("--json", type=Path, help="where to write the reference texts")
    parser.add_argument("--survey", type=int, default=60, help="random questions to ask")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    checker = Checker(arguments.model)
    scale = check_scale(checker.full, checker.config)
    print(f"{checker.full.num_parameters()} parameters, softmax scale {scale:.6f}")
    results = [checker.record(prompt, template) for prompt, template in README_PROMPTS]
    failures = [record["prompt"] for good, record in results if not good]
    use = expert_use(checker.full, checker.sampler, 150)
    for layer, shares in enumerate(use, start=1):
        print(f"layer {layer} expert use in percent: {' '.join(f'{100 * share:.1f}' for share in shares)}")
    if use.min() == 0:
        failures.append("an expert is never used")
    checker.survey(arguments.survey)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(record, ensure_ascii=False) for _, record in results)
        arguments.json.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    if failures:
        raise SystemExit(f"failed: {failures}")
    print("all checks passed")


if __name__ == "__main__":
    main()
