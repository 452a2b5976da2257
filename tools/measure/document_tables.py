"""The tables and charts of the documents, each from the result files it names."""

import json
import pathlib
import re

import charts

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results"


class Missing(Exception):
    """A table needs a result that is not there."""


used = set()  # the results that were read


def _read(name, ending):
    used.add(name)
    path = RESULTS / f"{name}.{ending}"
    if not path.exists():
        raise Missing(name)
    return path.read_text()


def result(name):
    return json.loads(_read(name, "json"))


def lines(name):
    return _read(name, "txt").strip().splitlines()


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


def share_of_time(row, *ops):
    return sum(p["share_of_time"]["median"] for p in row["by_op"] if p["op"] in ops)


def outside(row):
    """What is spent neither in kernels nor in waiting for another thread, which counts as in kernels."""
    everything = sum(p["seconds_per_step"]["median"] for p in row["by_op"])
    kernels = sum(p["kernel_seconds_per_step"]["median"] for p in row["by_op"])
    return (everything - kernels) / everything


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


def replay_operators():
    return by_operator([(s, row_of("decode-int4", steps=s)) for s in ("eager", "replayed")])


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


def by_operator(columns, always=()):
    """columns: [(title, result row)]: time, share of the time and of the limit of every operator but those of less
    than 0.5 % that are not in `always`."""
    rows = []
    for op in [part["op"] for part in columns[0][1]["by_op"]]:
        cells = [next((p for p in row["by_op"] if p["op"] == op), None) for _, row in columns]
        if op not in always and all(c is None or c["share_of_time"]["median"] < 0.005 for c in cells):
            continue
        row = [op]
        for c in cells:
            if c is None:
                row += ["", "", ""]
                continue
            limit = c["share_of_limit"]["median"]
            row += [f"{c['seconds_per_step']['median'] * 1e3:.3f}", f"{100 * c['share_of_time']['median']:.1f} %",
                    percent(limit) if limit else ""]
        rows.append(row)
    head = [""]
    for title, _ in columns:
        head += [f"{title}, ms", "of the time", "of the limit"]
    return table(head, rows)


def operators():
    """Where the time of a generated token goes."""
    return by_operator([(d, row_of(f"decode-{d}", steps="replayed")) for d in ("bf16", "int8", "int4")])


# --- The document on baseline and fused.

STATUS = {"same": "≈ same", "a_faster": "A faster", "b_faster": "B faster", "inconclusive": "inconclusive",
          "different": "DIFFERENT", "failed": "FAILED"}


def ratio(speedup):
    if speedup["low"] is None:  # of one round
        return f"{speedup['median']:.3f}"
    return f"{speedup['median']:.3f} ({speedup['low']:.3f} to {speedup['high']:.3f})"


def other_engine(name):
    a = result(name)["a"]
    if "build_commit" not in a:
        return comparison(name)
    return (f"{comparison(name)}\n\n`llama-bench` of commit {a['build_commit']}, model of {a['model_size'] / 1e9:.2f} GB "
            "with the embedding.")


def answers(row):
    if row["exactness"] == "within_tolerance":
        return f"logits within {row['logits']['max_abs_difference']:.2f}"
    return row["exactness"].replace("_", " ")


def comparison(name):
    rows = []
    for r in result(name)["results"]:
        metric, s = r["metric"], r["speedup"]
        speeds = (number(r["a"][metric]["median"]), number(r["b"][metric]["median"]), ratio(s)) if s else ("", "", "")
        first = [f"{r[side]['time_to_first_token_s']['median'] * 1e3:.2f} ms"
                 if "time_to_first_token_s" in (r[side] or {}) else "" for side in ("a", "b")]
        rows.append((str(r["batch"]), str(r["output_tokens"]), *speeds, *first, answers(r), STATUS[r["status"]]))
    return table(("batch", "tokens", "A, tokens/s", "B, tokens/s", "B / A, interval of 95 %", "first token, A", "B",
                  "answers", "status"), rows)


SIDES = (("baseline", "native"), ("fused", "fused"))


def combinations_five():
    """The four combinations at real dimensions."""
    rows = []
    for kernels, said in SIDES:
        for steps, how in (("eager", "eager"), ("replayed", "graph")):
            row = [f"{said}, {how}"]
            for d in ("bf16", "int4"):
                r, base = row_of(f"{kernels}-{d}", steps=steps), row_of(f"baseline-{d}", steps="eager")
                row += [number(r["tokens_per_second"]["median"]), percent(r["share_of_limit"]["median"]),
                        f"{r['share_of_limit']['median'] / base['share_of_limit']['median']:.2f}"]
            rows.append(row)
    return table(("", "bf16, tokens/s", "of the limit", "against native, eager", "int4, tokens/s", "of the limit",
                  "against native, eager"), rows)


