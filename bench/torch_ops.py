#!/usr/bin/env python3
"""PyTorch's op database through torch.compile(backend="knapper").

    bench/torch_ops.py --dtype float32 --out rows.jsonl
    bench/torch_ops.py --dtype int64 --shard 0/2 --dynamic
    bench/torch_ops.py --dtype float32 --backward --samples 4
    bench/torch_ops.py --dtype float32 --inference --strided --stride 8
    bench/torch_ops.py --dynamic --samples 3 --draw 70 --seed 4ec0aec3

Every entry of `torch.testing._internal.common_methods_invocations.op_db` that
the CPU has in the dtype, all its samples (--samples N: the first N, with --seed N drawn ones and other numbers), forward or
with --backward the gradients, with fallback="error", compared with eager under the tolerances of torch's own
test of inductor (float32, complex64: rtol 1.3e-5, atol 1.5e-5; narrower floats against
float32). A float result beyond them is right where it is at most twice as far
from float64 as eager's in the same dtype; of `sort`, `argsort`, `topk`, `kthvalue` and `mode`, which promise no order of
equal elements, the indices count by what they point to. Each entry runs in a process of its own pool, so that a crash or a hang
costs one entry. Rows are written as they end; a run resumes behind them.

A row: {"op", "dtype", "status", "why", "samples"}; status is "right", "missing"
(an operator without a row), "wrong", "error", "crash", "timeout", or "skipped"
(eager itself fails, or gives random numbers).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

# Results that are random, or memory that nobody has written.
RANDOM = (
    "bernoulli", "cauchy", "empty", "exponential", "geometric", "log_normal", "multinomial",
    "normal", "rand", "uniform", "dropout", "new_empty", "resize", "rrelu", "poisson",
)  # fmt: skip
# Names that hold one of these words, of what is not random.
DEFINED = ("normalize", "poisson_nll_loss", "__rand__", "native_dropout_backward", "windows.exponential")


def is_random(name: str) -> bool:
    return any(part in name for part in RANDOM) and not any(part in name for part in DEFINED)


def tolerances(dtype: object) -> dict[str, float]:
    """Of a result; floats that come of integers count as float32."""
    import torch

    return {
        torch.float32: {"rtol": 1.3e-5, "atol": 1.5e-5},
        torch.float64: {"rtol": 1e-7, "atol": 1e-7},
        torch.complex64: {"rtol": 1.3e-5, "atol": 1.5e-5},
        torch.complex128: {"rtol": 1e-7, "atol": 1e-7},
        torch.float16: {"rtol": 1e-2, "atol": 1e-2},
        torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
    }.get(dtype, {"rtol": 0.0, "atol": 0.0})


def run_entry(op: object, dtype: object, options: argparse.Namespace) -> dict[str, object]:
    import torch
    import torch.utils._pytree as pytree

    import knapper
    import knapper.torch

    if is_random(op.full_name if hasattr(op, "full_name") else op.name):
        return {"status": "skipped", "why": "random numbers", "samples": 0}
    if options.backward and not op.supports_autograd:
        return {"status": "skipped", "why": "no gradient", "samples": 0}
    done = 0
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=options.backward))
    except Exception as error:
        return {"status": "skipped", "why": f"samples: {error}"[:200], "samples": 0}
    if options.seed != "0" and options.samples:
        samples = random.Random(f"{options.seed}:{op.name}").sample(samples, min(options.samples, len(samples)))
    for sample in samples[: options.samples or None]:
        fn = op.op
        chosen = options.backward or op.name in FREE_SIGNS

        def call(*leaves: object) -> object:
            given = list(fixed)
            for index, leaf in zip(places, leaves):
                given[index] = leaf
            args, kwargs = pytree.tree_unflatten(given, spec)
            result = fn(*args, **kwargs)
            # Torch's own choice of what does not hang on signs.
            return sample.output_process_fn_grad(result) if chosen else result

        flat, spec = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]
        fixed = [None if i in places else value for i, value in enumerate(flat)]
        tensors = [flat[i] for i in places]
        if any(t.layout != torch.strided for t in tensors):
            continue
        if options.strided:
            tensors = [strided(t) for t in tensors]
        try:
            given = [reference_of(t) for t in tensors]  # as_strided sees what lies between
            want = evaluated(call, [strided(t) if options.strided else t for t in given], tensors, options)
        except Exception:
            continue
        if want is None:
            continue
        torch._dynamo.reset()
        try:
            compiled = knapper.torch.compile(
                call, dynamic=options.dynamic or None, fullgraph=True, fallback="error", cache=False
            )
            given = [strided(t) if options.strided else t.detach().clone() for t in tensors]
            got = evaluated(compiled, given, tensors, options)
        except Exception as error:
            text = str(error)
            kind = "missing" if "not supported" in text else "error"
            ours = isinstance(error, torch._dynamo.exc.BackendCompilerFailed)
            if "torch._dynamo.exc" in repr(type(error)) and not ours:
                continue  # Dynamo's own
            if is_narrow(dtype) and not eager_runs(call, tensors, options):
                continue  # `want` was made in float32
            return {"status": kind, "why": why(text), "samples": done}
        try:
            if op.name in UNORDERED and not options.backward:
                got, want = pointed_to(op.name, sample, got), pointed_to(op.name, sample, want)
            compare(got, want, dtype)
        except Exception as error:
            if is_judged_by_eager(dtype) and as_exact(call, tensors, got, want, options):
                done += 1
                continue
            return {"status": "wrong", "why": str(error)[:300], "samples": done}
        done += 1
    return {"status": "right" if done else "skipped", "why": "" if done else "no sample", "samples": done}


# Operators whose results are right with other signs.
FREE_SIGNS = ("linalg.eigh", "linalg.svd", "svd")
# Operators that promise no order of equal elements.
UNORDERED = ("sort", "argsort", "topk", "kthvalue", "mode")


def pointed_to(name: str, sample: object, result: object) -> object:
    """The result with the elements that its indices point to in their place, and
    the indices in order: each is there once."""
    import torch

    x = sample.input
    if name in ("kthvalue", "mode"):
        behind = sample.args[name == "kthvalue" :]
        dim = sample.kwargs.get("dim", behind[0] if behind else -1)
        values, at = result
        keeps = at.dim() == x.dim()
        return values, x.gather(dim, at if keeps else at.unsqueeze(dim)) if x.dim() else x
    at = list(sample.args)[1:] if name == "topk" else list(sample.args)
    dim = sample.kwargs.get("dim", next((a for a in at if type(a) is int), -1))
    if sample.kwargs.get("stable") or x.dim() == 0:
        return result
    indices = result if isinstance(result, torch.Tensor) else result[1]
    counts = torch.zeros(x.shape, dtype=torch.int64).scatter_add(dim, indices, torch.ones_like(indices))
    made = [x.gather(dim, indices), counts.amax() if counts.numel() else counts]
    return made if isinstance(result, torch.Tensor) else [result[0], *made]


def evaluated(call: object, given: list, like: list, options: argparse.Namespace) -> object:
    """What the call gives, or with --backward the gradients of what it gives,
    against numbers that are the same each time; None where it has none."""
    import torch
    import torch.utils._pytree as pytree

    if not options.backward:
        with torch.inference_mode() if options.inference else torch.no_grad():
            return call(*[t.detach() for t in given])
    leaves = [t.detach().requires_grad_(l.requires_grad) for t, l in zip(given, like)]
    made = [
        o for o in pytree.tree_leaves(call(*leaves)) if isinstance(o, torch.Tensor) and o.requires_grad
    ]
    sources = [t for t in leaves if t.requires_grad]
    if not made or not sources:
        return None
    drawn = torch.Generator().manual_seed(7)
    against = [torch.randn(o.shape, generator=drawn).to(o.dtype) for o in made]
    found = torch.autograd.grad(made, sources, against, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, sources)]


def eager_runs(call: object, tensors: object, options: argparse.Namespace) -> bool:
    try:
        evaluated(call, [t.clone() for t in tensors], tensors, options)
    except Exception:
        return False
    return True


def as_exact(
    call: object, tensors: object, got: object, want: object, options: argparse.Namespace
) -> bool:
    """Whether a result is at most twice as far from float64 as eager's, of inputs of the same dtype."""
    import torch
    import torch.utils._pytree as pytree

    try:
        if any(is_narrow(t.dtype) for t in tensors):  # `want` was made in float32
            want = evaluated(call, [t.clone() for t in tensors], tensors, options)
        wide = [t.double() if is_judged_by_eager(t.dtype) else t for t in tensors]
        exact = evaluated(call, wide, tensors, options)
        rows = zip(*map(pytree.tree_leaves, (got, want, exact)), strict=True)
        return all(
            a.dtype == b.dtype and a.shape == b.shape and bool(
                ((a.double() - c).abs().max() <= 2 * (b.double() - c).abs().max()).item()
            )
            for a, b, c in rows
        )  # fmt: skip
    except Exception:
        return False


