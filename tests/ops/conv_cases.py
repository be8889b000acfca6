"""Convolutions and pools."""

import math

from case_list import case, In, INTS, np_, ROUNDING, stored, T, wide
from matmul_cases import MATMUL


def np_conv(x, w, strides, dilations, low, high, inputs, groups=1, last=False):
    np = np_()
    x, w = x.astype("f8"), w.astype("f8")
    if last:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, (-1, -2), (0, 1))
    rank = len(strides)
    spread = np.zeros(x.shape[:2] + tuple((n - 1) * d + 1 for n, d in zip(x.shape[2:], inputs)))
    spread[(slice(None),) * 2 + tuple(slice(None, None, d) for d in inputs)] = x
    x = np.pad(spread, [(0, 0), (0, 0)] + [(max(l, 0), max(h, 0)) for l, h in zip(low, high)])
    # A negative border cuts.
    x = x[(slice(None),) * 2 + tuple(slice(max(-l, 0), min(h, 0) or None) for l, h in zip(low, high))]
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilations, strides)]
    x = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    f = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    y = np.zeros((x.shape[0], groups, f.shape[1], *out))
    for at in np.ndindex(*w.shape[2:]):
        part = x[(...,) + tuple(slice(i * d, i * d + (n - 1) * s + 1, s)
                                for i, d, n, s in zip(at, dilations, out, strides))]
        y += np.einsum("ngc...,gfc->ngf...", part, f[(...,) + at])
    y = y.reshape(x.shape[0], w.shape[0], *out)
    return np.moveaxis(y, 1, -1) if last else y


def np_pool(x, kind, window, strides, dilations, low, high, count_padding=False, last=False):
    np = np_()
    x = x.astype("f8") if x.dtype.kind == "f" else x
    if last:
        x = np.moveaxis(x, -1, 1)
    empty = (-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min) if kind == "max" else 0
    pads = [(0, 0), (0, 0)] + list(zip(low, high))
    inside = np.pad(np.ones(x.shape), pads, constant_values=1 if count_padding else 0)
    x = np.pad(x, pads, constant_values=empty)
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], window, dilations, strides)]
    take = lambda a, at: a[(...,) + tuple(slice(i * d, i * d + (n - 1) * s + 1, s)
                                          for i, d, n, s in zip(at, dilations, out, strides))]
    parts = [take(x, at) for at in np.ndindex(*window)]
    y = np.max(parts, 0) if kind == "max" else np.sum(parts, 0)
    if kind == "average":
        y = y / np.sum([take(inside, at) for at in np.ndindex(*window)], 0)
    return np.moveaxis(y, 1, -1) if last else y


def conv(name, dtype, x, w, result, strides, dilations=None, low=None, high=None, inputs=None, attributes="",
         sizes=({},), speed=None):
    rank = len(strides)
    groups = int(attributes.split("groups = ")[1].split(" ")[0]) if "groups" in attributes else 1
    pads = lambda p: "[" + ", ".join(f"#ts.dim<{v}>" for v in (p or [0] * rank)) + "]"
    case(f"conv {name} {dtype}", [In("x", x), In("w", w)],
         f"%r = ts.conv %x, %w strides {strides} dilations {dilations or [1] * rank} "
         f"input_dilations {inputs or [1] * rank} low {pads(low)} high {pads(high)} {attributes} : {x}, {w}",
         result, sizes,
         lambda x, w: np_conv(x, w, strides, dilations or [1] * rank, low or [0] * rank, high or [0] * rank,
                              inputs or [1] * rank, groups, last="channels_last" in attributes),
         MATMUL[dtype], speed)


