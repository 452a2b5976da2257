#!/usr/bin/env python3
"""Writes the tables and charts of the documents from the result files in docs/results.

    tools/measure/tables.py [--check]

A table stands between `<!-- table NAME -->` and `<!-- end -->`. --check changes nothing and fails where
a document does not have what its results say.
"""

import argparse
import json
import pathlib
import re
import sys

import charts

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
DOCUMENTS = ("README.md", "README.zh-CN.md", "docs/performance.md", "docs/benchmark_bs_comparison.md",
             "docs/long_seq_optimization.md")


def result(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def lines(name):
    return (RESULTS / f"{name}.txt").read_text().splitlines()


def rows_of(name, **wanted):
    return [r for r in result(name)["results"] if all(r[k] == v for k, v in wanted.items())]


def row_of(name, **wanted):
    return rows_of(name, **wanted)[0]


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(row) + " |" for row in rows)])


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def percent(value):
    return f"{100 * value:.0f} %"


def limit_of(row):
    if row["limited_by"] == "memory_read":
        return f"memory read, {number(row['read_gb_per_second']['median'])} GB/s"
    return f"dot peak, {number(row['dot_gflop_per_second']['median'])} Gop/s"


def seconds_of(row, *ops):
    return sum(p["seconds_per_step"]["median"] for p in row["by_op"] if p["op"] in ops)


def share_of_time(row, *ops):
    return sum(p["share_of_time"]["median"] for p in row["by_op"] if p["op"] in ops)


def outside(row):
    """What is spent neither in kernels nor in waiting for another thread."""
    everything = sum(p["seconds_per_step"]["median"] for p in row["by_op"])
    kernels = sum(p["kernel_seconds_per_step"]["median"] for p in row["by_op"])
    return (everything - kernels - seconds_of(row, "waiting")) / everything


# --- Speed at real dimensions.

SPEED_HEAD = ("", "`--dtype`", "tokens/s", "limit, tokens/s", "share", "limited by", "result file")


def speed_row(what, dtype, row, name):
    return (what, dtype, number(row["tokens_per_second"]["median"]), number(row["limit"]["median"]),
            percent(row["share_of_limit"]["median"]), limit_of(row), f"`{name}`")


def real_dimensions():
    rows = []
    for steps in ("replayed", "eager"):
        rows += [speed_row(f"generate, depth 128, {steps}", d, row_of(f"decode-{d}", steps=steps),
                           f"decode-{d}") for d in ("bf16", "int8", "int4")]
    name = "decode-int4-depth-4096"
    rows.append(speed_row("generate, depth 4,096, replayed", "int4", row_of(name, steps="replayed"), name))
    for tokens in (512, 64):
        rows += [speed_row(f"prompt of {tokens}", d, row_of(f"prefill-{d}", new_tokens=tokens),
                           f"prefill-{d}") for d in ("bf16", "int8", "int4")]
    rows += [speed_row(f"{r['batch']} sequences, together", "int4", r, "batch-int4")
             for r in rows_of("batch-int4")]
    return table(SPEED_HEAD, rows)


def all_layers():
    decode, prefill = "decode-27-int4", "prefill-27-int4"
    rows = [speed_row(f"generate, depth 128, {s}", "int4", row_of(decode, steps=s), decode)
            for s in ("replayed", "eager")]
    rows.append(speed_row("prompt of 512", "int4", row_of(prefill), prefill))
    return table(SPEED_HEAD, rows)


def start():
    return "\n".join(["```", *(line.strip() for line in lines("start-27-int4")), "```"])


def avx2():
    rows = []
    for d in ("bf16", "int8", "int4"):
        native, forced = (row_of(n, steps="replayed") for n in (f"decode-{d}", f"decode-{d}-avx2"))
        rows.append((d, number(native["tokens_per_second"]["median"]),
                     percent(native["share_of_limit"]["median"]),
                     number(forced["tokens_per_second"]["median"]),
                     percent(forced["share_of_limit"]["median"])))
    return table(("`--dtype`", "native, tokens/s", "share", "AVX2, tokens/s", "share"), rows)


