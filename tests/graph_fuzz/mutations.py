"""ONNX's node cases, damaged: attributes, sizes, types, absent inputs, values; compiled and run.

Case N is always the same model. What comes of it is a result or an error of the user's or the machine's,
never a crash (which the caller sees), a hang, or an internal error. Results are not looked at here.
"""

from __future__ import annotations

import functools
import os
import pickle
import random
import resource
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import onnx
from graph_check import Outcome
from graph_builder import Case
from graph_cases import HAS_AVX512
from node_cases_test import as_array
from node_cases_test import cases as node_cases
from onnx import TensorProto, helper, numpy_helper

import knapper

NUMBERS = [0, 1, -1, 2, 3, -2, 7, 64, 65537, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)]
REALS = [0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan")]
WORDS = ["", "linear", "SAME_UPPER", "bogus", "add", "\x00"]
TYPES = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32,
         TensorProto.INT8, TensorProto.UINT8, TensorProto.UINT64, TensorProto.BOOL]  # fmt: skip
MOST = 1 << 22  # elements of an input
MEMORY = 12 << 30
RUN_SECONDS = 3
SEEDS = "KNAPPER_MUTATION_SEEDS"


@functools.cache
def seeds() -> list[tuple[onnx.ModelProto, list[np.ndarray]]]:
    """Models with an array an input, in the order of their names; from the file of `keep_seeds`, if any."""
    if path := os.environ.get(SEEDS):
        return [(onnx.ModelProto.FromString(m), arrays) for m, arrays in pickle.loads(Path(path).read_bytes())]
    found = []
    for case in sorted(node_cases(), key=lambda case: case.name):
        arrays = [as_array(x) for x in case.data_sets[0][0]]
        if len(arrays) == len(case.model.graph.input) and all(a is not None and a.dtype.kind != "O" for a in arrays):
            found.append((case.model, arrays))
    return found


def keep_seeds(path: Path) -> dict[str, str]:
    """Making them takes seconds, for the expected results too: once for all workers, by this environment."""
    path.write_bytes(pickle.dumps([(model.SerializeToString(), arrays) for model, arrays in seeds()]))
    return {SEEDS: str(path)}