for dtype in ["f32", "bf16"]:
    t = lambda *dims: T(dtype, *dims)
    N = [dict(n=1), dict(n=3)]
    conv("3x3 same", dtype, t("n", 5, 9, 11), t(8, 5, 3, 3), t("n", 8, 9, 11), [1, 1], None, [1, 1], [1, 1], sizes=N)
    conv("1x1", dtype, t("n", 16, 7, 7), t(24, 16, 1, 1), t("n", 24, 7, 7), [1, 1], sizes=N)
    conv("stride 2", dtype, t("n", 3, 16, 15), t(8, 3, 7, 7), t("n", 8, 8, 8), [2, 2], None, [3, 3], [3, 3], sizes=N)
    conv("depthwise", dtype, t("n", 12, 9, 9), t(12, 1, 3, 3), t("n", 12, 9, 9), [1, 1], None, [1, 1], [1, 1],
         attributes="{groups = 12 : i64}", sizes=N)
    conv("depthwise stride 2", dtype, t("n", 20, 9, 9), t(20, 1, 3, 3), t("n", 20, 5, 5), [2, 2], None, [1, 1],
         [1, 1], attributes="{groups = 20 : i64}", sizes=N)
    # So many images as are expected give a thread of a GPU several rows; the last run is shorter.
    conv("depthwise rows", dtype, t("n", 40, 67, 5), t(40, 1, 5, 5), t("n", 40, 67, 5), [1, 1], None, [2, 2], [2, 2],
         attributes="{groups = 40 : i64}", sizes=N)
    conv("depthwise rows strided", dtype, t("n", 40, 67, 7), t(40, 1, 3, 3), t("n", 40, 34, 7), [2, 1], [1, 2],
         [1, 2], [1, 2], attributes="{groups = 40 : i64}", sizes=N)
    # Images so narrow that most windows meet an edge; of one column most taps never are inside.
    conv("depthwise of one column", dtype, t("n", 4, 97, 1), t(4, 1, 5, 5), t("n", 4, 97, 1), [1, 1], None, [2, 2], [2, 2],
         attributes="{groups = 4 : i64}", sizes=N)
    conv("depthwise narrow", dtype, t("n", 3, 70, 4), t(3, 1, 7, 7), t("n", 3, 70, 4), [1, 1], None, [3, 3], [3, 3],
         attributes="{groups = 3 : i64}", sizes=N)
    conv("depthwise narrow dilated", dtype, t("n", 3, 41, 7), t(3, 1, 3, 3), t("n", 3, 21, 5), [2, 2], [1, 3], [1, 4], [1, 4],
         attributes="{groups = 3 : i64}", sizes=N)
    conv("depthwise narrow of any height", dtype, t(2, 3, "h", 5), t(3, 1, 3, 3), t(2, 3, "h", 5), [1, 1], None, [1, 1], [1, 1],
         attributes="{groups = 3 : i64}", sizes=[dict(h=1), dict(h=2), dict(h=66)])
    conv("groups", dtype, t("n", 8, 6, 6), t(12, 4, 3, 3), t("n", 12, 4, 4), [1, 1],
         attributes="{groups = 2 : i64}", sizes=N)
    # Matmuls of each group's channels with its pixels, and what is too small for them.
    point = lambda name, n, image, c, f, groups, sizes=N: conv(
        f"groups of one pixel {name}", dtype, t(n, c, *image), t(f, c // groups, *[1] * len(image)), t(n, f, *image),
        [1] * len(image), attributes=f"{{groups = {groups} : i64}}", sizes=sizes)
    point("odd", "n", [7, 9], 15, 21, 3)
    point("wide", 1, [19, 17], 14, 32, 2)
    point("one feature each", "n", [6, 11], 10, 5, 5)
    point("few pixels", "n", [5, 6], 8, 12, 2)
    point("least pixels", "n", [4, 8], 8, 12, 2)
    point("large filter", "n", [5, 7], 64, 80, 2)
    point("rows", 2, [33], 12, 8, 4, sizes=({},))
    point("volume", "n", [3, 4, 5], 6, 8, 2)
    point("any width", 2, [5, "h"], 6, 9, 3, sizes=[dict(h=0), dict(h=1), dict(h=17), dict(h=100)])
    conv("dilated", dtype, t("n", 4, 12, 12), t(6, 4, 3, 3), t("n", 6, 8, 8), [1, 1], [2, 2], sizes=N)
    conv("transposed", dtype, t("n", 4, 5, 5), t(6, 4, 3, 3), t("n", 6, 11, 11), [1, 1], None, [2, 2], [2, 2],
         [2, 2], sizes=N)
    conv("uneven pads", dtype, t("n", 4, 6, 7), t(5, 4, 2, 3), t("n", 5, 6, 7), [1, 1], None, [1, 0], [0, 2], sizes=N)
    conv("channels last", dtype, t("n", 9, 11, 5), t(3, 3, 5, 8), t("n", 9, 11, 8), [1, 1], None, [1, 1], [1, 1],
         attributes="{channels_last = true}", sizes=N)
    conv("channels last uneven", dtype, t("n", 6, 7, 4), t(2, 3, 4, 5), t("n", 6, 7, 5), [1, 1], None, [1, 0], [0, 2],
         attributes="{channels_last = true}", sizes=N)
    # Zeros that a model puts around the image itself, uneven as for a stride of two, beside a border.
    case(f"conv padded image {dtype}", [In("x", t("n", 4, 8, 9)), In("w", t(6, 4, 3, 3))],
         f"%z = ts.constant dense<0.0> : tensor<{dtype}>\n"
         f"  %p = ts.pad %x value %z : tensor<{dtype}> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<2>] "
         f"high [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] : {t('n', 4, 8, 9)}\n"
         f"  %r = ts.conv %p, %w strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<0>] "
         f"high [#ts.dim<0>, #ts.dim<1>] : {t('n', 4, 9, 12)}, {t(6, 4, 3, 3)}",
         t("n", 6, 4, 6), N,
         lambda x, w: np_conv(x, w, [2, 2], [1, 1], [1, 2], [1, 2], [1, 1]), MATMUL[dtype])
    # Few features, channels first: lanes are pixels, in blocks of rows.
    conv("planes", dtype, t("n", 7, 37, 41), t(3, 7, 3, 3), t("n", 3, 37, 41), [1, 1], None, [1, 1], [1, 1], sizes=N)
    conv("planes of one feature", dtype, t("n", 2, 5, 150), t(1, 2, 7, 5), t("n", 1, 5, 148), [1, 1], None, [3, 0], [3, 2],
         sizes=N)
    conv("planes dilated uneven", dtype, t("n", 5, 12, 9), t(8, 5, 3, 2), t("n", 8, 11, 10), [1, 1], [2, 3], [0, 4], [3, 0],
         sizes=N)
    conv("planes of phases", dtype, t("n", 6, 9, 33), t(18, 6, 2, 2), t("n", 18, 10, 34), [1, 1], None, [1, 1], [1, 1], sizes=N)
    conv("planes of any height", dtype, t(2, 3, "h", 21), t(5, 3, 3, 3), t(2, 5, "h", 21), [1, 1], None, [1, 1], [1, 1],
         sizes=[dict(h=0), dict(h=1), dict(h=29)])
    # A producer in front, bias and ReLU behind; infinities reach the windows that read them.
    x, w, y, g, c = t("n", 7, 37, 41), t(3, 7, 3, 3), t("n", 3, 37, 41), t(3), T("i1", "n", 7, 37, 41)
    taps = f"strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : {x}, {w}"
    planes = lambda x, w: np_conv(x, w, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1])
    case(f"conv planes between others {dtype}", [In("x", x), In("w", w), In("b", g)],
         f"%p = ts.neg %x : {x}\n  %c = ts.conv %p, %w {taps}\n  %d = ts.broadcast %b [1] : {g} to {y}\n"
         f"  %e = ts.add %c, %d : {y}\n  %z = ts.constant dense<0.0> : tensor<{dtype}>\n  %f = ts.broadcast %z [] : tensor<{dtype}> to {y}\n"
         f"  %r = ts.max %e, %f : {y}", y, N,
         lambda x, w, b: np_().maximum(planes(-x, w) + b.astype("f8")[:, None, None], 0), MATMUL[dtype])
    case(f"conv planes infinite {dtype}", [In("x", x), In("w", w)],
         f"%l = ts.constant dense<2.5> : tensor<{dtype}>\n  %m = ts.broadcast %l [] : tensor<{dtype}> to {x}\n"
         f"  %h = ts.constant dense<{'0x7F800000' if dtype == 'f32' else '0x7F80'}> : tensor<{dtype}>\n  %i = ts.broadcast %h [] : tensor<{dtype}> to {x}\n"
         f"  %g = ts.compare gt %x, %m : {x}\n  %p = ts.select %g, %i, %x : {c}, {x}\n  %r = ts.conv %p, %w {taps}", y, N,
         lambda x, w: planes(np_().where(x > 2.5, np_().inf, x.astype("f8")), w), MATMUL[dtype])
    conv("1d", dtype, t("n", 6, "l"), t(10, 6, 3), t("n", 10, "l"), [1], None, [1], [1],
         sizes=[dict(n=1, l=1), dict(n=2, l=17), dict(n=3, l=64)])
    conv("3d", dtype, t("n", 2, 5, 6, 7), t(3, 2, 2, 2, 2), t("n", 3, 4, 5, 6), [1, 1, 1], sizes=N)
    conv("symbolic image", dtype, t(1, 3, "h", "w"), t(4, 3, 3, 3), t(1, 4, "h", "w"), [1, 1], None, [1, 1], [1, 1],
         sizes=[dict(h=5, w=5), dict(h=8, w=33)])
# Filters that few pixels read where they lie: all channels in one chunk, several chunks, an image of one column.
# Few channels and features, as they lie (GPUs): features of a thread that end behind the last one, groups, all borders.
for dtype in ["f32", "bf16", "f16"]:
    t = lambda *d, dtype=dtype: T(dtype, *d)
    conv("direct", dtype, t("n", 1, 71, 57), t(12, 1, 5, 1), t("n", 12, 69, 57), [1, 1], None, [1, 0], [1, 0], sizes=N)
    conv("direct prime", dtype, t("n", 3, 40, 33), t(37, 3, 3, 3), t("n", 37, 40, 33), [1, 1], None, [1, 1], [1, 1], sizes=N)
    conv("direct strided", dtype, t("n", 2, 41, 35), t(7, 2, 4, 3), t("n", 7, 13, 18), [3, 2], None, [0, 1], [1, 2], sizes=N)
    conv("direct dilated", dtype, t("n", 2, 30, 31), t(6, 2, 3, 2), t("n", 6, 30, 31), [1, 1], [2, 3], [1, 3], [3, 0], sizes=N)
    conv("direct multiplier", dtype, t("n", 6, 29, 17), t(18, 1, 3, 3), t("n", 18, 29, 17), [1, 1], None, [1, 1], [1, 1],
         attributes="{groups = 6 : i64}", sizes=N)
    conv("direct groups", dtype, t("n", 8, 19, 40), t(10, 4, 1, 5), t("n", 10, 19, 36), [1, 1],
         attributes="{groups = 2 : i64}", sizes=N)
    conv("direct symbolic", dtype, t(2, 1, "h", "w"), t(5, 1, 3, 3), t(2, 5, "h", "w"), [1, 1], None, [1, 1], [1, 1],
         sizes=[dict(h=1, w=1), dict(h=13, w=70), dict(h=66, w=5)])
for name, c, image, window in [("at once", 48, [8, 7], [3, 3]), ("in chunks", 224, [5, 6], [3, 3]),
                               ("of one column", 32, [11, 1], [3, 1]), ("of one column in chunks", 672, [7, 1], [3, 1])]:
    out = [n - k + 1 for n, k in zip(image, window)]
    conv(f"filter in place {name}", "f32", T("f32", 1, c, *image), T("f32", 512, c, *window), T("f32", 1, 512, *out), [1, 1])
# Filters that are packed in pairs, and one whose rows are no whole pairs; a border, and none.
for kh, kw, c, f, pad in [(1, 1, 16, 24, 0), (1, 1, 7, 50, 0), (3, 3, 4, 40, 1), (3, 2, 5, 8, 0), (3, 3, 5, 8, 1), (1, 3, 3, 17, 0)]:
    taps = [[[[(((i * kw + j) * c + k) * f + l) * 37 % 101 / 64 - 0.75 for l in range(f)] for k in range(c)]
             for j in range(kw)] for i in range(kh)]
    x = T("bf16", "n", 9, 11, c)
    y = T("bf16", "n", 9 + 2 * pad - kh + 1, 11 + 2 * pad - kw + 1, f)
    dims = f"[#ts.dim<{pad}>, #ts.dim<{pad}>]"
    case(f"conv filter of pairs {kh}x{kw} {c} {f}", [In("x", x)],
         f"%w = ts.constant dense<{taps}> : tensor<{kh}x{kw}x{c}x{f}xbf16>\n"
         f"  %r = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low {dims} high {dims} "
         f"{{channels_last = true}} : {x}, tensor<{kh}x{kw}x{c}x{f}xbf16>", y, [dict(n=1), dict(n=3)],
         lambda x, w=taps, pad=pad: np_conv(x, np_().array(w), [1, 1], [1, 1], [pad, pad], [pad, pad], [1, 1], last=True),
         MATMUL["bf16"])
