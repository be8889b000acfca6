"""Operators of com.microsoft, compiled and compared with ONNX Runtime, or with NumPy where it has no CPU kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from node_models import PEER_SATURATES, check, model, node
from onnx import TensorProto, helper

import knapper

RNG = np.random.default_rng(11)
EMPTY = None


def random(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape):
    return RNG.integers(0, 256, shape, np.uint8)


def i8(*shape):
    return RNG.integers(-128, 128, shape, np.int8)


def f32(value):
    return np.float32(value)


def built(op, inputs, outputs=1, constant=(), domain="com.microsoft", version=17, **attributes):
    """A model of one node and its feed: inputs by position, None absent; `constant` ones are initialisers."""
    names = [f"x{i}" if x is not EMPTY else "" for i, x in enumerate(inputs)]
    while names and not names[-1]:
        names.pop()
    arrays = {n: np.asarray(x) for n, x in zip(names, inputs) if n}
    given = {n: a for n, a in arrays.items() if int(n[1:]) not in constant}
    wanted = outputs if isinstance(outputs, list) else [f"y{i}" for i in range(outputs)]
    made = model(
        [node(op, names, wanted, domain=domain, **attributes)],
        {n: (helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape)) for n, a in given.items()},
        [w for w in wanted if w],
        {n: a for n, a in arrays.items() if n not in given},
        version, [("com.microsoft", 1)],
    )  # fmt: skip
    return made, given


def peer(made, feed):
    """ONNX Runtime's results; the outputs take their types from them."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for output in made.graph.output:
        output.type.Clear()
    session = runtime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    want = session.run(None, feed)
    for output, value in zip(made.graph.output, want):
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(value.dtype)
    return want


def compare(op, inputs, tolerance=2e-5, **more):
    made, feed = built(op, inputs, **more)
    want = peer(made, feed)
    got = knapper.compile(made)(**feed)
    for output, expected in zip(made.graph.output, want):
        value = np.asarray(got[output.name])
        assert value.shape == expected.shape and value.dtype == expected.dtype
        np.testing.assert_allclose(value.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)


CASES = {}


def case(name, op, inputs, **more):
    assert name not in CASES
    CASES[name] = (op, inputs, more)


# Matmuls
for a, b, shapes in (
    (0, 0, ((2, 3, 4), (2, 4, 5))), (1, 0, ((2, 4, 3), (2, 4, 5))), (0, 1, ((2, 3, 4), (2, 5, 4))),
    (1, 1, ((2, 4, 3), (2, 5, 4))), (0, 0, ((3, 4), (4, 5))), (0, 1, ((4,), (5, 4))),
):  # fmt: skip
    case(f"FusedMatMul-{a}{b}-{len(shapes[0])}", "FusedMatMul", [random(*s) for s in shapes], transA=a, transB=b,
         alpha=0.25)  # fmt: skip
case("FusedMatMul-batch-a", "FusedMatMul", [random(3, 2, 4), random(2, 4, 5)], transBatchA=1)
case("FusedMatMul-batch-b", "FusedMatMul", [random(2, 3, 4), random(4, 2, 5)], transBatchB=1)
case("FusedMatMul-batch-a-t", "FusedMatMul", [random(4, 2, 3), random(2, 4, 5)], transBatchA=1, transA=1)
case("TransposeMatMul", "TransposeMatMul", [random(2, 4, 3), random(2, 4, 5)], transA=1, alpha=2.0)
for activation, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}), ("Sigmoid", {}),
                         ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})):  # fmt: skip
    case(f"FusedGemm-{activation}", "FusedGemm", [random(3, 4), random(5, 4), random(5)], transB=1, alpha=0.5, beta=2.0,
         activation=activation, **more)  # fmt: skip
for activation, more in (("Relu", []), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.2, 0.5]),
                         ("Tanh", []), ("Sigmoid", [])):  # fmt: skip
    extra = {"activation_params": more} if more else {}
    case(f"FusedConv-{activation}", "FusedConv", [random(2, 4, 7, 6), random(6, 2, 3, 3), random(6)], group=2,
         pads=[1, 1, 1, 1], strides=[2, 1], activation=activation, **extra)  # fmt: skip
case("FusedConv-sum", "FusedConv", [random(1, 3, 5, 5), random(4, 3, 1, 1), random(4), random(1, 4, 5, 5)],
     activation="Relu")  # fmt: skip
