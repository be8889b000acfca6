#!/usr/bin/env python3
"""Times models of int8 beside ONNX Runtime and OpenVINO, dynamic and static.

    bench/int8.py [NAME...] [--threads N] [--json FILE] [--bars]

Each model of the bars that is named (MiniLM and ResNet-50 if none) is quantised
twice. dynamic, of models without convolutions: by
`onnxruntime.quantization.quantize_dynamic` with signed weights; both sides run
that file. static: by `knapper.quantize` here and by
`onnxruntime.quantization.quantize_static` there (QDQ, u8 activations, signed
weights a channel; matmuls with constant matrices, of models with convolutions
every operator that it knows), with the same calibration data: four inputs of the
bar's size, of which none is the one that is measured.
All run in this process, with the same number of threads, interleaved; OpenVINO runs
the file that ONNX Runtime runs.
Against the float32 model, ours may be no further off than ONNX Runtime's is
(by 5 %: steps of activations fall differently); else the command fails. --bars
also fails it when ours is slower than one of the two.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import knapper  # noqa: E402
from comparison import distance  # noqa: E402
from named_models import named_models  # noqa: E402
from peers import Job, OnnxRuntime, OpenVino  # noqa: E402
from side_by_side import medians  # noqa: E402
from verdict import finish  # noqa: E402

SLACK = 1.05


def dynamic(plain: Path, folder: Path, threads: int, feeds):
    """Our module, ONNX Runtime's file, seconds."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = folder / "dynamic.onnx"
    quantize_dynamic(plain, path, weight_type=QuantType.QInt8)
    start = time.perf_counter()
    module = knapper.compile(path, threads=threads)
    return module, path, time.perf_counter() - start


def has_convolutions(plain: Path) -> bool:
    import onnx

    graph = onnx.load(plain, load_external_data=False).graph
    return any(node.op_type == "Conv" for node in graph.node)


def static(plain: Path, folder: Path, threads: int, feeds):
    """The same, each side quantised by its own."""
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.feeds = iter(feeds)

        def get_next(self):
            return next(self.feeds, None)

    graph = onnx.load(plain).graph
    every = has_convolutions(plain)
    constants = {tensor.name for tensor in graph.initializer}
    nodes = [
        node.name
        for node in graph.node
        if node.op_type in ("MatMul", "Gemm") and node.input[1] in constants
    ]
    path = folder / "static.onnx"
    quantize_static(
        plain,
        path,
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        nodes_to_quantize=None if every else nodes,
    )
    start = time.perf_counter()
    made = knapper.quantize(plain, calibration=feeds, threads=threads)
    return made.module, path, time.perf_counter() - start


def measure(
    plain: Path, kind, feeds, threads: int, rounds: int
) -> dict[str, float]:
    feed, *calibration = feeds
    with tempfile.TemporaryDirectory() as folder:
        module, path, compiled = kind(plain, Path(folder), threads, calibration)
        outputs = [info.name for info in module.outputs]
        peer = OnnxRuntime(Job(path, feed, outputs, threads))
        openvino = OpenVino(Job(path, feed, outputs, threads))
        exact = OnnxRuntime(Job(plain, feed, outputs, threads)).results()
        single = knapper.compile(plain, threads=threads)
        values = [feed[info.name] for info in module.inputs]
        singles = [feed[info.name] for info in single.inputs]
        result, theirs = module(*values), peer.results()
        row = {
            "compile_s": compiled,
            "error": max(distance(result[o], exact[o]) for o in exact),
            "onnxruntime_error": max(distance(theirs[o], exact[o]) for o in exact),
        }
        del result
        mine, other, third, float32 = medians(
            [lambda: module(*values), peer, openvino, lambda: single(*singles)],
            rounds=rounds,
        )
    return row | {
        "knapper_ms": mine * 1e3,
        "onnxruntime_ms": other * 1e3,
        "openvino_ms": third * 1e3,
        "float32_ms": float32 * 1e3,
        "ratio": min(other, third) / mine,
    }


def main() -> int:
    from definitions import MODELS
    from export import ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args()
    names = named_models(parser, arguments.names, ["minilm", "resnet50"], MODELS)
    folder = ensure(names)
    print(
        f"milliseconds, {arguments.threads} threads\n"
        f"{'model':<16}{'kind':<8}{'size':>8}{'knapper':>10}{'ort':>10}{'openvino':>10}{'ratio':>8}"
        f"{'f32':>10}{'error':>10}{'ort':>10}",
        flush=True,
    )
    rows, failures = [], []
    for name in names:
        model = MODELS[name]
        random = np.random.default_rng(1)
        feeds = [model.feed(random, model.bench) for _ in range(5)]
        path = folder / f"{name}.onnx"
        kinds = (static,) if has_convolutions(path) else (dynamic, static)
        for kind in kinds:
            row = measure(path, kind, feeds, arguments.threads, arguments.rounds)
            rows.append({"model": name, "kind": kind.__name__, "size": model.bench} | row)
            size = "x".join(str(v) for v in model.bench.values())
            print(
                f"{name:<16}{kind.__name__:<8}{size:>8}{row['knapper_ms']:>10.2f}"
                f"{row['onnxruntime_ms']:>10.2f}{row['openvino_ms']:>10.2f}"
                f"{row['ratio']:>7.2f}x{row['float32_ms']:>10.2f}"
                f"{row['error']:>10.1e}{row['onnxruntime_error']:>10.1e}",
                flush=True,
            )
            title = f"{name}, {kind.__name__}"
            if not row["error"] <= SLACK * row["onnxruntime_error"]:
                failures.append(f"{title}: further from float32 than ONNX Runtime's int8")
            if arguments.bars and row["ratio"] < 1:
                failures.append(f"{title}: slower than the best peer")
    return finish(failures, arguments.json, rows)


if __name__ == "__main__":
    sys.exit(main())