def fusing(*names):
    """Where the time goes with native operators and with tile kernels: of results of one row each."""
    return by_operator([(said, rows_of(name)[-1]) for (_, said), name in zip(SIDES, names)], ("norms", "prolog"))


def comparison_chart(name, title):
    return charts.intervals(title, "B / A", [
        (f"batch {r['batch']}, {r['output_tokens']} tokens", r["speedup"]["low"], r["speedup"]["median"],
         r["speedup"]["high"]) for r in result(name)["results"] if r["speedup"] and r["speedup"]["low"]])


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

DEPTHS = (0, 128, 1024, 4096, 16384)
CACHES = (("latent cache", "decode-int4-depth-{}"), ("expanded cache", "decode-int4-expanded-depth-{}"))


def decode_at(pattern, n):
    name = "decode-int4" if (pattern, n) == (CACHES[0][1], 128) else pattern.format(n)
    return row_of(name, steps="replayed")


def depth():
    rows = []
    for n in DEPTHS:
        row = [f"{n:,}"]
        for _, pattern in CACHES:
            r = decode_at(pattern, n)
            row += [number(r["tokens_per_second"]["median"]), percent(r["share_of_limit"]["median"]), limit_of(r),
                    percent(share_of_time(r, "attention", "absorb"))]
        rows.append(row)
    head = ["tokens before"]
    for title, _ in CACHES:
        head += [f"{title}, tokens/s", "of the limit", "limited by", "attention and its products, of the time"]
    return table(head, rows)


def depth_chart():
    return charts.lines("Generating behind a long context, five layers, int4", "tokens in the cache", "tokens/s",
                        [f"{n:,}" for n in DEPTHS],
                        {title: [decode_at(pattern, n)["tokens_per_second"]["median"] for n in DEPTHS]
                         for title, pattern in CACHES})


def depth_operators():
    return by_operator([(f"{n:,} before", decode_at(CACHES[0][1], n)) for n in (128, 4096, 16384)])


PREFILL_DEPTHS = (0, 2048, 8192)
FORMS = ("absorbed", "expanded")


def prefill_at(form, n):
    return row_of(f"prefill-int4-{form}-depth-{n}")


def prefill_depth():
    rows = []
    for n in PREFILL_DEPTHS:
        row, speeds = [f"{n:,}"], []
        for form in FORMS:
            r = prefill_at(form, n)
            speeds.append(r["tokens_per_second"]["median"])
            row += [number(speeds[-1]), percent(share_of_time(r, "attention", "absorb"))]
        rows.append((*row, f"{speeds[1] / speeds[0]:.2f}"))
    head = ["tokens before"]
    for form in FORMS:
        head += [f"{form}, tokens/s", "attention and its products, of the time"]
    return table((*head, f"{FORMS[1]} / {FORMS[0]}"), rows)


def prefill_chart():
    return charts.lines("Reading 512 tokens behind others, five layers, int4", "tokens before them", "tokens/s",
                        [f"{n:,}" for n in PREFILL_DEPTHS],
                        {form: [prefill_at(form, n)["tokens_per_second"]["median"] for n in PREFILL_DEPTHS]
                         for form in FORMS})


def memory():
    rows = []
    for title, name in (("bf16", "memory-bf16"), ("int8", "memory-int8"), ("int4", "memory-int4"),
                        ("bf16, expanded cache", "memory-bf16-expanded")):
        m = result(name)
        per_token = m["cache_bytes_per_token"]
        rows.append((title, f"{m['weight_bytes']['total'] / 1e9:.2f} GB", f"{per_token / m['layers']:,.0f}",
                     f"{per_token:,}", f"{m['cache_bytes'] / 1e6:.1f} MB"))
    return table(("`--dtype`", "weights", "bytes of cache for a token and layer", "for a token, all five layers",
                  "cache of 4,096 tokens"), rows)


# --- Text that is shown as it was printed.


def printed(name, *before):
    return "\n".join(["```", *before, *lines(name), "```"])


def combinations():
    return "\n".join(lines("combinations-demo"))


PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}


def cases(name):
    """Of a Google Benchmark run: {case: {"time": microseconds, counter: value}}."""
    found = {}
    for line in lines(name):
        case, time, unit, _, _, _, *counters = line.split()
        values = {"time": float(time) * {"ns": 1e-3, "us": 1, "ms": 1e3}[unit]}
        for counter in counters:
            key, value = counter.split("=")
            values[key] = float(value.rstrip("".join(PREFIXES))) * PREFIXES.get(value[-1], 1)
        found[case] = values
    return found


LAYOUTS = (("bf16", "bf16"), ("i8", "int8"), ("i8g32", "int8, groups"), ("i6g32", "int6, groups"),
           ("i4g32", "int4, groups"))