case("CDist", "CDist", [random(5, 3), random(4, 3)], metric="euclidean")
case("ConvTransposeWithDynamicPads", "ConvTransposeWithDynamicPads",
     [random(1, 2, 4, 4), random(2, 3, 3, 3), np.int64([1, 0, 1, 1]), random(3)], constant=[2], strides=[2, 2])  # fmt: skip

# Activations, norms, embeddings
X = random(2, 3, 8)
for op in ("Gelu", "QuickGelu", "FastGelu"):
    case(op, op, [X])
case("QuickGelu-alpha", "QuickGelu", [X], alpha=0.5)
case("FastGelu-bias", "FastGelu", [X, random(8)])
case("BiasGelu", "BiasGelu", [X, random(8)])
for bias in (EMPTY, random(8)):
    tag = "" if bias is EMPTY else "-bias"
    case("SkipLayerNormalization" + tag, "SkipLayerNormalization", [X, random(2, 3, 8), random(8), random(8), bias],
         outputs=["y", "", "", "sum"], epsilon=1e-5)  # fmt: skip
    case("SkipSimplifiedLayerNormalization" + tag, "SkipSimplifiedLayerNormalization",
         [X, random(2, 3, 8), random(8), bias], outputs=["y", "", "", "sum"], epsilon=1e-5)  # fmt: skip
case("SkipLayerNormalization-no-beta", "SkipLayerNormalization", [X, random(2, 3, 8), random(8)])
case("SkipLayerNormalization-broadcast", "SkipLayerNormalization", [X, random(3, 8), random(8), random(8)])
case("SimplifiedLayerNormalization", "SimplifiedLayerNormalization", [X, random(8)], domain="", epsilon=1e-4, axis=-1)
case("LayerNormalization-12", "LayerNormalization", [X, random(8), random(8)], domain="", version=12, axis=-1)
IDS = np.int32([[1, 4, 2, 0], [3, 3, 0, 0]])
TABLES = [random(6, 8), random(5, 8), random(2, 8)]
SEGMENTS = np.int32([[0, 0, 1, 1], [0, 1, 1, 1]])
MASK = np.int32([[1, 1, 1, 0], [1, 1, 0, 0]])
case("EmbedLayerNormalization", "EmbedLayerNormalization", [IDS, SEGMENTS, *TABLES, random(8), random(8), MASK],
     outputs=3)  # fmt: skip
case("EmbedLayerNormalization-plain", "EmbedLayerNormalization",
     [IDS, EMPTY, TABLES[0], TABLES[1], EMPTY, random(8), random(8)], outputs=2, epsilon=1e-5)  # fmt: skip
case("EmbedLayerNormalization-positions", "EmbedLayerNormalization",
     [IDS, SEGMENTS, *TABLES, random(8), random(8), EMPTY, np.int32([[0, 2, 1, 3], [4, 4, 1, 0]])], outputs=2)  # fmt: skip

# Attention: batch 2, 3 tokens, hidden 8, 2 heads
W, B = random(8, 24, scale=0.5), random(24)
MASKS = {
    "none": (EMPTY, 0), "ends": (np.int32([2, 3]), 0), "ends-begins": (np.int32([2, 3, 1, 0]), 0),
    "rows": (np.int32([[1, 1, 0], [0, 1, 1]]), 0), "full": (RNG.integers(0, 2, (2, 3, 3)).astype(np.int32), 0),
    "nothing": (np.int32([[0, 0, 0], [1, 0, 1]]), 0), "past": (np.int32([[0, 1, 1, 1, 0], [1, 1, 0, 1, 1]]), 2),
}  # fmt: skip
for name, (mask, past) in MASKS.items():
    for causal in (0, 1):
        case(f"Attention-{name}-{causal}", "Attention",
             [X, W, B, mask, random(2, 2, 2, past, 4) if past else EMPTY], outputs=2, num_heads=2,
             unidirectional=causal)  # fmt: skip
case("Attention-bias", "Attention", [X, W, B, EMPTY, EMPTY, random(1, 2, 3, 3)], num_heads=2, scale=0.3)
case("Attention-sizes", "Attention", [X, random(8, 20), random(20), EMPTY, EMPTY], num_heads=2,
     qkv_hidden_sizes=[8, 8, 4])  # fmt: skip
case("Attention-filter", "Attention", [X, W, B, np.int32([[1, 0, 1], [1, 1, 0]])], num_heads=2,
     mask_filter_value=-3.0)  # fmt: skip

