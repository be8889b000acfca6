#!/usr/bin/env python3
"""Twenty architectures of transformers, exported by both of torch's exporters with dynamic axes, against ONNX Runtime.

    tests/models/exports.py [NAME...] [--exporter torchscript|dynamo] [--keep DIR]

Tiny random configurations; each file is compiled once and run at every size. Prints a line a file: `right` with the
largest relative error, `wrong`, `refused` with the reason, or `no export` and `no peer` where torch or ONNX Runtime
itself fails. Exits 1 if a file that ONNX Runtime runs is wrong or refused.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import re
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LIMIT = 2e-4  # of the largest element: tiny models, float32 on both sides
SEED = 0


@dataclass
class Architecture:
    model: str
    config: str
    settings: dict
    kind: str = "text"  # text, audio, features, image, pair


SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=99)
HEADS = dict(SMALL, num_key_value_heads=2, head_dim=8, max_position_embeddings=128, pad_token_id=0)
SPEECH = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=32,
              conv_dim=(16, 16, 16), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_feat_extract_layers=3,
              num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)  # fmt: skip
ARCHITECTURES = {
    "bert": Architecture("BertModel", "BertConfig", dict(SMALL, max_position_embeddings=128)),
    "roberta": Architecture("RobertaModel", "RobertaConfig", dict(SMALL, max_position_embeddings=130)),
    "distilbert": Architecture("DistilBertModel", "DistilBertConfig", dict(
        dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=99, max_position_embeddings=128)),
    "albert": Architecture("AlbertModel", "AlbertConfig", dict(SMALL, embedding_size=16, max_position_embeddings=128)),
    "electra": Architecture("ElectraModel", "ElectraConfig", dict(
        SMALL, embedding_size=16, max_position_embeddings=128)),
    "deberta": Architecture("DebertaV2Model", "DebertaV2Config", dict(
        SMALL, max_position_embeddings=128, relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "gpt2": Architecture("GPT2LMHeadModel", "GPT2Config", dict(
        n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=128, use_cache=False)),
    "gpt-neox": Architecture("GPTNeoXForCausalLM", "GPTNeoXConfig", dict(
        SMALL, max_position_embeddings=128, use_cache=False)),
    "llama": Architecture("LlamaForCausalLM", "LlamaConfig", dict(HEADS, use_cache=False)),
    "mistral": Architecture("MistralForCausalLM", "MistralConfig", dict(HEADS, use_cache=False, sliding_window=16)),
    "qwen2": Architecture("Qwen2ForCausalLM", "Qwen2Config", dict(HEADS, use_cache=False)),
    "gemma": Architecture("GemmaForCausalLM", "GemmaConfig", dict(HEADS, use_cache=False)),
    "mixtral": Architecture("MixtralForCausalLM", "MixtralConfig", dict(
        HEADS, use_cache=False, num_local_experts=4, num_experts_per_tok=2,
        experts_implementation="batched_mm")),  # no exporter takes the default's aten::histc
    "mamba": Architecture("MambaForCausalLM", "MambaConfig", dict(
        hidden_size=32, num_hidden_layers=2, state_size=8, vocab_size=99, use_cache=False), "plain"),
    "t5": Architecture("T5Model", "T5Config", dict(
        d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=99, use_cache=False), "pair"),
    "bart": Architecture("BartModel", "BartConfig", dict(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=99, max_position_embeddings=128, use_cache=False), "pair"),
    "wav2vec2": Architecture("Wav2Vec2Model", "Wav2Vec2Config", SPEECH, "audio"),
    "hubert": Architecture("HubertModel", "HubertConfig", SPEECH, "audio"),
    "vit": Architecture("ViTModel", "ViTConfig", dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32,
        patch_size=8), "batch"),
    "swin": Architecture("SwinModel", "SwinConfig", dict(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), "image"),
}  # fmt: skip
EXPORTERS = ("torchscript", "dynamo")


def inputs_of(kind, size, rng):
    """Named arrays of a size (batch, length), and what of them is dynamic."""
    batch, length = size
    ids = lambda n: rng.integers(1, 32, (batch, n))  # noqa: E731
    if kind in ("text", "plain", "pair"):
        found = {"input_ids": (ids(length), {0: "batch", 1: "length"})}
        if kind != "plain":
            found["attention_mask"] = (np.ones((batch, length), np.int64), {0: "batch", 1: "length"})
        if kind == "pair":
            found["decoder_input_ids"] = (ids(length // 2 + 2), {0: "batch", 1: "target"})
        return found
    if kind == "audio":
        waves = rng.standard_normal((batch, 400 + 61 * length)).astype(np.float32)
        return {"input_values": (waves, {0: "batch", 1: "samples"})}
    side = 32 if kind == "batch" else 32 * (1 + length % 3)
    pixels = rng.standard_normal((batch, 3, side, side + (32 if kind == "image" else 0))).astype(np.float32)
    dynamic = {0: "batch"} if kind == "batch" else {0: "batch", 2: "height", 3: "width"}
    return {"pixel_values": (pixels if kind == "image" else pixels[..., :32], dynamic)}


SIZES = [(2, 9), (1, 4), (3, 17), (2, 40), (1, 1)]


def export(name, exporter, path):
    import torch
    import transformers

    made = ARCHITECTURES[name]
    torch.manual_seed(SEED)
    config = getattr(transformers, made.config)(**made.settings)
    model = getattr(transformers, made.model)(config).eval()

    class First(torch.nn.Module):
        """The first output, by names of the inputs in order."""

        def __init__(self, names):
            super().__init__()
            self.inner, self.names = model, names

        def forward(self, *values):
            return self.inner(**dict(zip(self.names, values)))[0]

    given = inputs_of(made.kind, SIZES[0], np.random.default_rng(SEED))
    values = tuple(torch.from_numpy(array) for array, _ in given.values())
    axes = {key: dynamic for key, (_, dynamic) in given.items()}
    if exporter == "torchscript":
        torch.onnx.export(First(list(given)), values, path, input_names=list(given), output_names=["out"],
                          dynamic_axes=axes, dynamo=False, opset_version=17)  # fmt: skip
        return
    shapes = (tuple({axis: torch.export.Dim.DYNAMIC for axis in dynamic} for dynamic in axes.values()),)
    torch.onnx.export(First(list(given)), values, path, input_names=list(given), output_names=["out"],
                      dynamic_shapes=shapes, dynamo=True, verbose=False)  # fmt: skip


def compare(path, kind) -> tuple[str, str]:
    """What became of the file, and how near it is or why."""
    import onnxruntime

    import knapper

    onnxruntime.set_default_logger_severity(4)
    try:
        peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001
        return "no peer", first_line(error)
    try:
        module = knapper.compile(path)
    except knapper.Error as error:
        return "refused", first_line(error, 400)
    worst, ran = 0.0, 0
    for size in SIZES:
        made = inputs_of(kind, size, np.random.default_rng(SEED + sum(size)))
        wanted_names = {info.name for info in peer.get_inputs()}
        feed = {key: array for key, (array, _) in made.items() if key in wanted_names}
        try:
            wanted = peer.run(None, feed)[0]
        except Exception:  # noqa: BLE001
            continue  # a size that the file does not take
        ran += 1
        try:
            got = np.asarray(module(**feed)[0])
        except knapper.Error as error:
            return "refused", f"at {size}: {first_line(error, 400)}"
        if got.shape != wanted.shape:
            return "wrong", f"at {size}: shape {got.shape}, not {wanted.shape}"
        error = np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-6)
        if not error <= LIMIT:
            return "wrong", f"at {size}: relative error {error:.1e}"
        worst = max(worst, error)
    return ("right", f"{worst:.1e} at {ran} sizes") if ran else ("no peer", "runs at no size")


def first_line(error, length=120):
    return re.sub(r"\s+", " ", str(error))[:length]


def check(name, exporter, folder) -> tuple[str, str]:
    path = str(Path(folder) / f"{name}-{exporter}.onnx")
    if not os.path.exists(path):
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                export(name, exporter, path)
        except Exception as error:  # noqa: BLE001
            return "no export", f"{type(error).__name__}: {first_line(error)}"
    return compare(path, ARCHITECTURES[name].kind)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--exporter", choices=EXPORTERS)
    parser.add_argument("--keep", help="files already there are used, new ones are kept")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if unknown := set(options.names) - set(ARCHITECTURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; one of {', '.join(ARCHITECTURES)}")
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        for name in options.names or ARCHITECTURES:
            for exporter in [options.exporter] if options.exporter else EXPORTERS:
                start = time.perf_counter()
                state, text = check(name, exporter, folder)
                counts[state] = counts.get(state, 0) + 1
                print(f"{name:12s} {exporter:12s} {state:10s} {text}  ({time.perf_counter() - start:.0f} s)", flush=True)
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    return 1 if counts.get("wrong") or counts.get("refused") else 0


if __name__ == "__main__":
    sys.exit(main())
