#!/usr/bin/env python3
"""Models of real size through torch.compile: Knapper, inductor in two modes, eager.

    bench/torch_speed.py --device cuda                   # bf16 and float16 on a GPU
    bench/torch_speed.py --device cpu --only bert,gpt2   # float32
    bench/torch_speed.py --device cuda --calls           # what a small call costs
    bench/torch_speed.py --device cpu --sides knapper,frozen,onnx  # beside ONNX exports
    bench/torch_speed.py --out rows.jsonl

Random weights, inference mode. All sides compute interleaved: in each round every
side makes its calls, and the median over all rounds counts; on a GPU a call's time
is that of a batch of calls between two events, divided by their number. A row fails
where Knapper's distance from eager in float32 is above 1.2 times that of eager in
the row's dtype, or for float32 above 1e-4. Exit status 1 where a row fails.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import knapper  # noqa: E402
import knapper.torch  # noqa: E402



class Exported:
    """The model as an ONNX file that `knapper.compile` has compiled, at the first call."""

    def __init__(self, model: Any) -> None:
        self.model, self.module = model, None

    def __call__(self, **inputs: Any) -> torch.Tensor:
        if self.module is None:
            model = self.model

            class First(torch.nn.Module):
                def __init__(self) -> None:
                    super().__init__()
                    self.model = model

                def forward(self, *values: Any) -> Any:
                    return first_tensor(self.model(**dict(zip(inputs, values))))

            with tempfile.TemporaryDirectory() as folder, torch.inference_mode(False), torch.no_grad():
                path = str(Path(folder) / "model.onnx")
                values = tuple(value.clone() for value in inputs.values())
                torch.onnx.export(First(), values, path, input_names=list(inputs), output_names=["y"], dynamo=True)
                self.module = knapper.compile(path, threads=torch.get_num_threads())
        return torch.from_dlpack(self.module(*inputs.values())["y"])


# The sides: name -> how a module is compiled.
SIDES: dict[str, Callable[[Any], Any]] = {
    "eager": lambda m: m,
    "inductor": lambda m: torch.compile(m),
    "reduce-overhead": lambda m: torch.compile(m, mode="reduce-overhead"),
    "knapper": lambda m: knapper.torch.compile(m, fallback="error"),
}
# Where asked for: weights that are constants, here and through a file (on the CPU).
FROZEN: dict[str, Callable[[Any], Any]] = {
    "frozen": lambda m: knapper.torch.compile(m, fallback="error", freeze=True),
    "onnx": Exported,
}


def text(batch: int, length: int, vocabulary: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"input_ids": torch.randint(3, vocabulary, (batch, length))}


def bert(batch: int, length: int) -> tuple[Any, Any]:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()), text(batch, length, 30522)


def gpt2(batch: int, length: int) -> tuple[Any, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), text(batch, length, 50257)


def llama(batch: int, length: int, layers: int = 16) -> tuple[Any, Any]:
    """Llama 3.2 1B's shape."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048, intermediate_size=8192, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, vocab_size=128256, tie_word_embeddings=True, use_cache=False,
        rope_theta=500000.0, max_position_embeddings=8192,
    )  # fmt: skip
    return LlamaForCausalLM(config), text(batch, length, 128256)


def vit(batch: int) -> tuple[Any, Any]:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig()), lambda: {"pixel_values": torch.randn(batch, 3, 224, 224)}