Q, K, V = random(2, 3, 8), random(2, 5, 8), random(2, 5, 8)
MHA = {
    "plain": [Q, K, V], "bias": [Q, K, V, random(24)], "mask": [Q, K, V, EMPTY, np.int32([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]])],
    "ends": [Q, K, V, EMPTY, np.int32([3, 5])], "added": [Q, K, V, EMPTY, EMPTY, random(2, 2, 3, 5)],
    "added-one": [Q, K, V, EMPTY, EMPTY, random(1, 1, 3, 5)],
    "full": [Q, K, V, EMPTY, RNG.integers(0, 2, (2, 3, 5)).astype(np.int32)],
    "values": [Q, K, random(2, 5, 4)], "crossed": [Q, random(2, 2, 5, 4), random(2, 2, 5, 4)],
    "crossed-bias": [Q, random(2, 2, 5, 4), random(2, 2, 5, 4), random(24)],
}  # fmt: skip
for name, inputs in MHA.items():
    case(f"MultiHeadAttention-{name}", "MultiHeadAttention", inputs, num_heads=2)
case("MultiHeadAttention-past", "MultiHeadAttention",
     [Q, Q * 0.5, Q * 0.25, EMPTY, EMPTY, EMPTY, random(2, 2, 4, 4), random(2, 2, 4, 4)], outputs=3, num_heads=2)  # fmt: skip
case("MultiHeadAttention-causal", "MultiHeadAttention", [Q, Q * 0.5, Q * 0.25], num_heads=2, unidirectional=1, scale=0.4)
case("MultiHeadAttention-causal-past", "MultiHeadAttention",
     [Q, Q * 0.5, Q * 0.25, EMPTY, EMPTY, EMPTY, random(2, 2, 4, 4), random(2, 2, 4, 4)], outputs=3, num_heads=2,
     unidirectional=1)  # fmt: skip

COS, SIN = random(16, 4), random(16, 4)
WIDE = [random(16, 8), random(16, 8)]
for interleaved in (0, 1):
    case(f"RotaryEmbedding-3d-{interleaved}", "RotaryEmbedding", [random(2, 3, 16), np.int64([2]), COS, SIN],
         interleaved=interleaved)  # fmt: skip
    case(f"RotaryEmbedding-4d-{interleaved}", "RotaryEmbedding",
         [random(2, 2, 3, 8), np.int64([[1, 2, 3], [7, 0, 5]]), COS, SIN], interleaved=interleaved)  # fmt: skip
case("RotaryEmbedding-part", "RotaryEmbedding", [random(2, 3, 32), np.int64([[1, 2, 3], [7, 0, 5]]), COS, SIN],
     num_heads=2, rotary_embedding_dim=8)  # fmt: skip


def group_query(batch, length, past, room=None, packed=False, rotary=False, lengths=None, interleaved=0, **more):
    heads, shared, size = 4, 2, 16
    query = random(batch, length, (heads + 2 * shared if packed else heads) * size)
    kv = [EMPTY] * 2 if packed else [random(batch, length, shared * size) for _ in range(2)]
    room = past if room is None else room
    cache = [random(batch, shared, room, size) for _ in range(2)]
    total = past + length
    lengths = np.int32([total - 1] * batch) if lengths is None else np.int32(lengths)
    inputs = [query, *kv, *cache, lengths, np.int32([total])]
    if rotary:
        inputs += WIDE
        more |= {"do_rotary": 1, "rotary_interleaved": interleaved}
    return inputs, {"outputs": 3, "num_heads": heads, "kv_num_heads": shared, **more}


for name, arguments in {
    "prompt": {"batch": 2, "length": 5, "past": 0}, "prompt-rotary": {"batch": 2, "length": 5, "past": 0, "rotary": True},
    "prompt-packed": {"batch": 1, "length": 4, "past": 0, "packed": True, "rotary": True},
    "decode": {"batch": 2, "length": 1, "past": 6, "rotary": True},
    "decode-packed": {"batch": 2, "length": 1, "past": 6, "packed": True, "rotary": True, "interleaved": 1},
    "several": {"batch": 1, "length": 3, "past": 4, "rotary": True},
    "window": {"batch": 2, "length": 1, "past": 6, "local_window_size": 3},
    "prompt-window": {"batch": 2, "length": 6, "past": 0, "local_window_size": 2},
    "softcap": {"batch": 2, "length": 1, "past": 6, "softcap": 2.0},
    "smooth": {"batch": 2, "length": 1, "past": 6, "smooth_softmax": 1},
    "prompt-smooth": {"batch": 1, "length": 4, "past": 0, "smooth_softmax": 1},
    "scale": {"batch": 1, "length": 4, "past": 0, "scale": 0.1},
}.items():  # fmt: skip
    inputs, more = group_query(**arguments)
    case(f"GroupQueryAttention-{name}", "GroupQueryAttention", inputs, **more)
