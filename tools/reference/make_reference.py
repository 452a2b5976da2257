"""Makes everything in tests/data/reference. See README.md.

    python tools/reference/make_reference.py                   all of it
    python tools/reference/make_reference.py --only lite full  some models, without yarn.json and report.txt
    python tools/reference/make_reference.py --find-seed lite  the first seed that meets every condition
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch
import transformers

from numpy_model import FAULTS
from reference_models import MODELS, ReferenceModel, write_folder
from reference_rules import check_router, check_softmax_scale, check_version, install_rules
from reference_run import Report, Unsuitable, make_expected
from reference_yarn import write_yarn

OUTPUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "reference"
MAX_FOLDER_BYTES, MAX_TOTAL_BYTES = 400_000, 3_500_000


def make_model(m: ReferenceModel, folder: Path) -> Report:
    shutil.rmtree(folder, ignore_errors=True)
    write_folder(m, folder)
    report = make_expected(m, folder)
    size = folder_bytes(folder)
    assert size <= MAX_FOLDER_BYTES, f"{m.name} takes {size} bytes"
    return report


def folder_bytes(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def find_seed(m: ReferenceModel, tries: int = 40) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, tries + 1):
            try:
                make_model(dataclasses.replace(m, seed=seed), Path(folder) / m.name)
            except Unsuitable as reason:
                print(f"{m.name}: seed {seed}: {reason}")
            else:
                print(f"{m.name}: seed {seed} is good")
                return
    raise SystemExit(f"{m.name}: no good seed up to {tries}")


def report_text(reports: list[Report]) -> str:
    lines = [
        f"{'model':16}{'bf16 cos':>10}{'router gap':>12}{'greedy margin':>15}{'variety':>9}"
        f"{'decode err':>12}{'numpy err':>11}{'attn entropy':>14}{'experts':>13}{'logit std':>11}"
    ]
    for r in reports:
        gap = "-" if math.isinf(r.router_gap) else f"{r.router_gap:.6f}"
        lines.append(
            f"{r.name:16}{r.bf16_cosine:10.6f}{gap:>12}{r.greedy_margin:15.4f}{r.greedy_variety:9}"
            f"{r.decode_error:12.1e}{r.numpy_error:11.1e}{r.attention_entropy:14.3f}{r.experts_used:>13}"
            f"{r.logit_std:11.2f}"
        )
    lines += ["", "Mistakes, and the models whose fp32 logits show them:"]
    for fault, meaning in FAULTS.items():
        names = [r.name for r in reports if fault in r.faults_seen]
        lines.append(f"- {meaning}: {', '.join(names) or 'none'}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the reference values in tests/data/reference.")
    names = [m.name for m in MODELS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="make these models alone")
    parser.add_argument("--find-seed", nargs="+", choices=names, metavar="NAME", help="search seeds, write nothing")
    args = parser.parse_args()

    torch.set_num_threads(1)  # sums in one order, and so the same bytes on every run
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    check_version()
    print(f"softmax scale of V2-Lite: {check_softmax_scale():.6f}")
    check_router()
    print("router weights are those of the chosen experts")
    install_rules()

    by_name = {m.name: m for m in MODELS}
    if args.find_seed:
        for name in args.find_seed:
            find_seed(by_name[name])
        return
    reports = [make_model(by_name[name], OUTPUT / name) for name in args.only or names]
    text = report_text(reports)
    print(f"\n{text}")
    if args.only:
        return
    missed = [f for f in FAULTS if not any(f in r.faults_seen for r in reports)]
    assert not missed, f"no model shows {missed}"
    (OUTPUT / "report.txt").write_text(text)
    write_yarn(OUTPUT / "yarn.json")
    total = folder_bytes(OUTPUT)
    assert total <= MAX_TOTAL_BYTES, f"{OUTPUT} takes {total} bytes"
    print(f"{total} bytes in all")


if __name__ == "__main__":
    main()