def is_narrow(dtype: object) -> bool:
    return str(dtype) in ("torch.float16", "torch.bfloat16")


def is_judged_by_eager(dtype: object) -> bool:
    return is_narrow(dtype) or str(dtype) == "torch.float32"


def reference_of(tensor: object) -> object:
    """A copy that eager computes with: narrow floats as float32."""
    import torch

    return tensor.float() if is_narrow(tensor.dtype) else tensor.clone()


def compare(got: object, want: object, dtype: object) -> None:
    """Raises AssertionError where a result is not what eager gives. `dtype` is
    that of the inputs: what they made of narrow floats is as exact as these."""
    import torch
    import torch.utils._pytree as pytree

    ours, theirs = pytree.tree_leaves(got), pytree.tree_leaves(want)
    assert len(ours) == len(theirs), f"{len(ours)} results for {len(theirs)}"
    for mine, other in zip(ours, theirs):
        if not isinstance(other, torch.Tensor):
            assert mine == other or (mine != mine and other != other), f"{mine} for {other}"
            continue
        narrow = is_narrow(dtype) and other.is_floating_point()
        if narrow and mine.is_floating_point():
            other = other.to(mine.dtype)  # what float16 cannot hold is infinite
        limits = tolerances(dtype if narrow else other.dtype)
        torch.testing.assert_close(
            mine, other, equal_nan=True, check_stride=False, check_dtype=not narrow, **limits
        )


