"""Shapes, axes, pads, repeats and counts that are inputs of the model: every case runs one compiled module with
several drawn values of them, against ONNX's reference evaluator and ONNX Runtime. The seed is the commit."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import node_models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import knapper

ROOT = Path(__file__).resolve().parents[2]
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32}
ROUNDS = 3  # values for each compiled module


@dataclass
class Case:
    op: str
    data: list[int]
    controls: list[dict]  # name -> value, of each round; the names in the operator's order, "" for an absent one
    attributes: dict = field(default_factory=dict)
    outputs: int = 1
    opset: int = 20


def commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout


def shape(draw: random.Random, least: int = 1, most: int = 4, size: int = 7) -> list[int]:
    return [draw.randint(1, size) for _ in range(draw.randint(least, most))]


def some_axes(draw: random.Random, rank: int, count: int) -> np.ndarray:
    axes = draw.sample(range(rank), count)
    return np.array([a - rank if draw.random() < 0.4 else a for a in axes], np.int64)


def reduce(draw: random.Random) -> Case:
    dims = shape(draw)
    op = draw.choice(["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"])
    count = draw.randint(1, len(dims))
    return Case(f"Reduce{op}", dims, [{"axes": some_axes(draw, len(dims), count)} for _ in range(ROUNDS)], {"keepdims": draw.randint(0, 1)})


def cumulate(draw: random.Random) -> Case:
    dims = shape(draw)
    attributes = {"exclusive": draw.randint(0, 1), "reverse": draw.randint(0, 1)}
    return Case("CumSum", dims, [{"axis": some_axes(draw, len(dims), 1)[0]} for _ in range(ROUNDS)], attributes)


def reshape(draw: random.Random) -> Case:
    factors = [draw.choice([1, 2, 2, 3, 5]) for _ in range(5)]
    dims, length = [factors[0] * factors[1], factors[2], factors[3] * factors[4]], draw.randint(1, 4)
    rounds = []
    for _ in range(ROUNDS):
        target = [1] * length
        for factor in draw.sample(factors, 5):
            target[draw.randrange(length)] *= factor
        kept = [i for i in range(min(3, length)) if target[i] == dims[i]]
        if kept and draw.random() < 0.5:
            target[kept[0]] = 0
        if draw.random() < 0.5:
            target[draw.randrange(length)] = -1
        rounds.append({"shape": np.array(target, np.int64)})
    return Case("Reshape", dims, rounds)


def squeeze(draw: random.Random) -> Case:
    count, kept = draw.randint(1, 2), draw.randint(1, 2)
    rest = [draw.randint(1, 5) for _ in range(kept)] + [1] * (count + 1)
    draw.shuffle(rest)
    ones = [i for i, d in enumerate(rest) if d == 1]
    return Case("Squeeze", rest, [{"axes": np.array(draw.sample(ones, count), np.int64)} for _ in range(ROUNDS)])


def unsqueeze(draw: random.Random) -> Case:
    dims, count = shape(draw, 0, 3), draw.randint(1, 3)
    return Case("Unsqueeze", dims, [{"axes": some_axes(draw, len(dims) + count, count)} for _ in range(ROUNDS)])


def cut(draw: random.Random) -> Case:
    dims = shape(draw, size=9)
    count = draw.randint(1, len(dims))
    with_axes, with_steps = count < len(dims) or draw.random() < 0.5, draw.random() < 0.7
    rounds = []
    for _ in range(ROUNDS):

        def place() -> int:
            return draw.choice([draw.randint(-12, 12), draw.randint(-4, 4), 1 << 40, -(1 << 40)])

        values = {"starts": np.array([place() for _ in range(count)]), "ends": np.array([place() for _ in range(count)])}
        values["axes"] = some_axes(draw, len(dims), count) if with_axes else None
        if with_steps:
            values["steps"] = np.array([draw.choice([1, 2, 3, -1, -2, 100]) for _ in range(count)])
        rounds.append(values)
    return Case("Slice", dims, rounds)


def pad(draw: random.Random) -> Case:
    dims = [draw.randint(4, 8) for _ in range(draw.randint(1, 3))]
    count = draw.randint(1, len(dims))
    mode = draw.choice(["constant", "constant", "edge", "reflect", "wrap"])
    rounds = []
    for _ in range(ROUNDS):
        values = {"pads": np.array([draw.randint(0, 3) for _ in range(2 * count)])}
        values["value"] = np.float32(draw.random()) if mode == "constant" else None
        if count < len(dims):
            values["axes"] = some_axes(draw, len(dims), count)
        rounds.append(values)
    return Case("Pad", dims, rounds, {"mode": mode})


def tile(draw: random.Random) -> Case:
    dims = shape(draw, most=3, size=4)
    return Case("Tile", dims, [{"repeats": np.array([draw.randint(0, 3) for _ in dims])} for _ in range(ROUNDS)])


def expand(draw: random.Random) -> Case:
    dims = [draw.choice([1, 1, draw.randint(2, 5)]) for _ in range(draw.randint(1, 3))]
    length = draw.randint(1, 4)
    rounds = []
    for _ in range(ROUNDS):
        target = [draw.randint(1, 4) for _ in range(length)]
        for i in range(1, min(length, len(dims)) + 1):
            if dims[-i] != 1:
                target[-i] = draw.choice([1, dims[-i]])
        rounds.append({"shape": np.array(target)})
    return Case("Expand", dims, rounds)


def split(draw: random.Random) -> Case:
    dims, parts = shape(draw, size=9), draw.randint(1, 3)
    axis = draw.randrange(len(dims))
    rounds = []
    for _ in range(ROUNDS):
        ends = sorted(draw.randint(0, dims[axis]) for _ in range(parts - 1))
        rounds.append({"split": np.diff([0, *ends, dims[axis]])})
    return Case("Split", dims, rounds, {"axis": axis}, parts)


def largest(draw: random.Random) -> Case:
    dims = shape(draw, size=9)
    axis = draw.randrange(len(dims))
    rounds = [{"k": np.array([draw.randint(0 if i else 1, dims[axis])])} for i in range(ROUNDS)]
    return Case("TopK", dims, rounds, {"axis": axis, "largest": draw.randint(0, 1)}, 2)


def resize(draw: random.Random) -> Case:
    dims = [draw.randint(1, 3), draw.randint(2, 9), draw.randint(2, 9)]
    mode = draw.choice(["nearest", "linear", "cubic"])
    by_sizes, crop = draw.random() < 0.5, draw.random() < 0.2
    attributes = {"mode": mode, "axes": [1, 2]}
    attributes["coordinate_transformation_mode"] = (
        "tf_crop_and_resize" if crop else draw.choice(["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
    )
    if mode == "nearest":
        attributes["nearest_mode"] = draw.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    elif not crop and draw.random() < 0.4:
        attributes["antialias"] = 1
    elif not crop and mode == "cubic" and draw.random() < 0.4:
        attributes["exclude_outside"] = 1
    if by_sizes and draw.random() < 0.4 and not crop:
        attributes["keep_aspect_ratio_policy"] = draw.choice(["not_larger", "not_smaller"])
    rounds = []
    for _ in range(ROUNDS):
        # Exact in binary, so that a position that ends in a half does in both.
        scales = np.array([draw.choice([0.5, 0.75, 1, 1.5, 2, 2.25]) for _ in range(2)], np.float32)
        sizes = np.array([draw.choice([d, 2 * d, max(d // 2, 1), draw.randint(2, 12)]) for d in dims[1:]])
        values = {"roi": np.array([0.25, 0, 0.75, 1], np.float32) if crop else None}
        values |= {"scales": None, "sizes": sizes} if by_sizes else {"scales": scales}
        rounds.append(values)
    return Case("Resize", dims, rounds, attributes)


def transform(draw: random.Random) -> Case:
    dims = [*shape(draw, 1, 3, 6), 1]
    rounds = [{"length": None, "axis": np.array(draw.randrange(len(dims) - 1))} for _ in range(ROUNDS)]
    return Case("DFT", dims, rounds, {"onesided": draw.randint(0, 1)})


DRAWS = [reduce, cumulate, reshape, squeeze, unsqueeze, cut, pad, tile, expand, split, largest, resize, transform]


def model_of(case: Case) -> onnx.ModelProto:
    first = case.controls[0]
    inputs = [helper.make_tensor_value_info("data", TensorProto.FLOAT, case.data)]
    for name, value in first.items():
        if value is not None:
            inputs.append(helper.make_tensor_value_info(name, TYPES[str(np.asarray(value).dtype)], np.shape(value)))
    names = ["data", *(name if value is not None else "" for name, value in first.items())]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="asked", **case.attributes)
    types = [TensorProto.INT64 if case.op == "TopK" and i else TensorProto.FLOAT for i in range(case.outputs)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info(o, t, None) for o, t in zip(outputs, types, strict=True)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=9)


def given(case: Case, values: dict, seed: int) -> dict[str, np.ndarray]:
    data = np.random.default_rng(seed).uniform(0.5, 1.5, case.data).astype(np.float32)
    return {"data": data} | {name: np.asarray(value) for name, value in values.items() if value is not None}


@pytest.mark.parametrize("draw_case", DRAWS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("number", range(6))
def test_values_of_run_time_do_what_constants_do(draw_case, number):
    case = draw_case(random.Random(f"{commit()} {draw_case.__name__} {number}"))
    model = model_of(case)
    module = knapper.compile(model, threads=1, cache=False)
    # Behind the front, backwards: the specification clamps, NumPy's slices in the reference evaluator do not.
    peer = case.op == "Slice"
    expected = onnxruntime.InferenceSession(model.SerializeToString()) if peer else ReferenceEvaluator(model)
    for seed, values in enumerate(case.controls):
        feeds = given(case, values, seed)
        wanted, got = expected.run(None, feeds), module(*feeds.values())
        for i, array in enumerate(wanted):
            mine = np.asarray(got[i] if case.outputs > 1 or isinstance(got, (list, tuple)) else got[0])
            assert mine.shape == np.shape(array), (case, values, mine.shape, np.shape(array))
            np.testing.assert_allclose(mine, array, rtol=2e-5, atol=2e-5, err_msg=f"{case} {values}")


@pytest.mark.parametrize(
    "case",
    [
        Case("Slice", [2, 3], [dict.fromkeys(("starts", "ends", "axes", "steps"), np.zeros(0, np.int64))]),
        Case("Squeeze", [2, 3], [{"axes": np.zeros(0, np.int64)}]),
        Case("Unsqueeze", [2, 3], [{"axes": np.zeros(0, np.int64)}]),
        Case("ReduceMax", [2, 3], [{"axes": np.zeros(0, np.int64)}], {"noop_with_empty_axes": 1}),
        Case("ReduceMax", [2, 3], [{"axes": np.zeros(0, np.int64)}]),
        Case("Pad", [2, 3], [{"pads": np.zeros(0, np.int64), "value": None, "axes": np.zeros(0, np.int64)}]),
        Case("Reshape", [1, 1], [{"shape": np.zeros(0, np.int64)}]),
        Case("Expand", [2, 3], [{"shape": np.zeros(0, np.int64)}]),
    ],
    ids=lambda case: case.op,
)
def test_lists_without_an_element(case):
    model, feeds = model_of(case), given(case, case.controls[0], 0)
    got = np.asarray(knapper.compile(model, threads=1, cache=False)(*feeds.values())[0])
    if case.op == "Squeeze":  # NumPy's rule for all axes stands in for none
        expected = feeds["data"]
    else:
        expected = ReferenceEvaluator(model).run(None, feeds)[0]
    np.testing.assert_array_equal(got, expected)


def test_negative_pads_cut():
    """Which ONNX's reference evaluator lacks."""
    case = Case("Pad", [5], [{"pads": np.array(pads)} for pads in ([-1, -2], [-3, 2], [2, -5], [-5, 0])], {"mode": "constant"})
    module = knapper.compile(model_of(case), threads=1, cache=False)
    for values in case.controls:
        feeds = given(case, values, 0)
        before, after = values["pads"]
        kept = feeds["data"][max(-before, 0) : 5 + min(after, 0)]
        np.testing.assert_array_equal(np.asarray(module(*feeds.values())[0]), np.pad(kept, [(max(before, 0), max(after, 0))]))