def blocks():
    found, rows = cases("blocks"), []
    for shape, said in (("q_proj", "2048 → 3072"), ("expert_down", "1408 → 2048"), ("expert_up", "2048 → 1408"),
                        ("kv_b", "512 → 4096")):
        for n in (1, 2, 4, 8, 16, 64, 512):
            limit, key = ("memory read", "read_%") if n <= 4 else ("dot peak", "peak_%")
            rows.append((said if n == 1 else "", str(n), limit,
                         *(f"{found[f'{layout}_{shape}/rows:{n}/threads:1/manual_time'][key]:.0f}"
                           for layout, _ in LAYOUTS)))
    return table(("", "rows", "limit", *(said for _, said in LAYOUTS)), rows)


def linear():
    found = cases("linear")
    return table(("rows", *(said for _, said in LAYOUTS)), [
        (str(n), *(f"{found[f'linear_rows/{layout}_q_proj/rows:{n}/threads:1/manual_time']['onednn']:.1f}"
                   for layout, _ in LAYOUTS)) for n in (1, 8, 64, 512)])


def attention():
    rows = []
    for case, r in cases("attention").items():
        what, form, depth, n = case.split("/")[:4]
        depth, n = (int(part.split(":")[1]) for part in (depth, n))
        tokens = f"{depth:,}" if what == "decode" else f"{depth + 1:,} to {depth + n:,}"
        rows.append((f"{n}" if what == "decode" else f"{n}, of one prompt", tokens,
                     {"bf16": "bf16", "f32": "fp32"}[form], f"{number(r['us'])} us", number(r["GFLOP/s"]),
                     number(r["GB/s"]), f"{r['native']:.1f}"))
    return table(("query rows", "tokens of each", "cache", "time", "GFLOP/s", "GB/s", "native"), rows)


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
CHINESE = {"generate": "生成，深度 128", "prompt": "512 个 token 的提示", "speed": "token/秒", "share": "占上限",
           "limit": "当时的上限", "memory_read": "内存读取 {0} GB/s", "dot_peak": "点积峰值 {1} Gop/s"}

TABLES = {
    "ask": lambda: printed("ask"),
    "ask-mla": lambda: printed(
        "ask-mla", '$ build/release/bin/tessera ask --prompt "What is MLA?" --output_length 60 --greedy'),
    "readme": lambda: readme(ENGLISH),
    "readme-zh": lambda: readme(CHINESE),
    "real-dimensions": real_dimensions,
    "operators": operators,
    "all-layers": all_layers,
    "start": start,
    "avx2": avx2,
    "graph": graph,
    "replay-operators": replay_operators,
    "combinations": combinations,
    "combinations-five": combinations_five,
    "fusing-one-token": lambda: fusing("baseline-bf16", "fused-bf16"),
    "fusing-batch": lambda: fusing("baseline-batch-8-bf16", "fused-batch-8-bf16"),
    "fusing-prompt": lambda: fusing("baseline-prompt-bf16", "fused-prompt-bf16"),
    "prolog": prolog,
    "kernels": kernels,
    "blocks": blocks,
    "linear": linear,
    "attention": attention,
    "accuracy-demo": lambda: accuracy("accuracy-demo"),
    "accuracy-2-layers": lambda: accuracy("accuracy-2-layers"),
    "compare-demo": lambda: comparison("compare-demo"),
    "compare-int4": lambda: comparison("compare-int4"),
    "compare-llama-bench": lambda: other_engine("compare-llama-bench"),
    "depth": depth,
    "depth-operators": depth_operators,
    "prefill-depth": prefill_depth,
    "memory": memory,
}

def fusing_chart():
    rows = []
    for label, name in (("one token, bf16", "{}-bf16"), ("one token, int4", "{}-int4"),
                        ("8 together, bf16", "{}-batch-8-bf16"), ("prompt of 512, bf16", "{}-prompt-bf16")):
        a, b = (rows_of(name.format(kernels))[-1] for kernels, _ in SIDES)
        # By shares of the limit: the machine's speed changes between two runs.
        share = [sorted(r["share_of_limit"][key] for key in ("min", "median", "max")) for r in (a, b)]
        rows.append((label, share[1][0] / share[0][2], share[1][1] / share[0][1], share[1][2] / share[0][0]))
    return charts.intervals("Five layers: fused against native, shares of the limit", "fused / native", rows)


CHARTS = {
    "compare_demo.svg": lambda: comparison_chart("compare-demo", "The bundled model: fused (B) against native (A)"),
    "fusing.svg": fusing_chart,
    "compare_int4.svg": lambda: comparison_chart("compare-int4", "Five layers, int4: fused (B) against native (A)"),
    "decode_depth.svg": depth_chart,
    "prefill_depth.svg": prefill_chart,
}