def why(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if "TORCHDYNAMO_VERBOSE" not in line]
    told = [line for line in lines if "aten." in line or "prims." in line or "internal" in line.lower()]
    return " | ".join(told[:3] or lines[:3])[:300]


def strided(tensor: object) -> object:
    """The same numbers with a stride and an offset of one element."""
    import torch

    if tensor.dim() == 0:
        return tensor.clone()
    wide = torch.zeros([*tensor.shape[:-1], tensor.shape[-1] * 2 + 1], dtype=tensor.dtype)
    view = wide[..., 1::2]
    view.copy_(tensor)
    return view


def worker(options: argparse.Namespace) -> None:
    """Reads numbers of entries, writes rows."""
    warnings.simplefilter("ignore")
    import logging

    logging.disable(logging.WARNING)
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    # Dynamo flushes caches to time its guards, a fifth of a small graph's compile.
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)
    for line in sys.stdin:
        op = op_db[int(line)]
        torch.manual_seed(zlib.crc32(options.seed.encode()) if options.seed != "0" else 0)
        try:
            row = run_entry(op, dtype, options)
        except BaseException as error:  # noqa: BLE001
            row = {"status": "error", "why": f"{type(error).__name__}: {error}"[:300], "samples": 0}
        print("\nROW " + json.dumps(row), flush=True)


def names(dtype: str) -> list[tuple[int, str]]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    wanted = getattr(torch, dtype)
    return [
        (i, f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name)
        for i, op in enumerate(op_db)
        if wanted in op.supported_dtypes("cpu")
    ]


class Pool:
    """One worker process; a new one after a crash or a hang."""

    def __init__(self, arguments: list[str], seconds: float) -> None:
        self.arguments, self.seconds, self.process = arguments, seconds, None

    def ask(self, index: int) -> dict[str, object]:
        import selectors

        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--worker", *self.arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            )  # fmt: skip
            self.buffer = b""
        self.process.stdin.write(f"{index}\n".encode())
        waits = selectors.DefaultSelector()
        waits.register(self.process.stdout, selectors.EVENT_READ)
        import time

        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            while b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                if line.startswith(b"ROW "):
                    return json.loads(line[4:])
            if waits.select(max(0.0, end - time.monotonic())):
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    code = self.process.wait()
                    return {"status": "crash", "why": f"exit status {code}", "samples": 0}
                self.buffer += data
        self.process.kill()
        self.process.wait()
        return {"status": "timeout", "why": f"{self.seconds} s", "samples": 0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=0, help="of each entry; 0: all")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--only", default="", help="entries with this text in their name")
    parser.add_argument("--stride", type=int, default=1, help="every Nth entry")
    parser.add_argument("--draw", type=int, help="that many entries, drawn by --seed")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--backward", action="store_true", help="gradients, of floats")
    parser.add_argument("--inference", action="store_true", help="under inference_mode")
    parser.add_argument("--strided", action="store_true", help="inputs with gaps and an offset")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--out", type=Path, help="rows; a run resumes behind them")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return 0
    done = set()
    rows = []
    if options.out and options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
        done = {row["op"] for row in rows}
    part, parts = map(int, options.shard.split("/"))
    given = ["--dtype", options.dtype, "--samples", str(options.samples), "--seed", options.seed]
    for name in ("dynamic", "strided", "backward", "inference"):
        given += [f"--{name}"] * getattr(options, name)
    pool = Pool(given, options.timeout)
    entries = names(options.dtype)
    if options.draw:
        entries = random.Random(options.seed).sample(entries, min(options.draw, len(entries)))
    for number, (index, name) in enumerate(entries):
        if name in done or options.only not in name or number % parts != part or number % options.stride:
            continue
        row = {"op": name, "dtype": options.dtype, **pool.ask(index)}
        rows.append(row)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        elif row["status"] != "right":
            print(row, flush=True)
    counts = collections.Counter(row["status"] for row in rows)
    ran = sum(counts.values()) - counts["skipped"]
    print(f"{options.dtype}: " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items())), f"; {counts['right']}/{ran} right")
    return 1 if counts["wrong"] or counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
