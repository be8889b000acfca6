#!/usr/bin/env python3
"""Times matmuls on an NVIDIA GPU against torch.matmul (cuBLAS).

    bench/gpu_matmul.py [--knapper PROGRAM] [--cases NAME,...] [--random N] [--seed S]
                        [--rounds R] [--json FILE] [--bars] [--compile-only FOLDER | --compiled FOLDER]

Needs the program, the runtime library that the Python package finds, torch with
CUDA, and a GPU; says which of them is missing and ends with 0 then.
--compile-only needs the program alone; what it leaves is measured elsewhere by
--compiled and the same cases.

Every case is compiled from a text of the tensor level. It runs twice:

- through the Python package, whose result must agree with torch's;
- for its time, its kernel is launched on torch's tensors as the artefact says
  (--dump-dir), interleaved with torch on the same operands; short ones from graphs. Several sets of
  operands, more than the caches hold, take turns; they are random, since zeros
  are faster.

linear+gelu runs beside torch's linear and GELU, eager and by torch.compile. Aside: one call of
cuBLASLt, private in torch, that does both but computes GELU's tanh form, whose error is above the bound.

Printed for each: milliseconds and ratio to torch in bursts (3 ms after a pause)
and sustained (100 ms), medians of rounds timed by events; and the errors of both
against float64, relative to the norm. A case fails when its error is more than
1.05 times torch's (an error of 0.0001 always passes: float32). --bars also
fails cases below their bar (1.0 times as fast; decode 1.05, linear+gelu 1.08).
Cases of tf32 may round their operands, torch's too (allow_tf32); others not.
"""

from __future__ import annotations

import random
import re

from gpu_against_torch import ERROR, SMALL_ERROR, Bench, Kernel, arguments, named, run


class Case:
    """y = x w, or gelu(x w + bias): x [m, k], w [k, n] or, transposed, [n, k]."""

    def __init__(self, name, m, n, k, *, dtype="bf16", tf32=False, transposed=True, gelu=False,
                 bar=1.0):
        self.name, self.m, self.n, self.k, self.tf32 = name, m, n, k, tf32
        self.dtype, self.transposed, self.gelu, self.bar = dtype, transposed, gelu, bar

    def folder(self):
        return re.sub(r"\W+", "_", self.name)

    def text(self):
        m, n, k, t = self.m, self.n, self.k, self.dtype
        w = f"{n}x{k}" if self.transposed else f"{k}x{n}"
        x, w, y, b = (f"tensor<{s}x{t}>" for s in (f"{m}x{k}", w, f"{m}x{n}", n))
        arguments = f"%x: {x}, %w: {w}" + (f", %b: {b}" if self.gelu else "")
        lines = [
            f"%0 = ts.dot %x, %w batch [] x [] contract [1] x "
            f"[{int(self.transposed)}]{' {ts.tf32}' * self.tf32} : {x}, {w}"
        ]
        result = "%0"
        if self.gelu:
            lines += [
                f"%1 = ts.broadcast %b [1] : {b} to {y}",
                f"%2 = ts.add %0, %1 : {y}",
                f"%3 = ts.gelu %2 : {y}",
            ]
            result = "%3"
        body = "\n    ".join(lines)
        return (
            f"module {{\n  func.func @main({arguments}) -> {y} {{\n    {body}\n"
            f"    return {result} : {y}\n  }}\n}}\n"
        )


CASES = [
    Case("8192^3", 8192, 8192, 8192),
    Case("8192x16384x4096", 8192, 16384, 4096),
    Case("4096x11008x4096", 4096, 11008, 4096),
    Case("4096^3", 4096, 4096, 4096),
    Case("4096^3 k-major", 4096, 4096, 4096, transposed=False),
    Case("linear+gelu", 8192, 16384, 4096, gelu=True, bar=1.08),
    Case("4096^3 f16", 4096, 4096, 4096, dtype="f16"),
    Case("decode 16384x4096", 1, 16384, 4096, bar=1.05),
    Case("decode 4096x4096", 1, 4096, 4096, bar=1.05),
    Case("decode 128256x2048", 1, 128256, 2048, bar=1.05),
    Case("decode 4 of 4096x11008", 4, 4096, 11008),
    Case("1024x4099x4099", 1024, 4099, 4099),
    Case("4096x4095x4097 k-major", 4096, 4095, 4097, transposed=False),
    Case("2048^3 f32", 2048, 2048, 2048, dtype="f32"),
    Case("1000x1111x777 f32", 1000, 1111, 777, dtype="f32", transposed=False),
    Case("8192^3 tf32", 8192, 8192, 8192, dtype="f32", tf32=True),
    Case("4096^3 tf32", 4096, 4096, 4096, dtype="f32", tf32=True),
    Case("4096^3 tf32 k-major", 4096, 4096, 4096, dtype="f32", tf32=True, transposed=False),
    Case("2048^3 tf32", 2048, 2048, 2048, dtype="f32", tf32=True),
    Case("512x4096x4096 tf32", 512, 4096, 4096, dtype="f32", tf32=True),
    Case("linear+gelu tf32", 8192, 16384, 4096, dtype="f32", tf32=True, gelu=True),
    Case("1000x1111x777 tf32", 1000, 1111, 777, dtype="f32", tf32=True, transposed=False),
]


