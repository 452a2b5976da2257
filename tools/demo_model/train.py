"""Train the demo model on its dialogues, on a CPU, with the model class of transformers.

Two phases, both with float32 master weights:

1. The first fits the answers. A balancing loss keeps all experts in use.
2. The second runs the forward pass with the weights rounded to bfloat16, and passes the gradients
   straight through to the float32 masters. A little noise after every norm and a margin loss make
   every choice of a token so clear that rounding cannot change it.

The result is a file of tensors (``weights.safetensors``) for ``export.py``.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

from data import IGNORE, Sampler, load_corpus

SEED = 20240607
TOKENS_PER_BATCH = 1600
POOL = 128
BALANCE = 0.01
MARGIN = 4.0
MARGIN_WEIGHT = 0.2
NOISE = 0.01
WEIGHT_DECAY = 0.02

# The configuration, in the spelling of the original DeepSeek-V2 checkpoints.
CONFIG = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "aux_loss_alpha": 0.001,
    "bos_token_id": 2550,
    "eos_token_id": 2551,
    "first_k_dense_replace": 1,
    "hidden_act": "silu",
    "hidden_size": 192,
    "initializer_range": 0.02,
    "intermediate_size": 512,
    "kv_lora_rank": 64,
    "max_position_embeddings": 2048,
    "model_type": "deepseek_v2",
    "moe_intermediate_size": 96,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 16,
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "num_attention_heads": 6,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 6,
    "pretraining_tp": 1,
    "q_lora_rank": None,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 32,
        "mscale": 0.707,
        "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 64,
        "type": "yarn",
    },
    "rope_theta": 10000,
    "routed_scaling_factor": 1.0,
    "scoring_func": "softmax",
    "seq_aux": True,
    "tie_word_embeddings": False,
    "topk_group": 1,
    "topk_method": "greedy",
    "torch_dtype": "bfloat16",
    "transformers_version": "4.33.1",
    "use_cache": True,
    "v_head_dim": 32,
    "vocab_size": 2560,
}


def build_model() -> DeepseekV2ForCausalLM:
    """Return a freshly initialised model in float32."""
    config = DeepseekV2Config(**{k: v for k, v in CONFIG.items() if k not in ("torch_dtype", "transformers_version")})
    model = DeepseekV2ForCausalLM(config).to(torch.float32)
    model.set_experts_implementation("grouped_mm")
    return model.train()


class Batches:
    """Draw batches of samples of similar length."""

    def __init__(self, sampler: Sampler) -> None:
        """Draw from this sampler."""
        self.sampler = sampler
        self.ready: list[list[tuple[list[int], list[int]]]] = []

    def next(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return token ids and labels, padded on the right, and which places are not padding."""
        if not self.ready:
            samples = sorted((self.sampler.sample() for _ in range(POOL)), key=lambda sample: len(sample[0]))
            batch: list[tuple[list[int], list[int]]] = []
            for sample in samples:
                if batch and (len(batch) + 1) * len(sample[0]) > TOKENS_PER_BATCH:
                    self.ready.append(batch)
                    batch = []
                batch.append(sample)
            self.ready.append(batch)
            self.sampler.random.shuffle(self.ready)
        batch = self.ready.pop()
        width = max(len(ids) for ids, _ in batch)
        tokens = torch.tensor([ids + [self.sampler.eos] * (width - len(ids)) for ids, _ in batch])
        labels = torch.tensor([marks + [IGNORE] * (width - len(marks)) for _, marks in batch])
        lengths = torch.tensor([len(ids) for ids, _ in batch])
        return tokens, labels, torch.arange(width)[None, :] < lengths[:, None]