def constant_conv(name, dtype, image, window, c, f, groups=1, strides=None, dilations=None, low=None, high=None, inputs=None):
    """Channels last, a filter of numbers; `c` channels and `f` features a group."""
    rank = len(image)
    strides, dilations, inputs = (v or [1] * rank for v in (strides, dilations, inputs))
    low = low or [0] * rank
    high = high or low
    outs = [((n - 1) * u + 1 + a + b - (k - 1) * d - 1) // s + 1
            for n, u, a, b, k, d, s in zip(image, inputs, low, high, window, dilations, strides)]
    shape = [*window, c, f * groups]
    taps = [(i * 37 % 101) / 64 - 0.75 for i in range(c * f * groups * math.prod(window))]
    nested = lambda v, d: [nested(v[i * (len(v) // d[0]):(i + 1) * (len(v) // d[0])], d[1:]) for i in range(d[0])] if d else v[0]
    taps = nested(taps, shape)
    x, y = T(dtype, "n", *image, c * groups), T(dtype, "n", *outs, f * groups)
    dims = lambda pads: "[" + ", ".join(f"#ts.dim<{p}>" for p in pads) + "]"
    filter_type = f"tensor<{'x'.join(map(str, shape))}x{dtype}>"
    case(f"conv constant {name} {dtype}", [In("x", x)],
         f"%w = ts.constant dense<{taps}> : {filter_type}\n"
         f"  %r = ts.conv %x, %w strides {strides} dilations {dilations} input_dilations {inputs} low {dims(low)} "
         f"high {dims(high)} {{channels_last = true, groups = {groups} : i64}} : {x}, {filter_type}", y,
         [dict(n=1), dict(n=3)],
         lambda x, w=taps: np_conv(x, np_().array(w), strides, dilations, low, high, inputs, groups, last=True),
         MATMUL[dtype])


# Groups: whose panels are their own, that share panels, of more channels than a tile; a border, a stride, one row.
for dtype, kh, kw, c, f, groups, pad, stride in [
        ("f32", 1, 1, 3, 8, 2, 0, 1), ("f32", 3, 3, 4, 12, 3, 1, 1), ("f32", 3, 2, 1, 24, 4, 0, 2), ("f32", 1, 5, 24, 24, 4, 2, 1),
        ("f32", 3, 3, 70, 40, 2, 1, 2), ("f32", 3, 3, 2, 64, 2, 1, 1), ("bf16", 3, 3, 4, 12, 3, 1, 1), ("bf16", 3, 3, 5, 24, 4, 0, 1),
        ("bf16", 1, 4, 3, 40, 2, 1, 2)]:
    flat = kh == 1 and kw > 1
    image, window = ([11], [kw]) if flat else ([9, 11], [kh, kw])
    constant_conv(f"groups {kh}x{kw} {c} {f} {groups}", dtype, image, window, c, f, groups, [stride] * len(image),
                  low=[pad] * len(image))
# Dilated: rows, columns, both; further apart than the image is high; with a stride; one row, one column; groups, depthwise.
for dtype in ["f32", "bf16"]:
    constant_conv("dilated 2", dtype, [9, 11], [3, 3], 4, 20, dilations=[2, 2], low=[2, 2])
    constant_conv("dilated 3x2 uneven", dtype, [10, 13], [2, 3], 5, 18, dilations=[3, 2], low=[1, 0], high=[2, 5])
    constant_conv("dilated rows", dtype, [13, 9], [3, 3], 8, 24, dilations=[4, 1])
    constant_conv("dilated columns", dtype, [6, 30], [3, 3], 8, 24, dilations=[1, 5], low=[1, 5])
    constant_conv("dilated 12", dtype, [7, 9], [3, 3], 6, 16, dilations=[12, 12], low=[12, 12])
    constant_conv("dilated stride 2", dtype, [13, 15], [3, 3], 4, 16, strides=[2, 2], dilations=[2, 2], low=[2, 2])
    constant_conv("dilated stride 1x3", dtype, [13, 29], [3, 3], 4, 16, strides=[1, 3], dilations=[2, 3], low=[2, 2])
    constant_conv("dilated 1d", dtype, [50], [3], 8, 16, dilations=[7], low=[14], high=[0])
    constant_conv("dilated column", dtype, [50, 1], [3, 1], 8, 16, dilations=[7, 1], low=[14, 0], high=[0, 0])
    constant_conv("dilated groups", dtype, [9, 12], [3, 3], 4, 16, 3, dilations=[2, 3], low=[2, 3])
    constant_conv("dilated depthwise", dtype, [9, 12], [3, 3], 1, 1, 20, dilations=[2, 3], low=[2, 3])
    constant_conv("dilated depthwise stride 2", dtype, [9, 12], [3, 3], 1, 1, 20, [2, 2], dilations=[2, 3], low=[2, 3])
constant_conv("dilated many channels", "f32", [9, 8], [3, 3], 160, 64, dilations=[2, 2], low=[2, 2])
# Groups side by side in a register: of each size, with fewer and with more channels than features; a last register that is
# not full.
for c, f, groups in [(1, 1, 37), (1, 1, 6), (1, 1, 2), (1, 2, 19), (2, 1, 16), (3, 3, 11), (4, 4, 8), (5, 5, 7), (6, 6, 3), (7, 7, 2), (8, 8, 5),
                     (12, 12, 2), (16, 16, 3), (4, 8, 3), (8, 4, 6), (16, 8, 4), (1, 3, 6), (2, 16, 2), (24, 8, 2), (3, 1, 2)]:
    constant_conv(f"lanes {c} {f} {groups}", "f32", [9, 11], [3, 3], c, f, groups, low=[1, 1])
for dtype in ["f32", "bf16"]:
    constant_conv("lanes uneven", dtype, [8, 17], [2, 3], 4, 4, 8, low=[1, 0], high=[0, 2])
    constant_conv("lanes stride 2", dtype, [9, 14], [3, 3], 4, 4, 8, [2, 2], low=[1, 1], high=[1, 0])
    constant_conv("lanes stride 2x3", dtype, [9, 33], [3, 5], 8, 8, 4, [2, 3], low=[1, 2])
    constant_conv("lanes dilated", dtype, [9, 25], [3, 3], 4, 4, 5, dilations=[3, 4], low=[3, 4])
    constant_conv("lanes dilated stride", dtype, [9, 25], [3, 3], 4, 4, 5, [2, 2], dilations=[3, 2], low=[3, 4])
    constant_conv("lanes border only", dtype, [2, 3], [3, 3], 4, 4, 4, dilations=[5, 5], low=[7, 8])
    constant_conv("lanes 1d", dtype, [40], [5], 8, 8, 3, low=[4], high=[0])
    constant_conv("lanes column", dtype, [40, 1], [5, 1], 4, 4, 6, low=[4, 0], high=[1, 0])
    constant_conv("lanes no border", dtype, [7, 20], [1, 3], 4, 4, 6)
    constant_conv("depthwise 5x5", dtype, [9, 31], [5, 5], 1, 1, 48, low=[2, 2])
    constant_conv("depthwise 7x7", dtype, [12, 16], [7, 7], 1, 1, 33, low=[3, 3])
    constant_conv("depthwise 1x31", dtype, [1, 40], [1, 31], 1, 1, 20, low=[0, 15])
    constant_conv("depthwise stride 2", dtype, [11, 29], [3, 3], 1, 1, 40, [2, 2], low=[0, 0], high=[1, 1])
    constant_conv("depthwise 1d", dtype, [60], [4], 1, 1, 24, low=[3], high=[0])
    constant_conv("depthwise of one row", dtype, [1, 60], [3, 3], 1, 1, 24, low=[1, 1])
# Three spatial dims: borders wider than the image, planes and rows that lie apart, a stride a dim, windows of one plane, one row
# or one column, images of one, filters taken a window row at a time, groups that are matmuls and groups side by side in a register.
for dtype in ["f32", "f16", "bf16"]:
    for name, image, window, c, f, groups, more in [
            ("same", [5, 6, 7], [3, 3, 3], 5, 20, 1, dict(low=[1, 1, 1])), ("no border", [4, 5, 13], [2, 3, 2], 6, 17, 1, {}),
            ("border only", [2, 3, 5], [3, 3, 3], 4, 16, 1, dict(low=[4, 3, 5], high=[3, 5, 1])),
            ("uneven", [7, 5, 11], [2, 1, 3], 3, 19, 1, dict(low=[1, 0, 0], high=[0, 0, 2])),
            ("stride", [9, 10, 11], [3, 5, 3], 4, 16, 1, dict(strides=[2, 3, 1], low=[1, 2, 1])),
            ("stride no border", [7, 5, 9], [2, 1, 1], 7, 18, 1, dict(strides=[3, 2, 2])),
            ("dilated", [9, 8, 13], [3, 2, 3], 4, 16, 1, dict(dilations=[3, 2, 2], low=[3, 1, 2])),
            ("dilated planes", [9, 3, 4], [3, 1, 1], 8, 24, 1, dict(dilations=[4, 1, 1])),
            ("planes alone", [7, 3, 5], [3, 1, 1], 16, 32, 1, dict(low=[1, 0, 0])),
            ("rows alone", [3, 7, 5], [1, 3, 1], 8, 16, 1, dict(low=[0, 1, 0])),
            ("of one column", [3, 20, 1], [5, 3, 1], 5, 18, 1, dict(low=[2, 1, 0])),
            ("of one plane", [1, 6, 7], [3, 3, 3], 6, 16, 1, dict(low=[1, 1, 1])),
            ("groups", [5, 6, 7], [3, 3, 3], 6, 16, 2, dict(low=[1, 1, 1])),
            ("shared panels", [4, 5, 6], [2, 3, 3], 5, 24, 3, dict(strides=[1, 2, 2], low=[1, 1, 1])),
            ("groups of one column", [3, 20, 1], [5, 3, 1], 5, 9, 4, dict(low=[2, 1, 0])),
            ("lanes", [5, 6, 17], [3, 3, 3], 4, 4, 8, dict(low=[1, 1, 1])),
            ("lanes border only", [2, 2, 3], [3, 3, 3], 2, 4, 5, dict(low=[5, 4, 6])),
            ("depthwise", [4, 9, 11], [3, 3, 3], 1, 1, 37, dict(low=[1, 1, 1])),
            ("depthwise stride dilated", [9, 9, 23], [3, 2, 3], 1, 1, 20, dict(strides=[2, 1, 2], dilations=[2, 3, 1], low=[2, 1, 0]))]:
        constant_conv(f"volume {name}", dtype, image, window, c, f, groups, **more)
constant_conv("volume many channels", "f32", [3, 6, 8], [3, 3, 3], 160, 48, low=[1, 1, 1])
constant_conv("volume transposed", "f32", [3, 4, 5], [3, 3, 3], 4, 16, low=[1, 1, 1], inputs=[2, 2, 1])
# Transposed (zeros between the input's elements) with windows that overlap: phases of unequal taps, of unequal sizes; one
# dim only; one row, one column; groups.
for dtype in ["f32", "bf16"]:
    constant_conv("transposed 4x4", dtype, [5, 7], [4, 4], 4, 20, low=[2, 2], inputs=[2, 2])
    constant_conv("transposed 3x3", dtype, [5, 7], [3, 3], 6, 16, low=[1, 1], high=[2, 2], inputs=[2, 2])
    constant_conv("transposed 3x3 odd", dtype, [5, 7], [3, 3], 5, 16, low=[1, 1], high=[1, 1], inputs=[2, 2])
    constant_conv("transposed 5x4 by 3x2", dtype, [4, 6], [5, 4], 4, 33, low=[4, 0], high=[3, 1], inputs=[3, 2])
    constant_conv("transposed rows", dtype, [5, 9], [4, 3], 4, 16, low=[2, 1], inputs=[2, 1])
    constant_conv("transposed columns", dtype, [5, 9], [3, 4], 4, 16, low=[1, 2], inputs=[1, 2])
    constant_conv("transposed 1d", dtype, [20], [16], 6, 16, low=[11], inputs=[8])
    constant_conv("transposed column", dtype, [20, 1], [4, 1], 6, 16, low=[2, 0], inputs=[2, 1])
    constant_conv("transposed groups", dtype, [5, 7], [4, 4], 4, 16, 3, low=[2, 2], inputs=[2, 2])
    constant_conv("transposed depthwise", dtype, [5, 7], [4, 4], 1, 1, 12, low=[2, 2], inputs=[2, 2])
constant_conv("transposed wide", "f32", [3, 70], [4, 4], 96, 16, low=[2, 2], inputs=[2, 2])
# Channels and features in eights, which GPUs gather 16 bytes at a time: several blocks of positions, features and depths,
# cut ones, strides, dilations, spread inputs, groups, one and three dims.
for dtype in ["f32", "f16", "bf16"]:
    for name, image, kernel, c, f, more in [
            ("blocks", (20, 20), (3, 3), 64, 136, dict(pad=1)), ("cut", (9, 11), (3, 3), 16, 24, dict(pad=1)),
            ("no border", (9, 11), (2, 3), 24, 40, {}), ("stride dilation", (23, 17), (3, 3), 72, 72, dict(pad=2, stride=2, dilation=2)),
            ("point stride", (14, 14), (1, 1), 128, 64, dict(stride=2)), ("groups", (13, 9), (3, 3), 16, 24, dict(pad=1, groups=3)),
            ("spread", (7, 6), (3, 3), 32, 16, dict(pad=2, spread=2)), ("spread by three", (5, 6), (4, 2), 8, 8, dict(pad=1, spread=3)),
            ("cut border", (9, 11), (3, 3), 8, 16, dict(pad=-1)), ("1d", (70,), (5,), 40, 48, dict(pad=2)),
            ("3d", (5, 6, 7), (3, 2, 3), 8, 16, dict(pad=1)), ("few features", (9, 11), (3, 3), 16, 3, dict(pad=1))]:
        pad, stride, dilation, spread, groups = (more.get(n, d) for n, d in [("pad", 0), ("stride", 1), ("dilation", 1), ("spread", 1), ("groups", 1)])
        out = [((n - 1) * spread + 2 * pad - (k - 1) * dilation) // stride + 1 for n, k in zip(image, kernel)]
        every = lambda v: [v] * len(image)
        conv(f"eights {name}", dtype, T(dtype, "n", *image, c * groups), T(dtype, *kernel, c, f * groups), T(dtype, "n", *out, f * groups),
             every(stride), every(dilation), every(pad), every(pad), every(spread), f"{{channels_last = true, groups = {groups} : i64}}",
             [dict(n=1), dict(n=3)])
    # With what follows it: a number a feature, one an element.
    x, w, y = T(dtype, "n", 12, 10, 64), T(dtype, 3, 3, 64, 72), T(dtype, "n", 12, 10, 72)
    steps = "strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]"
    case(f"conv eights and more {dtype}", [In("x", x), In("w", w), In("b", T(dtype, 72)), In("y", y)],
         f"%c = ts.conv %x, %w {steps} {{channels_last = true}} : {x}, {w}\n  %bb = ts.broadcast %b [3] : {T(dtype, 72)} to {y}\n"
         f"  %s = ts.mul %c, %bb : {y}\n  %r = ts.max %s, %y : {y}", y, [dict(n=1), dict(n=5)],
         lambda x, w, b, y: np_().maximum(np_conv(x, w, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], last=True) * wide(b), wide(y)),
         "relative 2e-2" if dtype == "bf16" else MATMUL[dtype])
# Bytes by constant bytes: window rows that are whole groups of four and not, a border of its own and one that says what
# it holds, a stride, groups, depthwise, a window whose taps lie apart, one row, more products than f32 adds up exactly.
for kh, kw, c, f, groups, pad, stride, apart, border in [
        (3, 3, 16, 40, 1, 1, 1, 1, None), (1, 1, 7, 50, 1, 0, 2, 1, None), (3, 3, 3, 17, 1, 1, 2, 1, 200),
        (5, 2, 5, 8, 1, 2, 1, 1, 7), (1, 5, 24, 24, 2, 2, 1, 1, 128), (3, 3, 6, 12, 3, 1, 1, 1, 9),
        (3, 3, 1, 1, 40, 1, 1, 1, 3), (3, 3, 1, 1, 21, 1, 2, 1, None), (3, 3, 4, 8, 1, 2, 1, 2, 77),
        (3, 2, 3, 2, 5, 1, 1, 2, 200), (23, 23, 1, 1, 17, 11, 1, 1, 3), (5, 3, 1, 2, 12, 2, 1, 2, 200),
        (3, 3, 1, 1, 64, 0, 2, 1, None), (1, 3, 1, 1, 32, 1, 1, 1, 255), (4, 4, 1, 1, 19, 3, 1, 1, 1),
        ((2, 3), 3, 5, 18, 1, 1, 1, 1, 9), ((3, 2), 3, 3, 2, 5, 1, 2, 2, 200), ((3, 3), 3, 1, 1, 21, 1, 1, 1, None), ((2, 1), 1, 6, 9, 2, 3, 1, 1, 77)]:
    image, filter_dims = ([4, 9, 11], [*kh, kw]) if isinstance(kh, tuple) else ([11], [kw]) if kh == 1 and kw > 1 else ([9, 11], [kh, kw])
    rank = len(image)
    steps, ones, far = [stride] * rank, [1] * rank, [apart] * rank
    outs = [(n + 2 * pad - (k - 1) * apart - 1) // stride + 1 for n, k in zip(image, filter_dims)]
    shape = [*filter_dims, c, f * groups]
    nested = lambda v, d: [nested(v[i * (len(v) // d[0]):(i + 1) * (len(v) // d[0])], d[1:]) for i in range(d[0])] if d else v[0]
    count = c * f * groups
    for n in filter_dims:
        count *= n
    taps = nested([i * 37 % 256 - 128 for i in range(count)], shape)
    x, z, y = T("ui8", "n", *image, c * groups), T("i32", "n", *outs, f * groups), T("i32", "n", *outs, f * groups)
    dims = lambda pads: "[" + ", ".join(f"#ts.dim<{p}>" for p in pads) + "]"
    own = dims([0 if border else pad] * rank)
    padded = T("ui8", "n", *(n + 2 * pad for n in image), c * groups) if border else x
    filter_type = f"tensor<{'x'.join(map(str, shape))}xi8>"
    wide_pads = dims([0, *[pad] * rank, 0])
    before = (f"%p = ts.constant dense<{border}> : tensor<ui8>\n"
              f"  %a = ts.pad %x value %p : tensor<ui8> low {wide_pads} high {wide_pads} : {x}\n  ") if border else ""
    def np_bytes(x, z, w=taps, pad=pad, steps=steps, far=far, ones=ones, g=groups, v=border, rank=rank):
        x = np_().pad(x, [(0, 0), *[(pad, pad)] * rank, (0, 0)], constant_values=v or 0)
        return np_conv(x, np_().array(w), steps, far, [0] * rank, [0] * rank, ones, g, last=True).astype("i4") + z
    case(f"conv bytes {'x'.join(map(str, filter_dims if rank == 3 else [kh, kw]))} {c} {f} {groups} {stride} {border}", [In("x", x, "wide"), In("z", z, "wide")],
         f"{before}%w = ts.constant dense<{taps}> : {filter_type}\n"
         f"  %c = ts.conv {'%a' if border else '%x'}, %w strides {steps} dilations {far} input_dilations {ones} low {own} high {own} "
         f"{{channels_last = true, groups = {groups} : i64}} : {padded}, {filter_type}\n  %r = ts.add %c, %z : {y}", y,
         [dict(n=1), dict(n=3)], np_bytes)
conv("resnet 3x3", "f32", T("f32", "n", 64, 56, 56), T("f32", 64, 64, 3, 3), T("f32", "n", 64, 56, 56), [1, 1], None,
     [1, 1], [1, 1], sizes=[dict(n=1)], speed=dict(n=1))

for kind in ["max", "average", "sum"]:
    for dtype in ["f32", "bf16", "i32", "i8"]:
        if kind == "average" and dtype in INTS:
            continue
        for attributes in [""] + (["{count_padding = true}"] if kind == "average" else []):
            x = T(dtype, "n", 5, 11, 13)
            case(f"pool {kind} {dtype} {attributes}", [In("x", x)],
                 f"%r = ts.pool {kind} %x window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] "
                 f"high [#ts.dim<1>, #ts.dim<1>] {attributes} : {x}", T(dtype, "n", 5, 6, 7),
                 [dict(n=0), dict(n=1), dict(n=3)],
                 lambda x, kind=kind, padding=bool(attributes): np_pool(x, kind, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], padding),
                 ROUNDING.get(dtype, "exact"))
    x = T("f32", "n", 9, 9, 6)
    case(f"pool {kind} channels last", [In("x", x)],
         f"%r = ts.pool {kind} %x window [2, 3] strides [1, 2] dilations [2, 1] low [#ts.dim<0>, #ts.dim<1>] "
         f"high [#ts.dim<0>, #ts.dim<0>] {{channels_last = true}} : {x}", T("f32", "n", 7, 4, 6),
         [dict(n=1), dict(n=2)],
         lambda x, kind=kind: np_pool(x, kind, [2, 3], [1, 2], [2, 1], [0, 1], [0, 0], last=True), "relative 2e-6")
    x = T("f32", "n", 3, "l")
    case(f"pool {kind} 1d", [In("x", x)],
         f"%r = ts.pool {kind} %x window [4] strides [4] dilations [1] low [#ts.dim<0>] high [#ts.dim<0>] : {x}",
         T("f32", "n", 3, "floordiv(l, 4)"), [dict(n=1, l=4), dict(n=2, l=31)],
         lambda x, kind=kind: np_pool(x, kind, [4], [4], [1], [0], [0]), "relative 2e-6")
# Rows of results that CPUs read as runs of every first to fourth element, and one further apart; runs that an image's end cuts.
for kind, dtype in [("max", "f32"), ("average", "f32"), ("sum", "f64"), ("max", "bf16"), ("max", "i8"), ("sum", "i32"), ("max", "f16")]:
    for stride in [1, 2, 3, 4, 5]:
        for columns, window, dilation, low, high in [(133, 3, 1, 1, 1), (64 * stride, stride, 1, 0, 0), (95, 2, 7, 6, 3), (33, 5, 1, 4, 4)]:
            out = (columns + low + high - (window - 1) * dilation - 1) // stride + 1
            x, dilations, pads = T(dtype, 2, 3, 6, columns), [1, dilation], ([1, low], [1, high])
            case(f"pool of runs {kind} {dtype} {stride} of {columns} by {window}", [In("x", x, "special" if dtype == "f32" and kind == "max" else "normal")],
                 f"%r = ts.pool {kind} %x window [2, {window}] strides [2, {stride}] dilations {dilations} low [#ts.dim<1>, #ts.dim<{low}>] "
                 f"high [#ts.dim<1>, #ts.dim<{high}>] : {x}", T(dtype, 2, 3, 4, out), [{}],
                 None if dtype == "f32" and kind == "max" else
                 lambda x, kind=kind, a=([2, window], [2, stride], dilations, *pads): np_pool(x, kind, *a), ROUNDING.get(dtype, "exact"))
# Maxima of planes, rows before columns: more rows than are formed at a time, of several programs, windows too tall for straight code,
# rows of a window that lie outside, ends of registers; what follows the pool, and a height known with the call.
for dtype in ["f32", "bf16", "f16"]:
    for height, columns, window, strides, dilations, low, high in [
            (19, 16, [3, 3], [1, 1], [1, 1], [1, 1], [1, 1]), (40, 33, [3, 2], [2, 1], [2, 3], [2, 0], [1, 3]),
            (26, 65, [9, 4], [1, 2], [1, 1], [4, 3], [8, 0]), (9, 130, [1, 5], [1, 3], [1, 2], [0, 4], [0, 5]),
            (12, 31, [12, 31], [1, 1], [1, 1], [6, 15], [5, 15]), (300, 130, [2, 3], [1, 4], [1, 1], [0, 1], [0, 1]),
            (7, 8, [2, 2], [1, 1], [3, 1], [0, 0], [1, 0])]:
        outs = [(n + l + h - (k - 1) * d - 1) // t + 1
                for n, k, t, d, l, h in zip([height, columns], window, strides, dilations, low, high)]
        x, y = T(dtype, 2, 3, height, columns), T(dtype, 2, 3, *outs)
        pads = lambda p: "[" + ", ".join(f"#ts.dim<{n}>" for n in p) + "]"
        case(f"pool of planes {dtype} {height}x{columns} by {window}", [In("x", x), In("b", T(dtype, 3))],
             f"%p = ts.pool max %x window {window} strides {strides} dilations {dilations} low {pads(low)} high {pads(high)} : {x}\n"
             f"%c = ts.broadcast %b [1] : {T(dtype, 3)} to {y}\n%r = ts.add %p, %c : {y}", y, [{}],
             lambda x, b, a=("max", window, strides, dilations, low, high): np_pool(x, *a) + b.reshape(3, 1, 1).astype("f8"),
             ROUNDING.get(dtype, "relative 2e-6"))
    # NaN and infinities beside a border, windows that see nothing but border on either side, borders wider than a register and than the image.
    for columns, window, stride, low, high in [(20, 3, 1, 5, 4), (21, 3, 2, 6, 5), (23, 4, 3, 2, 9), (16, 2, 4, 4, 7), (9, 3, 2, 200, 301), (40, 5, 1, 1000, 3), (9, 2, 2, 20000, 20000)]:
        x, y = T(dtype, 1, 3, 6, columns), T(dtype, 1, 3, 6, (columns + low + high - window) // stride + 1)
        case(f"pool of planes beside borders {dtype} {columns} by {window} {stride} in {low} {high}", [In("x", x, "special")],
             f"%r = ts.pool max %x window [1, {window}] strides [1, {stride}] dilations [1, 1] low [#ts.dim<0>, #ts.dim<{low}>] high [#ts.dim<0>, #ts.dim<{high}>] : {x}", y, [{}])
    x = T(dtype, "n", 9, "h", 20)
    case(f"pool of planes of any height {dtype}", [In("x", x, "special" if dtype == "f32" else "normal")],
         f"%r = ts.pool max %x window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : {x}",
         T(dtype, "n", 9, "floordiv(h + 1, 2)", 10), [dict(n=0, h=4), dict(n=1, h=1), dict(n=2, h=17), dict(n=1, h=100)],
         None if dtype == "f32" else lambda x: np_pool(x, "max", [3, 3], [2, 2], [1, 1], [1, 1], [1, 1]))
# Sums and averages of planes: borders that count and that do not, windows that leave the image on any side or see nothing of it,
# more columns of a window than straight code has, columns far apart, ends of registers of every element's size.
for kind, dtype, counts in [("average", "f32", True), ("average", "f32", False), ("average", "f64", True), ("average", "f16", False),
                            ("average", "bf16", True), ("sum", "f32", False), ("sum", "bf16", False), ("sum", "i8", False),
                            ("sum", "ui16", False), ("sum", "i64", False), ("max", "f64", False), ("max", "i8", False),
                            ("max", "ui8", False), ("max", "i16", False), ("max", "ui32", False)]:
    for height, columns, window, strides, dilations, low, high in [
            (19, 24, [3, 3], [1, 1], [1, 1], [1, 1], [1, 1]), (40, 33, [3, 2], [2, 1], [2, 3], [2, 0], [1, 3]),
            (26, 65, [9, 4], [1, 2], [1, 1], [4, 3], [8, 2]), (9, 130, [1, 5], [1, 3], [1, 2], [0, 4], [0, 5]),
            (11, 90, [3, 5], [3, 5], [1, 1], [1, 2], [2, 4]), (6, 300, [2, 40], [2, 7], [1, 1], [0, 11], [1, 20]),
            (5, 67, [2, 35], [1, 1], [3, 1], [0, 17], [0, 17]), (14, 140, [2, 2], [2, 2], [1, 1], [0, 0], [0, 0]),
            (12, 19, [20, 1], [1, 1], [1, 1], [10, 0], [12, 0])]:
        outs = [(n + l + h - (k - 1) * d - 1) // t + 1
                for n, k, t, d, l, h in zip([height, columns], window, strides, dilations, low, high)]
        x, y = T(dtype, 2, 3, height, columns), T(dtype, 2, 3, *outs)
        pads = lambda p: "[" + ", ".join(f"#ts.dim<{n}>" for n in p) + "]"
        attributes = "{count_padding = true}" if counts else ""
        case(f"pool of planes {kind} {dtype} {attributes} {height}x{columns} by {window}", [In("x", x), In("b", T(dtype, 3))],
             f"%p = ts.pool {kind} %x window {window} strides {strides} dilations {dilations} low {pads(low)} high {pads(high)} {attributes} : {x}\n"
             f"%c = ts.broadcast %b [1] : {T(dtype, 3)} to {y}\n%r = ts.add %p, %c : {y}", y, [{}],
             lambda x, b, d=dtype, a=(kind, window, strides, dilations, low, high, counts): (
                 (np_pool(x, *a) + b.reshape(3, 1, 1)).astype(x.dtype) if d in INTS else stored(np_pool(x, *a), d) + b.reshape(3, 1, 1)),
             {"f16": "relative 2e-3", "bf16": "relative 1.6e-2"}.get(dtype, "relative 4e-6" if dtype == "f32" else ROUNDING.get(dtype, "exact")))
for kind, attributes in [("average", ""), ("average", "{count_padding = true}"), ("sum", ""), ("max", "")]:
    for window, stride, dilation, low, high in [(3, 1, 1, 1, 1), (8, 8, 1, 0, 0), (2, 2, 5, 3, 4), (50, 3, 1, 20, 40)]:
        x, y = T("f32", "n", 5, 203), T("f32", "n", 5, (203 + low + high - (window - 1) * dilation - 1) // stride + 1)
        case(f"pool of a line {kind} {attributes} by {window}", [In("x", x)],
             f"%r = ts.pool {kind} %x window [{window}] strides [{stride}] dilations [{dilation}] low [#ts.dim<{low}>] high [#ts.dim<{high}>] {attributes} : {x}",
             y, [dict(n=0), dict(n=1), dict(n=3)],
             lambda x, a=(kind, [window], [stride], [dilation], [low], [high], bool(attributes)): np_pool(x, *a), "relative 4e-6")
    x = T("f32", "n", 9, "h", 20)
    case(f"pool of planes of any height {kind} {attributes}", [In("x", x)],
         f"%r = ts.pool {kind} %x window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {attributes} : {x}",
         T("f32", "n", 9, "floordiv(h + 1, 2)", 10), [dict(n=0, h=4), dict(n=1, h=1), dict(n=2, h=17), dict(n=1, h=100)],
         lambda x, kind=kind, counts=bool(attributes): np_pool(x, kind, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], counts), "relative 4e-6")
# Pools of volumes, planes and rows before columns: windows that leave the image along each dim or see no plane of it, more planes or
# rows than straight code has, planes far apart, one plane; NaN and infinities; a depth and a height known with the call.
for kind, dtype, counts in [("average", "f32", True), ("average", "f32", False), ("average", "f64", False), ("average", "f16", True),
                            ("average", "bf16", False), ("sum", "f32", False), ("sum", "i8", False), ("sum", "i32", False),
                            ("max", "f32", False), ("max", "f64", False), ("max", "f16", False), ("max", "bf16", False),
                            ("max", "i8", False), ("max", "ui8", False), ("max", "i64", False)]:
    for sizes, window, strides, dilations, low, high in [
            ([5, 6, 20], [3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]), ([8, 14, 33], [2, 2, 2], [2, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0]),
            ([9, 7, 65], [3, 2, 4], [2, 1, 2], [2, 1, 1], [3, 1, 3], [4, 0, 2]), ([20, 5, 17], [17, 2, 3], [1, 1, 1], [1, 1, 1], [8, 0, 1], [9, 1, 1]),
            ([4, 12, 19], [2, 9, 1], [1, 2, 1], [2, 1, 1], [0, 4, 0], [1, 5, 0]), ([3, 5, 16], [2, 2, 2], [1, 2, 1], [1, 1, 1], [4, 1, 0], [3, 0, 1]),
            ([1, 40, 130], [1, 3, 5], [1, 1, 5], [1, 1, 1], [0, 1, 2], [0, 1, 2]), ([7, 9, 8], [7, 9, 5], [1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0])]:
        if kind == "average" and not counts and low[0] >= window[0]:
            continue  # Nothing to divide by.
        outs = [(n + l + h - (k - 1) * d - 1) // t + 1
                for n, k, t, d, l, h in zip(sizes, window, strides, dilations, low, high)]
        x, y = T(dtype, 2, 3, *sizes), T(dtype, 2, 3, *outs)
        pads = lambda p: "[" + ", ".join(f"#ts.dim<{n}>" for n in p) + "]"
        attributes = "{count_padding = true}" if counts else ""
        case(f"pool of volumes {kind} {dtype} {attributes} {sizes} by {window}", [In("x", x), In("b", T(dtype, 3))],
             f"%p = ts.pool {kind} %x window {window} strides {strides} dilations {dilations} low {pads(low)} high {pads(high)} {attributes} : {x}\n"
             f"%c = ts.broadcast %b [1] : {T(dtype, 3)} to {y}\n%r = ts.add %p, %c : {y}", y, [{}],
             lambda x, b, a=(kind, window, strides, dilations, low, high, counts): (np_pool(x, *a) + b.reshape(3, 1, 1, 1)).astype(x.dtype if x.dtype.kind in "iu" else "f8"),
             {"f16": "relative 2e-3", "bf16": "relative 1.6e-2"}.get(dtype, "relative 4e-6" if dtype == "f32" else ROUNDING.get(dtype, "exact")))
for kind, attributes in [("average", ""), ("average", "{count_padding = true}"), ("sum", ""), ("max", "")]:
    x, y = T("f32", "n", 3, "d", "h", 20), T("f32", "n", 3, "floordiv(d + 1, 2)", "h", 10)
    one = "[#ts.dim<1>, #ts.dim<1>, #ts.dim<1>]"
    for of, data, compare in [("numbers", "normal", lambda x, kind=kind, counts=bool(attributes): np_pool(x, kind, [3, 3, 3], [2, 1, 2], [1, 1, 1], [1, 1, 1], [1, 1, 1], counts)),
                              ("infinities", "special" if kind == "max" else "summable", None)]:
        case(f"pool of volumes of any depth {kind} {attributes} of {of}", [In("x", x, data)],
             f"%r = ts.pool {kind} %x window [3, 3, 3] strides [2, 1, 2] dilations [1, 1, 1] low {one} high {one} {attributes} : {x}",
             y, [dict(n=0, d=4, h=4), dict(n=1, d=1, h=1), dict(n=2, d=17, h=5), dict(n=1, d=2, h=60)], compare, "relative 4e-6")
# NaN and infinities beside the border of an average, and a border of its own before it, as exporters write one that counts.
for inside in ["", "{count_padding = true}"]:
    x, y = T("f32", 2, 3, 6, 37), T("f32", 2, 3, 6, 37)
    case(f"average of planes beside borders {inside}", [In("x", x, "summable")],
         f"%r = ts.pool average %x window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {inside} : {x}",
         y, [{}], tolerance="relative 4e-6")
    behind = T("f32", 2, 3, 10, 41)
    case(f"average of planes behind a border {inside}", [In("x", x, "summable")],
         f"%z = ts.constant dense<0.0> : tensor<f32>\n%p = ts.pad %x value %z : tensor<f32> low [{', '.join(['#ts.dim<0>'] * 2 + ['#ts.dim<2>'] * 2)}] "
         f"high [{', '.join(['#ts.dim<0>'] * 2 + ['#ts.dim<2>'] * 2)}] : {x}\n"
         f"%r = ts.pool average %p window [5, 5] strides [3, 3] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<1>, #ts.dim<2>] {inside} : {behind}",
         T("f32", 2, 3, 3, 13), [{}], tolerance="relative 4e-6")
# Depthwise convolutions of planes: rows that tiles leave over, blocks of rows, borders wider than the image, columns that strides keep
# apart, several features a channel, windows that see nothing of the image; what comes before and follows; a line.
for dtype in ["f32", "bf16", "f16", "f64"]:
    for channels, per, height, columns, window, strides, dilations, low, high in [
            (5, 1, 9, 24, [3, 3], [1, 1], [1, 1], [1, 1], [1, 1]), (3, 2, 11, 33, [5, 4], [2, 2], [1, 1], [2, 1], [2, 3]),
            (4, 1, 200, 100, [3, 3], [1, 1], [2, 3], [2, 3], [2, 3]), (3, 3, 5, 130, [1, 5], [1, 3], [1, 2], [0, 4], [0, 5]),
            (7, 1, 23, 17, [7, 7], [1, 1], [1, 1], [3, 3], [3, 3]), (3, 1, 150, 67, [2, 3], [3, 4], [1, 1], [0, 40], [1, 90]),
            (2, 1, 4, 20, [3, 1], [1, 1], [1, 1], [9, 0], [9, 0])]:
        outs = [(n + l + h - (k - 1) * d - 1) // t + 1
                for n, k, t, d, l, h in zip([height, columns], window, strides, dilations, low, high)]
        x, w, y = T(dtype, "n", channels, height, columns), T(dtype, channels * per, 1, *window), T(dtype, "n", channels * per, *outs)
        pads = lambda p: "[" + ", ".join(f"#ts.dim<{n}>" for n in p) + "]"
        case(f"conv depthwise of planes {dtype} {channels}x{height}x{columns} by {window}", [In("x", x), In("w", w), In("b", T(dtype, channels * per))],
             f"%a = ts.abs %x : {x}\n%p = ts.conv %a, %w strides {strides} dilations {dilations} input_dilations [1, 1] low {pads(low)} high {pads(high)} "
             f"{{groups = {channels} : i64}} : {x}, {w}\n%c = ts.broadcast %b [1] : {T(dtype, channels * per)} to {y}\n%r = ts.add %p, %c : {y}",
             y, [dict(n=0), dict(n=1), dict(n=2)],
             lambda x, w, b, d=dtype, a=(strides, dilations, low, high, [1, 1], channels): stored(np_conv(abs(x), w, *a), d) + b.reshape(-1, 1, 1),
             MATMUL.get(dtype, "relative 1e-12"))
    for columns, window, stride, dilation, low, high in [(203, 3, 1, 1, 1, 1), (64, 4, 1, 1, 3, 0), (90, 5, 2, 3, 6, 7), (4000, 2, 4, 1, 0, 0)]:
        x, w, y = T(dtype, "n", 6, columns), T(dtype, 6, 1, window), T(dtype, "n", 6, (columns + low + high - (window - 1) * dilation - 1) // stride + 1)
        case(f"conv depthwise of a line {dtype} {columns} by {window}", [In("x", x), In("w", w)],
             f"%r = ts.conv %x, %w strides [{stride}] dilations [{dilation}] input_dilations [1] low [#ts.dim<{low}>] high [#ts.dim<{high}>] "
             f"{{groups = 6 : i64}} : {x}, {w}", y, [dict(n=1), dict(n=3)],
             lambda x, w, a=([stride], [dilation], [low], [high], [1], 6): np_conv(x.astype("f8"), w.astype("f8"), *a), MATMUL.get(dtype, "relative 1e-12"))
x, w, y = T("f32", "n", 6, "h", 20), T("f32", 6, 1, 3, 3), T("f32", "n", 6, "floordiv(h + 1, 2)", 20)
case("conv depthwise of planes of any height", [In("x", x), In("w", w)],
     f"%r = ts.conv %x, %w strides [2, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] "
     f"{{groups = 6 : i64}} : {x}, {w}", y, [dict(n=0, h=4), dict(n=1, h=1), dict(n=2, h=17), dict(n=1, h=500)],
     lambda x, w: np_conv(x, w, [2, 1], [1, 1], [1, 1], [1, 1], [1, 1], 6), MATMUL["f32"])
# Windows of which GPUs give each result to a thread: runs of channels that accesses divide and not, windows that leave
# the image on either side, that see nothing of it, that are larger than it, or all of it.
for kind in ["max", "average", "sum"]:
    for dtype in ["f32", "f16", "bf16", "f64", "i32", "ui8"]:
        if kind == "average" and dtype in INTS:
            continue
        for channels in [24, 12, 5]:
            for window, strides, dilations, low, high, outs in [([3, 2], [2, 1], [1, 2], [1, 0], [2, 1], [4, 6]),
                                                                ([17, 9], [1, 3], [1, 1], [9, 4], [8, 8], [8, 4]),
                                                                ([7, 7], [1, 1], [1, 1], [0, 0], [0, 0], [1, 1]),
                                                                ([2, 2], [3, 4], [1, 1], [0, 0], [4, 7], [4, 4])]:
                for last in [True, False]:
                    if dtype != "f32" and (channels == 12 or not last and window != [3, 2]):
                        continue
                    shape = lambda a, b: T(dtype, 2, a, b, channels) if last else T(dtype, 2, channels, a, b)
                    x, y = shape(7, 7), shape(*outs)
                    attributes = "{channels_last = true}" if last else ""
                    pads = lambda p: "[" + ", ".join(f"#ts.dim<{n}>" for n in p) + "]"
                    case(f"pool window {kind} {dtype} {channels} {window} {'last' if last else 'first'}", [In("x", x)],
                         f"%r = ts.pool {kind} %x window {window} strides {strides} dilations {dilations} low {pads(low)} high {pads(high)} "
                         f"{attributes} : {x}", y, tolerance={"f16": "relative 1e-3", "bf16": "relative 8e-3"}.get(dtype, ROUNDING.get(dtype, "exact")))
for dtype in ["f32", "bf16"]:
    conv("window depthwise", dtype, T(dtype, "n", 6, 9, 11), T(dtype, 6, 1, 3, 5), T(dtype, "n", 6, 9, 11), [1, 1], None, [1, 2], [1, 2],
         attributes="{groups = 6 : i64}", sizes=[dict(n=1), dict(n=3)])
    conv("window two features a group", dtype, T(dtype, "n", 3, 9, 11), T(dtype, 6, 1, 3, 3), T(dtype, "n", 6, 7, 5), [1, 2], None, None, None,
         attributes="{groups = 3 : i64}", sizes=[dict(n=1), dict(n=3)])
    conv("window transposed depthwise", dtype, T(dtype, "n", 5, 4, 8), T(dtype, 4, 4, 1, 8), T(dtype, "n", 11, 12, 8), [1, 1], None, [2, 2], [3, 3],
         [2, 3], attributes="{channels_last = true, groups = 8 : i64}", sizes=[dict(n=1), dict(n=3)])
    conv("window transposed groups", dtype, T(dtype, "n", 4, 5, 7), T(dtype, 6, 2, 3, 2), T(dtype, "n", 6, 13, 13), [1, 1], None, [2, 0], [0, 1], [3, 2],
         attributes="{groups = 2 : i64}", sizes=[dict(n=1), dict(n=3)])
    conv("window of one dim", dtype, T(dtype, "n", 40, 16), T(dtype, 7, 1, 16), T(dtype, "n", 20, 16), [2], [2], [5], [6],
         attributes="{channels_last = true, groups = 16 : i64}", sizes=[dict(n=1), dict(n=3)])
    conv("window of three dims", dtype, T(dtype, "n", 4, 3, 6, 5), T(dtype, 4, 1, 2, 3, 3), T(dtype, "n", 4, 4, 6, 5), [1, 1, 1], None, [1, 1, 1], [1, 1, 1],
         attributes="{groups = 4 : i64}", sizes=[dict(n=1), dict(n=3)])
for name, c, groups, stride in [("depthwise", 1, 20, 1), ("depthwise stride 2", 1, 20, 2), ("lanes", 4, 6, 1)]:
    taps = [[[[(((i * 3 + j) * c + k) * c * groups + l) * 37 % 101 / 64 - 0.75 for l in range(c * groups)] for k in range(c)]
             for j in range(3)] for i in range(3)]
    outs = ["floordiv(h - 1, 2) + 1", "floordiv(w - 1, 2) + 1"] if stride == 2 else ["h", "w"]
    x, y = T("f32", 1, "h", "w", c * groups), T("f32", 1, *outs, c * groups)
    case(f"conv constant {name} symbolic image", [In("x", x)],
         f"%w = ts.constant dense<{taps}> : tensor<3x3x{c}x{c * groups}xf32>\n"
         f"  %r = ts.conv %x, %w strides [{stride}, {stride}] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] "
         f"high [#ts.dim<1>, #ts.dim<1>] {{channels_last = true, groups = {groups} : i64}} : {x}, tensor<3x3x{c}x{c * groups}xf32>",
         y, [dict(h=1, w=1), dict(h=5, w=14), dict(h=8, w=33), dict(h=3, w=2)],
         lambda x, w=taps, s=stride, g=groups: np_conv(x, np_().array(w), [s, s], [1, 1], [1, 1], [1, 1], [1, 1], g, last=True),
         MATMUL["f32"])
# Depthwise bytes of an image whose sizes are symbols; with h = 0 windows lie in the border alone.
for border in [None, 7]:
    taps = [[[[(i * 3 + j + l) * 37 % 256 - 128 for l in range(20)]] for j in range(3)] for i in range(3)]
    x, y = T("ui8", 1, "h", "w", 20), T("i32", 1, "h + 2", "w + 2", 20)
    padded = T("ui8", 1, "h + 4", "w + 4", 20) if border else x
    own = "[" + ", ".join([f"#ts.dim<{0 if border else 2}>"] * 2) + "]"
    wide_pads = "[#ts.dim<0>, #ts.dim<2>, #ts.dim<2>, #ts.dim<0>]"
    before = (f"%p = ts.constant dense<{border}> : tensor<ui8>\n"
              f"  %a = ts.pad %x value %p : tensor<ui8> low {wide_pads} high {wide_pads} : {x}\n  ") if border else ""
    def np_depthwise(x, w=taps, v=border):
        x = np_().pad(x, [(0, 0), (2, 2), (2, 2), (0, 0)], constant_values=v or 0)
        return np_conv(x, np_().array(w), [1, 1], [1, 1], [0, 0], [0, 0], [1, 1], 20, last=True).astype("i4")
    case(f"conv bytes depthwise symbolic image {border}", [In("x", x, "wide")],
         f"{before}%w = ts.constant dense<{taps}> : tensor<3x3x1x20xi8>\n"
         f"  %r = ts.conv {'%a' if border else '%x'}, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low {own} high {own} "
         f"{{channels_last = true, groups = 20 : i64}} : {padded}, tensor<3x3x1x20xi8>",
         y, [dict(h=1, w=1), dict(h=5, w=14), dict(h=8, w=33), dict(h=3, w=2), dict(h=0, w=4)], np_depthwise)
# One channel, few features: on GPUs a window an element, no tile of matmuls.
for dtype, image, taps, features, stride, pads in [("f16", (2, 197, 107), (3, 3), 1, 1, 1), ("bf16", (5, 1, 331), (7, 7), 1, 2, 3),
                                                   ("f32", (3, 509, 1), (5, 5), 1, 1, 2), ("bf16", (3, 1, 352), (5, 3), 6, 1, 1)]:
    n, h, w = image
    outs = [(size + 2 * pads - tap) // stride + 1 for size, tap in zip((h, w), taps)]
    if min(outs) < 1:
        continue
    x, f, r = T(dtype, n, 1, h, w), T(dtype, features, 1, *taps), T(dtype, n, features, *outs)
    case(f"conv of one channel {dtype} {h}x{w} {taps[0]}x{taps[1]} to {features}", [In("x", x), In("w", f)],
         f"%r = ts.conv %x, %w strides [{stride}, {stride}] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<{pads}>, #ts.dim<{pads}>] "
         f"high [#ts.dim<{pads}>, #ts.dim<{pads}>] {{groups = 1 : i64}} : {x}, {f}", r, [{}], None,
         {"f32": "relative 4e-6", "f16": "relative 2e-3", "bf16": "relative 1e-2"}[dtype])
