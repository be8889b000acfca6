"""Calls as users write them: checkers find nothing wrong, and know the types."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import knapper
from knapper.options import CompileOptions

Array = np.ndarray[Any, Any]


def compile_and_run(path: Path) -> None:
    x = np.zeros((1, 3), np.float32)
    module = knapper.compile(
        path, threads=2, dtype="bf16", dim={"batch": 1}, cache=False, allow_tf32=True
    )
    assert_type(module, knapper.Module)
    result = module(x)
    assert_type(result, knapper.Result)
    assert_type(result[0], Array)
    assert_type(result["y"], Array)
    assert_type(result[:1], list[Array])
    assert_type(result.keys(), list[str])
    assert_type("y" in result, bool)
    for name, array in result.items():
        print(name.upper(), array.shape, array.dtype)
    first, *rest = result
    print(first.mean(), len(rest))


def options() -> None:
    some: CompileOptions = {"dim": ["batch=1"], "records": Path("r.json")}
    module = knapper.compile(b"model", **some)
    module.save(Path("m.knap"))
    print(knapper.inspect("m.onnx", dim="batch=1")["operators"])
    print(knapper.verify("m.onnx", [np.zeros(3)], target="cpu")["kernels"])


def load_and_look() -> None:
    module = knapper.load("m.knap", threads=1, verify=True, device="cpu")
    lazy = knapper.load(b"...", verify="lazy")
    assert_type(module.threads, int)
    assert_type(module.device, str)
    assert_type(module.symbols, tuple[str, ...])
    for info in (*module.inputs, *lazy.outputs):
        assert_type(info.shape, tuple[int | str, ...])
        print(np.zeros([1 for _ in info.shape], info.dtype.dtype))


def memory(module: knapper.Module) -> None:
    x, y = np.zeros(3, np.float32), np.empty(3, np.float32)
    module.run({"x": x}, {"y": y})
    module.run([x], [y], flat_outputs=True)
    stop = knapper.Cancellation()
    module.run([x], cancel=stop)
    call = module.bind([x], [y])
    print(call(), call.outputs)


async def later(module: knapper.Module) -> None:
    pending = module.start([np.zeros(3)])
    assert_type(await pending, knapper.Result)
    assert_type(module.start([np.zeros(3)]).wait(timeout=1.5), knapper.Result)


def errors() -> None:
    try:
        knapper.load("none.knap")
    except knapper.UserError as error:
        assert_type(error.where, str)
        assert_type(error.hint, str)


def small() -> None:
    made = knapper.quantize(
        "m.onnx", calibration=[{"x": np.zeros(3)}], keep=["first"], dim={"batch": 1}
    )
    print(made.report["outputs"])
    print(knapper.devices(), knapper.__version__.split("."))
