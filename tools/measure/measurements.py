"""What is measured for README.md and docs/: every number there comes from one of these.

A measurement is a command, run in the folder of the models; {bin} is the folder of the programs, {json}
where the command writes its result, {scratch} a folder that is removed afterwards. Without {json} what it
prints is kept. Where its result is shown, tables.py finds out: docs/results/README.md lists it.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Measurement:
    name: str  # of the result: docs/results/NAME.json or NAME.txt
    command: str
    minutes: float  # about, on the machine of docs/performance.md
    needs: tuple[str, ...] = ()  # models, files or programs ($NAME) beside the bundled model
    environment: tuple[tuple[str, str], ...] = ()
    keep: str = ""  # of what is printed: only the lines that match
    memory_gb: float = 1.0
    disk_gb: float = 0.1  # in the folder of temporary files


@dataclasses.dataclass(frozen=True)
class Model:
    command: str
    disk_gb: float
    needs: tuple[str, ...] = ()


FIVE, TWO, ALL = "v2-lite-5", "v2-lite-2", "v2-lite-27"
PACKED = "v2-lite-27-int4.tessera"
GGUF = "v2-lite-5-q8_0.gguf"

# How the models are made, in this order, where --make-models is given and a chosen measurement needs them.
MODELS = {
    TWO: Model(f"{{bin}}/tessera synth {TWO} --like deepseek-v2-lite --layers 2 --tokenizer {{demo}}", 2.3),
    FIVE: Model(f"{{bin}}/tessera synth {FIVE} --like deepseek-v2-lite --layers 5 --tokenizer {{demo}}", 5.8),
    GGUF: Model("{bin}/tessera synth --like deepseek-v2-lite --layers 5 --tokenizer {demo}"
                f" --gguf {GGUF} --gguf-type q8_0", 3.1),
    ALL: Model(f"{{bin}}/tessera synth {ALL} --like deepseek-v2-lite --tokenizer {{demo}}", 32),
    PACKED: Model(f"{{bin}}/tessera pack {ALL} --dtype int4 --output {PACKED}", 9.4, (ALL,)),
}

FORMATS = ("bf16", "int8", "int4")
GIGABYTES = {"bf16": 6.5, "int8": 3.5, "int4": 2.5}  # of memory, five layers
KERNELS = {"baseline": "--baseline", "fused": "--use-pto --use-rope --use-kv-fusion"}


def _bench(name, kind, flags, minutes, **more):
    return Measurement(name, f"{{bin}}/tessera bench {kind} {flags} --json {{json}}", minutes, **more)


def _five(name, kind, dtype, flags, minutes, **more):
    return _bench(name, kind, f"--model-path {FIVE} --dtype {dtype} {flags}", minutes, needs=(FIVE,),
                  memory_gb=GIGABYTES[dtype], **more)


def _both(dtype):
    """Of `bench compare`: native operators against tile kernels, both replayed."""
    side = {name: f"{flags} --use-graph --dtype {dtype}" for name, flags in KERNELS.items()}
    return f'--a "{side["baseline"]}" --b "{side["fused"]}" --tolerance 2'


STEPS = "--use-graph --against-eager"

# The order is that of importance: what comes first is done first where time is short.
MEASUREMENTS = [
    # Real dimensions, five layers.
    *(_five(f"decode-{d}", "decode", d, f"{STEPS} --by-op", 0.5) for d in FORMATS),
    *(_five(f"prefill-{d}", "prefill", d, "--prompt-tokens 64,512 --repeat 5", 0.4) for d in FORMATS),
    # Baseline and fused.
    Measurement("compare-demo", "{bin}/tessera bench compare --repeat 15 --json {json}", 0.7),
    Measurement("compare-int4",
                f"{{bin}}/tessera bench compare --model-path {FIVE} {_both('int4')} --repeat 6 --json {{json}}",
                3, (FIVE,), memory_gb=2.5),
    Measurement("combinations-demo", "{measure}/graph_combinations.py --rounds 15 {bin}/tessera", 0.3, keep=r"^\|"),
    *(_five(f"{kernels}-{d}", "decode", d, f"{flags} {STEPS} --by-op", 0.5)
      for d in ("bf16", "int4") for kernels, flags in KERNELS.items()),
    *(_five(f"{kernels}-batch-8-bf16", "decode", "bf16", f"{flags} --batch 8 --use-graph --by-op", 0.5)
      for kernels, flags in KERNELS.items()),
    *(_five(f"{kernels}-prompt-bf16", "prefill", "bf16", f"{flags} --prompt-tokens 512 --by-op --repeat 5", 0.5)
      for kernels, flags in KERNELS.items()),
    # Another engine: LLAMA_BENCH names its program.
    Measurement("compare-llama-bench",
                f"{{bin}}/tessera bench compare --model-path {FIVE} --repeat 6 --json {{json}}"
                ' --b "--dtype int8 --threads 2" --output-tokens 64 --parse llama-bench'
                f' --external "$LLAMA_BENCH -m {GGUF} -t 2 -ngl 0 -p 0 -n {{{{generated_tokens}}}} -r 1 -o json"',
                1, (FIVE, GGUF, "$LLAMA_BENCH"), memory_gb=6.5),
    # Long sequences.
    *(_five(f"decode-int4-depth-{n}", "decode", "int4", f"{STEPS} --depth {n} --by-op", 0.3)
      for n in (0, 1024, 4096, 16384)),
    *(_five(f"prefill-int4-{form}-depth-{n}", "prefill", "int4",
            f"--attention-form {form} --prompt-tokens 512 --depth {n} --by-op --repeat 3", 0.3)
      for n in (0, 2048, 8192) for form in ("absorbed", "expanded")),
    *(_five(f"decode-int4-expanded-depth-{n}", "decode", "int4",
            f"--kv-cache expanded {STEPS} --depth {n} --by-op", 0.3) for n in (0, 128, 1024, 4096, 16384)),
    *(_five(f"memory-{d}", "memory", d, "--context 4096", 0.1) for d in FORMATS),
    _five("memory-bf16-expanded", "memory", "bf16", "--kv-cache expanded --context 4096", 0.1),
    _five("batch-int4", "batch", "int4", "--use-graph --batch 1,2,4,8", 0.5),
    # Operators.
    _bench("prolog", "prolog", "--rows 1,2,3,4,8,16,32,64,128,512 --repeat 15", 1.5),
    _bench("kernels", "kernels", "--rows 1,2,8,64,512", 0.5),
    Measurement("blocks",
                "{bin}/matmul_block_benchmark --benchmark_min_time=0.05 --benchmark_filter="
                "'^(bf16|i8|i8g32|i6g32|i4g32)_(kv_b|q_proj|expert_up|expert_down)/rows:(1|2|4|8|16|64|512)/threads:1/'",
                1.5, keep="manual_time"),
    Measurement("linear",
                "{bin}/ops_bench --benchmark_min_time=0.1 --benchmark_filter="
                "'linear_rows/(bf16|i8|i8g32|i6g32|i4g32)_q_proj/.*threads:1/'", 0.7, keep="^linear_rows"),
    Measurement("attention",
                "{bin}/ops_bench --benchmark_min_time=0.1 --benchmark_filter='^(decode|prefill)/.*threads:2'", 0.7,
                keep="manual_time"),
    # All layers.
    _bench("decode-27-int4", "decode", f"--model-path {ALL} --packed {PACKED} {STEPS}", 1, needs=(ALL, PACKED),
           memory_gb=10),
    _bench("prefill-27-int4", "prefill", f"--model-path {ALL} --packed {PACKED} --prompt-tokens 512 --repeat 3", 0.8,
           needs=(ALL, PACKED), memory_gb=10),
    Measurement("start-27-int4",
                f"/usr/bin/time -v {{bin}}/tessera ask --model-path {ALL} --packed {PACKED} --greedy --raw"
                " --prompt hello --output-length 1", 0.1, (ALL, PACKED), memory_gb=10,
                keep=r"^(load|prefill|memory)|Elapsed|Maximum resident"),
    # AVX2.
    *(_five(f"decode-{d}-avx2", "decode", d, STEPS, 0.4, environment=(("TESSERA_TARGET_CPU", "haswell"),))
      for d in FORMATS),
    # Accuracy.
    Measurement("accuracy-demo", "{bin}/format_accuracy_test", 0.5, keep="cosine of logits"),
    Measurement("accuracy-2-layers", f"{{bin}}/format_accuracy {TWO} {{scratch}} 48", 1.5, (TWO,),
                keep="cosine of logits", memory_gb=5, disk_gb=4.5),
    # What README.md shows.
    Measurement("ask", "{bin}/tessera ask", 0.1),
    Measurement("ask-mla", '{bin}/tessera ask --prompt "What is MLA?" --output_length 60 --greedy', 0.1),
    # Single observations that the text quotes.
    *(Measurement(f"pack-27-{d}", f"/usr/bin/time -v {{bin}}/tessera pack {ALL} --dtype {d} --output {{scratch}}/packed",
                  2, (ALL,), disk_gb=gigabytes, keep=r"Elapsed|Maximum resident")
      for d, gigabytes in (("int4", 9.4), ("int8", 17))),
    _bench("pinned", "decode", f"--model-path {FIVE} --dtype int4 --pin", 0.3, needs=(FIVE,), memory_gb=2.5),
    Measurement("traced",
                f"{{bin}}/tessera bench compare --model-path {FIVE} --output-tokens 100 --repeat 6 --json {{json}}"
                ' --a "--use-graph --dtype int4" --b "--use-graph --dtype int4 --trace {scratch}/trace"',
                1, (FIVE,), memory_gb=2.5),
]