def resnet(batch: int) -> tuple[Any, Any]:
    """ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000)), lambda: {
        "pixel_values": torch.randn(batch, 3, 224, 224)
    }


# device -> row -> (dtype, what builds it)
ROWS: dict[str, dict[str, tuple[torch.dtype, Callable[[], tuple[Any, Any]]]]] = {
    "cuda": {
        "bert 32x128": (torch.bfloat16, lambda: bert(32, 128)),
        "gpt2 8x1024": (torch.bfloat16, lambda: gpt2(8, 1024)),
        "resnet50 64": (torch.float16, lambda: resnet(64)),
        "llama1b 4x2048": (torch.bfloat16, lambda: llama(4, 2048)),
        "vit 64": (torch.bfloat16, lambda: vit(64)),
    },
    "cpu": {
        "bert 8x128": (torch.float32, lambda: bert(8, 128)),
        "bert 1x32": (torch.float32, lambda: bert(1, 32)),
        "gpt2 1x128": (torch.float32, lambda: gpt2(1, 128)),
        "resnet50 1": (torch.float32, lambda: resnet(1)),
        "resnet50 8": (torch.float32, lambda: resnet(8)),
        "llama 2 layers 1x128": (torch.float32, lambda: llama(1, 128, 2)),
        "vit 1": (torch.float32, lambda: vit(1)),
        "vit 8": (torch.float32, lambda: vit(8)),
    },
}


def first_tensor(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


def seconds_of(call: Callable[[], Any], device: str, batch: int) -> float:
    """Of one call."""
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(batch):
            call()
        return (time.perf_counter() - start) / batch
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(batch):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / batch


def in_turns(calls: dict[str, Callable[[], Any]], device: str, rounds: int, seconds: float) -> dict[str, float]:
    """Median seconds of a call of each side."""
    batches = {}
    for side, call in calls.items():
        for _ in range(3):
            call()
        once = min(seconds_of(call, device, 1) for _ in range(3))
        batches[side] = max(1, min(1000, int(seconds / max(once, 1e-6))))
    taken: dict[str, list[float]] = {side: [] for side in calls}
    for _ in range(rounds):
        for side, call in calls.items():
            if device == "cpu":
                time.sleep(0.3)  # another pool of threads may spin
            call()
            taken[side].append(seconds_of(call, device, batches[side]))
    return {side: statistics.median(times) for side, times in taken.items()}


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row."""
    dtype, build = ROWS[options.device][name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs_of = build()
    model = model.eval().to(options.device)
    inputs = {k: v.to(options.device) for k, v in inputs_of().items()}
    row: dict[str, Any] = {"row": name, "device": options.device, "dtype": str(dtype)}
    with torch.inference_mode():
        wanted = first_tensor(model(**inputs)).float()
        model = model.to(dtype)
        inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
        calls, errors = {}, {}
        for side in options.sides:
            start = time.perf_counter()
            try:
                function = {**SIDES, **FROZEN}[side](model)
                made = first_tensor(function(**inputs)).float()
            except Exception as error:  # of a peer, or of ours: a row that fails
                row[side] = f"{type(error).__name__}: {error}"[:500]
                continue
            row[f"{side} compile s"] = round(time.perf_counter() - start, 2)
            errors[side] = float((made - wanted).norm() / wanted.norm())
            calls[side] = lambda function=function: function(**inputs)
            del made
        del wanted
        for side, took in in_turns(calls, options.device, options.rounds, options.seconds).items():
            row[f"{side} ms"] = took * 1e3
    row["errors"] = errors
    peers = [row[f"{s} ms"] for s in ("inductor", "reduce-overhead") if f"{s} ms" in row]
    ours = row.get("knapper ms")
    limit = 1e-4 if dtype == torch.float32 else 1.2 * errors.get("eager", 0.0)
    row["right"] = "knapper" in errors and errors["knapper"] <= limit
    if ours and peers:
        row["ratio"] = min(peers) / ours
    for side in ("knapper", "frozen"):
        if "onnx ms" in row and f"{side} ms" in row:
            row[f"onnx to {side}"] = row["onnx ms"] / row[f"{side} ms"]
    return row


def small_calls(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A call with ten float32[8] tensors, one or ten results, by the host's clock,
    not waiting for a GPU."""
    tensors = [torch.randn(8, device=options.device) for _ in range(10)]
    functions = {
        "one result": lambda *x: x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7] + x[8] + x[9],
        "ten results": lambda *x: tuple(t + 1 for t in x),
    }
    rows = []
    for name, function in functions.items():
        torch._dynamo.reset()
        row: dict[str, Any] = {"row": name, "device": options.device, "right": True}
        calls = {}
        wanted = function(*tensors)
        for side in options.sides:
            call = SIDES[side](function)
            for got, want in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (call(*tensors), wanted))):
                row["right"] &= torch.allclose(got, want, rtol=1e-5, atol=1e-5)
            calls[side] = call
        taken: dict[str, list[float]] = {side: [] for side in calls}
        for _ in range(options.rounds * 4):
            for side, call in calls.items():
                for _ in range(20):
                    call(*tensors)
                if options.device == "cuda":
                    torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(200):
                    call(*tensors)
                taken[side].append((time.perf_counter() - start) / 200)
        for side, times in taken.items():
            row[f"{side} us"] = statistics.median(times) * 1e6
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=sorted(ROWS), default="cpu")
    parser.add_argument("--only", help="first words of rows, by commas")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--calls", action="store_true", help="the cost of small calls instead")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a side's turn")
    parser.add_argument("--threads", type=int, default=2, help="on the CPU")
    parser.add_argument("--out", type=Path, help="rows as JSON, a line each")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    options.sides = options.sides.split(",")
    if options.device == "cpu" and "reduce-overhead" in options.sides:
        options.sides.remove("reduce-overhead")  # the same as inductor there
    if options.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
    names = [n for n in ROWS[options.device] if not options.only or n.split()[0] in options.only.split(",")]
    failed = False
    for name in ["calls"] if options.calls else names:
        rows = small_calls(options) if options.calls else [measure(name, options)]
        for row in rows:
            failed |= not row["right"]
            print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
