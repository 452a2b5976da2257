#!/usr/bin/env python3
"""Runs what every number in README.md and docs/ comes from, and keeps the results in docs/results.

    tools/measure/run.py [--models DIR] [--make-models] [--only NAME,...] [--list] [--quick]
    tools/measure/tables.py

The models are those that tools/measure/measurements.py names, in DIR; about 50 GB with all layers. What
cannot run here is skipped, and what failed is said; the others go on. tables.py then writes the tables and
charts of the documents anew.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from measurements import MEASUREMENTS, MODELS

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
GB = 10**9


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


def named_only(words):
    """Of paths in a command or list of flags, the last part."""
    return [pathlib.Path(word).name if word.startswith("/") else word for word in words]


def operator(part):
    kept = ("op", "seconds_per_step", "kernel_seconds_per_step", "share_of_time", "bytes_per_step", "share_of_limit")
    return without_samples({key: part[key] for key in kept})


def shortened(result):
    """Without what tables don't need: single runs, samples of operators, names of folders."""
    if result["command"] in ("bench prolog", "bench kernels"):
        result = without_samples(result)
    result = rounded(result)
    result.get("machine", {}).pop("system", None)
    result.pop("flags", None)
    if "model" in result:
        result["model"] = pathlib.Path(result["model"]).name
    for key in ("a", "b"):
        for words in ("command", "flags"):
            if words in result.get(key, {}):
                result[key][words] = named_only(result[key][words])
    for row in result.get("results", []):
        for one in row.pop("runs", [])[:2]:
            if isinstance(one["report"], list) and one["report"]:  # of another engine
                result["a"] |= {key: one["report"][0].get(key) for key in ("build_commit", "model_type", "model_size")}
        for side in ("a", "b"):
            for key in ("text", "token_ids"):
                (row.get(side) or {}).pop(key, None)
        if "by_op" in row:
            row["by_op"] = [operator(part) for part in row["by_op"]]
    return result


def free_memory_gb():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable: +(\d+) kB", text)[1]) * 1024 / GB


def free_disk_gb(folder):
    return shutil.disk_usage(folder).free / GB


def obstacle(measurement, models):
    """Why `measurement` cannot run here, or None."""
    for need in measurement.needs:
        if need.startswith("$"):
            program = os.environ.get(need[1:])
            if not program or not shutil.which(program):
                return f"{need[1:]} names no program"
        elif not (models / need).exists():
            return f"{need} is not in the folder of models"
    if measurement.memory_gb > free_memory_gb():
        return f"needs {measurement.memory_gb:g} GB of memory, {free_memory_gb():.1f} are available"
    free = free_disk_gb(tempfile.gettempdir())
    if measurement.disk_gb > free:
        return f"needs {measurement.disk_gb:g} GB of disk, {free:.1f} are free"
    return None


def quick(command):
    """Few rounds: shows that everything runs, and measures nothing."""
    for flag, value in (("--repeat", 1), ("--rounds", 1), ("--warmup", 0)):
        command = re.sub(rf"{flag} \d+", f"{flag} {value}", command)
    command = re.sub(r"min_time=[\d.]+", "min_time=0.001", command)
    if "bench" in command and "--json" in command and "--repeat" not in command and "memory" not in command:
        command += " --repeat 1"
    return command + (" --warmup 0" if "bench compare" in command else "")


def shell(command, environment, options):
    """Exit code, None after the timeout, and the lines that were printed. Ends what it started."""
    with subprocess.Popen(command, shell=True, cwd=options.models, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=environment, start_new_session=True) as process:
        try:
            printed, _ = process.communicate(timeout=options.timeout)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return None, []
    return process.returncode, printed.strip().splitlines()