def import_and_run(nodes, inputs, feeds, initializers=(), outputs=("y",)):
    """The outputs of a graph whose inputs are {name: (type, shape)}, beside ONNX Runtime's."""
    made = node_models.model(nodes, inputs, outputs, initializers, opset=18, ir=9)
    module = knapper.compile(made, threads=1, cache=False)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for feed in feeds:
        for got, wanted in zip(module(*feed.values()), session.run(None, feed), strict=True):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5, atol=1e-5, err_msg=str(feed))


def ones(*dims):
    return np.random.default_rng(len(dims)).uniform(0.5, 2, dims).astype(np.float32)


def test_results_broadcast_where_they_turn_out_to_be_1():
    x = {"x": (TensorProto.FLOAT, ["n", 4]), "a": (TensorProto.INT64, [1])}
    mean = [helper.make_node("ReduceMean", ["x", "a"], ["m"], keepdims=1), helper.make_node("Sub", ["x", "m"], ["y"])]
    import_and_run(mean, x, [{"x": ones(n, 4), "a": np.array([a])} for n in (1, 3, 4) for a in (0, 1, -1)])
    x["x"] = (TensorProto.FLOAT, ["n", "k"])
    import_and_run(mean, x, [{"x": ones(n, 5), "a": np.array([a])} for n in (1, 3, 5) for a in (0, 1)])
    column = [helper.make_node("Unsqueeze", ["v", "a"], ["u"]), helper.make_node("Mul", ["x", "u"], ["y"])]
    inputs = {"x": (TensorProto.FLOAT, [3, 3]), "v": (TensorProto.FLOAT, [3]), "a": (TensorProto.INT64, [1])}
    import_and_run(column, inputs, [{"x": ones(3, 3), "v": ones(3), "a": np.array([a])} for a in (0, 1)])
    both = [
        helper.make_node("ReduceSum", ["x", "a"], ["p"], keepdims=1), helper.make_node("ReduceSum", ["x", "b"], ["q"], keepdims=1),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]  # fmt: skip
    inputs = {"x": (TensorProto.FLOAT, [3, 4]), "a": (TensorProto.INT64, [1]), "b": (TensorProto.INT64, [1])}
    import_and_run(both, inputs, [{"x": ones(3, 4), "a": np.array([a]), "b": np.array([b])} for a in (0, 1) for b in (0, 1)])


