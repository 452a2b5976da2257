#!/usr/bin/env python3
"""Runs what every number in README.md and docs/ comes from, and keeps the results in docs/results.

    tools/measure/run.py [--models DIR] [--make-models] [--only NAME,...] [--list]
    tools/measure/tables.py

The models are those that tools/measure/measurements.py names, in DIR; about 50 GB with all layers. What
cannot run is skipped, and said. tables.py then writes the tables and charts of the documents anew.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from measurements import MEASUREMENTS, MODELS

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def without_samples(value):
    if isinstance(value, dict):
        return {key: without_samples(v) for key, v in value.items() if key != "samples"}
    return [without_samples(v) for v in value] if isinstance(value, list) else value


def shortened(result):
    """Without what tables don't need: single runs, samples of operators, names of folders."""
    if result["command"] in ("bench prolog", "bench kernels"):
        result = without_samples(result)
    result = rounded(result)
    result.get("machine", {}).pop("system", None)
    if "model" in result:
        result["model"] = pathlib.Path(result["model"]).name
    for key in ("a", "b"):
        if result.get(key, {}).get("kind") == "external":
            result[key]["command"][0] = pathlib.Path(result[key]["command"][0]).name
    for row in result.get("results", []):
        row.pop("runs", None)
        for side in ("a", "b"):
            for key in ("text", "token_ids"):
                (row.get(side) or {}).pop(key, None)
        if "by_op" in row:
            row["by_op"] = without_samples(row["by_op"])
    return result


def missing(measurement, models):
    for need in measurement.needs:
        if need.startswith("$"):
            if not os.environ.get(need[1:]):
                return f"{need[1:]} names no program"
        elif not (models / need).exists():
            return f"{models / need} is not there"
    return None


def run(measurement, programs, models):
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        command = measurement.command.format(bin=shlex.quote(str(programs)), json=output,
                                             measure=shlex.quote(str(pathlib.Path(__file__).parent)))
        done = subprocess.run(command, shell=True, cwd=models, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              env={**os.environ, **dict(measurement.environment)})
        if done.returncode != 0:
            return f"exit code {done.returncode}: {done.stdout.strip().splitlines()[-1:]}"
        if output.exists():
            text = json.dumps(shortened(json.loads(output.read_text())), ensure_ascii=False) + "\n"
            (RESULTS / f"{measurement.name}.json").write_text(text)
            return None
        lines = [line for line in done.stdout.splitlines() if re.search(measurement.keep, line)]
        if not lines:
            return "its output has none of the lines that are kept"
        (RESULTS / f"{measurement.name}.txt").write_text("\n".join(lines) + "\n")
    return None


def make_models(programs, models):
    for name, command in MODELS.items():
        if (models / name).exists():
            continue
        print(f"making {name}", flush=True)
        done = subprocess.run(command.format(bin=shlex.quote(str(programs))), shell=True, cwd=models)
        if done.returncode != 0:
            print(f"{name} was not made", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build" / "models")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--make-models", action="store_true")
    parser.add_argument("--only", default="", help="names, or beginnings of them, with commas between")
    parser.add_argument("--list", action="store_true", help="only show the commands")
    options = parser.parse_args()

    wanted = tuple(options.only.split(",")) if options.only else ("",)
    chosen = [m for m in MEASUREMENTS if m.name.startswith(wanted)]
    if not chosen:
        raise SystemExit(f"there is no measurement {options.only}; --list shows them")
    if options.list:
        for m in chosen:
            variables = "".join(f"{key}={value} " for key, value in m.environment)
            print(f"{m.name:<32} {variables}{m.command}")
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    models, programs = options.models.resolve(), options.programs.resolve()
    models.mkdir(parents=True, exist_ok=True)
    if options.make_models:
        make_models(programs, models)
    not_run = []
    for m in chosen:
        start = time.monotonic()
        reason = missing(m, models) or run(m, programs, models)
        print(f"{m.name:<32} {time.monotonic() - start:6.0f} s  {reason or 'done'}", flush=True)
        if reason:
            not_run.append(m.name)
    if not_run:
        sys.exit(f"not measured: {', '.join(not_run)}")


if __name__ == "__main__":
    main()
