"""Rules of trees and tables of ai.onnx.ml, of what finds and samples in images, of windows and spectra."""

from __future__ import annotations

import numpy as np
from graph_builder import ONE, Builder, Dim, Skip
from onnx import helper
from rules_reduce import spatial

ML = "ai.onnx.ml"


def rows(b: Builder):
    """f32[n, features], features a number."""
    if b.special:
        raise Skip
    return b.floating(2, test=lambda v: v.dtype == "f32" and v.dims[1].static and v.dims[1].least > 0)


def forest(b: Builder, features: int, leaf: str, targets: int) -> dict:
    """The attributes of some random trees; `leaf`: how the attributes of leaves are called."""
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    leaves = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(b.integer(1, 4)):
        count = [0]

        def grow(depth, tree=tree, count=count) -> int:
            me = count[0]
            count[0] += 1
            at = len(nodes["nodeids"])
            for k, v in (("treeids", tree), ("nodeids", me), ("featureids", 0), ("values", 0.0), ("modes", "LEAF"),
                         ("truenodeids", 0), ("falsenodeids", 0)):  # fmt: skip
                nodes[k].append(v)
            if depth and b.maybe(0.8):
                nodes["featureids"][at] = b.integer(0, features - 1)
                nodes["values"][at] = round(b.random.uniform(-1, 1), 2)
                nodes["modes"][at] = b.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"])
                nodes["truenodeids"][at] = grow(depth - 1)
                nodes["falsenodeids"][at] = grow(depth - 1)
            else:
                for target in range(targets):
                    if b.maybe(0.8):
                        for k, v in (("treeids", tree), ("nodeids", me), ("ids", target),
                                     ("weights", b.random.randint(-64, 64) / 64)):  # exact sums: their ties too
                            leaves[k].append(v)
            return me

        grow(b.integer(1, 4))
    if not leaves["ids"]:
        raise Skip
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"{leaf}_{k}": v for k, v in leaves.items()}


def tree_regressor(b: Builder):
    x, targets = rows(b), b.integer(1, 3)
    b.node("TreeEnsembleRegressor", [x], "f32", [x.dims[0], Dim.of(targets)], domain=ML, n_targets=targets,
           aggregate_function=b.choice(["SUM", "AVERAGE", "MIN", "MAX"]),
           attributes=forest(b, x.dims[1].least, "target", targets))  # fmt: skip


def tree_classifier(b: Builder):
    x, classes = rows(b), b.integer(3, 4)
    b.several("TreeEnsembleClassifier", [x], [("i64", [x.dims[0]], 9), ("f32", [x.dims[0], Dim.of(classes)], 4)],
              domain=ML, classlabels_int64s=[7, 1, 5, 3][:classes], post_transform=b.choice(["NONE", "SOFTMAX", "LOGISTIC"]),
              attributes=forest(b, x.dims[1].least, "class", classes))  # fmt: skip


def linear_classifier(b: Builder):
    x, classes = rows(b), b.integer(3, 5)
    n = x.dims[1].least
    b.several("LinearClassifier", [x], [("i64", [x.dims[0]], 9), ("f32", [x.dims[0], Dim.of(classes)], 50)], domain=ML,
              classlabels_ints=list(range(classes)), coefficients=[float(v) for v in b.data("f32", (n * classes,))],
              intercepts=[float(v) for v in b.data("f32", (classes,))],
              post_transform=b.choice(["NONE", "SOFTMAX", "LOGISTIC"]))  # fmt: skip


def encode(b: Builder):
    kind = b.integer(0, 3)
    if kind == 0:
        x = b.whole(dtypes=("i64",))
        keys = sorted(b.random.sample(range(-5, 12), 4))
        b.node("LabelEncoder", [x], "f32", x.dims, domain=ML, keys_int64s=keys, values_floats=[0.5, 1.5, -2.0, 3.0],
               default_float=-1.0)  # fmt: skip
    elif kind == 1:
        x = b.whole(dtypes=("i64",))
        b.node("LabelEncoder", [x], "i64", x.dims, domain=ML, keys_int64s=[3, 1, -2], values_int64s=[10, 20, 30],
               default_int64=-7)  # fmt: skip
    elif kind == 2:
        x = b.whole(least_rank=1, dtypes=("i64", "i32"), test=lambda v: v.rank <= 3)
        b.node("OneHotEncoder", [x], "f32", [*x.dims, Dim.of(3)], size=1, domain=ML, cats_int64s=[1, 4, -2], zeros=1)
    else:
        x = b.floating(2, test=lambda v: v.dtype == "f32" and v.dims[1].static and v.dims[1].least > 0)
        picks = [b.integer(0, x.dims[1].least - 1) for _ in range(b.integer(1, 4))]
        b.node("ArrayFeatureExtractor", [x, b.ints64(*picks)], "f32", [x.dims[0], Dim.of(len(picks))], domain=ML,
               size=x.size)  # fmt: skip