def graph():
    rows = []
    for name, what in (("decode-int4", "int4"), ("decode-int8", "int8"), ("decode-bf16", "bf16"),
                       ("decode-int4-depth-4096", "int4, depth 4,096")):
        eager, replayed = (row_of(name, steps=s) for s in ("eager", "replayed"))
        speed = [r["tokens_per_second"]["median"] for r in (eager, replayed)]
        rows.append((what, number(speed[0]), number(speed[1]), f"{speed[1] / speed[0]:.2f}",
                     percent(eager["share_of_limit"]["median"]),
                     percent(replayed["share_of_limit"]["median"]), limit_of(replayed),
                     *(f"{100 * outside(r):.1f} %" for r in (eager, replayed)),
                     f"{100 * share_of_time(replayed, 'waiting'):.1f} %"))
    return table(("", "eager, tokens/s", "replayed", "ratio", "eager, of the limit", "replayed", "limit",
                  "outside kernels, eager", "replayed", "waiting"), rows)


def operators():
    """Where the time of a generated token goes."""
    columns = [row_of(f"decode-{d}", steps="replayed") for d in ("bf16", "int8", "int4")]
    rows = []
    for part in columns[0]["by_op"]:
        op = part["op"]
        cells = [next(p for p in c["by_op"] if p["op"] == op) for c in columns]
        if max(c["share_of_time"]["median"] for c in cells) < 0.005:
            continue
        row = [op]
        for c in cells:
            row += [f"{c['seconds_per_step']['median'] * 1e3:.3f}",
                    f"{100 * c['share_of_time']['median']:.1f} %",
                    percent(c["share_of_limit"]["median"]) if c["share_of_limit"]["median"] else ""]
        rows.append(row)
    return table(("", "bf16, ms", "of the time", "of the limit", "int8, ms", "of the time", "of the limit",
                  "int4, ms", "of the time", "of the limit"), rows)


# --- The document on baseline and fused.

STATUS = {"same": "≈ same", "a_faster": "A faster", "b_faster": "B faster", "inconclusive": "inconclusive",
          "different": "DIFFERENT", "failed": "FAILED"}


def comparison(name):
    rows = []
    for r in result(name)["results"]:
        if r["speedup"] is None:
            rows.append((str(r["batch"]), str(r["output_tokens"]), "", "", "", STATUS[r["status"]]))
            continue
        s, metric = r["speedup"], r["metric"]
        rows.append((str(r["batch"]), str(r["output_tokens"]), number(r["a"][metric]["median"]),
                     number(r["b"][metric]["median"]),
                     f"{s['median']:.3f} ({s['low']:.3f} to {s['high']:.3f})", STATUS[r["status"]]))
    return table(("batch", "tokens", "A, tokens/s", "B, tokens/s", "B / A, interval of 95 %", "status"), rows)


def comparison_chart(name, title):
    return charts.intervals(title, "B / A", [
        (f"batch {r['batch']}, {r['output_tokens']} tokens", r["speedup"]["low"], r["speedup"]["median"],
         r["speedup"]["high"]) for r in result(name)["results"] if r["speedup"]])


def prolog():
    data = result("prolog")
    names = [i["implementation"] for i in data["results"][0]["implementations"]]
    rows = []
    for r in data["results"]:
        by_name = {i["implementation"]: i for i in r["implementations"]}
        rows.append([str(r["rows"])] + [
            f"{by_name[n]['seconds']['median'] * 1e6:,.0f} us, {percent(by_name[n]['share_of_limit']['median'])}"
            if n in by_name else "" for n in names]
            + [f"{by_name['baseline']['seconds']['median'] / by_name['fused']['seconds']['median']:.2f}"])
    return table(["rows", *names, "baseline / fused"], rows)


