"""What is measured for README.md and docs/: every number there comes from one of these.

A measurement is a command, run in the folder of the models; {bin} is the folder of the programs, {json}
where the command writes its result. Without {json} its standard output is kept.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Measurement:
    name: str  # of the result: docs/results/NAME.json or NAME.txt
    command: str
    needs: tuple[str, ...] = ()  # models, files or programs beside the bundled model
    environment: tuple[tuple[str, str], ...] = ()
    keep: str = ""  # of standard output: only the lines that match


FIVE, TWO, ALL = "v2-lite-5", "v2-lite-2", "v2-lite-27"
PACKED = "v2-lite-27-int4.tessera"
GGUF = "v2-lite-5-q8_0.gguf"

# How the models are made, in this order, where --make-models is given.
MODELS = {
    TWO: "{bin}/tessera synth v2-lite-2 --like deepseek-v2-lite --layers 2",
    FIVE: "{bin}/tessera synth v2-lite-5 --like deepseek-v2-lite --layers 5 --gguf v2-lite-5-q8_0.gguf"
          " --gguf-type q8_0",
    ALL: "{bin}/tessera synth v2-lite-27 --like deepseek-v2-lite",
    PACKED: "{bin}/tessera pack v2-lite-27 --dtype int4 --output v2-lite-27-int4.tessera",
}


def _bench(kind, flags):
    return f"{{bin}}/tessera bench {kind} {flags} --json {{json}}"


def _decode(dtype, flags=""):
    return _bench("decode", f"--model-path {FIVE} --dtype {dtype} --use-graph --against-eager {flags}".strip())


def _prefill(flags):
    return _bench("prefill", f"--model-path {FIVE} {flags}")


MEASUREMENTS = [
    # Real dimensions, five layers.
    *(Measurement(f"decode-{d}", _decode(d, "--by-op"), (FIVE,)) for d in ("bf16", "int8", "int4")),
    *(Measurement(f"decode-int4-depth-{n}", _decode("int4", f"--depth {n} --by-op"), (FIVE,))
      for n in (1024, 4096, 16384)),
    *(Measurement(f"decode-int4-expanded-depth-{n}",
                  _decode("int4", f"--kv-cache expanded --depth {n} --by-op"), (FIVE,))
      for n in (128, 1024, 4096)),
    *(Measurement(f"prefill-{d}", _prefill(f"--dtype {d} --prompt-tokens 64,512 --repeat 5"), (FIVE,))
      for d in ("bf16", "int8", "int4")),
    *(Measurement(f"prefill-int4-{form}-depth-{n}",
                  _prefill(f"--dtype int4 --attention-form {form} --prompt-tokens 512 --depth {n}"
                           " --by-op --repeat 3"), (FIVE,))
      for n in (0, 2048, 8192) for form in ("absorbed", "expanded")),
    Measurement("batch-int4", _bench("batch", f"--model-path {FIVE} --dtype int4 --use-graph --batch 1,2,4,8"),
                (FIVE,)),
    *(Measurement(f"memory-{d}", _bench("memory", f"--model-path {FIVE} --dtype {d}"), (FIVE,))
      for d in ("bf16", "int8", "int4")),
    *(Measurement(f"decode-{d}-avx2", _decode(d), (FIVE,), (("TESSERA_TARGET_CPU", "haswell"),))
      for d in ("bf16", "int8", "int4")),
    # All layers.
    Measurement("decode-27-int4",
                _bench("decode", f"--model-path {ALL} --packed {PACKED} --use-graph --against-eager"),
                (ALL, PACKED)),
    Measurement("prefill-27-int4",
                _bench("prefill", f"--model-path {ALL} --packed {PACKED} --prompt-tokens 512 --repeat 3"),
                (ALL, PACKED)),
    Measurement("start-27-int4",
                f"/usr/bin/time -v {{bin}}/tessera ask --model-path {ALL} --packed {PACKED} --greedy --raw"
                " --prompt hello --output-length 1", (ALL, PACKED),
                keep=r"^(load|prefill|memory)|Elapsed|Maximum resident"),
    # Baseline and fused, eager and replayed.
    Measurement("compare-demo", "{bin}/tessera bench compare --repeat 15 --json {json}"),
    Measurement("compare-int4",
                f"{{bin}}/tessera bench compare --model-path {FIVE} --repeat 6 --json {{json}}"
                ' --a "--baseline --use-graph --dtype int4"'
                ' --b "--use-pto --use-rope --use-kv-fusion --use-graph --dtype int4"', (FIVE,)),
    Measurement("compare-bf16",
                f"{{bin}}/tessera bench compare --model-path {FIVE} --repeat 6 --json {{json}}"
                " --batch 1,8 --output-tokens 50", (FIVE,)),
    Measurement("combinations-demo", "{measure}/graph_combinations.py --rounds 15 {bin}/tessera", keep=r"^\|"),
    # Operators.
    Measurement("prolog", _bench("prolog", "--rows 1,2,3,4,8,16,32,64,128,512 --repeat 15")),
    Measurement("kernels", _bench("kernels", "")),
    Measurement("blocks", "{bin}/matmul_block_benchmark"),
    Measurement("linear", "{bin}/ops_bench --benchmark_filter=linear_rows --benchmark_min_time=0.1",
                keep="^linear_rows"),
    Measurement("attention", "{bin}/ops_bench --benchmark_filter='decode|prefill' --benchmark_min_time=0.1",
                keep="manual_time|real_time"),
    # Accuracy.
    Measurement("accuracy-demo", "{bin}/format_accuracy_test", keep="cosine of logits"),
    Measurement("accuracy-2-layers", f"{{bin}}/format_accuracy {TWO} accuracy-scratch 48", (TWO,),
                keep="cosine of logits"),
    # Another engine: LLAMA_BENCH names its program.
    Measurement("compare-llama-bench",
                f"{{bin}}/tessera bench compare --model-path {FIVE} --repeat 6 --json {{json}}"
                ' --b "--dtype int8 --threads 2" --output-tokens 64 --parse llama-bench'
                f' --external "$LLAMA_BENCH -m {GGUF} -t 2 -ngl 0 -p 0 -n {{{{generated_tokens}}}} -r 1 -o json"',
                (FIVE, GGUF, "$LLAMA_BENCH")),
]
