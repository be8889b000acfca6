#!/usr/bin/env python3
"""Times grouped matmuls on an NVIDIA GPU against a cuBLAS call an expert.

    bench/grouped_matmul.py [--knapper PROGRAM] [--cases NAME,...] [--rows T] [--rounds R] [--json FILE]
                            [--bars] [--check] [--compile-only FOLDER | --compiled FOLDER]

Needs the program, torch with CUDA, and a GPU; says which of them is missing and
ends with 0 then. --compile-only needs the program alone; what it leaves is
measured elsewhere by --compiled and the same cases.

Rows are sorted by expert; how many each has is drawn, some have none. The peer
is torch.mm of each expert's rows, whose numbers the host knows, one after
another in a captured graph, so that no launch is waited for; ours reads the
numbers on the device, from a graph too. Both take turns on the same operands;
several sets of them, more than the caches hold. torch._grouped_mm stands aside,
where torch has it.

Printed for each: milliseconds and ratio to the peer in bursts and sustained, and
the errors of both against float64, relative to the norm. A case fails when its
error is more than 1.05 times the peer's. --bars also fails cases that are less
than 0.9 times as fast.
"""

from __future__ import annotations

import random

from gpu_against_torch import ERROR, Bench, Kernel, arguments, named, run

BAR = 0.9
ROWS = 8192


class Case:
    """Rows [t, k] times the matrix of their expert: [n, k], or [k, n] (k-major)."""

    def __init__(self, experts, n, k, *, dtype="bf16", transposed=True, rows=ROWS):
        self.experts, self.n, self.k, self.dtype = experts, n, k, dtype
        self.transposed, self.rows = transposed, rows

    @property
    def name(self):
        return f"{self.experts} of {self.n}x{self.k}" + ("" if self.transposed else " k-major")

    def folder(self):
        return f"{self.name} {self.rows}".replace(" ", "_")

    def text(self):
        e, n, k, t = self.experts, self.n, self.k, self.dtype
        x, y, ends = f"tensor<{self.rows}x{k}x{t}>", f"tensor<{self.rows}x{n}x{t}>", f"tensor<{e}xi32>"
        w = f"tensor<{e}x{n}x{k}x{t}>" if self.transposed else f"tensor<{e}x{k}x{n}x{t}>"
        return (
            f"module {{\n  func.func @main(%x: {x}, %w: {w}, %e: {ends}) -> {y} {{\n"
            f"    %0 = ts.grouped_matmul %x, %w {'transposed ' * self.transposed}ends %e : {x}, {w}, {ends}\n"
            f"    return %0 : {y}\n  }}\n}}\n"
        )

    def ends(self, seed):
        """Where rows end, by expert: shares between 0 and twice the mean; every tenth expert has none."""
        r = random.Random(seed)
        shares = [0 if i % 10 == 9 else r.random() for i in range(self.experts)]
        ends, total = [], 0.0
        for share in shares:
            total += share
            ends.append(round(self.rows * total / sum(shares)))
        return ends


def cases(rows):
    sizes = [(e, n, k) for e in (8, 64) for n, k in ((4096, 4096), (2048, 7168))]
    return [Case(*s, rows=rows) for s in sizes] + [Case(*s, rows=rows, transposed=False) for s in sizes]


class Grouped(Bench):
    def operands(self, case, seed):
        _, draw = self.drawing(case.dtype, seed)
        w = (case.n, case.k) if case.transposed else (case.k, case.n)
        ends = self.torch.tensor(case.ends(seed), dtype=self.torch.int32, device="cuda")
        return [draw(case.rows, case.k), draw(case.experts, *w, factor=case.k**-0.5), ends]

    def separate(self, case, ends, x, w, out):
        """A call of cuBLAS for each expert that has rows."""
        begin = 0
        for expert, end in enumerate(ends):
            if end > begin:
                matrix = w[expert].t() if case.transposed else w[expert]
                self.torch.mm(x[begin:end], matrix, out=out[begin:end])
            begin = end
        return out

    def error(self, result, case, ends, x, w):
        wrong = total = 0.0
        begin = 0
        for expert, end in enumerate(ends):
            matrix = (w[expert].t() if case.transposed else w[expert]).double()
            exact = x[begin:end].double() @ matrix
            wrong += (result[begin:end].double() - exact).square().sum().item()
            total += exact.square().sum().item()
            begin = end
        return (wrong / total) ** 0.5

    def run(self, case):
        torch = self.torch
        folder, seconds = self.compile(case)
        x, w, e = self.operands(case, 1)
        ends = case.ends(1)
        wanted = self.separate(case, ends, x, w, torch.empty(case.rows, case.n, device="cuda", dtype=x.dtype))
        kernel = Kernel(self.driver, folder, torch)
        error = self.error(self.launched(kernel, [x, w, e], wanted), case, ends, x, w)
        peer = self.error(wanted, case, ends, x, w)
        good = error <= ERROR * peer
        row = {"case": case.name, "rows": case.rows, "schedule": kernel.label, "compile_s": seconds,
               "error": error, "torch_error": peer, "right": good}
        line = f"{case.name:28s} {'right' if good else 'WRONG'} {error:.2e} {peer:.2e}"
        if good and not self.options.check:
            count = 2
            sets = [self.operands(case, 2 + i) for i in range(count)]
            numbers = [case.ends(2 + i) for i in range(count)]
            outs = [torch.empty_like(wanted) for _ in sets]
            launches = [kernel.bind([*s, o]) for s, o in zip(sets, outs)]

            def group(i):
                x, w, e = sets[i]
                return torch._grouped_mm(x, w.transpose(1, 2) if case.transposed else w, e)

            functions = [
                lambda i: launches[i](),
                lambda i: self.separate(case, numbers[i], *sets[i][:2], outs[i]),
            ]
            if hasattr(torch, "_grouped_mm"):
                functions.append(group)
            graphs = []
            for function in functions:
                for i in range(count):
                    function(i)
                torch.cuda.synchronize()
                graphs.append([self.captured(function, i) for i in range(count)])
            # A set of operands a call, in turn.
            replay = [lambda i, g=g: g[i % count].replay() for g in graphs]
            flops = 2 * case.rows * case.n * case.k
            line += self.measure(row, replay[:2], flops, replay[2:], BAR)
        print(f"{line}  {kernel.label}", flush=True)
        torch.cuda.empty_cache()
        return row

    def captured(self, function, i):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            function(i)
        return graph


def main():
    parser = arguments(__doc__, rounds=9, sustained=100)
    parser.add_argument("--rows", type=int, default=ROWS, help="of all experts together")
    options = parser.parse_args()
    run(options, named(cases(options.rows), options), Grouped, "kernel, torch.mm of each expert")


if __name__ == "__main__":
    main()
