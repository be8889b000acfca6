#!/usr/bin/env python3
"""Irregular operators on a CPU beside PyTorch's own, at sizes drawn at random.

    bench/irregular.py [FAMILY...] [--each N] [--seed TEXT] [--seconds S] [--json FILE] [--bars]

Top-k, sorts (with their places), running sums, histograms, unique, nonzero, scatters, gathers, argmax, resizing,
pooling, Fourier transforms and recurrent layers beside PyTorch; non-maximum suppression and ROI align, which PyTorch
alone has not, beside ONNX Runtime. PyTorch counts with its threads or with one, whichever is faster. --each N sizes of each family are drawn, log-uniform, by the seed: the commit's hash
unless --seed says otherwise. A row's result is compared with its peer's first; then both are timed interleaved, medians.
Ours is bound where the sizes of its results are known, the peer is called as it is. --bars fails the command for a row
that is slower than its peer by more than turns differ (0.95).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from ratios import distribution

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

BAR = 0.95
F, I = TensorProto.FLOAT, TensorProto.INT64


@dataclasses.dataclass
class Row:
    """nodes: results are "y", "y1", ...; peer: on torch tensors, a tensor or several; None: ONNX Runtime.
    tolerance: of the norm; 0: equal."""

    name: str
    nodes: list[Any]
    inputs: list[np.ndarray]
    results: int
    peer: Callable[..., Any] | None
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    tolerance: float = 0.0
    late: bool = False  # the results' sizes are known after a run

    def model(self) -> bytes:
        types = {"float32": F, "int64": I, "bool": TensorProto.BOOL}
        names = ["y", "y1", "y2", "y3"][: self.results]
        made = helper.make_model(
            helper.make_graph(
                self.nodes, "g",
                [helper.make_tensor_value_info(f"x{i}", types[str(x.dtype)], x.shape) for i, x in enumerate(self.inputs)],
                [helper.make_value_info(n, helper.make_tensor_type_proto(self.kind(n), None)) for n in names],
                [numpy_helper.from_array(np.asarray(v), k) for k, v in self.constants.items()],
            ),
            opset_imports=[helper.make_opsetid("", 20)], ir_version=10,
        )  # fmt: skip
        return made.SerializeToString()

    def kind(self, name: str) -> int:
        whole = {("TopK", "y1"), ("NonZero", "y"), ("Unique", "y1"), ("Unique", "y2"), ("NonMaxSuppression", "y"), ("ArgMax", "y")}
        if (self.nodes[-1].op_type, name) in whole or (self.nodes[-1].op_type == "Unique" and name == "y" and self.inputs[0].dtype == np.int64):
            return I
        return F


class Sizes:
    """Log-uniform sizes and random data of one row."""

    def __init__(self, seed: str):
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(self.rng.randrange(1 << 32))

    def size(self, low: int, high: int) -> int:
        return round(math.exp(self.rng.uniform(math.log(low), math.log(high))))

    def floats(self, *shape: int) -> np.ndarray:
        return self.data.standard_normal(shape, np.float32)

    def indices(self, below: int, *shape: int) -> np.ndarray:
        return self.data.integers(0, below, shape)


def node(kind: str, inputs: str, outputs: str = "y", **more: Any) -> Any:
    return helper.make_node(kind, [i.strip() for i in inputs.split(",")], outputs.split(), **more)


def shape_text(*shape: int) -> str:
    return "x".join(map(str, shape))


def topk(s: Sizes, torch: Any) -> Row:
    width = s.size(20, 200_000)
    rows = s.size(1, max(2, 2_000_000 // width))
    k = s.size(1, min(width, 500))
    return Row(f"topk {k} of {rows}x{width}", [node("TopK", "x0,k", "y y1")], [s.floats(rows, width)], 2,
               lambda x: torch.topk(x, k), {"k": [k]})  # fmt: skip


def sort(s: Sizes, torch: Any) -> Row:
    width = s.size(10, 1_000_000)
    rows = s.size(1, max(2, 1_000_000 // width))
    return Row(f"sort {rows}x{width}", [node("TopK", "x0,k", "y y1", largest=0)], [s.floats(rows, width)], 2,
               lambda x: torch.sort(x, stable=True), {"k": [width]})  # fmt: skip


def scan(s: Sizes, torch: Any) -> Row:
    dims = [s.size(1, 3000), s.size(10, 3000), s.rng.choice([1, 1, s.size(2, 100)])]
    while math.prod(dims) > 4_000_000:
        dims[dims.index(max(dims))] //= 2
    axis = s.rng.choice([0, 1])
    return Row(f"cumsum {shape_text(*dims)} axis {axis}", [node("CumSum", "x0,axis")], [np.abs(s.floats(*dims))], 1,
               lambda x: torch.cumsum(x, axis), {"axis": np.int64(axis)}, 1e-5)  # fmt: skip


def histogram(s: Sizes, torch: Any) -> Row:
    bins, count = s.size(4, 100_000), s.size(1000, 2_000_000)
    zeros = np.zeros(bins, np.float32)
    return Row(f"histogram {count} in {bins}", [node("ScatterElements", "z,x0,x1", reduction="add")],
               [s.indices(bins, count), np.ones(count, np.float32)], 1,
               lambda i, w: torch.bincount(i, w, bins).to(torch.float32), {"z": zeros}, 1e-6)  # fmt: skip


def unique(s: Sizes, torch: Any) -> Row:
    values, count = s.size(4, 1_000_000), s.size(1000, 1_000_000)
    # Of the four results ONNX gives first places, too; PyTorch has the places back.
    return Row(f"unique {count} of {values}", [node("Unique", "x0", "y y1 y2")], [s.indices(values, count)], 1,
               lambda x: torch.unique(x, return_inverse=True)[0], late=True)  # fmt: skip


def nonzero(s: Sizes, torch: Any) -> Row:
    shape, share = [s.size(10, 2000), s.size(10, 2000)], s.rng.choice([0.01, 0.1, 0.5, 0.9])
    x = (s.data.random(shape) < share).astype(np.float32)
    return Row(f"nonzero {shape_text(*shape)}, {share:.0%}", [node("NonZero", "x0")], [x], 1,
               lambda x: torch.nonzero(x).t(), late=True)  # fmt: skip


def scatter(s: Sizes, torch: Any) -> Row:
    rows, width = s.size(100, 50_000), s.size(1, 500)
    count = s.size(100, 50_000)
    while max(rows, count) * width > 4_000_000:
        width = max(1, width // 2)
    kind = s.rng.choice(["add", "max", "none"])
    x, u = s.floats(rows, width), s.floats(count, width)
    i = s.indices(rows, count) if kind != "none" else s.data.permutation(max(rows, count))[:count] % rows
    if kind == "none":
        count = min(rows, count)
        i, u = s.data.permutation(rows)[:count], u[:count]
    i = i[:, None].astype(np.int64)
    more = {} if kind == "none" else {"reduction": kind}

    def peer(x: Any, i: Any, u: Any) -> Any:
        if kind == "add":
            return x.index_add(0, i[:, 0], u)
        if kind == "max":
            return x.index_reduce(0, i[:, 0], u, "amax")
        return x.index_copy(0, i[:, 0], u)

    return Row(f"scatter {kind} {count} rows into {rows}x{width}", [node("ScatterND", "x0,x1,x2", **more)], [x, i, u], 1, peer, {}, 1e-6)


def gather(s: Sizes, torch: Any) -> Row:
    rows, width, count = s.size(100, 50_000), s.size(1, 1000), s.size(100, 50_000)
    while max(rows, count) * width > 4_000_000:
        width = max(1, width // 2)
    if s.rng.random() < 0.5:
        return Row(f"gather {count} rows of {rows}x{width}", [node("Gather", "x0,x1")], [s.floats(rows, width), s.indices(rows, count)], 1,
                   lambda x, i: torch.index_select(x, 0, i))  # fmt: skip
    axis = s.rng.choice([0, 1])
    shape = (count, width) if axis == 0 else (rows, s.size(1, max(2, 2 * width)))
    return Row(f"gather elements {shape_text(*shape)} of {rows}x{width} axis {axis}", [node("GatherElements", "x0,x1", axis=axis)],
               [s.floats(rows, width), s.indices((rows, width)[axis], *shape)], 1, lambda x, i: torch.gather(x, axis, i))  # fmt: skip


def argmax(s: Sizes, torch: Any) -> Row:
    dims = [s.size(1, 3000), s.size(2, 3000), s.rng.choice([1, s.size(2, 300)])]
    while math.prod(dims) > 4_000_000:
        dims[dims.index(max(dims))] //= 2
    return Row(f"argmax {shape_text(*dims)}", [node("ArgMax", "x0", axis=1, keepdims=0)], [s.floats(*dims)], 1,
               lambda x: torch.argmax(x, 1))  # fmt: skip


def resize(s: Sizes, torch: Any) -> Row:
    mode = s.rng.choice(["nearest", "linear", "cubic"])
    channels, h, w = s.size(1, 256), s.size(4, 128), s.size(4, 128)
    while channels * h * w > 500_000:
        channels = max(1, channels // 2)
    out = [s.size(4, 2 * h), s.size(4, 2 * w)]
    torch_mode = {"nearest": "nearest-exact", "linear": "bilinear", "cubic": "bicubic"}[mode]
    more = {"nearest_mode": "round_prefer_ceil"} if mode == "nearest" else {"cubic_coeff_a": -0.75} if mode == "cubic" else {}
    return Row(f"resize {mode} {channels}x{h}x{w} to {shape_text(*out)}",
               [node("Resize", "x0,,,sizes", mode=mode, coordinate_transformation_mode="half_pixel", **more)],
               [s.floats(1, channels, h, w)], 1, lambda x: torch.nn.functional.interpolate(x, out, mode=torch_mode),
               {"sizes": [1, channels, *out]}, 2e-5)  # fmt: skip


def pooling(s: Sizes, torch: Any) -> Row:
    kernel, stride = s.rng.choice([2, 3, 5, 7]), s.rng.choice([1, 2, 3])
    channels, h, w = s.size(1, 512), s.size(8, 128), s.size(8, 128)
    while channels * h * w > 2_000_000:
        channels = max(1, channels // 2)
    kind, pad = s.rng.choice(["MaxPool", "AveragePool"]), kernel // 2
    f = torch.nn.functional
    more = {} if kind == "MaxPool" else {"count_include_pad": 1}
    return Row(f"{kind} {kernel} by {stride} of {channels}x{h}x{w}", [node(kind, "x0", kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **more)],
               [s.floats(1, channels, h, w)], 1, lambda x: (f.max_pool2d if kind == "MaxPool" else f.avg_pool2d)(x, kernel, stride, pad), {}, 1e-6)  # fmt: skip


def fourier(s: Sizes, torch: Any) -> Row:
    length = s.rng.choice([s.size(16, 8192), 1 << s.rng.randrange(4, 14)])
    rows = s.size(1, max(2, 500_000 // length))
    return Row(f"rfft {rows}x{length}", [node("DFT", "x0,,axis", onesided=1)], [s.floats(rows, length, 1)], 1,
               lambda x: torch.view_as_real(torch.fft.rfft(x[..., 0])), {"axis": np.int64(1)}, 2e-5)  # fmt: skip


def recurrent(s: Sizes, torch: Any) -> Row:
    steps, batch, width, hidden = s.size(2, 128), s.size(1, 32), s.size(8, 512), s.size(8, 512)
    kind = s.rng.choice(["LSTM", "GRU"])
    gates = 4 if kind == "LSTM" else 3
    cell = getattr(torch.nn, kind)(width, hidden).eval()
    order = [0, 3, 1, 2] if kind == "LSTM" else [1, 0, 2]  # ONNX: i o f c and z r h

    def transposed(name: str) -> np.ndarray:
        value = getattr(cell, name).detach().numpy()
        return np.concatenate(np.split(value, gates)[:1] if gates == 1 else [np.split(value, gates)[g] for g in order])

    constants = {"w": transposed("weight_ih_l0")[None], "r": transposed("weight_hh_l0")[None],
                 "b": np.concatenate([transposed("bias_ih_l0"), transposed("bias_hh_l0")])[None], "one": [1]}  # fmt: skip
    more = {} if kind == "LSTM" else {"linear_before_reset": 1}
    return Row(f"{kind} {steps}x{batch}x{width} to {hidden}", [node(kind, "x0,w,r,b", "h", hidden_size=hidden, **more), node("Squeeze", "h,one", "y")],
               [s.floats(steps, batch, width)], 1, lambda x: cell(x)[0], constants, 2e-5)  # fmt: skip


def suppression(s: Sizes, torch: Any) -> Row:
    boxes, classes = s.size(50, 5000), s.size(1, 20)
    corners = s.data.random((1, boxes, 2)).astype(np.float32) * 100
    sides = s.data.random((1, boxes, 2)).astype(np.float32) * 20 + 1
    scores = s.data.random((1, classes, boxes)).astype(np.float32)
    return Row(f"NMS {boxes} boxes, {classes} classes", [node("NonMaxSuppression", "x0,x1,most,iou,score")],
               [np.concatenate([corners, corners + sides], -1), scores], 1, None,
               {"most": np.int64(100), "iou": np.float32(0.5), "score": np.float32(0.1)}, late=True)  # fmt: skip


def roi_align(s: Sizes, torch: Any) -> Row:
    channels, side, rois = s.size(4, 256), s.size(16, 100), s.size(1, 300)
    out = s.rng.choice([3, 7, 14])
    while channels * rois * out * out > 2_000_000:
        rois = max(1, rois // 2)
    corners = s.data.random((rois, 2)).astype(np.float32) * side * 8
    boxes = np.concatenate([corners, corners + s.data.random((rois, 2)).astype(np.float32) * side * 8 + 8], -1)
    return Row(f"RoiAlign {rois} of {channels}x{side}x{side} to {out}",
               [node("RoiAlign", "x0,x1,x2", output_height=out, output_width=out, sampling_ratio=2, spatial_scale=1 / 16)],
               [s.floats(1, channels, side, side), boxes, np.zeros(rois, np.int64)], 1, None, {}, 2e-5)  # fmt: skip


FAMILIES = [topk, sort, scan, histogram, unique, nonzero, scatter, gather, argmax, resize, pooling, fourier, recurrent, suppression, roi_align]


def same(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    if got.shape != wanted.shape:
        return False
    if not tolerance:
        return bool(np.array_equal(got, wanted))
    off = np.linalg.norm((got.astype(np.float64) - wanted).ravel())
    return bool(off <= tolerance * max(float(np.linalg.norm(wanted.astype(np.float64).ravel())), 1e-30))


def measured(family: str, seed: str, number: int, seconds: float, threads: int) -> dict[str, Any]:
    """Row `number` of a family under a seed, compared and timed."""
    import torch
    from drawn.execute import _onnxruntime
    from drawn.timing import cpu_turns, torch_turns

    import knapper

    torch.manual_seed(number)
    row = next(f for f in FAMILIES if f.__name__ == family)(Sizes(f"{seed}:{family}:{number}"), torch)
    model = row.model()
    module = knapper.compile(model, threads=threads, cache=False)
    inputs = row.inputs
    got = [np.asarray(module(*inputs)[i]) for i in range(row.results)]
    peer = row.peer
    if peer:
        tensors = [torch.from_numpy(x) for x in inputs]
        with torch.no_grad():
            given = peer(*tensors)
        wanted = [given] if isinstance(given, torch.Tensor) else list(given)
        wanted = [w.numpy() for w in wanted]
        calls, before = torch_turns("peer", lambda: peer(*tensors), threads)
    else:
        session = _onnxruntime(model, threads)
        feed = {f"x{i}": x for i, x in enumerate(inputs)}
        wanted = session.run(None, feed)
        calls, before = {"peer": lambda: session.run(None, feed)}, {}
    # Equal elements of a top-k may be taken from other places.
    right = all(same(g, w, row.tolerance) for g, w in list(zip(got, wanted))[:1 if row.name.startswith("topk") else None])
    own = (lambda: module(*inputs)) if row.late else module.bind(inputs, [np.empty_like(g) for g in got])
    with torch.no_grad():
        times = cpu_turns({"knapper": own, **calls}, seconds, before)
    torch.set_num_threads(threads)
    best = min(value for name, value in times.items() if name != "knapper")
    return {"name": row.name, "family": family, "right": right, "ratio": best / times["knapper"]} | times | {"peer": best}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(f.__name__ for f in FAMILIES))
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first row of each family")
    parser.add_argument("--seed", default=None, help="default: the commit's hash")
    parser.add_argument("--seconds", type=float, default=0.4, help="seconds to time a row")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: torch is not installed")
        return 0
    from sweep import commit

    torch.set_num_threads(options.threads)
    seed = options.seed or commit()
    print(f"seed {seed}, torch {torch.__version__}, {options.threads} threads")
    rows, bad = [], []
    for family in FAMILIES:
        if options.families and family.__name__ not in options.families:
            continue
        own = []
        for number in range(options.first, options.first + options.each):
            row = measured(family.__name__, seed, number, options.seconds, options.threads)
            own.append(row)
            if not row["right"]:
                bad.append(f"wrong: {row['name']}")
            elif row["ratio"] < BAR:
                bad.append(f"{row['ratio']:.2f}x ({row['knapper'] * 1e3:.1f} us, peer {row['peer'] * 1e3:.1f}): {row['name']}")
        print(distribution(family.__name__, [r["ratio"] for r in own]), flush=True)
        rows += own
    print("\n".join(bad))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(b.startswith("wrong") for b in bad) or (options.bars and bool(bad)))


if __name__ == "__main__":
    raise SystemExit(main())