def run(measurement, options):
    """Runs it and keeps its result. Returns what went wrong, or None."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        command = quick(measurement.command) if options.quick else measurement.command
        command = command.format(bin=shlex.quote(str(options.programs)), json=output, scratch=folder,
                                 measure=shlex.quote(str(pathlib.Path(__file__).resolve().parent)))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MODEL_PATH")}
        code, printed = shell(command, {**environment, **dict(measurement.environment)}, options)
        if code is None:
            return f"took longer than {options.timeout:g} s"
        error = None
        if code != 0:
            told = [line for line in printed if line.startswith("tessera: ")] or printed or ["it printed nothing"]
            error = f"exit code {code}: {told[-1]}"
        if output.exists():  # a comparison has a result even where answers differ
            text = json.dumps(shortened(json.loads(output.read_text())), ensure_ascii=False) + "\n"
            (options.results / f"{measurement.name}.json").write_text(text)
            return error
        if error:
            return error
        lines = [line for line in printed if re.search(measurement.keep, line)]
        if not any(lines):
            return "printed none of the lines that are kept"
        (options.results / f"{measurement.name}.txt").write_text("\n".join(lines) + "\n")
    return None


def make_models(chosen, programs, models):
    wanted = {need for m in chosen for need in m.needs}
    wanted |= {need for name in wanted if name in MODELS for need in MODELS[name].needs}
    for name, model in MODELS.items():
        if name not in wanted or (models / name).exists():
            continue
        if model.disk_gb > free_disk_gb(models):
            print(f"{name}: not made, for it takes {model.disk_gb:g} GB of disk, and "
                  f"{free_disk_gb(models):.1f} are free", flush=True)
            continue
        print(f"{name}: making it", flush=True)
        done = subprocess.run(model.command.format(bin=shlex.quote(str(programs)),
                                                   demo=shlex.quote(str(ROOT / "models" / "demo"))),
                              shell=True, cwd=models)
        if done.returncode != 0:
            print(f"{name}: was not made", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build" / "models", metavar="DIR")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "release" / "bin", metavar="DIR")
    parser.add_argument("--results", type=pathlib.Path, metavar="DIR",
                        help="where results are kept: docs/results, with --quick build/quick-results")
    parser.add_argument("--make-models", action="store_true", help="make the models that are missing")
    parser.add_argument("--only", default="", metavar="NAME,...", help="with * for any letters")
    parser.add_argument("--missing", action="store_true", help="only those that have no result yet")
    parser.add_argument("--list", action="store_true", help="only show the commands")
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that everything runs")
    parser.add_argument("--timeout", type=float, default=1800, metavar="S", help="of one measurement: 1800")
    options = parser.parse_args()
    if options.results is None:
        options.results = ROOT / "build" / "quick-results" if options.quick else RESULTS
    options.models, options.programs = options.models.resolve(), options.programs.resolve()
    return options


def choose(options):
    patterns = [name for name in options.only.split(",") if name] or ["*"]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(m.name, pattern) for m in MEASUREMENTS):
            sys.exit(f"there is no measurement {pattern}; --list shows them")
    chosen = [m for m in MEASUREMENTS if any(fnmatch.fnmatchcase(m.name, p) for p in patterns)]
    if options.missing:
        chosen = [m for m in chosen if not list(options.results.glob(f"{m.name}.*"))]
    return chosen


def main():
    options = arguments()
    chosen = choose(options)
    if options.list:
        for m in chosen:
            variables = "".join(f"{key}={value} " for key, value in m.environment)
            print(f"{m.name:<32} {m.minutes:4.1f} min  {', '.join(m.needs) or '-':<40} {variables}{m.command}")
        print(f"{sum(m.minutes for m in chosen):.0f} minutes")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # and so what it runs
    options.results.mkdir(parents=True, exist_ok=True)
    options.models.mkdir(parents=True, exist_ok=True)
    if options.make_models:
        make_models(chosen, options.programs, options.models)
    skipped, failed = [], []
    for m in chosen:
        start = time.monotonic()
        why_not = obstacle(m, options.models)
        error = None if why_not else run(m, options)
        if why_not:
            skipped.append(m.name)
        elif error:
            failed.append(m.name)
        said = f"skipped: {why_not}" if why_not else f"FAILED: {error}" if error else "done"
        print(f"{m.name:<32} {time.monotonic() - start:6.0f} s  {said}", flush=True)
    if skipped:
        print(f"skipped: {', '.join(skipped)}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