def kernels():
    rows = []
    for r in result("kernels")["results"]:
        by_name = {i["implementation"]: i["seconds"]["median"] * 1e6 for i in r["implementations"]}
        if r["rows"] in (1, 2, 8, 64, 512):
            rows.append((r["case"], str(r["rows"]), *(f"{by_name[n]:.2f} us" for n in ("tile", "native")),
                         f"{by_name['native'] / by_name['tile']:.2f}"))
    return table(("", "rows", "`tile`", "`native`", "native / tile"), rows)


# --- The document on long sequences.

DEPTHS = (128, 1024, 4096, 16384)


def decode_name(form, depth):
    if form == "expanded":
        return f"decode-int4-expanded-depth-{depth}"
    return "decode-int4" if depth == 128 else f"decode-int4-depth-{depth}"


def decode_at(form, depth):
    name = decode_name(form, depth)
    return row_of(name, steps="replayed") if (RESULTS / f"{name}.json").exists() else None


def depth():
    rows = []
    for n in DEPTHS:
        row = decode_at("latent", n)
        wide = decode_at("expanded", n)
        rows.append((f"{n:,}", number(row["tokens_per_second"]["median"]),
                     percent(row["share_of_limit"]["median"]), limit_of(row),
                     percent(share_of_time(row, "attention")),
                     number(wide["tokens_per_second"]["median"]) if wide else "",
                     percent(share_of_time(wide, "attention")) if wide else ""))
    return table(("depth", "tokens/s", "share", "limited by", "attention, of the time",
                  "expanded cache, tokens/s", "attention, of the time"), rows)


def depth_chart():
    series = {f"{form} cache": [r["tokens_per_second"]["median"] if (r := decode_at(form, n)) else None
                                for n in DEPTHS] for form in ("latent", "expanded")}
    return charts.lines("Generating behind a long context, five layers, int4", "tokens in the cache",
                        "tokens/s", [f"{n:,}" for n in DEPTHS], series)


PREFILL_DEPTHS = (0, 2048, 8192)


def prefill_at(form, n):
    return row_of(f"prefill-int4-{form}-depth-{n}")


def prefill_depth():
    rows = []
    for n in PREFILL_DEPTHS:
        absorbed, expanded = (prefill_at(f, n) for f in ("absorbed", "expanded"))
        speed = [r["tokens_per_second"]["median"] for r in (absorbed, expanded)]
        rows.append((f"{n:,}", number(speed[0]), percent(share_of_time(absorbed, "attention", "absorb")),
                     number(speed[1]), percent(share_of_time(expanded, "attention", "absorb")),
                     f"{speed[1] / speed[0]:.2f}"))
    return table(("tokens before", "absorbed, tokens/s", "attention and its products, of the time",
                  "expanded, tokens/s", "attention and its products, of the time", "expanded / absorbed"), rows)


def prefill_chart():
    series = {form: [prefill_at(form, n)["tokens_per_second"]["median"] for n in PREFILL_DEPTHS]
              for form in ("absorbed", "expanded")}
    return charts.lines("Reading 512 tokens behind others, five layers, int4", "tokens before them",
                        "tokens/s", [f"{n:,}" for n in PREFILL_DEPTHS], series)


def memory():
    rows = []
    for d in ("bf16", "int8", "int4"):
        m = result(f"memory-{d}")
        rows.append((d, f"{m['weight_bytes']['total'] / 1e9:.2f} GB", f"{m['cache_bytes_per_token']:,}",
                     f"{m['cache_bytes'] / 1e6:.1f} MB"))
    return table(("`--dtype`", "weights", "bytes of cache for a token, all five layers",
                  "cache of 4,096 tokens"), rows)


# --- Text that is shown as it was printed.


def printed(name):
    return "\n".join(["```", *lines(name), "```"])


def combinations():
    return "\n".join(lines("combinations-demo"))


def google_benchmark(name):
    rows = []
    for line in lines(name):
        case, time, unit = line.split()[:3]
        counters = dict(c.split("=") for c in line.split()[6:] if "=" in c)
        rows.append((case.removesuffix("/manual_time").removesuffix("/real_time"), f"{time} {unit}",
                     ", ".join(f"{key} {value}" for key, value in counters.items())))
    return table(("", "time", ""), rows)