inputs, more = group_query(2, 1, 6)
case("GroupQueryAttention-added", "GroupQueryAttention", [*inputs, EMPTY, EMPTY, EMPTY, random(1, 4, 1, 7)], **more)
case("GroupQueryAttention-sink", "GroupQueryAttention", [*inputs, EMPTY, EMPTY, EMPTY, EMPTY, random(4)], **more)

# Bytes
SCALE, OTHER, RESULT = f32(0.05), f32(0.03), f32(0.07)
for kind, make, zero in (("u8", u8, np.uint8(120)), ("i8", i8, np.int8(3))):
    for op in ("QLinearAdd", "QLinearMul"):
        case(f"{op}-{kind}", op, [make(3, 4), SCALE, zero, make(4), OTHER, zero, RESULT, zero], tolerance=1)
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        case(f"{op}-{kind}", op, [make(3, 4), SCALE, zero, f32(1 / 128), zero], tolerance=1, constant=[1, 2, 3, 4])
    case(f"QLinearAveragePool-{kind}", "QLinearAveragePool", [make(1, 2, 5, 5), SCALE, zero, RESULT, zero], tolerance=1,
         kernel_shape=[3, 3], pads=[1, 1, 1, 1])  # fmt: skip
    case(f"QLinearGlobalAveragePool-{kind}", "QLinearGlobalAveragePool", [make(1, 2, 5, 5), SCALE, zero, OTHER, zero],
         tolerance=1)  # fmt: skip
    case(f"QLinearConcat-{kind}", "QLinearConcat", [RESULT, zero, make(2, 3), SCALE, zero, make(2, 2), OTHER, zero],
         tolerance=1, axis=1)  # fmt: skip
    case(f"QLinearSoftmax-{kind}", "QLinearSoftmax", [make(3, 6), SCALE, zero, f32(1 / 256), zero], tolerance=1, axis=-1,
         opset=13, constant=[1, 2, 3, 4])  # fmt: skip
    case(f"QLinearWhere-{kind}", "QLinearWhere",
         [np.array([[True], [False]]), make(2, 3), SCALE, zero, make(2, 3), OTHER, zero, RESULT, zero],
         tolerance=1, constant=[2, 3, 5, 6, 7, 8])  # fmt: skip
    case(f"QGemm-{kind}", "QGemm", [make(3, 8), SCALE, zero, i8(5, 8), OTHER, np.int8(2),
         RNG.integers(-99, 99, 5, np.int32), f32(3), zero], tolerance=1, transB=1)  # fmt: skip
    case(f"DequantizeLinear-{kind}", "DequantizeLinear", [make(3, 4), SCALE, zero])
    case(f"QuantizeLinear-{kind}", "QuantizeLinear", [random(3, 4), SCALE, zero])
case("QLinearSoftmax-12", "QLinearSoftmax", [u8(2, 3, 6), SCALE, np.uint8(0), f32(1 / 256), np.uint8(0)], tolerance=1,
     axis=1, opset=12, constant=[1, 2, 3, 4])  # fmt: skip
case("QLinearAveragePool-last", "QLinearAveragePool",
     [u8(1, 5, 5, 2), SCALE, np.uint8(9), SCALE, np.uint8(9)], tolerance=1, kernel_shape=[2, 2], channels_last=1)  # fmt: skip
case("QGemm-floats", "QGemm", [u8(3, 8), SCALE, np.uint8(7), i8(8, 5), random(5) ** 2, np.zeros(5, np.int8)], alpha=0.5,
     constant=[3, 4, 5])  # fmt: skip
