"""Compares a GGUF file of `tessera synth --gguf` with the safetensors folder of the same model and seed,
tensor by tensor, with readers and rounding rules that are not Tessera's.

    python3 -m venv venv && venv/bin/pip install -r tools/gguf/requirements.txt
    tessera synth DIR --like deepseek-v2-lite --layers 2 --gguf model.gguf --gguf-type q8_0
    venv/bin/python tools/gguf/compare.py model.gguf DIR

Every number must be the same: the codes and the scale of every block. Exits with 1 where one is not.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

TYPES = gguf.GGMLQuantizationType


class Folder:
    """The tensors of a folder of bf16 safetensors, as float32."""

    def __init__(self, folder):
        self.files = {}
        for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
            with open(path, "rb") as file:
                (size,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(size))
            data = np.memmap(path, np.uint8, "r", 8 + size)
            for name, entry in header.items():
                if name != "__metadata__":
                    assert entry["dtype"] == "BF16", name
                    self.files[name] = (data, entry)
        self.config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        self.left = set(self.files)

    def take(self, name):
        self.left.discard(name)
        data, entry = self.files[name]
        begin, end = entry["data_offsets"]
        bits = data[begin:end].view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(entry["shape"])


def expected(folder, name, names):
    """The values of a tensor of the file, from those of the folder."""
    c = folder.config
    block = name.split(".")[1] if name.startswith("blk.") else None
    if name.endswith((".attn_k_b.weight", ".attn_v_b.weight")):
        heads, key, value = c["num_attention_heads"], c["qk_nope_head_dim"], c["v_head_dim"]
        both = folder.take(f"model.layers.{block}.self_attn.kv_b_proj.weight")
        both = both.reshape(heads, key + value, c["kv_lora_rank"])
        return both[:, :key].transpose(0, 2, 1) if "k_b" in name else both[:, key:]
    for short, long in (("gate", "gate_proj"), ("up", "up_proj"), ("down", "down_proj")):
        if name.endswith(f".ffn_{short}_exps.weight"):
            experts = [f"model.layers.{block}.mlp.experts.{e}.{long}.weight"
                       for e in range(c["n_routed_experts"])]
            return np.stack([folder.take(expert) for expert in experts])
    return folder.take(names[name])


def names_in_folder(folder):
    """The names of llama.cpp's own table, for tensors that stand alone."""
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DEEPSEEK2, folder.config["num_hidden_layers"])
    names = {}
    for name in folder.files:
        short = table.get_name(name, try_suffixes=(".weight",))
        if short is not None:
            names[short] = name
    return names


def rounded(values, qtype):
    if qtype == TYPES.F32:
        return np.ascontiguousarray(values).view(np.uint8)
    return gguf.quants.quantize(np.ascontiguousarray(values, dtype=np.float32), qtype)


def same(tensor, values):
    shape = [int(n) for n in tensor.shape[::-1]]
    assert list(values.shape) == shape, (tensor.name, values.shape, shape)
    assert tensor.data_offset % 32 == 0, tensor.name
    rows = values.reshape(-1, values.shape[-1])
    found = np.asarray(tensor.data).reshape(rows.shape[0], -1).view(np.uint8)
    step = max(1, (1 << 24) // rows.shape[1])
    return sum(np.count_nonzero(found[i:i + step] != rounded(rows[i:i + step], tensor.tensor_type)
                                .reshape(found[i:i + step].shape))
               for i in range(0, len(rows), step))


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    folder = Folder(sys.argv[2])
    names = names_in_folder(folder)
    kinds = {}
    wrong = 0
    for tensor in reader.tensors:
        bytes_wrong = same(tensor, expected(folder, tensor.name, names))
        if bytes_wrong:
            print(f"{tensor.name}: {bytes_wrong} bytes differ")
            wrong += 1
        kinds[tensor.tensor_type.name] = kinds.get(tensor.tensor_type.name, 0) + 1
    for name in sorted(folder.left):
        print(f"{name}: not in the file")
        wrong += 1
    print(f"{len(reader.tensors)} tensors ({', '.join(f'{n} {k}' for k, n in kinds.items())}), "
          f"{wrong} that differ")
    for key in ("general.architecture", "deepseek2.block_count", "tokenizer.ggml.model"):
        print(f"{key}: {reader.get_field(key).contents()}")
    sys.exit(1 if wrong else 0)


main()