def random_cases(count, seed):
    """Shapes by the logarithm: m 16..8192, n and k 256..16384, every fourth with
    columns or depth that are no multiple of 8."""
    r = random.Random(seed)

    def size(low, high, step):
        return max(low, round(low * (high / low) ** r.random() / step) * step)

    cases = []
    for i in range(count):
        step = 1 if i % 4 == 3 else 8
        m, n, k = size(16, 8192, 1), size(256, 16384, step), size(256, 16384, step)
        transposed = r.random() < 0.5
        name = f"{m}x{n}x{k}" + ("" if transposed else " k-major")
        cases.append(Case(name, m, n, k, transposed=transposed))
    return cases


class Matmuls(Bench):
    graphs = True

    def operands(self, case, seed):
        _, draw = self.drawing(case.dtype, seed)
        w = (case.n, case.k) if case.transposed else (case.k, case.n)
        # The order of drawing is part of what a seed gives.
        w = draw(*w, factor=case.k**-0.5)
        tensors = [draw(case.m, case.k), w]
        if case.gelu:
            tensors.append(draw(case.n))
        return tensors

    def torch_result(self, case, x, w, b=None, out=None):
        torch = self.torch
        torch.backends.cuda.matmul.allow_tf32 = case.tf32
        w = w.t() if case.transposed else w
        if not case.gelu:
            return torch.matmul(x, w, out=out)
        y = torch.nn.functional.linear(x, w.t(), b)
        return torch.nn.functional.gelu(y)

    def error(self, result, case, operands):
        """Norm of the difference from float64, relative; by rows, to save memory."""
        x, w, *b = operands
        w = (w.t() if case.transposed else w).double()
        wrong = total = 0.0
        for i in range(0, case.m, 1024):
            exact = x[i : i + 1024].double() @ w
            if b:
                exact = self.torch.nn.functional.gelu(exact + b[0].double())
            wrong += (result[i : i + 1024].double() - exact).square().sum().item()
            total += exact.square().sum().item()
        return (wrong / total) ** 0.5

    def run(self, case):
        torch = self.torch
        folder, seconds = self.compile(case)
        operands = self.operands(case, 1)
        wanted = self.torch_result(case, *operands)
        ours = {"package": self.package(folder, operands)}
        kernel = Kernel(self.driver, folder, torch)
        ours["kernel"] = self.launched(kernel, operands, wanted)
        peer = self.error(wanted, case, operands)
        errors = {how: self.error(y, case, operands) for how, y in ours.items()}
        bound = max(SMALL_ERROR if case.dtype == "f32" and not case.tf32 else 0, ERROR * peer)
        good = all(e <= bound for e in errors.values())
        row = {"case": case.name, "schedule": kernel.label, "compile_s": seconds,
               "error": errors, "torch_error": peer, "right": good}
        line = f"{case.name:24s} {'right' if good else 'WRONG'} " + " ".join(
            f"{e:.2e}" for e in (*errors.values(), peer))
        if good and not self.options.check:
            del ours, wanted
            size = operands[0].element_size()
            bytes_ = size * (case.m * case.k + case.n * case.k + case.m * case.n)
            count = max(2, min(8, int(2.5e8 / bytes_) + 1))
            sets = [self.operands(case, 2 + i) for i in range(count)]
            outs = [torch.empty(case.m, case.n, device="cuda", dtype=operands[0].dtype)
                    for _ in sets]
            launches = [kernel.bind([*s, o]) for s, o in zip(sets, outs)]
            functions = [
                lambda i: launches[i % count](),
                lambda i: self.torch_result(case, *sets[i % count], out=None if case.gelu else outs[i % count]),
            ]
            aside = []
            if case.gelu:
                nn = torch.nn.functional
                compiled = torch.compile(lambda x, w, b: nn.gelu(nn.linear(x, w, b)))
                functions.append(lambda i: compiled(*sets[i % count]))
                aside.append(
                    lambda i: torch._addmm_activation(
                        sets[i % count][2], sets[i % count][0],
                        sets[i % count][1].t(), use_gelu=True))
            line += self.measure(row, functions, 2 * case.m * case.n * case.k, aside, case.bar)
        print(f"{line}  {kernel.label}", flush=True)
        torch.cuda.empty_cache()
        return row


def main():
    parser = arguments(__doc__, rounds=9, sustained=100)
    parser.add_argument("--random", type=int, default=0, help="random shapes, how many")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    cases = named(CASES, options) + random_cases(options.random, options.seed)
    run(options, cases, Matmuls, "package, kernel, torch")


if __name__ == "__main__":
    main()
