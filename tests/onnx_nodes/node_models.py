"""Small models, compiled and compared with onnx's reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import knapper

node = helper.make_node


# Without VNNI ONNX Runtime adds two products of bytes in 16 bits, which saturate.
PEER_SATURATES = not any(flag in open("/proc/cpuinfo").read() for flag in ("avx512_vnni", "avx_vnni"))


def exact_bytes(options):
    """ONNX Runtime sums products of bytes exactly, where it can rewrite the weights."""
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def model(nodes, inputs, outputs=("y",), initializers=(), opset=21, domains=(), ir=10):
    """`inputs`: name to dims (float) or (element type, dims); `outputs`: names, (name, element
    type) or (name, element type, dims); `initializers`: name to array."""
    typed = {n: v if isinstance(v, tuple) else (TensorProto.FLOAT, v) for n, v in inputs.items()}
    results = [o if isinstance(o, tuple) else (o, TensorProto.FLOAT) for o in outputs]
    graph = helper.make_graph(
        list(nodes), "g",
        [helper.make_tensor_value_info(n, *v) for n, v in typed.items()],
        [helper.make_tensor_value_info(*(*o, None)[:3]) for o in results],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(initializers).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*d) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def at_offset(shape, offset):
    """An uninitialised float32 array `offset` bytes after a page's begin."""
    count = int(np.prod(shape)) * 4
    memory = np.empty(count + 3 * 4096, np.uint8)
    start = -memory.ctypes.data % 4096 + offset
    return memory[start : start + count].view(np.float32).reshape(shape)


def check(made: onnx.ModelProto, feeds: list[dict], tolerance: float = 0, reference=None):
    """One module for all feeds; `reference(feed)` gives the results in order."""
    module = knapper.compile(made)
    if reference is None:
        evaluator = ReferenceEvaluator(made)
        reference = lambda feed: evaluator.run(None, feed)  # noqa: E731
    for feed in feeds:
        got, want = module(**feed), reference(feed)
        assert len(want) == len(made.graph.output)
        for output, expected in zip(made.graph.output, want):
            value = np.asarray(got[output.name])
            assert value.shape == np.shape(expected)
            np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)
    return module