class Mutation:
    def __init__(self, number: int):
        self.random = random.Random(number)
        model, arrays = self.random.choice(seeds())
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph = self.model.graph
        self.arrays = {i.name: a for i, a in zip(self.graph.input, arrays)}

    def run(self) -> Case:
        self.fix(0.5)
        ways = [self.attribute, self.attribute, self.size, self.size, self.dim, self.type, self.absent, self.values,
                self.rank, self.wire]  # fmt: skip
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(ways)()
        self.fix(0.1)
        self.symbols()
        for output in self.graph.output:  # what the case expects no longer holds
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")
        return Case(self.model, [self.arrays])

    def inputs(self):
        return [i for i in self.graph.input if i.type.HasField("tensor_type")]

    def node(self):
        return self.random.choice(self.graph.node)

    def set(self, name: str, array: np.ndarray) -> None:
        """An input's new array, and its type."""
        if array.size > MOST:
            return
        self.arrays[name] = array
        for value in self.graph.input:
            if value.name == name:
                dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
                value.CopyFrom(helper.make_tensor_value_info(name, dtype, list(array.shape)))

    def resized(self, array: np.ndarray, shape) -> np.ndarray:
        count = int(np.prod(shape, dtype=np.float64))
        if count > MOST or not array.size:
            return array if count > MOST else np.zeros(shape, array.dtype)
        return np.resize(array, shape)

    def fix(self, share: float) -> None:
        """Inputs become initializers, as parameters are in models."""
        for value in list(self.graph.input):
            array = self.arrays[value.name]
            if array.size > 4096 or self.random.random() > (share if array.ndim > 1 else 2 * share):
                continue
            try:
                made = numpy_helper.from_array(array, value.name)
            except Exception:  # a type that onnx does not write
                continue
            self.graph.initializer.append(made)
            self.graph.input.remove(value)
            del self.arrays[value.name]

    def attribute(self) -> None:
        node = self.node()
        if not node.attribute:
            return
        attribute = self.random.choice(node.attribute)
        kind = attribute.type
        if self.random.random() < 0.15:
            node.attribute.remove(attribute)
        elif kind == onnx.AttributeProto.INT:
            attribute.i = self.random.choice(NUMBERS)
        elif kind == onnx.AttributeProto.FLOAT:
            attribute.f = self.random.choice(REALS)
        elif kind == onnx.AttributeProto.STRING:
            attribute.s = self.random.choice(WORDS).encode()
        elif kind == onnx.AttributeProto.INTS:
            how = self.random.randrange(4)
            if how == 0:
                attribute.ints.append(self.random.choice(NUMBERS))
            elif how == 1 and attribute.ints:
                attribute.ints.pop()
            elif attribute.ints:
                attribute.ints[self.random.randrange(len(attribute.ints))] = self.random.choice(NUMBERS)
        elif kind == onnx.AttributeProto.FLOATS and attribute.floats:
            attribute.floats[self.random.randrange(len(attribute.floats))] = self.random.choice(REALS)

    def size(self) -> None:
        """A size becomes another wherever it stands, so that shapes still fit."""
        sizes = sorted({d for a in self.arrays.values() for d in a.shape} | {d for t in self.graph.initializer for d in t.dims})
        if not sizes:
            return
        old, new = self.random.choice(sizes), self.random.choice([0, 0, 1, 2, 17])
        for value in self.inputs():
            a = self.arrays[value.name]
            self.set(value.name, self.resized(a, [new if d == old else d for d in a.shape]))
        for i, tensor in enumerate(self.graph.initializer):
            self.replace(i, lambda a: self.resized(a, [new if d == old else d for d in a.shape]))

    def replace(self, index: int, change) -> None:
        tensor = self.graph.initializer[index]
        try:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor))), tensor.name))
        except (TypeError, ValueError, KeyError):  # no such array
            return

    def dim(self) -> None:
        """One dim of one tensor, alone."""
        shaped = [v for v in self.inputs() if self.arrays[v.name].ndim]
        if shaped:
            name = self.random.choice(shaped).name
            shape = list(self.arrays[name].shape)
            shape[self.random.randrange(len(shape))] = self.random.choice([0, 0, 1, 2, 3, 33])
            self.set(name, self.resized(self.arrays[name], shape))
        elif self.graph.initializer:
            self.replace(self.random.randrange(len(self.graph.initializer)), lambda a: a[:0] if a.ndim else a)

    def rank(self) -> None:
        if not self.inputs():
            return
        name = self.random.choice(self.inputs()).name
        array = self.arrays[name]
        self.set(name, array[None] if self.random.random() < 0.5 or not array.ndim else array.reshape(-1))

    def type(self) -> None:
        if not self.inputs():
            return
        name = self.random.choice(self.inputs()).name
        dtype = helper.tensor_dtype_to_np_dtype(self.random.choice(TYPES))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.set(name, self.arrays[name].astype(dtype))

    def absent(self) -> None:
        node = self.node()
        if node.input:
            node.input[self.random.randrange(len(node.input))] = ""

    def wire(self) -> None:
        """An input read twice, or one too many, or an output that nobody named."""
        node = self.node()
        how = self.random.randrange(3)
        if how == 0 and node.input:
            node.input[self.random.randrange(len(node.input))] = self.random.choice(node.input)
        elif how == 1 and node.input:
            node.input.append(self.random.choice(node.input))
        elif how == 2 and len(node.output) > 1:
            node.output[self.random.randrange(len(node.output))] = ""
            for output in list(self.graph.output):
                if not any(output.name in n.output for n in self.graph.node):
                    self.graph.output.remove(output)

    def values(self) -> None:
        """Indices, sizes and axes that make no sense; numbers that are none."""
        if self.graph.initializer and (self.random.random() < 0.6 or not self.inputs()):
            self.replace(self.random.randrange(len(self.graph.initializer)), self.other)
        elif self.inputs():
            name = self.random.choice(self.inputs()).name
            self.set(name, self.other(self.arrays[name]))

    def other(self, array: np.ndarray) -> np.ndarray:
        array = np.array(array)
        if array.size and array.dtype.kind in "iuf":
            number = self.random.choice(NUMBERS if array.dtype.kind != "f" else REALS)
            if array.dtype.kind in "iu":
                limits = np.iinfo(array.dtype)
                number = min(max(number, limits.min), limits.max)
            array.flat[self.random.randrange(array.size)] = number
        return array

    def symbols(self) -> None:
        """Sizes become names: equal ones the same, or each its own."""
        if self.random.random() < 0.5:
            return
        own = self.random.random() < 0.3
        for i, value in enumerate(self.inputs()):
            for d, dim in enumerate(value.type.tensor_type.shape.dim):
                if self.random.random() < 0.7:
                    dim.dim_param = f"n{i}_{d}" if own else f"n{dim.dim_value}"


def make(number: int) -> Case:
    return Mutation(number).run()


def options(number: int) -> dict[str, object]:
    choices = [{"isa": "x86-64-v3"}, {"isa": "x86-64-v4" if HAS_AVX512 else "x86-64-v3"}, {"isa": "x86-64-v3", "dtype": "bf16"}]
    return {"threads": 1 + number % 2, "cache": False} | choices[number % 7 % 3]


def check(case: Case, settings: dict[str, object]) -> Outcome:
    try:
        module = knapper.compile(case.model.SerializeToString(), **settings)
    except (knapper.UserError, knapper.DeviceError) as error:
        return Outcome("refused", str(error).split("\n")[0])
    except knapper.InternalError as error:
        return Outcome("internal", str(error))
    cancel = knapper.Cancellation()  # a loop of 2^31 iterations is slow, and right
    timer = threading.Timer(RUN_SECONDS, cancel.cancel)
    timer.start()
    try:
        module.run(case.feeds[0], cancel=cancel)
    except (knapper.UserError, knapper.DeviceError) as error:
        return Outcome("refused", str(error).split("\n")[0])
    except knapper.InternalError as error:
        return Outcome("internal", f"run: {error}")
    finally:
        timer.cancel()
    return Outcome("same")


def limit_memory() -> None:
    """What asks for more is told so; without it the system ends another process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.setrecursionlimit(10_000)
