"""Operators without control flow whose official cases have few sizes."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto

import knapper

INT64 = TensorProto.INT64
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_det(size):
    made = model([node("Det", ["x"], ["y"])], {"x": ["n", 2, size, size]})
    x = normal(3, 2, size, size)
    x[0, 0, :, 0] = 0  # singular
    x[1] = np.eye(size)[::-1]
    check(made, [{"x": x}], 1e-3, lambda feed: [np.linalg.det(feed["x"].astype(np.float64))])


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ii->i", [(4, 4)]),
        ("iji->j", [(3, 5, 3)]),
        ("...ii->...", [(2, 3, 3)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
        ("ii,ij,j->", [(3, 3), (3, 4), (4,)]),
        ("abc,c,ab->b", [(2, 3, 4), (4,), (2, 3)]),
    ],
)
def test_einsum(equation, shapes):
    names = "xyz"[: len(shapes)]
    made = model(
        [node("Einsum", list(names), ["r"], equation=equation)],
        {name: [f"{name}{i}" for i in range(len(s))] for name, s in zip(names, shapes)},
        ["r"],
    )
    feed = {name: normal(*s) for name, s in zip(names, shapes)}
    check(made, [feed], 1e-4, lambda f: [np.einsum(equation, *(f[name] for name in names))])


@pytest.mark.parametrize("order", [0, 1])
def test_max_pool_indices_and_back(order):
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    made = model(
        [node("MaxPool", ["x"], ["y", "i"], storage_order=order, dilations=[1, 2], **attributes)],
        {"x": ["n", "c", "h", "w"]}, ["y", ("i", INT64)],
    )  # fmt: skip
    check(made, [{"x": normal(n, c, h, w)} for n, c, h, w in ((1, 1, 5, 6), (2, 3, 8, 4))])
    made = model(
        [
            node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2]),
            node("MaxUnpool", ["y", "i"], ["z"], kernel_shape=[2, 2], strides=[2, 2]),
        ],
        {"x": ["n", 2, "h", 6]}, ["z"],
    )  # fmt: skip

    def reference(feed):
        x = feed["x"]
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        most = blocks.max(axis=(3, 5), keepdims=True)
        return [np.where(blocks == most, blocks, 0).reshape(x.shape)]

    check(made, [{"x": normal(2, 2, 4, 6)}, {"x": normal(1, 2, 8, 6)}], 0, reference)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode):
    made = model(
        [node("TensorScatter", ["past", "update", "at"], ["y"], mode=mode)],
        {"past": ["b", 2, 7, 3], "update": ["b", 2, "s", 3], "at": (INT64, ["b"])},
        opset=24,
    )
    feeds = [
        {"past": normal(2, 2, 7, 3), "update": normal(2, 2, s, 3), "at": np.array(at)}
        for s, at in ((1, [6, 0]), (3, [2, 4]), (7, [0, 0]))
    ]
    module = check(made, feeds)
    over = feeds[1] | {"at": np.array([0, 5])}
    if mode == "linear":
        with pytest.raises(knapper.UserError, match="index"):
            module(**over)
    else:
        check(made, [over])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_tfidf(mode):
    made = model(
        [node("TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=3,
              max_skip_count=1, ngram_counts=[0, 2, 6], ngram_indexes=[4, 1, 0, 2, 3],
              weights=[2.0, 0.5, 3.0, 4.0, 5.0], pool_int64s=[1, 2, 1, 2, 2, 3, 1, 2, 3])],
        {"x": (TensorProto.INT32, ["n", "c"])},
    )  # fmt: skip
    feeds = [{"x": RNG.integers(1, 4, (n, c)).astype(np.int32)} for n, c in ((1, 12), (3, 30), (2, 2))]
    check(made, feeds, 1e-6)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule):
    """Few steps stand one after the other, others are a loop."""
    check_linear_attention(rule, 3, [3])
    check_linear_attention(rule, 9, [9])
    check_linear_attention(rule, "t", [1, 70])


def check_linear_attention(rule, declared, steps):
    sizes = {"q": 8, "k": 4, "v": 6}
    inputs = {k: ["n", declared, size] for k, size in sizes.items()} | {"s": ["n", 2, 2, 3]}
    feeds = [
        {k: normal(n, t, size) for k, size in sizes.items()} | {"s": normal(n, 2, 2, 3)}
        for n in (1, 3)
        for t in steps
    ]
    names = ["q", "k", "v", "s"]
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in rule:
            inputs[name] = ["n", declared, 2]
            names += [""] * (("decay", "beta").index(name) + 4 - len(names)) + [name]
            for feed in feeds:  # decays below 0, steps between 0 and 0.5: nothing grows
                size = np.abs(normal(*feed["q"].shape[:2], 2))
                feed[name] = -size / 3 if name == "decay" else np.minimum(size, 1) / 2
    for feed in feeds:
        feed["k"] /= 2
    made = model(
        [node("LinearAttention", names, ["y", "state"], update_rule=rule, q_num_heads=4,
              kv_num_heads=2)],
        inputs, ["y", "state"], opset=27,
    )  # fmt: skip
    check(made, feeds, 1e-4)


@pytest.mark.parametrize(
    "start, end, step",
    [(-1, -(1 << 40), -1), (-1, -(1 << 40), -2), (3, -1000, -1), (1000, 0, -3), (-3, 0, 3), (-3, 1, 3),
     (1, 1000, 2), (-2, -1, 1)],
)  # fmt: skip
def test_slices_of_any_size(start, end, step):
    """Also of an empty dim, and inside a reduction, whose loop counts the elements."""
    bounds = {"a": np.array([start]), "b": np.array([end]), "d": np.array([0]), "s": np.array([step])}
    made = model(
        [node("Slice", ["x", "a", "b", "d", "s"], ["y"]),
         node("ReduceSum", ["y", "d"], ["z"])],
        {"x": ["n", 3]}, ["y", "z"], bounds,
    )  # fmt: skip

    def reference(feed):
        y = feed["x"][start : None if end < -100 else end : step]
        return [y, y.sum(axis=0, keepdims=True)]

    check(made, [{"x": normal(n, 3)} for n in range(3 if start == -3 and step < 0 else 0, 8)], 1e-6,
          reference)  # fmt: skip


def test_an_empty_constant_where_a_size_stays_a_symbol():
    made = model(
        [node("Tile", ["x", "times"], ["t"]), node("Mul", ["c", "t"], ["y"])],
        {"x": ["n", 3]}, ["y"], {"times": np.array([0, 1]), "c": normal(0, 3)},
    )  # fmt: skip
    check(made, [{"x": normal(n, 3)} for n in (1, 4)], 0, lambda feed: [np.zeros((0, 3), np.float32)])


@pytest.mark.parametrize("declared", ["n", 70000])
def test_a_mean_of_more_than_the_type_can_count(declared):
    made = model([node("ReduceMean", ["x", "axes"], ["y"])], {"x": (TensorProto.FLOAT16, [2, declared])},
                 [("y", TensorProto.FLOAT16)], {"axes": np.array([1])})  # fmt: skip
    feeds = [{"x": np.full((2, n), 0.5, np.float16)} for n in ([70000] if declared != "n" else [3, 70000])]
    check(made, feeds, 0, lambda feed: [np.full((2, 1), 0.5, np.float16)])


def test_one_lane_after_a_window():
    """A result one wide goes through shapes and operands of one element."""
    nodes = [
        node("LRN", ["x"], ["v"], size=3),
        node("QuantizeLinear", ["v", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DepthToSpace", ["d"], ["y"], blocksize=2),
    ]
    made = model(nodes, {"x": ["n", 16, 3, 1], "s": []}, initializers={"z": np.int8(7)})
    check(made, [{"x": normal(n, 16, 3, 1), "s": np.float32(0.5)} for n in (1, 8)])


@pytest.mark.parametrize("kernel", [(2, 1), (1, 2), (2, 2), (3, 1)])
def test_transposed_convolution_without_overlap(kernel):
    """Weights that are no constants: their dims are merged past one of size 1."""
    made = model([node("ConvTranspose", ["x", "w"], ["y"], strides=list(kernel))],
                 {"x": ["n", 3, 3, 4], "w": [3, 4, *kernel]})  # fmt: skip

    def reference(feed):
        x, w = feed["x"].astype(float), feed["w"].astype(float)
        y = np.einsum("nchw,coij->nohiwj", x, w)
        return [y.reshape(y.shape[0], 4, 3 * kernel[0], 4 * kernel[1])]

    check(made, [{"x": normal(n, 3, 3, 4), "w": normal(3, 4, *kernel)} for n in (1, 5)], 1e-5, reference)


@pytest.mark.parametrize(
    "kind, attributes, tolerance, right",
    [
        ("ReduceL2", {}, 4, lambda x: np.sqrt((x * x).sum(1, keepdims=True))),
        ("ReduceLogSum", {}, 4e-3, lambda x: np.log(x.sum(1, keepdims=True))),
        ("LpNormalization", {"axis": 1}, 5e-4, lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
        ("MeanVarianceNormalization", {"axes": [1]}, 1e-3,
         lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)),
    ],
)  # fmt: skip
def test_what_float16_cannot_hold_on_the_way(kind, attributes, tolerance, right):
    """Sums of thousands, and of their squares; the results are numbers that float16 has."""
    x = np.linspace(300, 9000, 24).reshape(3, 8).astype(np.float16)
    axes = {"axes": np.array([1])} if kind.startswith("Reduce") else {}
    made = model([node(kind, ["x", *axes], ["y"], **attributes)], {"x": (TensorProto.FLOAT16, ["n", 8])},
                 [("y", TensorProto.FLOAT16)], axes)  # fmt: skip
    check(made, [{"x": x}], tolerance, lambda feed: [right(feed["x"].astype(np.float64)).astype(np.float16)])


@pytest.mark.parametrize("shape", [(1, 8, 128, 68), (2, 8, 1, 1200), (1, 8, 5000)], ids=str)
@pytest.mark.parametrize("groups", [8, 2])
def test_norm_of_an_image_with_a_large_mean(shape, groups):
    """The mean is subtracted as exactly as it can be stored: an error of it would be one of all results."""
    spatial = [1] * (len(shape) - 2)
    nodes = [  # a convolution keeps channels last
        node("Conv", ["x", "w"], ["c"]),
        node("Reshape", ["c", "rows"], ["r"]),
        node("InstanceNormalization", ["r", "scale", "bias"], ["i"]),
        node("Reshape", ["i", "full"], ["y"]),
    ]
    made = model(nodes, {"x": list(shape)}, ["y"], {
        "w": np.eye(8, dtype=np.float32).reshape(8, 8, *spatial),
        "rows": np.array([shape[0], groups, -1]),
        "full": np.array(shape),
        "scale": np.ones(groups, np.float32),
        "bias": np.zeros(groups, np.float32),
    })
    x = 100 + normal(*shape)
    rows = x.astype(np.float64).reshape(shape[0], groups, -1)
    wanted = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    got = knapper.compile(made)(x=x)["y"].reshape(rows.shape)
    # Half a unit in the last place of 100, and some of the result's.
    assert np.abs(got - wanted).mean() < 4.5e-6
