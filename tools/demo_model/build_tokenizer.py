"""Train the byte-level BPE tokenizer of the demo model on its dialogues.

The normalizer, pre-tokenizer, post-processor and decoder sections, the chat template and the layout
of both files are those of DeepSeek-V2-Lite-Chat (``tokenizer_format.json``); only the vocabulary and
the merges are new. All 256 byte symbols are part of the vocabulary, and the special tokens follow it.
"""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer, pre_tokenizers, trainers

from data import BOS, EOS, HERE, load_corpus

BASE_VOCABULARY = 2550
LONGEST_TOKEN = 16


def train_vocabulary(layout: dict) -> tuple[dict[str, int], list[str]]:
    """Return the vocabulary and the merges learned from the dialogues."""
    empty = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {},
        "merges": [],
    }
    tokenizer = Tokenizer.from_str(json.dumps({**layout, "added_tokens": [], "model": empty}))
    trainer = trainers.BpeTrainer(
        vocab_size=BASE_VOCABULARY,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=LONGEST_TOKEN,
        show_progress=False,
    )
    texts = [*load_corpus().texts(), *["User: ", "Assistant:", " User Assistant\n\n"] * 50]
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return model["vocab"], merges


def main() -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    out: Path = parser.parse_args().out
    layout = json.loads((HERE / "tokenizer_format.json").read_text(encoding="utf-8"))
    sections = layout["tokenizer"]
    vocab, merges = train_vocabulary(sections)
    if len(vocab) != BASE_VOCABULARY:
        raise RuntimeError(f"{len(vocab)} tokens instead of {BASE_VOCABULARY}")
    added = [
        {
            "id": len(vocab) + number,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": True,
            "special": True,
        }
        for number, content in enumerate((BOS, EOS))
    ]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": vocab,
        "merges": merges,
    }
    tokenizer = {key: sections[key] for key in ("version", "truncation", "padding")}
    tokenizer["added_tokens"] = added
    tokenizer |= {key: sections[key] for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")}
    tokenizer["model"] = model
    config = {**layout["tokenizer_config"], "model_max_length": 2048}
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False, indent=2)
        (out / name).write_text(text + "\n", encoding="utf-8")
    read = Tokenizer.from_file(str(out / "tokenizer.json"))
    answers = sum(len(read.encode(entry.answer, add_special_tokens=False).ids) for entry in load_corpus().entries)
    print(f"{len(vocab)} tokens + {len(added)} special; the answers have {answers} tokens")


if __name__ == "__main__":
    main()