def balance_loss(router_logits: tuple[Tensor, ...], real: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Return the balancing loss, which is 1 when all experts are used alike, and the use of the experts."""
    total, uses = torch.zeros(()), []
    for logits in router_logits:
        probabilities = logits[real.reshape(-1)].softmax(-1)
        experts = probabilities.shape[-1]
        chosen = probabilities.topk(top_k, -1).indices
        use = functional.one_hot(chosen, experts).sum(1).float().mean(0) / top_k
        total = total + experts * (use * probabilities.mean(0)).sum()
        uses.append(use.detach())
    return total / len(router_logits), torch.stack(uses)


def add_noise(model: nn.Module, amount: float) -> None:
    """Multiply the output of every layer norm by a random factor close to one."""

    def hook(_module: nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
        return output * (1 + amount * torch.randn_like(output))

    for name, module in model.named_modules():
        if name.endswith(("input_layernorm", "post_attention_layernorm", "model.norm")):
            module.register_forward_hook(hook)


def learning_rate(step: int, fit: int, settle: int, peak: float) -> float:
    """Return the learning rate: warm-up, cosine, and a second short cosine for the rounded weights."""
    if step < fit:
        low = 0.1 * peak
        return min(1.0, (step + 1) / 60) * (low + (peak - low) * 0.5 * (1 + math.cos(math.pi * step / fit)))
    start = 0.25 * peak
    return start * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - fit) / max(1, settle))))


class Trainer:
    """The model, its float32 master weights and the optimizer."""

    def __init__(self, tokenizer: Tokenizer, fit: int, settle: int, peak: float) -> None:
        """Prepare a training of ``fit`` steps in float32 and ``settle`` steps with rounded weights."""
        self.fit, self.settle, self.peak = fit, settle, peak
        self.batches = Batches(Sampler(load_corpus(), tokenizer, SEED))
        self.model = build_model()
        self.parameters = list(self.model.parameters())
        self.masters = [parameter.detach().clone() for parameter in self.parameters]
        groups = [
            {"params": [m for m in self.masters if m.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [m for m in self.masters if m.dim() <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.97), eps=1e-9)
        self.loss: float | None = None
        self.use = torch.zeros(())

    @torch.no_grad()
    def load_weights(self, rounded: bool) -> None:
        """Copy the masters into the model, rounded to bfloat16 if wanted."""
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            parameter.copy_(master.to(torch.bfloat16) if rounded else master)

    def losses(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Run one batch; return the entropy, the margins, the balancing loss and the use of the experts."""
        tokens, labels, real = self.batches.next()
        out = self.model.model(tokens, use_cache=False, output_router_logits=True)
        balance, use = balance_loss(out.router_logits, real, CONFIG["num_experts_per_tok"])
        wanted = labels[:, 1:].reshape(-1)
        kept = wanted != IGNORE
        wanted = wanted[kept]
        logits = self.model.lm_head(out.last_hidden_state[:, :-1].reshape(-1, CONFIG["hidden_size"])[kept])
        others = logits.scatter(1, wanted[:, None], -torch.inf).max(-1).values
        margins = logits.gather(1, wanted[:, None])[:, 0] - others
        return functional.cross_entropy(logits, wanted), margins, balance, use

    def step(self, number: int) -> str:
        """Take one step and return a line about it."""
        settling = number >= self.fit
        if number == self.fit:
            add_noise(self.model, NOISE)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(number, self.fit, self.settle, self.peak)
        self.load_weights(rounded=settling)
        entropy, margins, balance, use = self.losses()
        loss = entropy + BALANCE * balance
        if settling:
            loss = loss + MARGIN_WEIGHT * functional.relu(MARGIN - margins).mean()
        loss.backward()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            master.grad, parameter.grad = parameter.grad, None
        nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        now = entropy.item()
        self.loss = now if self.loss is None else 0.95 * self.loss + 0.05 * now
        self.use = use if self.use.dim() == 0 else 0.95 * self.use + 0.05 * use
        return (
            f"step {number} loss {self.loss:.5f} wrong {(margins <= 0).float().mean():.4f} "
            f"least margin {margins.min():.2f} balance {balance:.3f} least used {self.use.min():.4f}"
        )

    def save(self, folder: Path, steps: int, seconds: float) -> None:
        """Write the float32 masters and a report."""
        self.load_weights(rounded=False)
        save_file(self.model.state_dict(), folder / "weights.safetensors")
        use = [[round(share, 4) for share in layer] for layer in self.use.tolist()]
        report = {"steps": steps, "loss": self.loss, "seconds": round(seconds), "expert_use": use}
        (folder / "train.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Train the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights.safetensors and train.json")
    parser.add_argument("--fit", type=int, default=1600, help="steps of the first phase")
    parser.add_argument("--settle", type=int, default=400, help="steps of the second phase")
    parser.add_argument("--peak", type=float, default=2.5e-3, help="highest learning rate")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(SEED)
    arguments.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(Tokenizer.from_file(str(arguments.tokenizer)), arguments.fit, arguments.settle, arguments.peak)
    started = time.time()
    steps = arguments.fit + arguments.settle
    for number in range(steps):
        line = trainer.step(number)
        seconds = time.time() - started
        if number % 25 == 0 or number == steps - 1:
            print(f"{line} seconds {seconds:.0f}", flush=True)
        if (number + 1) % 250 == 0 or number == steps - 1:
            trainer.save(arguments.out, number + 1, seconds)


if __name__ == "__main__":
    main()
