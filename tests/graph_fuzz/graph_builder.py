"""A random ONNX graph while it grows: values with their sizes at every binding, and what makes nodes.

A size is a number or an expression over symbols; either way it is known at each binding, so a rule can
ask whether sizes agree and what comes out. Rules (`graph_rules*.py`) add nodes through `Builder`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BINDINGS = 2
ELEMENT = {
    "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16, "bool": TensorProto.BOOL, "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8, "i16": TensorProto.INT16, "u16": TensorProto.UINT16,
    "i32": TensorProto.INT32, "u32": TensorProto.UINT32, "i64": TensorProto.INT64,
    "u64": TensorProto.UINT64,
}  # fmt: skip
NUMPY = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip
FLOATS = ("f32", "f64", "f16", "bf16")
INTS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
LARGEST = 1 << 14  # elements of a value
OPSETS = (26, 28)  # CumProd is of 26


@dataclass(frozen=True)
class Dim:
    """A size: its text in a signature (None: a number) and its value at each binding."""

    text: str | None
    sizes: tuple[int, ...]

    @staticmethod
    def of(size: int) -> Dim:
        return Dim(None, (size,) * BINDINGS)

    @property
    def static(self) -> bool:
        return self.text is None

    @property
    def least(self) -> int:
        return min(self.sizes)

    @property
    def most(self) -> int:
        return max(self.sizes)

    def map(self, function, text="?") -> Dim:
        sizes = tuple(function(s) for s in self.sizes)
        return Dim.of(sizes[0]) if self.static else Dim(f"{text}({self.text})", sizes)

    def __add__(self, other: Dim) -> Dim:
        sizes = tuple(a + b for a, b in zip(self.sizes, other.sizes))
        if self.static and other.static:
            return Dim.of(sizes[0])
        return Dim(f"({self}+{other})", sizes)

    def __mul__(self, other: Dim) -> Dim:
        sizes = tuple(a * b for a, b in zip(self.sizes, other.sizes))
        if self.static and other.static:
            return Dim.of(sizes[0])
        if self == ONE or other == ONE:
            return other if self == ONE else self
        return Dim(f"({self}*{other})", sizes)

    def __str__(self) -> str:
        return str(self.sizes[0]) if self.static else self.text


ONE = Dim.of(1)


@dataclass(frozen=True)
class Value:
    name: str
    dtype: str
    dims: tuple[Dim, ...]
    size: float = 4.0  # about how large its elements get; rules keep it from exploding
    constant: np.ndarray | None = field(default=None, compare=False)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def static(self) -> bool:
        return all(d.static for d in self.dims)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def elements(self) -> int:
        return max(count(self.dims))


def count(dims) -> list[int]:
    """Elements at each binding."""
    return [int(np.prod([d.sizes[i] for d in dims], dtype=np.int64)) for i in range(BINDINGS)]


@dataclass
class Case:
    """A model and its inputs at each binding."""

    model: onnx.ModelProto
    feeds: list[dict[str, np.ndarray]]
    special: bool = False


class Skip(Exception):
    """A rule finds that it does not fit here."""


class Builder:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.arrays = np.random.Generator(np.random.PCG64(seed))
        r = self.random
        # Symbols: 0, 1, odd, ragged at least at one binding.
        pool = [0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33]
        self.symbols = [
            Dim(name, (r.choice(pool), r.choice(pool)))
            for name in ("n", "m", "seq")[: r.choice([0, 1, 1, 2, 2, 3])]
        ]
        self.special = r.random() < 0.15
        main = r.choices(FLOATS, [10, 2, 2, 2])[0]
        self.floats = [main] * 6 + [r.choice(FLOATS)]
        self.ints = [r.choice(INTS), "i32", "i64", r.choice(INTS)]
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.feeds: list[dict] = [{} for _ in range(BINDINGS)]
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.used: set[str] = set()
        self.functions: list[onnx.FunctionProto] = []
        self.opset = r.choices(OPSETS, [3, 1])[0]

    # ---- choices ----
    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def choice(self, options):
        return self.random.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def dim(self) -> Dim:
        if self.symbols and self.maybe(0.45):
            return self.choice(self.symbols)
        return Dim.of(self.random.choices(
            [0, 1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 24, 32, 33, 64, 65, 100],
            [1, 8, 10, 12, 12, 8, 8, 8, 4, 6, 6, 3, 3, 3, 2, 2, 1])[0])  # fmt: skip

    def shape(self, rank: int | None = None) -> tuple[Dim, ...]:
        if rank is None:
            rank = self.random.choices(range(6), [1, 3, 6, 6, 4, 1])[0]
        for _ in range(20):
            dims = tuple(self.dim() for _ in range(rank))
            if max(count(dims)) <= LARGEST // 4:
                return dims
        return tuple(Dim.of(self.integer(1, 4)) for _ in range(rank))

    # ---- values ----
    def data(self, dtype: str, shape, low=None, high=None, special=None) -> np.ndarray:
        """Random elements; floats are normal, or even in [low, high)."""
        shape = tuple(shape)
        if dtype == "bool":
            return self.arrays.integers(0, 2, shape).astype(bool)
        if dtype in FLOATS:
            if low is None:
                made = np.asarray(self.arrays.standard_normal(shape))
            else:
                made = np.asarray(self.arrays.uniform(low, high, shape))
            made = np.asarray(made).astype(NUMPY[dtype])
            if special if special is not None else self.special:
                odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, 100.0]
                if dtype in ("f32", "f64"):  # others overflow, and one unit is half of a denormal
                    odd += [1e8, 65504.0, 1e-40, -1e-42, 6e-8]
                where = self.arrays.random(shape) < 0.12
                pick = np.asarray(odd)[self.arrays.integers(0, len(odd), shape)]
                with np.errstate(all="ignore"):
                    made = np.where(where, pick.astype(NUMPY[dtype]), made)
            return np.asarray(made, NUMPY[dtype])
        if low is None:
            low, high = (0, 20) if dtype.startswith("u") else (-10, 11)
        wide = np.uint64 if dtype == "u64" else np.int64
        return np.asarray(self.arrays.integers(low, high, shape, wide)).astype(NUMPY[dtype])

    def fresh(self, dtype: str, dims, *, constant=None, low=None, high=None, special=None) -> Value:
        """A new input, or (where sizes are numbers) perhaps a constant."""
        dims = tuple(dims)
        if max(count(dims)) > LARGEST:
            raise Skip
        static = all(d.static for d in dims)
        if constant is None:
            constant = static and self.maybe(0.4)
        if low is None and dtype in INTS and self.maybe(0.1):  # all that the type holds
            limits = np.iinfo(NUMPY[dtype])
            low, high = int(limits.min), int(limits.max)
        named = all(d.static or d in self.symbols for d in dims)
        if not constant and not named:
            raise Skip
        if constant:
            array = self.data(dtype, [d.sizes[0] for d in dims], low, high, special)
            return self.array(array, dtype)
        value = Value(f"x{len(self.inputs)}", dtype, dims, self.extent(dtype, low, high))
        self.inputs.append(value)
        self.values.append(value)
        for i, feed in enumerate(self.feeds):
            feed[value.name] = self.data(dtype, [d.sizes[i] for d in dims], low, high, special)
        return value

    @staticmethod
    def extent(dtype, low, high) -> float:
        if low is not None:
            return float(max(abs(low), abs(high)))
        return 4.0 if dtype in FLOATS else 20.0

    def array(self, array, dtype: str | None = None) -> Value:
        """A constant of the model."""
        array = np.asarray(array)
        if dtype is None:
            dtype = next(k for k, v in NUMPY.items() if np.dtype(v) == array.dtype)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        with np.errstate(all="ignore"):
            finite = np.abs(array.astype(np.float64))
        finite = finite[np.isfinite(finite)]
        size = float(finite.max()) if finite.size else 1.0
        return Value(name, dtype, tuple(Dim.of(s) for s in array.shape), size, array)

    def ints64(self, *numbers: int) -> Value:
        return self.array(np.array(numbers, np.int64))

    def number(self, value, dtype: str) -> Value:
        return self.array(np.asarray(value, np.float64).astype(NUMPY[dtype]), dtype)

    def find(self, test, chance=0.8) -> Value | None:
        """A value that exists, later ones rather."""
        fitting = [v for v in self.values if test(v)]
        if not fitting or not self.maybe(chance):
            return None
        weights = [1 + i + (4 if v.name not in self.used else 0) for i, v in enumerate(fitting)]
        return self.random.choices(fitting, weights)[0]

    def float_type(self) -> str:
        return self.choice(self.floats)

    def int_type(self) -> str:
        return self.choice(self.ints)

    def floating(self, rank=None, least_rank=0, test=None) -> Value:
        """A float value, found or made."""
        def fits(v):
            return (v.is_float and (rank is None or v.rank == rank) and v.rank >= least_rank
                    and (test is None or test(v)))  # fmt: skip
        found = self.find(fits)
        if found is not None:
            return found
        for _ in range(8):
            dims = self.shape(rank if rank is not None else max(
                least_rank, self.random.choices(range(6), [1, 3, 6, 6, 4, 1])[0]))
            probe = Value("", self.float_type(), dims)
            if test is None or test(probe):
                return self.fresh(probe.dtype, dims)
        raise Skip

    def whole(self, rank=None, least_rank=0, dtypes=INTS, test=None) -> Value:
        """An integer value, found or made."""
        def fits(v):
            return (v.dtype in dtypes and (rank is None or v.rank == rank) and v.rank >= least_rank
                    and (test is None or test(v)))  # fmt: skip
        found = self.find(fits)
        if found is not None:
            return found
        kinds = [d for d in self.ints if d in dtypes] or list(dtypes)
        for _ in range(8):
            dims = self.shape(rank if rank is not None else max(least_rank, self.integer(0, 4)))
            probe = Value("", self.choice(kinds), dims)
            if test is None or test(probe):
                return self.fresh(probe.dtype, dims)
        raise Skip

    def truth(self) -> Value:
        found = self.find(lambda v: v.dtype == "bool")
        return found if found is not None else self.fresh("bool", self.shape())

    def partner(self, value: Value, dtype: str | None = None, **data) -> Value:
        """Something that broadcasts with the value, sometimes the other way round."""
        dtype = dtype or value.dtype

        def fits(v):
            return v.dtype == dtype and broadcast(v.dims, value.dims) is not None and not data
        found = self.find(fits, 0.5)
        if found is not None:
            return found
        dims = list(value.dims)
        kind = self.random.random()
        if kind < 0.25:
            dims = dims[self.integer(0, len(dims)):]
        elif kind < 0.5:
            dims = [ONE if self.maybe(0.4) else d for d in dims]
        elif kind < 0.6 and len(dims) < 5:
            dims = [Dim.of(self.integer(1, 3)), *dims]
        elif kind < 0.7:
            dims = []
        return self.fresh(dtype, dims, **data)

    # ---- nodes ----
    def node(self, op, inputs, dtype: str, dims, *, size=4.0, **attributes) -> Value:
        """A node of one result. `size`: of its elements. `attributes={...}`: those that are named
        like a parameter."""
        return self.several(op, inputs, [(dtype, dims, size)], **attributes)[0]

    def several(self, op, inputs, results, *, domain="", attributes=None, **more) -> list[Value]:
        """A node; `results`: (element type, dims, size of the elements) of each."""
        attributes = {**more, **(attributes or {})}
        made = []
        for dtype, dims, size in results:
            if max(count(dims)) > LARGEST:
                raise Skip
            value = Value(f"v{len(self.nodes)}_{len(made)}", dtype, tuple(dims), size)
            made.append(value)
        names = [i if isinstance(i, str) else i.name for i in inputs]
        self.nodes.append(helper.make_node(
            op, names, [v.name for v in made], name=f"n{len(self.nodes)}", domain=domain,
            **{k: v for k, v in attributes.items() if v is not None}))  # fmt: skip
        self.used.update(names)
        self.values += made
        return made

    def unlisted(self, op, inputs, *, domain="", **attributes) -> Value:
        """A node of one result that no other rule may use: of a type, kind or size that they do not know."""
        name = f"u{len(self.nodes)}"
        names = [i if isinstance(i, str) else i.name for i in inputs]
        self.nodes.append(helper.make_node(op, names, [name], name=f"n{len(self.nodes)}", domain=domain,
                                           **{k: v for k, v in attributes.items() if v is not None}))  # fmt: skip
        self.used.update(names)
        return Value(name, "", ())

    def bounded(self, value: Value, limit: float) -> Value:
        """The value with elements of at most about `limit`."""
        if value.size <= limit:
            return value
        if value.is_float and self.maybe(0.3) and limit >= 1:
            return self.node("Tanh", [value], value.dtype, value.dims, size=1.0)
        low, high = (0 if value.dtype.startswith("u") else -limit), limit
        if not value.is_float:
            low, high = int(low), int(high)
        return self.node("Clip", [value, self.number(low, value.dtype), self.number(high, value.dtype)],
                         value.dtype, value.dims, size=limit)  # fmt: skip

    # ---- the end ----
    def finish(self) -> Case:
        made = [v for v in self.values if v.name not in {i.name for i in self.inputs}]
        ends = [v for v in made if v.name not in self.used]
        others = [v for v in made if v.name in self.used]
        outputs = ends + [v for v in others if self.maybe(0.1)]
        if self.maybe(0.05):  # an input that is an output too
            outputs += [v for v in self.inputs if v.name in self.used][:1]
        if not outputs:
            raise Skip
        inputs = [v for v in self.inputs if v.name in self.used]
        graph = helper.make_graph(
            self.nodes, "g",
            [helper.make_tensor_value_info(
                v.name, ELEMENT[v.dtype], [d.sizes[0] if d.static else d.text for d in v.dims])
             for v in inputs],
            [helper.make_tensor_value_info(v.name, ELEMENT[v.dtype], None) for v in outputs],
            [tensor(a, n) for n, a in self.constants.items() if n in self.used],
        )  # fmt: skip
        domains = sorted({n.domain for n in self.nodes} - {""})
        model = helper.make_model(
            graph, ir_version=10,
            opset_imports=[helper.make_opsetid("", self.opset),
                           *(helper.make_opsetid(d, {"ai.onnx.ml": 3}.get(d, 1)) for d in domains)],
            functions=self.functions,
        )  # fmt: skip
        names = {v.name for v in inputs}
        feeds = [{k: a for k, a in feed.items() if k in names} for feed in self.feeds]
        return Case(model, feeds, self.special)


def tensor(array: np.ndarray, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def broadcast(a, b) -> tuple[Dim, ...] | None:
    """The shape of an elementwise result, or None. A symbol goes with itself and with the number 1."""
    result = []
    for i in range(max(len(a), len(b))):
        x = a[len(a) - 1 - i] if i < len(a) else ONE
        y = b[len(b) - 1 - i] if i < len(b) else ONE
        if x == y or y == ONE:
            result.append(x)
        elif x == ONE:
            result.append(y)
        else:
            return None
    return tuple(reversed(result))
