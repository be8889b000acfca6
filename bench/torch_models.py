#!/usr/bin/env python3
"""Small models with random weights through torch.compile(backend="knapper").

    bench/torch_models.py                      # all of them
    bench/torch_models.py --only llama,swin --forward
    bench/torch_models.py --out rows.jsonl     # resumes behind the rows written
    bench/torch_models.py --device cuda --jobs 12
    bench/torch_models.py --types --out rows.jsonl   # of every model type that transformers has

The forward pass in inference mode and one training step (gradients of the sum of
the outputs' squares), with fallback="error", each model in a process of its own.
Compared with eager as torch's benchmark harness does: `torch._dynamo.utils.same`
with a float64 reference, tolerance 1e-3 forward and 1e-2 for the gradients. Exit
status 1 where one is wrong or fails.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import model_types

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}
LLAMA = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
IMAGE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32, "patch_size": 8}
TEXT_AND_IMAGE = {
    "text_config": {**SMALL, "max_position_embeddings": 32},
    "vision_config": IMAGE,
}

# name -> (class of the model, fields of its configuration, inputs)
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "bert": ("BertModel", SMALL, "text"),
    "roberta": ("RobertaModel", SMALL, "text"),
    "distilbert": ("DistilBertModel", {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 200}, "text"),
    "albert": ("AlbertModel", {**SMALL, "embedding_size": 32}, "text"),
    "electra": ("ElectraModel", {**SMALL, "embedding_size": 32}, "text"),
    "deberta_v2": ("DebertaV2Model", {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "text"),
    "mpnet": ("MPNetModel", SMALL, "text"),
    "modernbert": ("ModernBertModel", {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}, "text"),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}, "causal"),
    "gpt_neo": ("GPTNeoForCausalLM", {"hidden_size": 64, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "vocab_size": 200}, "causal"),
    "gpt_neox": ("GPTNeoXForCausalLM", SMALL, "causal"),
    "opt": ("OPTForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 200, "word_embed_proj_dim": 64}, "causal"),
    "bloom": ("BloomForCausalLM", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}, "causal"),
    "falcon": ("FalconForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 200}, "causal"),
    "llama": ("LlamaForCausalLM", LLAMA, "causal"),
    "mistral": ("MistralForCausalLM", LLAMA, "causal"),
    "qwen2": ("Qwen2ForCausalLM", LLAMA, "causal"),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 16}, "causal"),
    "gemma2": ("Gemma2ForCausalLM", {**LLAMA, "head_dim": 16}, "causal"),
    "phi3": ("Phi3ForCausalLM", LLAMA, "causal"),
    "olmo2": ("Olmo2ForCausalLM", LLAMA, "causal"),
    "starcoder2": ("Starcoder2ForCausalLM", LLAMA, "causal"),
    "mixtral": ("MixtralForCausalLM", {**LLAMA, "num_local_experts": 4}, "causal"),
    "qwen2_moe": ("Qwen2MoeForCausalLM", {**LLAMA, "num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64}, "causal"),
    "mamba": ("MambaForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 200, "state_size": 8}, "causal"),
    "t5": ("T5ForConditionalGeneration", {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 200}, "pair"),
    "bart": ("BartModel", {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 200}, "pair"),
    "vit": ("ViTModel", IMAGE, "image"),
    "deit": ("DeiTModel", IMAGE, "image"),
    "dinov2": ("Dinov2Model", IMAGE, "image"),
    "swin": ("SwinModel", {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}, "image"),
    "convnext": ("ConvNextModel", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}, "image"),
    "resnet": ("ResNetModel", {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}, "image"),
    "mobilevit": ("MobileViTModel", {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 24, 32, 40, 64]}, "image64"),
    "segformer": ("SegformerModel", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4], "decoder_hidden_size": 32}, "image64"),
    "detr": ("DetrModel", {"use_timm_backbone": False, "use_pretrained_backbone": False, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 8}, "detr"),
    "clip": ("CLIPModel", TEXT_AND_IMAGE, "both"),
    "siglip": ("SiglipModel", TEXT_AND_IMAGE, "both"),
    "whisper": ("WhisperModel", {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 200, "num_mel_bins": 16, "max_source_positions": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}, "sound"),
    "wav2vec2": ("Wav2Vec2Model", {**SMALL, "conv_dim": [32, 32, 32], "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}, "wave"),
}  # fmt: skip


def vgg(nn: Any) -> Any:
    layers, channels = [], 3
    for width in (16, 32, 64):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10)
    )


def mobilenet(nn: Any) -> Any:
    def block(i: int, o: int, stride: int) -> list[Any]:
        wide = i * 4
        return [
            nn.Conv2d(i, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, o, 1, bias=False), nn.BatchNorm2d(o),
        ]  # fmt: skip

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), *block(8, 16, 2), *block(16, 24, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10),
    )  # fmt: skip


def by_hand(name: str) -> Any:
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, i: int, o: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o),
            )  # fmt: skip
            self.side = nn.Conv2d(i, o, 1, stride)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.side(x))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([Residual(3, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
            self.join = nn.ModuleList([Residual(32, 16, 1), Residual(16, 8, 1)])

        def forward(self, x: Any) -> Any:
            kept = []
            for part in self.down:
                x = part(x)
                kept.append(x)
            for up, join, side in zip(self.up, self.join, reversed(kept[:-1])):
                x = join(torch.cat([up(x), side], 1))
            return torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")

    class Squeeze(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), nn.SiLU(), nn.Conv2d(4, width, 1), nn.Sigmoid()
            )

        def forward(self, x: Any) -> Any:
            return x * self.gate(x)

    if name == "efficientnet":
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 16, 5, 1, 2, groups=16),
            nn.BatchNorm2d(16), nn.SiLU(), Squeeze(16), nn.Conv2d(16, 24, 1), nn.BatchNorm2d(24),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10),
        )  # fmt: skip
    if name == "resnet_by_hand":
        return nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            Residual(16, 16, 1), Residual(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip
    return {"vgg": lambda: vgg(nn), "mobilenet": lambda: mobilenet(nn), "unet": UNet}[name]()


TYPE = "type:"  # of a model type's name
BY_HAND = ("vgg", "resnet_by_hand", "mobilenet", "unet", "efficientnet")


def inputs_of(kind: str) -> dict[str, Any]:
    import torch

    tokens = torch.randint(3, 200, (2, 16))
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 12:] = 0
    return {
        "text": lambda: {"input_ids": tokens, "attention_mask": mask},
        "causal": lambda: {"input_ids": tokens, "use_cache": False},
        "pair": lambda: {"input_ids": tokens, "decoder_input_ids": tokens[:, :8], "use_cache": False},
        "image": lambda: {"pixel_values": torch.randn(2, 3, 32, 32)},
        "image64": lambda: {"pixel_values": torch.randn(2, 3, 64, 64)},
        "detr": lambda: {"pixel_values": torch.randn(1, 3, 64, 64), "pixel_mask": torch.ones(1, 64, 64, dtype=torch.int64)},
        "both": lambda: {"input_ids": tokens, "pixel_values": torch.randn(2, 3, 32, 32)},
        "sound": lambda: {"input_features": torch.randn(2, 16, 100), "decoder_input_ids": tokens[:, :8], "use_cache": False},
        "wave": lambda: {"input_values": torch.randn(2, 1600)},
    }[kind]()


def built(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    import torch

    torch.manual_seed(0)
    if name.startswith(TYPE):
        return model_types.built(name.removeprefix(TYPE))
    if name in BY_HAND:
        return by_hand(name), (torch.randn(4, 3, 32, 32),), {}
    import transformers

    kind, fields, inputs = MODELS[name]
    cls = getattr(transformers, kind)
    config = cls.config_class(**fields)
    model_types.remove_dropout(config)
    return cls(config), (), inputs_of(inputs)


def tensors_of(result: Any) -> list[Any]:
    import torch
    import torch.utils._pytree as pytree

    if hasattr(result, "to_tuple"):
        result = result.to_tuple()
    return [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.is_floating_point()]


def doubled(value: Any) -> Any:
    import torch

    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def step(model: Any, function: Any, args: Any, kwargs: Any) -> list[Any]:
    model.zero_grad()
    loss = sum((x.float() if x.dtype.itemsize < 4 else x).square().mean() for x in tensors_of(function(*args, **kwargs)))
    loss.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def run_model(name: str, forward_only: bool, device: str) -> dict[str, str]:
    import torch
    from torch._dynamo.utils import same

    import knapper.torch

    try:
        model, args, kwargs = built(name)
    except model_types.NotBuilt as reason:
        return {"model": name, "not built": str(reason)}
    if device == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        model = model.cuda()
        args = tuple(x.cuda() for x in args)
        kwargs = {k: x.cuda() if isinstance(x, torch.Tensor) else x for k, x in kwargs.items()}
    row = {"model": name}

    def judge(what: str, tolerance: float, call: Callable[[Any, Any, Any, Any], Any]) -> None:
        plain = copy.deepcopy(model)
        wide = copy.deepcopy(model).double()
        ours = copy.deepcopy(model)
        want = call(plain, plain, args, kwargs)
        try:
            reference = call(wide, wide, [doubled(x) for x in args], {k: doubled(v) for k, v in kwargs.items()})
        except RuntimeError:  # operators that eager has in no float64
            reference = want
        torch._dynamo.reset()
        begin = time.monotonic()
        try:
            got = call(ours, knapper.torch.compile(ours, fallback="error", cache=False), args, kwargs)
        except Exception as error:
            row[what] = "fails: " + " | ".join(line.strip() for line in str(error).splitlines() if line.strip())[:400]
            return
        seconds = time.monotonic() - begin
        good = len(got) == len(want) and all(
            same(a, b, c, tol=tolerance) for a, b, c in zip(want, got, reference)
        )
        row[what] = f"right ({seconds:.1f} s)" if good else "wrong"

    model.eval()
    with torch.no_grad():
        judge("forward", 1e-3, lambda _, f, a, k: tensors_of(f(*a, **k)))
    if not forward_only:
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        judge("step", 1e-2, step)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names with commas between")
    parser.add_argument("--types", action="store_true", help="every model type of transformers; --only takes their names")
    parser.add_argument("--forward", action="store_true", help="no training step")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="models side by side")
    parser.add_argument("--out", type=Path, help="rows; a run resumes behind them")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        warnings.simplefilter("ignore")
        print("ROW " + json.dumps(run_model(options.worker, options.forward, options.device)), flush=True)
        return 0
    if options.types:
        chosen = [TYPE + name for name in (options.only.split(",") if options.only else model_types.names())]
    else:
        chosen = options.only.split(",") if options.only else [*MODELS, *BY_HAND]
    rows = {}
    if options.out and options.out.exists():
        rows = {row["model"]: row for row in map(json.loads, options.out.read_text().splitlines())}

    def worker(name: str) -> dict[str, str]:
        command = [sys.executable, __file__, "--worker", name, "--device", options.device]
        try:
            done = subprocess.run(
                command + ["--forward"] * options.forward, capture_output=True, text=True, timeout=options.timeout
            )
        except subprocess.TimeoutExpired:
            return {"model": name, "forward": "fails: takes too long"}
        lines = [line for line in done.stdout.splitlines() if line.startswith("ROW ")]
        return json.loads(lines[0][4:]) if lines else {"model": name, "forward": "fails: " + done.stderr[-300:]}

    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(worker, [name for name in chosen if name not in rows]):
            rows[row["model"]] = row
            print(row, flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    chosen = [name for name in chosen if "not built" not in rows[name]]
    good = {what: sum(rows[name].get(what, "").startswith("right") for name in chosen) for what in ("forward", "step")}
    kinds = ["forward"] if options.forward else ["forward", "step"]
    print(", ".join(f"{what}: {good[what]} of {len(chosen)} right" for what in kinds))
    return 0 if all(good[what] == len(chosen) for what in kinds) else 1


if __name__ == "__main__":
    sys.exit(main())
