#!/usr/bin/env python3
"""The four combinations of the original's README, measured in turn: native or fused operators, eager
or replayed steps.

    tools/measure/graph_combinations.py [--rounds N] [--tokens N] TESSERA [FLAG...]

Runs `TESSERA ask` with the flags of each combination and those given, round after round in changing
order, checks that all say the same, and prints the medians as a Markdown table.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

COMBINATIONS = {
    "native, eager": ["--baseline", "--no-graph"],
    "native, graph": ["--baseline", "--use-graph"],
    "fused, eager": ["--use-pto", "--use-rope", "--use-kv-fusion", "--no-graph"],
    "fused, graph": ["--use-pto", "--use-rope", "--use-kv-fusion", "--use-graph"],
}


def ask(program, flags, tokens, report):
    subprocess.run(
        [program, "ask", "--greedy", "--prompt", "请详细介绍一下人工智能的发展历程", "--output-length",
         str(tokens), "--report-file", report, *flags],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(pathlib.Path(report).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("program")
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    rates = {name: [] for name in COMBINATIONS}
    expected = None
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(options.rounds + 1):
            names = list(COMBINATIONS)
            for name in names if round_ % 2 == 0 else reversed(names):
                report = ask(options.program, COMBINATIONS[name] + options.flags, options.tokens,
                             f"{folder}/report.json")
                expected = expected or report["token_ids"]
                if report["token_ids"] != expected:
                    raise SystemExit(f"{name} says something else")
                if round_ > 0:  # the first one compiles kernels
                    rates[name].append(report["decode_tokens_per_second"])

    base = statistics.median(rates["native, eager"])
    print("| | decode, tokens/s | extremes | against native, eager |\n|---|---|---|---|")
    for name, samples in rates.items():
        median = statistics.median(samples)
        print(f"| {name} | {median:,.1f} | {min(samples):,.1f} to {max(samples):,.1f} "
              f"| {median / base:.2f} |")


if __name__ == "__main__":
    main()