def accuracy(name):
    rows = []
    pattern = (r"(.+?) +cosine of logits ([\d.]+) mean ([\d.]+) smallest, of hidden states ([\d.]+); "
               r"KL (\S+); same token ([\d.]+ %)")
    for line in lines(name):
        rows.append(re.fullmatch(pattern, line.strip()).groups())
    return table(("Format", "Cosine of the logits, mean", "smallest", "of the last hidden state, smallest",
                  "KL, nats a token", "same token"), rows)


# --- README.


def readme(words):
    rows = []
    for key, d, row in (
            *(("generate", d, row_of(f"decode-{d}", steps="replayed")) for d in ("bf16", "int8", "int4")),
            *(("prompt", d, row_of(f"prefill-{d}", new_tokens=512)) for d in ("bf16", "int8", "int4"))):
        rows.append((words[key], d, number(row["tokens_per_second"]["median"]),
                     percent(row["share_of_limit"]["median"]),
                     words[row["limited_by"]].format(
                         number(row["read_gb_per_second"]["median"]),
                         number(row["dot_gflop_per_second"]["median"]))))
    return table(("", "`--dtype`", words["speed"], words["share"], words["limit"]), rows)


ENGLISH = {"generate": "generate, depth 128", "prompt": "prompt of 512", "speed": "tokens/s",
           "share": "of the limit", "limit": "limit at that moment", "memory_read": "memory read, {0} GB/s",
           "dot_peak": "dot peak, {1} Gop/s"}
CHINESE = {"generate": "生成，深度 128", "prompt": "512 个词元的提示", "speed": "词元/秒", "share": "占上限",
           "limit": "当时的上限", "memory_read": "内存读取 {0} GB/s", "dot_peak": "点积峰值 {1} Gop/s"}

TABLES = {
    "readme": lambda: readme(ENGLISH),
    "readme-zh": lambda: readme(CHINESE),
    "real-dimensions": real_dimensions,
    "operators": operators,
    "all-layers": all_layers,
    "start": start,
    "avx2": avx2,
    "graph": graph,
    "combinations": combinations,
    "prolog": prolog,
    "kernels": kernels,
    "blocks": lambda: printed("blocks"),
    "linear": lambda: google_benchmark("linear"),
    "attention": lambda: google_benchmark("attention"),
    "accuracy-demo": lambda: accuracy("accuracy-demo"),
    "accuracy-2-layers": lambda: accuracy("accuracy-2-layers"),
    "compare-demo": lambda: comparison("compare-demo"),
    "compare-int4": lambda: comparison("compare-int4"),
    "compare-bf16": lambda: comparison("compare-bf16"),
    "compare-llama-bench": lambda: comparison("compare-llama-bench"),
    "depth": depth,
    "prefill-depth": prefill_depth,
    "memory": memory,
}

CHARTS = {
    "compare_demo.svg": lambda: comparison_chart("compare-demo", "The bundled model: fused (B) against native (A)"),
    "compare_int4.svg": lambda: comparison_chart("compare-int4", "Five layers, int4: fused (B) against native (A)"),
    "decode_depth.svg": depth_chart,
    "prefill_depth.svg": prefill_chart,
}


def with_tables(text):
    def fill(match):
        return f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}"

    return re.sub(r"(<!-- table ([\w-]+) -->)\n.*?(<!-- end -->)", fill, text, flags=re.DOTALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = {ROOT / "docs" / "images" / name: chart() for name, chart in CHARTS.items()}
    for name in DOCUMENTS:
        wanted[ROOT / name] = with_tables((ROOT / name).read_text())
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    if options.check:
        if stale:
            sys.exit(f"{stale[0].relative_to(ROOT)} does not have what docs/results says; "
                     "run tools/measure/tables.py")
        return
    for path in stale:
        path.write_text(wanted[path])
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
