#!/usr/bin/env python3
"""Times sorts, top-k and scans on an NVIDIA GPU beside PyTorch, by device time (replayed CUDA graphs for both).

    bench/gpu_sorts.py [--filter TEXT] [--json FILE] [--explain]

Values and indices are compared with `torch.sort(stable=True)` first, scans with float64; a case that differs ends the
command with 1. "of copy": the time of a copy of the bytes that must move (the input once, each result once). Without a
GPU, or without PyTorch, it says so and ends with code 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_here import torch_here

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

TORCH = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i32": "int32", "i64": "int64", "i8": "int8"}


@dataclass
class Case:
    """`k` elements along `dim` (0: the running sum along it)."""

    dtype: str
    shape: tuple[int, ...]
    dim: int
    k: int = 0
    largest: bool = True

    @property
    def name(self) -> str:
        what = "scan" if not self.k else "sort" if self.k == self.shape[self.dim] else f"topk {self.k}"
        order = "" if self.largest or not self.k else " smallest"
        return f"{what} {self.dtype} {'x'.join(map(str, self.shape))} dim {self.dim}{order}"

    def tensor(self, dtype: str, k: int | None = None) -> str:
        dims = [k if k and i == self.dim else d for i, d in enumerate(self.shape)]
        return f"tensor<{'x'.join(map(str, dims))}x{dtype}>"

    @property
    def program(self) -> str:
        t = self.tensor(self.dtype)
        if not self.k:
            return f"func.func @main(%x: {t}) -> {t} {{\n  %r = ts.scan add %x dim {self.dim} : {t}\n  return %r : {t}\n}}"
        results = f"{self.tensor(self.dtype, self.k)}, {self.tensor('i64', self.k)}"
        order = "" if self.largest else "{largest = false}"
        return (
            f"func.func @main(%x: {t}) -> ({results}) {{\n"
            f"  %v, %i = ts.topk %x k <{self.k}> dim {self.dim} {order} : {t}\n  return %v, %i : {results}\n}}"
        )


CASES = [
    # Short lines.
    Case("f16", (21248712, 2), 1, 1),
    Case("bf16", (1819703, 1, 3), 2, 1),
    Case("bf16", (8539771, 5), 1, 3),
    Case("f16", (178, 92, 63), 2, 28),
    Case("bf16", (3, 8746, 2), 2, 2, largest=False),
    Case("f32", (1000000, 16), 1, 16),
    Case("f32", (1000000, 64), 1, 1),
    Case("f32", (100000, 64), 1, 64),
    Case("bf16", (8192, 64), 1, 6),
    Case("f32", (8192, 64), 1, 6),
    Case("i64", (1000000, 8), 1, 8),
    Case("f32", (1000, 33, 1000), 1, 4),
    Case("bf16", (1000, 40), 1, 40),
    # Lines of some hundred elements.
    Case("f32", (100000, 100), 1, 5),
    Case("f32", (100000, 100), 1, 100),
    Case("bf16", (20000, 300), 1, 8),
    Case("bf16", (20000, 300), 1, 300),
    Case("f32", (4096, 1024), 1, 1024),
    Case("bf16", (100000, 200), 1, 1),
    # Few long lines.
    Case("bf16", (6735487,), 0, 6735487),
    Case("f16", (1048576,), 0, 1048576, largest=False),
    Case("f32", (1048576,), 0, 1048576),
    Case("f32", (10000000,), 0, 10000000),
    Case("i64", (1048576,), 0, 1048576),
    Case("i32", (100003,), 0, 100003),
    Case("bf16", (128, 20011), 1, 20011),
    Case("f32", (16, 65536), 1, 65536),
    # Sums along a dim of which few lines lie beside each other.
    Case("bf16", (250002, 19), 0),
    Case("f32", (1000000, 3), 0),
    Case("f32", (100000, 63), 0),
    Case("f32", (20, 20000, 7), 1),
]


def torch_call(torch: Any, case: Case, x: Any) -> Any:
    if not case.k:
        return torch.cumsum(x, case.dim, dtype=x.dtype)
    if case.k == x.shape[case.dim]:
        return torch.sort(x, dim=case.dim, descending=case.largest)
    return torch.topk(x, case.k, dim=case.dim, largest=case.largest)


def wrong(torch: Any, case: Case, x: Any, results: list[Any]) -> str:
    """What differs; nothing where all is right."""
    if not case.k:
        exact = x.double().cumsum(case.dim)
        error = (results[0].to(exact.device).double() - exact).norm() / exact.norm()
        bound = 5e-3 if x.element_size() == 2 else 1e-6
        return "" if error < bound else f"error {error:.2g}"
    values, places = torch.sort(x, dim=case.dim, descending=case.largest, stable=True)
    values, places = values.narrow(case.dim, 0, case.k), places.narrow(case.dim, 0, case.k)
    if not torch.equal(results[1].to(places.device), places):
        return "indices"
    return "" if torch.equal(results[0].to(values.device), values) else "values"


def drawn(torch: Any, case: Case) -> Any:
    dtype = getattr(torch, TORCH[case.dtype])
    if dtype.is_floating_point:
        return torch.randn(case.shape, device="cuda").to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, case.shape, dtype=dtype, device="cuda")


def measure(torch: Any, knapper: Any, times: Any, case: Case, folder: Path, explain: bool) -> dict[str, Any]:
    source = folder / "case.mlir"
    source.write_text(case.program)
    module = knapper.compile(source, target="cuda", model_format="mlir")
    if explain:
        print(module.explain())
    x = drawn(torch, case)
    found = module(x)
    results = [torch.from_dlpack(found.tensor(i)) for i in range(len(found))]
    row: dict[str, Any] = {"case": case.name, "wrong": wrong(torch, case, x, results)}
    moved = sum(t.numel() * t.element_size() for t in [x, *results])
    a = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    row["copy_us"] = times.torch(lambda: b.copy_(a)) * 1e3
    own, launches = times.own(module, [x])
    row["knapper_us"], row["launches"] = own * 1e3, len(launches)
    row["torch_us"] = times.torch(lambda: torch_call(torch, case, x)) * 1e3
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--filter", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--explain", action="store_true")
    options = parser.parse_args()
    if (torch := torch_here()) is None:
        return 0
    import knapper
    from drawn.timing import CudaTimes

    times, rows = CudaTimes(), []
    print(f"{'case':44} {'us':>9} {'torch us':>9} {'ratio':>6} {'of copy':>8} launches")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.filter not in case.name:
                continue
            row = measure(torch, knapper, times, case, Path(folder), options.explain)
            torch.cuda.empty_cache()
            rows.append(row)
            print(
                f"{case.name:44} {row['knapper_us']:9.1f} {row['torch_us']:9.1f} {row['torch_us'] / row['knapper_us']:6.2f} "
                f"{row['copy_us'] / row['knapper_us'] * 100:7.0f}% {row['launches']:4}"
                f"{'   WRONG: ' + row['wrong'] if row['wrong'] else ''}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