def test_symbolic_dims_are_expanded_where_they_are_1():
    inputs = {"x": (TensorProto.FLOAT, ["n", 3]), "s": (TensorProto.INT64, [3])}
    feeds = [{"x": ones(n, 3), "s": np.array(s)} for n, s in ((1, (2, 5, 3)), (5, (2, 5, 3)), (5, (2, 1, 1)), (1, (1, 1, 1)))]
    import_and_run([helper.make_node("Expand", ["x", "s"], ["y"])], inputs, feeds)


def test_what_is_known_of_a_list_stays_known():
    """Batch and channels come from the input, height and width from data: the convolution needs the channels."""
    nodes = [
        helper.make_node("Shape", ["x"], ["all"], start=0, end=2), helper.make_node("Concat", ["all", "hw"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["r"], mode="linear"), helper.make_node("Conv", ["r", "w"], ["y"]),
    ]  # fmt: skip
    inputs = {"x": (TensorProto.FLOAT, ["n", 3, 4, 4]), "hw": (TensorProto.INT64, [2])}
    feeds = [{"x": ones(2, 3, 4, 4), "hw": np.array(hw)} for hw in ((8, 6), (4, 4), (3, 9))]
    import_and_run(nodes, inputs, feeds, {"w": ones(2, 3, 1, 1)})
    nodes = [
        helper.make_node("Concat", ["one", "three", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Conv", ["r", "w"], ["y"]),
    ]  # fmt: skip
    inputs = {"x": (TensorProto.FLOAT, [24]), "rest": (TensorProto.INT64, [2])}
    feeds = [{"x": ones(24), "rest": np.array(rest)} for rest in ((4, 2), (-1, 2), (1, 8))]
    import_and_run(nodes, inputs, feeds, {"one": np.array([1]), "three": np.array([3]), "w": ones(2, 3, 1, 1)})


@pytest.mark.parametrize("op", ["ReduceSum", "Squeeze", "Unsqueeze", "CumSum", "Slice"])
def test_axes_that_follow_from_sizes(op):
    inputs = {"x": (TensorProto.FLOAT, ["n", 1, 4]), "s": (TensorProto.INT64, [1]), "e": (TensorProto.INT64, [1])}
    axis = 1 if op == "Squeeze" else 2
    nodes = [helper.make_node("Shape", ["x"], ["n"], start=0, end=1), helper.make_node("Sub", ["n", "less"], ["a"])]
    names = {"CumSum": ["x", "a"], "Slice": ["x", "s", "e", "a"]}.get(op, ["x", "a"])
    # ONNX Runtime wants inputs that are read.
    nodes += [helper.make_node("Add", ["s", "e"], ["unused"]), helper.make_node(op, names, ["y"])]
    import_and_run(nodes, inputs, [{"x": ones(5, 1, 4), "s": np.array([1]), "e": np.array([3])}], {"less": np.array([5 - axis])})


def test_lists_of_int32_and_data_of_other_types():
    for dtype, op in ((np.bool_, "ReduceMax"), (np.int32, "ReduceSum"), (np.int64, "ReduceMin")):
        x = np.random.default_rng(3).integers(0, 2, (3, 1, 4)).astype(dtype)
        for keep in (0, 1):
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            node = helper.make_node(op, ["x", "a"], ["y"], keepdims=keep)
            inputs = {"x": (kind, [3, "n", 4]), "a": (TensorProto.INT64, [2])}
            made = node_models.model([node], inputs, [("y", kind)], opset=20, ir=9)
            got = np.asarray(knapper.compile(made, threads=1, cache=False)(x, np.array([2, 0]))[0])
            wanted = {"ReduceMax": np.max, "ReduceSum": np.sum, "ReduceMin": np.min}[op](x, axis=(0, 2), keepdims=bool(keep))
            np.testing.assert_array_equal(got, wanted)
    inputs = {"x": (TensorProto.FLOAT, [5, 6]), "s": (TensorProto.INT32, [1]), "e": (TensorProto.INT32, [1]), "a": (TensorProto.INT32, [1])}
    feeds = [{"x": ones(5, 6), "s": np.int32([1]), "e": np.int32([-1]), "a": np.int32([a])} for a in (0, 1, -1)]
    import_and_run([helper.make_node("Slice", ["x", "s", "e", "a"], ["y"])], inputs, feeds)


def test_empty_dims():
    inputs = {"x": (TensorProto.FLOAT, ["n", 3]), "p": (TensorProto.INT64, [4])}
    edge = [helper.make_node("Pad", ["x", "p"], ["y"], mode="edge")]
    import_and_run(edge, inputs, [{"x": ones(n, 3), "p": np.array(p)} for n, p in ((0, (0, 0, 0, 0)), (0, (0, 1, 0, 0)), (2, (1, 0, 0, 2)))])


def test_many_dims_are_refused_and_no_crash():
    for op in ("ReduceSum", "ReduceLogSumExp"):
        case = Case(op, [1] * 16 + [2], [{"axes": np.array([0, 1])}])
        with pytest.raises(knapper.UserError, match="several axes that depend on data, of rank 17"):
            knapper.compile(model_of(case), cache=False)


def test_sizes_without_a_limit_keep_the_aspect_ratio():
    case = Case("Resize", [4, 8], [], {"mode": "nearest", "axes": [0, 1], "keep_aspect_ratio_policy": "not_larger"})
    case.controls = [{"roi": None, "scales": None, "sizes": np.array(s)} for s in ([2**62, 16], [2**63 - 1, 4], [3, 3])]
    module = knapper.compile(model_of(case), threads=1, cache=False)
    shapes = [module(*given(case, values, 0).values())[0].shape for values in case.controls]
    assert shapes == [(8, 16), (2, 4), (2, 3)]


REFUSED = [
    (Case("Squeeze", [0, 3, 1], [{"axes": np.array([1])}]), "squeezes a dim that is not 1"),
    (Case("Reshape", [1, 1], [{"shape": np.array([-1, -1])}]), "has -1 twice"),
    (Case("Reshape", [0, 3], [{"shape": np.array([0, -1])}]), "-1 beside a dim of 0 has no answer"),
    (Case("Reshape", [0], [{"shape": np.array([3, 0])}]), "-2"),
    (Case("Resize", [4], [{"roi": None, "scales": np.float32([0])}]), "a scale is not above 0"),
    (Case("Resize", [4], [{"roi": None, "scales": np.float32([np.nan])}]), "a scale is not above 0"),
    (Case("Resize", [4], [{"roi": None, "scales": None, "sizes": np.array([-1])}], {"keep_aspect_ratio_policy": "not_larger"}), "'resized.*' is -1"),
    (Case("Resize", [0], [{"roi": None, "scales": None, "sizes": np.array([3])}]), "resizes a dim that has no element"),
    (Case("DFT", [2, 4, 1], [{"length": np.array(0)}]), "transforms no element"),
    (Case("Slice", [5, 5], [{"starts": np.array([0, 0]), "ends": np.array([3, 3]), "axes": np.array([1, -1])}]), "named twice"),
    (Case("Pad", [0], [{"pads": np.array([1, 0])}], {"mode": "edge"}), "a dim that has none"),
    (Case("ReduceSum", [2, 3], [{"axes": np.array([2])}]), "an axis is outside of rank 2, or named twice"),
    (Case("ReduceSum", [2, 3], [{"axes": np.array([1, -1])}]), "an axis is outside of rank 2, or named twice"),
    (Case("CumSum", [2, 3], [{"axis": np.array(-3)}]), "an axis is outside of rank 2, or named twice"),
    (Case("Unsqueeze", [2, 3], [{"axes": np.array([3])}]), "an axis is outside of rank 3, or named twice"),
    (Case("Slice", [5], [{"starts": np.array([0]), "ends": np.array([5]), "axes": None, "steps": np.array([0])}]), "has a step of 0"),
    (Case("Reshape", [2, 3], [{"shape": np.array([4, 2])}]), "6"),
    (Case("Reshape", [2, 3], [{"shape": np.array([-1, 4])}]), "6"),
    (Case("Reshape", [2, 3], [{"shape": np.array([-2, -3])}]), "-2"),
    (Case("Squeeze", [2, 1], [{"axes": np.array([0])}]), "squeezes a dim that is not 1"),
    (Case("Expand", [2, 3], [{"shape": np.array([2, 4])}]), "cannot broadcast to this shape"),
    (Case("Tile", [2], [{"repeats": np.array([-1])}]), "'repeats.*' is -1"),
    (Case("Split", [5], [{"split": np.array([2, 2])}], {}, 2), "5"),
    (Case("TopK", [5], [{"k": np.array([6])}], {}, 2), "K is above the size of the axis"),
    (Case("Pad", [3], [{"pads": np.array([-2, -2])}]), "negative|-1"),
]


@pytest.mark.parametrize("case, says", REFUSED, ids=[f"{i}-{case.op}" for i, (case, _) in enumerate(REFUSED)])
def test_what_cannot_be_is_refused_when_it_comes(case, says):
    module = knapper.compile(model_of(case), threads=1, cache=False)
    with pytest.raises(knapper.UserError, match=says):
        module(*given(case, case.controls[0], 0).values())


def test_the_block_of_col2im_is_an_input():
    nodes = [helper.make_node("Col2Im", ["x", "size", "block"], ["y"], strides=[2, 1], pads=[1, 0, 0, 1], dilations=[1, 2])]
    inputs = {"x": (TensorProto.FLOAT, ["n", "c", "l"]), "size": (TensorProto.INT64, [2]), "block": (TensorProto.INT64, [2])}
    feeds = []
    for size, block in (((7, 6), (2, 3)), ((5, 5), (1, 1)), ((4, 8), (3, 2))):
        counts = [(size[0] + 1 - block[0]) // 2 + 1, size[1] + 1 - (block[1] - 1) * 2]
        feeds.append({"x": ones(2, 3 * block[0] * block[1], counts[0] * counts[1]), "size": np.array(size), "block": np.array(block)})
    import_and_run(nodes, inputs, feeds)
    module = knapper.compile(node_models.model(nodes, inputs, opset=18, ir=9), threads=1, cache=False)
    for block in ((0, 3), (4, 3)):  # none, and one that does not divide the channels
        with pytest.raises(knapper.UserError):
            module(ones(2, 18, 20), np.array([7, 6]), np.array(block))
