"""Writes seeds for the fuzzers: tokenizer_fuzz_seeds.py CHAT_CASES CORPUS, with chat_cases.json and fuzz/corpus."""

import itertools
import json
import pathlib
import sys


def alphabet():
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in prints]
    return {b: chr(b) for b in prints} | {b: chr(0x100 + i) for i, b in enumerate(others)}


def tokenizer(splits, merges, added, **model):
    vocab = {c: i for i, c in enumerate(alphabet().values())}
    for merge in merges:
        vocab.setdefault("".join(merge.split(" ") if isinstance(merge, str) else merge), len(vocab))
    added = [{"id": len(vocab) + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": normalized, "special": special} for i, (content, normalized, special) in enumerate(added)]
    for token in added:  # what would lose text
        token.pop("lstrip"), token.pop("rstrip")
    steps = [{"type": "Split", "pattern": p, "behavior": b, "invert": i} for p, b, i in splits]
    steps += [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "use_regex": not splits, "add_prefix_space": False}]
    return {"added_tokens": added, "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocab, "merges": merges} | model}


def main():
    chat_cases, corpus = map(pathlib.Path, sys.argv[1:])
    seeds = [
        tokenizer([], ["a b", "Ġ a", "Ġa b"], [("<x>", False, True), ("é!", True, False)]),
        tokenizer([({"Regex": r"[\r\n]"}, "Isolated", False), ({"Regex": r"\s?[a-zé]+"}, "Contiguous", False),
                   ({"Regex": r"\s+$"}, "MergedWithPrevious", False)], [["a", "b"]], []),
        tokenizer([({"Regex": r"\p{N}{1,3}|[^\r\n\p{L}\p{P}]?[\p{L}\p{M}]+|\s+(?!\S)|\s+"}, "MergedWithNext", True),
                   ({"String": "b"}, "Isolated", False)], ["1 2"], [("b<", True, False)], ignore_merges=True),
    ]
    for i, seed in enumerate(seeds):
        (corpus / "tokenizer" / f"{i}.json").write_text(json.dumps(seed, ensure_ascii=False, separators=(",", ":")))
    file = json.loads(chat_cases.read_text())
    snippets = [case["template"] for case in file["cases"] if case["template"] not in file["templates"]]
    for i, source in enumerate(file["templates"].values()):
        (corpus / "chat_template" / f"template{i}.jinja").write_text(source)
    for i, batch in enumerate(itertools.batched(snippets, 8) if hasattr(itertools, "batched") else
                              [snippets[j:j + 8] for j in range(0, len(snippets), 8)]):
        (corpus / "chat_template" / f"snippets{i}.jinja").write_text("\n".join(batch))


main()
