#!/usr/bin/env python3
"""Times matmuls with packed integers on an NVIDIA GPU beside the reading of their bytes.

    bench/packed_matmul.py [--knapper PROGRAM] [--cases NAME,...] [--rounds R] [--json FILE] [--bars] [--check]
                           [--compile-only FOLDER | --compiled FOLDER]

Needs the program, torch with CUDA, and a GPU; says which of them is missing and ends with 0 then.

The matrices of an 8B Llama shape as integers of 8 bits (a scale a column) and of 4 bits (a scale for 128 rows of a
column), of rows up to which a matmul reads the integers. Several sets of operands, more than the caches hold, one after the other in a captured graph. Beside them
torch.mm in bf16 by the expanded matrix, and of the card a sum of 2 GB, whose speed is what a share is of.

Printed for each: microseconds, GB/s of integers and scales, the share, times torch.mm's, and the errors of both
against the matmul with the exact integers in float64, relative to the norm. A case fails when its error is more than
1.02 times that of torch.mm. --bars also fails cases of few rows and 16 MB or more that read at less than 0.85.
"""

from __future__ import annotations

from gpu_against_torch import Bench, Kernel, arguments, named, run

ERROR = 1.02
BAR, FEW_ROWS, MANY_BYTES = 0.85, 8, 16e6
SHAPES = [("qkv", 6144, 4096), ("output", 4096, 4096), ("gate", 14336, 4096), ("down", 4096, 14336), ("head", 128256, 4096)]


class Case:
    def __init__(self, label, bits, m, n, k):
        self.label, self.bits, self.m, self.n, self.k = label, bits, m, n, k
        self.group = 128 if bits == 4 else k

    @property
    def name(self):
        return f"{self.label} i{self.bits} {self.m}"

    def folder(self):
        return self.name.replace(" ", "_")

    def bytes(self):
        return self.n * (self.k * self.bits // 8 + 4 * (self.k // self.group))

    def text(self):
        m, n, k, group = self.m, self.n, self.k, self.group
        x, w, s = f"tensor<{m}x{k}xbf16>", f"tensor<{n}x{k * self.bits // 8}xi8>", f"tensor<{n}x{k // group}xf32>"
        y = f"tensor<{m}x{n}x%s>"
        return (
            f"module {{\n  func.func @main(%x: {x}, %w: {w}, %s: {s}) -> {y % 'bf16'} {{\n"
            f"    %0 = ts.packed_dot %x, %w scale %s bits {self.bits} group {group} : {x}, {w}, {s}\n"
            f"    %1 = ts.convert %0 : {y % 'f32'} to {y % 'bf16'}\n    return %1 : {y % 'bf16'}\n  }}\n}}\n"
        )


def cases():
    return [Case(label, bits, m, n, k) for bits in (8, 4) for label, n, k in SHAPES for m in (1, 8, 16, 32)
            if m == 1 or label != "head"]


class Packed(Bench):
    graphs = False

    def operands(self, case, seed):
        torch = self.torch
        generator, draw = self.drawing("bf16", seed)
        w = torch.randint(-128, 128, (case.n, case.k * case.bits // 8), device="cuda", dtype=torch.int8, generator=generator)
        s = torch.rand(case.n, case.k // case.group, device="cuda", generator=generator) * case.k**-0.5
        return [draw(case.m, case.k), w, s]

    def expanded(self, case, w, s, kind):
        torch = self.torch
        if case.bits == 4:
            low = ((w & 15) ^ 8) - 8
            w = torch.stack([low, w >> 4], -1).reshape(len(w), case.k)
        return (w.reshape(len(w), -1, case.group).to(kind) * s.to(kind)[..., None]).reshape(len(w), case.k)

    def error(self, result, exact):
        return ((result.double() - exact).norm() / exact.norm()).item()

    def reading(self):
        """GB/s of a sum of f32, the best of some."""
        torch = self.torch
        x = torch.ones(512 << 20, device="cuda")
        x.sum()
        seconds = min(self.timed(lambda _: x.sum(), 3) for _ in range(5)) / 1e3
        return 4 * x.numel() / seconds / 1e9

    def run(self, case):
        torch = self.torch
        if not hasattr(self, "speed"):
            self.speed = self.reading()
            print(f"reading: {self.speed:.0f} GB/s")
        folder, seconds = self.compile(case)
        x, w, s = self.operands(case, 1)
        kernel = Kernel(self.driver, folder, torch)
        like = torch.empty(case.m, case.n, device="cuda", dtype=torch.bfloat16)
        # (Half of the head is enough for float64.)
        most = 32768
        exact = x.double() @ self.expanded(case, w[:most], s[:most], torch.float64).T
        peer = x @ self.expanded(case, w, s, torch.float32).bfloat16().T
        ours = self.error(self.launched(kernel, [x, w, s], like)[:, :most], exact)
        theirs = self.error(peer[:, :most], exact)
        good = ours <= ERROR * theirs
        row = {"case": case.name, "schedule": kernel.label, "compile_s": seconds, "error": ours, "torch_error": theirs, "right": good}
        line = f"{case.name:18s} {'right' if good else 'WRONG'} {ours:.2e} {theirs:.2e}"
        if good and not self.options.check:
            del exact, peer
            count = max(2, min(24, int(200e6 / case.bytes()) + 1))
            sets = [self.operands(case, 2 + i) for i in range(count)]
            wide = [self.expanded(case, *sets[i][1:], torch.float32).bfloat16() for i in range(max(2, count // 3))]
            outs = [torch.empty_like(like) for _ in sets]
            launches = [kernel.bind([*operands, out]) for operands, out in zip(sets, outs)]

            def all_of_ours(_):
                for launch in launches:
                    launch()

            def all_of_torch(_):
                for matrix, (x, *_), out in zip(wide, sets, outs):
                    torch.mm(x, matrix.T, out=out)

            graphs = []
            for function, calls in ((all_of_ours, count), (all_of_torch, len(wide))):
                function(0)
                torch.cuda.synchronize()
                graphs.append((self.graph(function, 1), calls))
            burst, sustained = self.medians([g for g, _ in graphs])
            us, sustained_us, torch_us = 1e3 * burst[0] / count, 1e3 * sustained[0] / count, 1e3 * burst[1] / len(wide)
            speed = case.bytes() / us / 1e3
            row.update(us=us, sustained_us=sustained_us, torch_us=torch_us, gb_s=speed, share=speed / self.speed)
            if self.options.bars and case.m <= FEW_ROWS and case.bytes() >= MANY_BYTES:
                row["fast"] = row["share"] >= BAR
            tera = 2 * case.m * case.n * case.k / us / 1e6
            line += (f"  {us:8.2f} us {speed:5.0f} GB/s {row['share']:.2f}  {tera:6.1f} TF  sustained {sustained_us:8.2f} us"
                     f"  torch.mm bf16 {torch_us:8.2f} us x{torch_us / us:.2f}")
        print(f"{line}  {kernel.label}", flush=True)
        torch.cuda.empty_cache()
        return row


def main():
    options = arguments(__doc__, rounds=5, sustained=20).parse_args()
    run(options, named(cases(), options), Packed, "kernel, torch.mm by the expanded matrix")


if __name__ == "__main__":
    main()