def features(b: Builder):
    x = rows(b)
    y = b.fresh("f32", [x.dims[0], Dim.of(b.integer(1, 4))])
    sizes = [x.dims[1].least, y.dims[1].least]
    b.node("FeatureVectorizer", [x, y], "f32", [x.dims[0], Dim.of(sum(sizes))], domain=ML, inputdimensions=sizes)


def tfidf(b: Builder):
    x = b.fresh(b.choice(["i64", "i32"]), [b.choice([Dim.of(2), Dim.of(1)]), Dim.of(b.integer(3, 12))], low=0, high=5,
                constant=False)  # fmt: skip
    b.node("TfIdfVectorizer", [x], "f32", [x.dims[0], Dim.of(5)], mode=b.choice(["TF", "IDF", "TFIDF"]),
           min_gram_length=b.integer(1, 2), max_gram_length=2, max_skip_count=b.integer(0, 2), ngram_counts=[0, 3],
           ngram_indexes=[0, 1, 2, 3, 4], pool_int64s=[1, 2, 4, 1, 2, 3, 3], weights=[1.0, 0.5, 2.0, 1.5, 0.25])  # fmt: skip


def suppression(b: Builder):
    """Boxes that do not overlap too much, as a sum of their indices."""
    if b.special:
        raise Skip
    n, boxes, classes = b.integer(1, 2), b.integer(1, 9), b.integer(1, 3)
    corner = b.arrays.uniform(0, 4, (n, boxes, 2))
    made = np.concatenate([corner, corner + b.arrays.uniform(0.5, 3, corner.shape)], 2).astype(np.float32)
    x = b.fresh("f32", [Dim.of(n), Dim.of(boxes), Dim.of(4)], constant=False)
    for feed in b.feeds:
        feed[x.name] = made
    scores = b.fresh("f32", [Dim.of(n), Dim.of(classes), Dim.of(boxes)], low=0, high=1, constant=False)
    y = b.unlisted("NonMaxSuppression", [x, scores, b.array(np.int64([b.integer(0, 6)])), b.array(np.float32([0.4])),
                                         b.array(np.float32([b.choice([0.0, 0.3])]))],
                   center_point_box=b.integer(0, 1))  # fmt: skip
    b.node("ReduceSum", [y, b.ints64(0)], "i64", [Dim.of(3)], size=100, keepdims=0)


def roi_align(b: Builder):
    if b.special:
        raise Skip
    x = spatial(b, 4, lambda v: v.dtype == "f32" and all(d.least > 0 for d in v.dims))
    if x.dims[0].least < 1:
        raise Skip
    n = Dim.of(b.integer(1, 3))
    corner = b.arrays.uniform(-1, 4, (n.least, 2))
    rois = b.array(np.concatenate([corner, corner + b.arrays.uniform(0.5, 5, corner.shape)], 1).astype(np.float32))
    index = b.fresh("i64", [n], low=0, high=x.dims[0].least, constant=True)
    h, w = b.integer(1, 4), b.integer(1, 4)
    b.node("RoiAlign", [x, rois, index], "f32", [n, x.dims[1], Dim.of(h), Dim.of(w)], size=x.size,
           mode=b.choice(["avg", "max"]), output_height=h, output_width=w, sampling_ratio=b.integer(0, 3),
           spatial_scale=b.choice([1.0, 0.5]),
           coordinate_transformation_mode=b.choice(["half_pixel", "output_half_pixel"]))  # fmt: skip


def affine_grid(b: Builder):
    n, size = b.integer(1, 2), [b.integer(1, 5) for _ in range(b.choice([2, 3]))]
    k = len(size)
    theta = b.fresh("f32", [Dim.of(n), Dim.of(k), Dim.of(k + 1)], constant=False)
    b.node("AffineGrid", [theta, b.ints64(n, 3, *size)], "f32", [Dim.of(n), *map(Dim.of, size), Dim.of(k)], size=12,
           align_corners=b.integer(0, 1))  # fmt: skip


def deform_conv(b: Builder):
    if b.special:
        raise Skip
    c, out, k, h, w = b.choice([1, 2, 4]), b.choice([1, 3]), b.choice([1, 2, 3]), b.integer(3, 6), b.integer(3, 6)
    n = b.choice([ONE, Dim.of(2)])
    oh, ow = Dim.of(h - k + 1), Dim.of(w - k + 1)
    x = b.fresh("f32", [n, Dim.of(c), Dim.of(h), Dim.of(w)], constant=False)
    inputs = [x, b.fresh("f32", [Dim.of(out), Dim.of(c), Dim.of(k), Dim.of(k)], constant=True),
              b.fresh("f32", [n, Dim.of(2 * k * k), oh, ow], low=-1.4, high=1.4, constant=False)]  # fmt: skip
    if b.maybe(0.5):
        inputs.append(b.fresh("f32", [Dim.of(out)]))
        if b.maybe(0.5):
            inputs.append(b.fresh("f32", [n, Dim.of(k * k), oh, ow], low=0, high=1))
    b.node("DeformConv", inputs, "f32", [n, Dim.of(out), oh, ow], size=50, kernel_shape=[k, k])


