#!/usr/bin/env python3
"""Times attention on an NVIDIA GPU against torch's scaled_dot_product_attention.

    bench/gpu_attention.py [--knapper PROGRAM] [--cases NAME,...] [--rounds R] [--json FILE]
                           [--bars] [--check] [--compile-only FOLDER | --compiled FOLDER]

Needs the program, the runtime library that the Python package finds, torch with
CUDA, and a GPU; says which of them is missing and ends with 0 then.
--compile-only needs the program alone; what it leaves is measured elsewhere by
--compiled and the same cases.

Every case is compiled from a text of the tensor level. It runs twice:

- through the Python package (small cases only), whose result must be right;
- for its time, its kernel is launched on torch's tensors as the artefact says
  (--dump-dir), in turns with each of torch's backends that takes the case, cuDNN
  among them, on the same operands; several sets of them take turns.

Printed for each: milliseconds, TFLOP/s (4 B H S T D, half of it for causal) and
the ratio to the best backend, in bursts (3 ms after a pause) and sustained,
medians of rounds timed by events; and the errors of ours and of the backends
against float64, norm of the difference over the norm. A case fails when its
error is more than 1.05 times that of the best backend (0.0001 always passes:
float32). --bars also fails cases slower than the best backend.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from gpu_matmul import BAR, ERROR, ROOT, SMALL_ERROR, Kernel, compiled, skip

SMALL = 1 << 22  # elements of q below which the package runs it, too


class Case:
    """q [b, h, s, d], k and v [b, g, t, d]; `mask`: None, "keys" (i1 [b, 1, 1, t])
    or "added" ([1, h, s, t])."""

    def __init__(self, name, b, h, s, d, *, g=None, t=None, dtype="bf16", causal=False,
                 mask=None, wide=False):
        self.name, self.b, self.h, self.s, self.d = name, b, h, s, d
        self.g, self.t = g or h, t or s
        self.dtype, self.causal, self.mask, self.wide = dtype, causal, mask, wide

    def folder(self):
        return re.sub(r"\W+", "_", self.name)

    def mask_type(self):
        if self.mask == "keys":
            return f"tensor<{self.b}x1x1x{self.t}xi1>"
        return f"tensor<1x{self.h}x{self.s}x{self.t}x{self.dtype}>"

    def text(self):
        q = f"tensor<{self.b}x{self.h}x{self.s}x{self.d}x{self.dtype}>"
        k = f"tensor<{self.b}x{self.g}x{self.t}x{self.d}x{self.dtype}>"
        arguments, mask = f"%q: {q}, %k: {k}, %v: {k}", ""
        if self.mask:
            arguments += f", %m: {self.mask_type()}"
            mask = f"mask %m : {self.mask_type()} "
        causal = "{causal = true} " if self.causal else ""
        return (
            f"module {{\n  func.func @main({arguments}) -> {q} {{\n"
            f"    %0 = ts.attention %q, %k, %v {mask}scale {self.d ** -0.5:.17g} {causal}: {q}, {k}, {k}\n"
            f"    return %0 : {q}\n  }}\n}}\n"
        )

    def flops(self):
        return 4 * self.b * self.h * self.s * self.t * self.d * (0.5 if self.causal else 1)


CASES = [
    Case("full", 4, 32, 4096, 128),
    Case("causal", 4, 32, 4096, 128, causal=True),
    Case("full 1024", 16, 32, 1024, 128),
    Case("causal 1024", 16, 32, 1024, 128, causal=True),
    Case("full 16384", 1, 32, 16384, 128),
    Case("causal 16384", 1, 32, 16384, 128, causal=True),
    Case("grouped causal", 4, 32, 4096, 128, g=8, causal=True),
    Case("full 64", 4, 32, 4096, 64),
    Case("causal 64", 4, 32, 4096, 64, causal=True),
    Case("f16 full", 4, 32, 4096, 128, dtype="f16"),
    Case("f16 causal 64", 4, 32, 4096, 64, dtype="f16", causal=True),
    Case("key mask", 4, 32, 4096, 128, mask="keys"),
    Case("added mask 64", 4, 32, 2048, 64, mask="added"),
    Case("bert", 32, 12, 128, 64),
    Case("bert key mask", 32, 12, 128, 64, mask="keys"),
    Case("gpt2", 8, 12, 1024, 64, causal=True),
    Case("f32 causal 64", 8, 12, 1024, 64, dtype="f32", causal=True),
    Case("f32 full", 2, 16, 1024, 128, dtype="f32"),
]
CHECKS = [
    Case("1000 grouped", 2, 4, 1000, 128, g=2),
    Case("1000 causal", 2, 4, 1000, 128, g=2, causal=True),
    Case("300x1000", 2, 4, 300, 128, t=1000),
    Case("1x77", 2, 4, 9, 128, t=77),
    Case("wide logits", 2, 4, 512, 128, wide=True),
    Case("wide logits causal 64", 2, 4, 700, 64, wide=True, causal=True),
    Case("777x777 64", 3, 5, 777, 64),
    Case("129x129 causal 64 f16", 3, 5, 129, 64, dtype="f16", causal=True),
    Case("head 96", 2, 3, 500, 96),
    Case("head 80 causal", 2, 3, 500, 80, causal=True),
    Case("head 40", 2, 3, 333, 40, dtype="f16"),
    Case("head 32 key mask", 2, 3, 333, 32, mask="keys"),
    Case("odd mask 128", 2, 3, 333, 128, t=335, mask="added"),
    Case("even mask 64 causal", 2, 3, 334, 64, mask="added", causal=True),
    Case("head 256", 1, 2, 300, 256),
    Case("head 50 f16", 2, 3, 300, 50, dtype="f16", causal=True),
    Case("f32 ragged", 2, 3, 301, 72, t=203, dtype="f32"),
    Case("f32 key mask causal", 2, 3, 200, 64, dtype="f32", mask="keys", causal=True),
]


class Bench:
    def __init__(self, options, torch, knapper):
        self.options, self.torch, self.knapper = options, torch, knapper
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.folder = options.compiled or Path(tempfile.mkdtemp(prefix="gpu-attention-"))
        backend = torch.nn.attention.SDPBackend
        self.backends = {
            "cudnn": backend.CUDNN_ATTENTION,
            "flash": backend.FLASH_ATTENTION,
            "efficient": backend.EFFICIENT_ATTENTION,
        }

    def operands(self, case, seed):
        torch = self.torch
        generator = torch.Generator(device="cuda").manual_seed(seed)
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}

        def draw(*shape, factor=1.0):
            drawn = torch.randn(*shape, device="cuda", generator=generator)
            return (drawn * factor).to(dtype[case.dtype])

        sharp = (4.0, 3.0) if case.wide else (1.0, 1.0)
        tensors = [
            draw(case.b, case.h, case.s, case.d, factor=sharp[0]),
            draw(case.b, case.g, case.t, case.d, factor=sharp[1]),
            draw(case.b, case.g, case.t, case.d),
        ]
        if case.mask == "keys":
            lengths = torch.randint(1, case.t + 1, (case.b, 1, 1, 1), device="cuda",
                                    generator=generator)
            tensors.append(torch.arange(case.t, device="cuda") < lengths)
        elif case.mask:
            tensors.append(draw(1, case.h, case.s, case.t))
        return tensors

    def exact(self, case, q, k, v, mask=None):
        torch, shares = self.torch, case.h // case.g
        result = torch.empty(q.shape, device="cuda", dtype=torch.float64)
        seen = torch.ones(case.s, case.t, dtype=torch.bool, device="cuda")
        if case.causal:
            seen = seen.tril(case.t - case.s)
        for b in range(case.b):
            for h in range(case.h):
                scores = q[b, h].double() @ k[b, h // shares].double().t() * case.d**-0.5
                if case.mask == "keys":
                    scores.masked_fill_(~mask[b, 0, 0], float("-inf"))
                elif case.mask:
                    scores += mask[0, h].double()
                if case.causal:
                    scores.masked_fill_(~seen, float("-inf"))
                result[b, h] = torch.softmax(scores, -1).nan_to_num_(0) @ v[b, h // shares].double()
        return result

    def torch_result(self, case, backend, q, k, v, mask=None):
        torch = self.torch
        causal = case.causal
        if mask is not None:
            if causal:  # torch takes one of the two
                seen = torch.ones(case.s, case.t, dtype=torch.bool, device="cuda").tril(case.t - case.s)
                mask = mask & seen if case.mask == "keys" else mask.masked_fill(~seen, float("-inf"))
                causal = False
            mask = mask.expand(case.b, case.h, case.s, case.t)
        with torch.nn.attention.sdpa_kernel(self.backends[backend]):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=case.g != case.h)

    @staticmethod
    def error(result, exact):
        return ((result.double() - exact).norm() / exact.norm()).item()

    def timed(self, function, count):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(count):
            function(i)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / count

    def medians(self, functions):
        """Median milliseconds of each function, in bursts and sustained."""
        guess = []
        for function in functions:
            self.timed(function, 3)
            guess.append(self.timed(function, 5))
        result = []
        for milliseconds, pause in ((3, 0.025), (self.options.sustained, 0)):
            times = [[] for _ in functions]
            for round_ in range(self.options.rounds):
                order = list(range(len(functions)))
                random.Random(round_).shuffle(order)
                for i in order:
                    if pause:
                        time.sleep(pause)
                        functions[i](0)
                        functions[i](1)
                    count = max(3, int(milliseconds / guess[i]))
                    times[i].append(self.timed(functions[i], count))
            result.append([statistics.median(t) for t in times])
        return result

    def run(self, case, timed):
        torch = self.torch
        folder, seconds = self.folder / case.folder(), 0.0
        if not self.options.compiled:
            seconds = compiled(case, self.options.knapper, folder)
        operands = self.operands(case, 1)
        exact = self.exact(case, *operands)
        peers = {}
        for name in self.backends:
            if case.causal and case.s != case.t:
                continue  # torch's diagonal starts elsewhere
            try:
                peers[name] = self.error(self.torch_result(case, name, *operands), exact)
            except RuntimeError:
                pass  # the backend does not take it
        ours = {}
        if operands[0].numel() <= SMALL:
            module = self.knapper.load(str(folder / "case.knap"))
            host = [t.cpu() for t in operands]
            result = torch.from_dlpack(module(*host).tensor(0)).cuda()
            ours["package"] = self.error(result, exact)
        kernel = Kernel(self.driver, folder, torch)
        result = torch.full_like(operands[0], float("nan"))
        kernel.bind([*operands, result])()
        torch.cuda.synchronize()
        ours["kernel"] = self.error(result, exact)
        again = torch.full_like(result, float("nan"))
        kernel.bind([*operands, again])()
        same = torch.equal(result, again)
        del exact, again
        bound = SMALL_ERROR if case.dtype == "f32" else 5e-3
        if peers:
            bound = max(SMALL_ERROR if case.dtype == "f32" else 0, ERROR * min(peers.values()))
        good = same and all(e <= bound for e in ours.values())
        row = {"case": case.name, "schedule": kernel.label, "compile_s": seconds,
               "error": ours, "torch_error": peers, "right": good}
        line = f"{case.name:22s} {'right' if good else 'WRONG'} " + " ".join(
            f"{e:.2e}" for e in ours.values()) + " |" + "".join(
            f" {n} {e:.2e}" for n, e in peers.items())
        if timed and good and not self.options.check:
            sets = [operands, self.operands(case, 2)]
            outs = [torch.empty_like(s[0]) for s in sets]
            launches = [kernel.bind([*s, o]) for s, o in zip(sets, outs)]
            functions = [lambda i: launches[i % 2]()]
            for name in peers:
                functions.append(
                    lambda i, name=name: self.torch_result(case, name, *sets[i % 2]))
            burst, sustained = self.medians(functions)
            row.update(burst_ms=burst, sustained_ms=sustained,
                       burst_ratio=min(burst[1:]) / burst[0],
                       sustained_ratio=min(sustained[1:]) / sustained[0])
            tera = case.flops() * 1e-9
            line += (
                f"  burst {burst[0]:.4f} ms {tera / burst[0]:6.1f} TF x{row['burst_ratio']:.3f}"
                f" (torch {' '.join(f'{t:.4f}' for t in burst[1:])})"
                f"  sustained {sustained[0]:.4f} ms {tera / sustained[0]:6.1f} TF "
                f"x{row['sustained_ratio']:.3f}"
            )
            if self.options.bars:
                row["fast"] = max(row["burst_ratio"], row["sustained_ratio"]) >= BAR
        print(f"{line}  {kernel.label}", flush=True)
        torch.cuda.empty_cache()
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--knapper", default=None, help="the program")
    parser.add_argument("--cases", default=None, help="names, comma separated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sustained", type=float, default=60, help="milliseconds")
    parser.add_argument("--check", action="store_true", help="no times")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--compile-only", type=Path, metavar="FOLDER")
    parser.add_argument("--compiled", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    cases = [(c, False) for c in CHECKS] + [(c, True) for c in CASES]
    if options.cases is not None:
        names = options.cases.split(",")
        cases = [(c, timed) for c, timed in cases if c.name in names]
    places = [options.knapper] if options.knapper else [
        ROOT / "bin/knapper", ROOT / "build/release/bin/knapper", ROOT / "build/dev/bin/knapper"]
    options.knapper = next((p for p in places if Path(p).exists()), None)
    if options.knapper is None and not options.compiled:
        skip("there is no knapper program: build it, or say --knapper")
    if options.compile_only:
        for case, _ in cases:
            seconds = compiled(case, options.knapper, options.compile_only / case.folder())
            print(f"{case.name}: {seconds:.3f} s")
        return
    try:
        import torch
    except ImportError:
        skip("torch is not installed")
    if not torch.cuda.is_available():
        skip("torch sees no GPU")
    if torch.cuda.get_device_capability() < (9, 0):
        skip("the GPU is older than sm_90")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    import knapper

    bench = Bench(options, torch, knapper)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; errors: package (small "
          "cases), kernel | torch's backends")
    rows = [bench.run(case, timed) for case, timed in cases]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    failed = [r["case"] for r in rows if not r["right"] or not r.get("fast", True)]
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