for kind, make, zero in (("u8", u8, np.uint8(120)), ("i8", i8, np.int8(3))):
    for given in (False, True):  # the filter
        # Features in groups, depthwise, one feature a pixel apart.
        for shape, group, more in (((6, 2, 3, 3), 2, {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
                                   ((5, 1, 3, 2), 5, {"pads": [1, 1, 1, 1], "dilations": [2, 1]}), ((4, 3, 1, 1), 1, {})):  # fmt: skip
            case(f"QLinearConv-last-{kind}-{group}{'-given' if given else ''}", "QLinearConv",
                 [make(2, 7, 6, shape[1] * group), SCALE, zero, i8(*shape), random(shape[0]) ** 2 * 0.01 + 0.001,
                  np.zeros(shape[0], np.int8), f32(0.2), zero, RNG.integers(-999, 999, shape[0], np.int32)],
                 tolerance=1, constant=[1, 2, *([] if given else [3]), 4, 5, 6, 7, 8],
                 channels_last=1, group=group, **more)  # fmt: skip
    for tag, more in (("plain", {"kernel_shape": [2, 3]}), ("ceil", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
                      ("pads", {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
                      ("same", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"})):  # fmt: skip
        case(f"NhwcMaxPool-{kind}-{tag}", "NhwcMaxPool", [make(2, 7, 8, 5)], **more)
    case(f"NhwcMaxPool-{kind}-1d", "NhwcMaxPool", [make(2, 7, 5)], kernel_shape=[3], pads=[1, 1])
for shapes in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 5)), ((4,), (4, 5))):
    case(f"MatMulInteger16-{len(shapes[0])}", "MatMulInteger16",
         [RNG.integers(-20000, 20000, s, np.int16) for s in shapes], tolerance=0)  # fmt: skip
for columns in (False, True):
    scale = random(5) ** 2 + 0.01 if columns else OTHER
    zero = i8(5) if columns else np.int8(4)
    tag = "columns" if columns else "one"
    case(f"DynamicQuantizeMatMul-{tag}", "DynamicQuantizeMatMul", [random(3, 8), i8(8, 5), scale, zero, random(5)],
         tolerance=2e-4)  # fmt: skip
    case(f"MatMulIntegerToFloat-{tag}", "MatMulIntegerToFloat",
         [u8(3, 8), i8(8, 5), SCALE, scale, np.uint8(99), zero, random(5)], tolerance=2e-4, constant=[1])  # fmt: skip
case("QAttention", "QAttention", [u8(2, 3, 8), i8(8, 24), random(24), f32(0.02), f32(0.01), np.int32([2, 3]),
     np.uint8(128), np.int8(0)], num_heads=2, tolerance=1e-4)  # fmt: skip
case("QAttention-past", "QAttention", [u8(2, 3, 8), i8(8, 24), random(24), f32(0.02), f32(0.01), EMPTY,
     np.uint8(128), np.int8(0), random(2, 2, 2, 2, 4)], num_heads=2, tolerance=1e-4, outputs=2, unidirectional=1)  # fmt: skip


def packed_weights(bits, block, rows, depth, zero):
    blocks, per = -(-depth // block), 8 // bits
    inputs = [random(2, 3, depth), u8(rows, blocks, block // per), random(rows * blocks, scale=0.02)]
    if zero == "packed":
        inputs.append(u8(rows * -(-blocks // per)))
    if zero == "floats":
        inputs.append(random(rows * blocks, scale=4))
    return inputs, {"constant": [1, 2, 3], "bits": bits, "block_size": block, "N": rows, "K": depth}


for bits in (4, 8):
    for block, depth in ((16, 32), (32, 96), (32, 80)):
        for zero in ("none", "packed"):
            inputs, more = packed_weights(bits, block, 6, depth, zero)
            case(f"MatMulNBits-{bits}-{block}-{depth}-{zero}", "MatMulNBits", inputs, tolerance=2e-4, **more)
inputs, more = packed_weights(4, 32, 6, 64, "floats")
case("MatMulNBits-floats", "MatMulNBits", inputs, tolerance=2e-4, **more)
inputs, more = packed_weights(4, 32, 6, 64, "none")
case("MatMulNBits-bias", "MatMulNBits", [*inputs, EMPTY, EMPTY, random(6)], tolerance=2e-4, **more)
case("MatMulNBits-given", "MatMulNBits", inputs, tolerance=2e-4, **{**more, "constant": []})
for zero in (EMPTY, u8(9, 1)):
    case(f"GatherBlockQuantized-{'none' if zero is EMPTY else 'packed'}", "GatherBlockQuantized",
         [u8(9, 16), np.int64([[1, 8], [0, 3]]), random(9, 2), zero], constant=[0, 2, 3], block_size=16)  # fmt: skip

# Others
case("ExpandDims", "ExpandDims", [X, np.int32(-1)], constant=[1])
case("Inverse", "Inverse", [random(3, 5, 5)], tolerance=2e-4)
case("Trilu", "Trilu", [X, np.int64(1)], upper=0)
case("GridSample", "GridSample", [random(1, 2, 4, 5), RNG.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(np.float32)],
     align_corners=1, padding_mode="border")  # fmt: skip
case("NGramRepeatBlock", "NGramRepeatBlock", [np.int64([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]]), random(2, 6)], ngram_size=3)
case("Unique", "Unique", [np.float32([3, 1, 3, 2, 1])], outputs=3)
case("Pad", "Pad", [random(2, 3), np.int64([0, 1, 2, 0]), f32(2)], constant=[1])
for number, values in ((np.float32, (1.5, 9, 2)), (np.float64, (3, -1, -0.75)), (np.int16, (7, 1, -2)), (np.int32, (2, 9, 3)),
                       (np.int64, (5, 5, 1))):  # fmt: skip
    for given in (False, True):
        case(f"Range-{number.__name__}{'-given' if given else ''}", "Range", [number(v) for v in values],
             constant=[] if given else [0, 1, 2])  # fmt: skip
case("Range-by-one", "Range", [np.int64(2), np.int64(6)], constant=[0, 1])
case("Range-by-one-given", "Range", [f32(2.5), f32(6)])
case("GatherND", "GatherND", [random(3, 4), np.int64([[1, 2], [0, 3]])])


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name):
    op, inputs, more = CASES[name]
    if PEER_SATURATES and op in ("QLinearConv", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention"):
        pytest.skip("without VNNI the sums of ONNX Runtime saturate")
    compare(op, inputs, **more)


def both(rank, *parts):
    return np.concatenate([np.asarray(p, np.float32) for p in parts], axis=rank)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def group_norm(x, gamma, beta, groups, swish):
    n, *spatial, c = x.shape
    split = x.reshape(n, -1, groups, c // groups).astype(np.float64)
    y = (split - split.mean((1, 3), keepdims=True)) / np.sqrt(split.var((1, 3), keepdims=True) + 1e-5)
    y = y.reshape(x.shape) * gamma + beta
    return y / (1 + np.exp(-y)) if swish else y


def buckets(queries, keys, count, most, bidirectional):
    """T5's, as its authors wrote it."""
    relative = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    base = 0
    if bidirectional:
        count //= 2
        base = (relative > 0) * count
        relative = np.abs(relative)
    else:
        relative = -np.minimum(relative, 0)
    exact = count // 2
    far = exact + (np.log(np.maximum(relative, 1) / exact) / math.log(most / exact) * (count - exact)).astype(int)
    return base + np.where(relative < exact, relative, np.minimum(far, count - 1))


def convolved(x, w, group, step):
    """[N, H, W, C] by [F, C / group, kh, kw], a border of one."""
    x = np.pad(x.astype(np.float64), [(0, 0), (1, 1), (1, 1), (0, 0)])
    kh, kw = w.shape[2:]
    views = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (1, 2))[:, ::step, ::step]
    views = views.reshape(*views.shape[:3], group, -1, kh, kw)
    return np.einsum("nhwgcij,gfcij->nhwgf", views, w.reshape(group, -1, *w.shape[1:])).reshape(*views.shape[:3], -1)


def steps_of(floats, scale, zero):
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(floats / scale) + zero, info.min, info.max).astype(zero.dtype)


def mean_of(x, scale, zero, new_scale, new_zero, axes, keep):
    return steps_of(((x.astype(np.float64) - zero) * scale).mean(axes, keepdims=keep), new_scale, new_zero)


IMAGE, GAMMA, BETA = random(2, 3, 5, 8), random(8), random(8)
SIGNAL, TABLE = random(2, 3, 12), random(8, 2)
PAIRS = [random(2, 4, 2), random(2, 4, 2)]


def complex_of(x):
    return x[..., 0] + 1j * x[..., 1]


def pairs_of(x):
    return np.stack([x.real, x.imag], -1)


FILTERS, SUM = random(6, 4, 3, 3), random(2, 2, 3, 6)
FACTORS = [random(2, 4, 3), random(2, 5, 4)]
ROWS = [random(4, 2, 3), random(3, 2, 5)]
SWAPPED = 0.5 * FACTORS[0].swapaxes(1, 2) @ FACTORS[1].swapaxes(1, 2)
BYTES, SIGNED = u8(2, 3, 4, 7), i8(2, 3, 4, 7)
ALONE = {
    "BiasAdd": ([IMAGE, GAMMA, IMAGE * 2], {}, lambda: IMAGE + GAMMA + IMAGE * 2),
    "BiasSplitGelu": ([IMAGE, GAMMA], {}, lambda: (IMAGE + GAMMA)[..., :4] * gelu((IMAGE + GAMMA)[..., 4:])),
    "GroupNorm": ([IMAGE, GAMMA, BETA], {"groups": 4, "activation": 0}, lambda: group_norm(IMAGE, GAMMA, BETA, 4, False)),
    "SkipGroupNorm": ([IMAGE, GAMMA, BETA, IMAGE[:, 0, 0], BETA], {"groups": 2, "activation": 1},
                      lambda: group_norm(IMAGE + IMAGE[:, :1, :1] + BETA, GAMMA, BETA, 2, True)),
    "GemmFastGelu": ([SIGNAL, random(12, 4) * 0 + 0.1, GAMMA[:4]], {}, None),
    "Rfft": ([SIGNAL], {"signal_ndim": 1}, lambda: pairs_of(np.fft.rfft(SIGNAL))),
    "Irfft": ([pairs_of(np.fft.rfft(SIGNAL)).astype(np.float32)], {"signal_ndim": 1}, lambda: SIGNAL),
    "ComplexMul": (PAIRS, {}, lambda: pairs_of(complex_of(PAIRS[0]) * complex_of(PAIRS[1]))),
    "ComplexMulConj": (PAIRS, {}, lambda: pairs_of(complex_of(PAIRS[0]) * complex_of(PAIRS[1]).conj())),
    "NhwcFusedConv": ([IMAGE, FILTERS, GAMMA[:6], SUM],
                      {"group": 2, "pads": [1] * 4, "strides": [2, 2], "activation": "LeakyRelu", "activation_params": [0.3]},
                      lambda: (lambda y: np.where(y > 0, y, 0.3 * y))(convolved(IMAGE, FILTERS, 2, 2) + GAMMA[:6] + SUM)),
    "NhwcFusedConv-plain": ([IMAGE, random(3, 8, 3, 3) * 0 + 0.25], {"pads": [1] * 4},
                            lambda: convolved(IMAGE, np.full((3, 8, 3, 3), 0.25), 1, 1)),
    "NhwcFusedConv-depthwise": ([IMAGE, FILTERS.reshape(-1, 1, 3, 3)[:8], BETA], {"group": 8, "pads": [1] * 4, "activation": "Relu"},
                                lambda: np.maximum(convolved(IMAGE, FILTERS.reshape(-1, 1, 3, 3)[:8], 8, 1) + BETA, 0)),
    "FusedMatMulActivation": (FACTORS, {"transA": 1, "transB": 1, "alpha": 0.5, "activation": "Relu"},
                              lambda: np.maximum(SWAPPED, 0)),
    "FusedMatMulActivation-parameters": (
        FACTORS, {"transA": 1, "transB": 1, "alpha": 0.5, "activation": "HardSigmoid", "activation_alpha": 0.3,
                  "activation_beta": 0.4}, lambda: np.clip(0.3 * SWAPPED + 0.4, 0, 1)),
    "FusedMatMulActivation-batch": (ROWS, {"transBatchA": 1, "transBatchB": 1, "activation": "Tanh"},
                                    lambda: np.tanh(ROWS[0].swapaxes(0, 1) @ ROWS[1].swapaxes(0, 1))),
    "BiasDropout": ([IMAGE, GAMMA, IMAGE * 2, f32(0.5), np.bool_(False)], {}, lambda: IMAGE + GAMMA + IMAGE * 2),
    "BiasDropout-plain": ([IMAGE, GAMMA], {}, lambda: IMAGE + GAMMA),
    "QLinearReduceMean": ([BYTES, f32(0.05), np.uint8(120), f32(0.02), np.uint8(9)], {"axes": [1, -1], "keepdims": 0},
                          lambda: mean_of(BYTES, 0.05, 120, 0.02, np.uint8(9), (1, -1), False)),
    "QLinearReduceMean-all": ([SIGNED, f32(0.05), np.int8(3), f32(0.002), np.int8(-20)], {},
                              lambda: mean_of(SIGNED, 0.05, 3, 0.002, np.int8(-20), None, True)),
    "QLinearReduceMean-no-zero": ([BYTES, f32(0.05), EMPTY, f32(0.06), EMPTY], {"axes": [2]},
                                  lambda: mean_of(BYTES, 0.05, 0, 0.06, np.uint8(0), 2, True)),
    "TorchEmbedding": ([TABLE, np.int64([[1, 7], [0, 2]])], {}, lambda: TABLE[[[1, 7], [0, 2]]]),
    "RelativePositionBias": ([TABLE, np.int64([6]), np.int64([9])], {"max_distance": 6, "is_bidirectional": 1},
                             lambda: TABLE[buckets(6, 9, 8, 6, True)].transpose(2, 0, 1)[None]),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_as_numpy(name):
    inputs, attributes, want = ALONE[name]
    if name == "GemmFastGelu":
        y = inputs[0] @ inputs[1] + inputs[2]
        want = lambda: 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))  # noqa: E731
    constant = {"RelativePositionBias": [1, 2], "BiasDropout": [3, 4]}.get(name, [])
    made, feed = built(name.split("-")[0], inputs, constant=constant, **attributes)
    if want().dtype.kind in "iu":
        made.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(want().dtype)
    check(made, [feed], 2e-5, lambda _: [want()])


def test_a_cache_of_any_length():
    """Sizes of the tokens, the past and the cache are symbols, as GenAI exports have them: the total is the mask's length."""
    runtime = pytest.importorskip("onnxruntime")
    nodes = [
        node("Shape", ["mask"], ["shape"]), node("Gather", ["shape", "one"], ["total64"]),
        node("Cast", ["total64"], ["total"], to=TensorProto.INT32),
        node("ReduceSum", ["mask", "axis"], ["sum"], keepdims=0), node("Sub", ["sum", "unit"], ["last64"]),
        node("Cast", ["last64"], ["last"], to=TensorProto.INT32),
        node("GroupQueryAttention", ["q", "k", "v", "pk", "pv", "last", "total", "cos", "sin"], ["y", "nk", "nv"],
             domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1),
    ]  # fmt: skip
    cache = ["b", 2, "past", 16]
    made = model(nodes, {"q": ["b", "s", 64], "k": ["b", "s", 32], "v": ["b", "s", 32], "pk": cache, "pv": cache,
                         "mask": (TensorProto.INT64, ["b", "all"])}, ("y", "nk", "nv"),
                 {"one": np.int64(1), "axis": np.int64([1]), "unit": np.int64(1), "cos": WIDE[0], "sin": WIDE[1]},
                 17, [("com.microsoft", 1)])  # fmt: skip
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    module = knapper.compile(made)
    # A prompt, its next token, some tokens more; then a cache that is larger than what it holds.
    for batch, length, past, room in ((2, 5, 0, 0), (2, 1, 5, 5), (1, 3, 6, 6), (2, 1, 4, 12)):
        feed = {"q": random(batch, length, 64), "k": random(batch, length, 32), "v": random(batch, length, 32),
                "pk": random(batch, 2, room, 16), "pv": random(batch, 2, room, 16),
                "mask": np.ones((batch, past + length), np.int64)}  # fmt: skip
        want = session.run(None, feed)
        got = [np.asarray(x) for x in module(**feed)]
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)
        for mine, theirs in zip(got[1:], want[1:]):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine[:, :, : past + length], theirs[:, :, : past + length], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op, inputs, attributes, said", [
    ("MatMulNBits", [random(2, 32), u8(4, 1, 16), random(4), EMPTY, np.arange(32, dtype=np.int32)],
     {"N": 4, "K": 32, "block_size": 32}, "g_idx"),
    ("MatMulNBits", [random(2, 32), u8(4, 1, 16), random(4)], {"N": 4, "K": 32, "block_size": 32, "bits": 3}, "3 bits"),
    ("FusedGemm", [random(2, 3), random(3, 2)], {"activation": "Sine"}, "activation 'Sine'"),
    ("Attention", [X, W, B, np.ones((2, 1, 3, 3), np.int32)], {"num_heads": 2}, "a mask of rank 4"),
    ("Attention", [X, W, B], {"num_heads": 2, "do_rotary": 1}, "do_rotary"),
    ("Attention", [X, W, B], {"num_heads": 5}, "5 heads"),
    ("GroupQueryAttention", [random(1, 2, 32)], {"num_heads": 2, "kv_num_heads": 1}, "lacks input 5"),
    ("Inverse", [random(20, 20)], {}, "more than 16 rows"),
    ("Rfft", [SIGNAL], {"signal_ndim": 2}, "several dims"),
    ("BeamSearch", [X], {}, "no such operator"),
])  # fmt: skip
def test_refusals(op, inputs, attributes, said):
    made, _ = built(op, inputs, **attributes)
    with pytest.raises(knapper.UserError, match=said):
        knapper.compile(made)