def det(b: Builder):
    n = Dim.of(b.integer(1, 4))
    x = b.fresh(b.choice(["f32", "f64"]), [*b.shape(b.integer(0, 2)), n, n], constant=False, special=False)
    b.node("Det", [x], x.dtype, x.dims[:-2], size=30)


def stft(b: Builder):
    if b.special:
        raise Skip
    frame, step = b.choice([4, 5, 8]), b.choice([1, 2, 3])
    length = b.integer(frame, 30)
    batch = b.choice([ONE, Dim.of(2), *b.symbols])
    x = b.fresh("f32", [batch, Dim.of(length), ONE], constant=False)
    window = b.fresh("f32", [Dim.of(frame)], constant=True) if b.maybe(0.5) else b.node(
        b.choice(["HannWindow", "HammingWindow", "BlackmanWindow"]), [b.array(np.int64(frame))], "f32", [Dim.of(frame)],
        size=1, periodic=b.integer(0, 1))  # fmt: skip
    sided = b.integer(0, 1)
    dims = [batch, Dim.of((length - frame) // step + 1), Dim.of(frame // 2 + 1 if sided else frame), Dim.of(2)]
    b.node("STFT", [x, b.array(np.int64(step)), window, b.array(np.int64(frame))], "f32", dims, size=30, onesided=sided)


def mel(b: Builder):
    bins, length = b.choice([3, 8]), b.choice([16, 33])
    b.node("MelWeightMatrix", [b.array(np.int64(bins)), b.array(np.int64(length)), b.array(np.int64(8000)),
                               b.array(np.float32(100)), b.array(np.float32(3500))], "f32",
           [Dim.of(length // 2 + 1), Dim.of(bins)], size=1)  # fmt: skip


def unique(b: Builder):
    """Different values, how many of each, and where they are."""
    x = b.whole(least_rank=1, dtypes=("i8", "i32", "i64")) if b.maybe(0.6) else b.floating(least_rank=1)
    if b.special or any(0 in d.sizes for d in x.dims):
        raise Skip
    names = [f"u{len(b.nodes)}{k}" for k in "yfic"]
    b.nodes.append(helper.make_node("Unique", [x.name], names, name=f"n{len(b.nodes)}", sorted=b.integer(0, 1)))
    b.used.add(x.name)
    kind = b.integer(0, 2)
    b.node("ReduceSum", [names[1 + kind], b.ints64(0)], "i64", [], size=1e4, keepdims=0)
    b.node("ReduceMax", [names[0], b.ints64(0)], x.dtype, [], size=x.size, keepdims=0)


def resize_more(b: Builder):
    """To sizes, along some axes, with antialiasing, outside weights left out, a part of the image."""
    x = spatial(b, 4, lambda v: v.dtype == "f32" and all(d.static for d in v.dims[2:]))
    if b.special:
        raise Skip
    mode = b.choice(["nearest", "linear", "cubic"])
    how = b.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
                    "tf_crop_and_resize"])  # fmt: skip
    more = {"mode": mode, "coordinate_transformation_mode": how}
    sizes = [b.integer(1, 9) for _ in range(2)]
    if mode == "nearest":
        more["nearest_mode"] = b.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    elif how != "tf_crop_and_resize" and b.maybe(0.4):
        more["antialias"] = 1
    if mode == "cubic" and how != "tf_crop_and_resize":
        more["exclude_outside"] = b.integer(0, 1)
        more["cubic_coeff_a"] = b.choice([-0.75, -0.5])
    roi = ""
    if how == "tf_crop_and_resize":
        roi = b.array(np.float32([0.1, 0.2, 0.8, 1.1]))
        more["extrapolation_value"] = 2.5
    b.node("Resize", [x, roi, "", b.ints64(*sizes)], "f32", [*x.dims[:2], *map(Dim.of, sizes)], size=2 * x.size + 3,
           axes=[2, 3], **more)  # fmt: skip


RULES = [
    (tree_regressor, 1), (tree_classifier, 1), (linear_classifier, 1), (encode, 1), (features, 1), (tfidf, 1),
    (suppression, 1), (roi_align, 1), (affine_grid, 1), (deform_conv, 1), (det, 1), (stft, 1), (mel, 1), (unique, 1),
    (resize_more, 1),
]  # fmt: skip
