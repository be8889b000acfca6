"""Softmax, norms, attention and rope, and chains that fuse."""

from case_list import case, FLOATS, In, np_, PLANE, T, wide


def np_softmax(x, dim, log):
    np = np_()
    x = x.astype("f8")
    z = x - x.max(axis=dim, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=dim, keepdims=True)) if log else np.exp(z) / np.exp(z).sum(axis=dim, keepdims=True)


def np_norm(x, epsilon, rms, *parameters):
    np = np_()
    x = x.astype("f8")
    x = x if rms else x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    for combine, p in zip((np.multiply, np.add), parameters):
        y = combine(y, p)
    return y


ROW_SIZES = [dict(a=1, b=1), dict(a=3, b=5), dict(a=2, b=63), dict(a=7, b=384), dict(a=2, b=1030), dict(a=0, b=4)]
for dtype in FLOATS:
    for dim in [0, 1]:
        for log in [False, True]:
            t = T(dtype, "a", "b")
            case(f"softmax {dim} {'log ' if log else ''}{dtype}", [In("x", t)],
                 f"%r = ts.softmax %x dim {dim} {'{log = true}' if log else ''} : {t}", t,
                 ROW_SIZES[:5] if dim == 0 else ROW_SIZES, lambda x, dim=dim, log=log: np_softmax(x, dim, log),
                 "relative 2e-6" if dtype == "f32" else "relative 1e-12" if dtype == "f64" else "ulp 3",
                 dict(a=4096, b=2048) if dtype == "f32" and dim == 1 else None)
    for rms in [False, True]:
        for count in [0, 1, 2]:
            t, p = T(dtype, "a", "b"), T(dtype, "b")
            names = ["scale", "bias"][:count]
            operands = " ".join(f"{n} %{n} : {p}" for n in names)
            attributes = "{rms = true}" if rms else ""
            case(f"layer_norm {'rms ' if rms else ''}{count} {dtype}", [In("x", t)] + [In(n, p) for n in names],
                 f"%r = ts.layer_norm %x {operands} dim 1 epsilon 1.0e-5 {attributes} : {t}", t, ROW_SIZES,
                 lambda x, rms=rms, **p: np_norm(x, 1e-5, rms, *p.values()),
                 {"f32": "relative 4e-6", "f64": "relative 1e-10"}.get(dtype, "ulp 3"),
                 dict(a=4096, b=2048) if dtype == "f32" and count == 2 else None)
# Rows enough for a GPU to give each twice the threads: 10, 12 and 14 warps.
for width in [5120, 6144, 7168]:
    t, p = T("bf16", 1056, width), T("bf16", width)
    case(f"layer_norm many rows of {width} bf16", [In("x", t), In("scale", p), In("bias", p)],
         f"%r = ts.layer_norm %x scale %scale : {p} bias %bias : {p} dim 1 epsilon 1.0e-5 : {t}", t, [{}],
         lambda x, scale, bias: np_norm(x, 1e-5, False, scale, bias), "relative 8e-3")
# Rows that only one warp's accesses divide: a tile around them, or a thread would hold all its registers and more.
for dtype, limit in [("bf16", "relative 8e-3"), ("f16", "relative 2e-3"), ("f32", "relative 4e-6")]:
    for width in [5504, 6784]:
        t, p = T(dtype, 33, width), T(dtype, width)
        case(f"layer_norm rows of {width} {dtype}", [In("x", t), In("scale", p), In("bias", p)],
             f"%r = ts.layer_norm %x scale %scale : {p} bias %bias : {p} dim 1 epsilon 1.0e-5 : {t}", t, [{}],
             lambda x, scale, bias: np_norm(x, 1e-5, False, scale, bias), limit)
        case(f"softmax rows of {width} {dtype}", [In("x", t)], f"%r = ts.softmax %x dim 1 : {t}", t, [{}],
             lambda x: np_softmax(x, 1, False), limit)
t = T("f32", "a", 3, "b")
case("layer_norm two dims", [In("x", t)], f"%r = ts.layer_norm %x dim 1 epsilon 1.0e-6 : {t}", t, ROW_SIZES,
     tolerance="relative 4e-6")
def np_long(x):
    np = np_()
    for _ in range(3):
        x = np.exp(np.sin(x))
    return x - x.max(1, keepdims=True)


# Too much between the reductions of short rows for a row a lane.
t, k = T("f64", "a", 16), T("f64", "a")
case("long region over short rows", [In("x", t)],
     "".join(f"%s{i} = ts.sin %{'x' if i == 0 else f'e{i - 1}'} : {t}\n%e{i} = ts.exp %s{i} : {t}\n" for i in range(3))
     + f"%m = ts.reduce max %e2 [1] : {t}\n%w = ts.broadcast %m [0] : {k} to {t}\n%r = ts.sub %e2, %w : {t}", t, ROW_SIZES,
     np_long, "relative 1e-10")
# As many rows, or rows of as many rows, as a row has elements: sizes do not tell what a vector lies along.
for length in [4, 8, 16]:
    for shape in [["a", length, length], [length, length]]:
        t, k, p = T("f32", *shape), T("f32", *shape[:-1]), T("f32", length)
        for dim in range(len(shape) - 2, len(shape)):
            case(f"layer_norm of {' x '.join(map(str, shape))}, scale along {dim}", [In("x", t), In("s", p)],
                 f"%n = ts.layer_norm %x dim {len(shape) - 1} epsilon 1.0e-5 : {t}\n"
                 f"%w = ts.broadcast %s [{dim}] : {p} to {t}\n%r = ts.mul %n, %w : {t}", t,
                 ROW_SIZES[:3] + [dict(a=64, b=1)] if "a" in shape else [{}],
                 lambda x, s, own=dim == len(shape) - 1: np_norm(x, 1e-5, False) * (s if own else s[:, None]), "relative 4e-6")
        other = "[0, 2]" if len(shape) == 3 else "[1]"
        case(f"column less the row's sum, {' x '.join(map(str, shape))}", [In("x", t)],
             f"%s = ts.reduce add %x [{len(shape) - 1}] : {t}\n%w = ts.broadcast %s {other} : {k} to {t}\n"
             f"%r = ts.sub %x, %w : {t}", t, ROW_SIZES[:3] if "a" in shape else [{}],
             lambda x: x - x.astype("f8").sum(-1)[..., None, :], "relative 1e-5")
# Rows of a few elements: a row a lane. Dims of size 1 before the row.
for shape in [["a", "b", 1], ["a", 1, 1], [1, "b", 1]]:
    t, k = T("f32", *shape, 8), T("f32", *shape)
    text = " x ".join(map(str, shape))
    case(f"softmax of 8 in {text}", [In("x", t)], f"%r = ts.softmax %x dim 3 : {t}", t, ROW_SIZES,
         lambda x: np_softmax(x, 3, False), "relative 2e-6")
    case(f"row less its sum in {text}", [In("x", t), In("y", k)],
         f"%s = ts.reduce add %x [3] : {t}\n%m = ts.mul %s, %y : {k}\n"
         f"%w = ts.broadcast %m [0, 1, 2] : {k} to {t}\n%r = ts.sub %x, %w : {t}", t, ROW_SIZES,
         lambda x, y: x - (x.astype("f8").sum(3) * y)[..., None], "relative 1e-5")
for dtype in ["f32", "f64", "bf16"]:
    for length in [2, 7, 8, 10, 16]:
        t = T(dtype, "a", "b", length)
        limit = {"f32": "relative 2e-6", "f64": "relative 1e-12"}.get(dtype, "ulp 3")
        case(f"softmax of {length} {dtype}", [In("x", t)], f"%r = ts.softmax %x dim 2 : {t}", t, ROW_SIZES,
             lambda x: np_softmax(x, 2, False), limit)
        if length == 2:  # two near numbers: their mean decides all bits of the difference
            continue
        p = T(dtype, length)
        case(f"layer_norm of {length} {dtype}", [In("x", t), In("scale", p), In("bias", p)],
             f"%r = ts.layer_norm %x scale %scale : {p} bias %bias : {p} dim 2 epsilon 1.0e-5 : {t}", t, ROW_SIZES,
             lambda x, scale, bias: np_norm(x, 1e-5, False, scale, bias),
             # The bias may take away nearly all of what was normalised.
             {"f32": "relative 4e-6", "f64": "relative 1e-10", "f16": "relative 1e-3", "bf16": "relative 8e-3"}[dtype])
# Rows that start anywhere, held by the threads of a GPU as one tile.
for dtype in ["f32", "f16", "bf16"]:
    t = T(dtype, "a", 4099)
    case(f"softmax odd rows {dtype}", [In("x", t)], f"%r = ts.softmax %x dim 1 : {t}", t, [dict(a=9)],
         lambda x: np_softmax(x, 1, False), {"f32": "relative 2e-6", "f16": "relative 1e-3", "bf16": "relative 8e-3"}[dtype])
for shape, dim in [(("a", 33), 1), ((3, "a", 128), 2), ((2, "a", 130), 1), ((2, 21, 256), 1), ((3, 7, 2, 128), 1)]:
    t = T("f32", *shape)
    sizes = [dict(a=21), dict(a=64)] if "a" in shape else [{}]
    case(f"softmax dim {dim} of {'x'.join(map(str, shape))}", [In("x", t)], f"%r = ts.softmax %x dim {dim} : {t}", t, sizes,
         lambda x, dim=dim: np_softmax(x, dim, False), "relative 2e-6")
case("softmax 3-d", [In("x", T("f32", "a", "b", 3))], f'%r = ts.softmax %x dim 1 : {T("f32", "a", "b", 3)}',
     T("f32", "a", "b", 3), ROW_SIZES, lambda x: np_softmax(x, 1, False), "relative 2e-6")


def np_attention(q, k, v, mask=None, scale=0.25, causal=None, softcap=0, empty="zero"):
    np = np_()
    q, k, v = (x.astype("f8") for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * scale
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype.kind == "b" else s + mask
    if causal:
        rows, keys = s.shape[-2:]
        s = np.where(np.tril(np.ones((rows, keys), bool), keys - rows if causal == "bottom" else 0), s, -np.inf)
    top = np.maximum(s.max(-1, keepdims=True, initial=-np.inf), -1e300)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    instead = {"zero": 0, "nan": np.nan, "mean": 1 / max(1, s.shape[-1])}[empty]
    return np.where(total > 0, p / np.where(total > 0, total, 1), instead) @ v


ATTENTION = [dict(b=1, s=1, t=1), dict(b=2, s=5, t=5), dict(b=1, s=33, t=70), dict(b=2, s=64, t=64), dict(b=1, s=1, t=130)]
for dtype in ["f32", "f16", "bf16", "f64"]:
    tolerance = {"f32": "relative 5e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2", "f64": "relative 1e-10"}[dtype]
    for name, groups, mask, attributes, numpy in [
            ("", 4, None, "", np_attention),
            ("grouped", 2, None, "", np_attention),
            ("causal", 4, None, "{causal = true}", lambda q, k, v: np_attention(q, k, v, causal="bottom")),
            ("causal top left", 2, None, "{causal = true, causal_top_left = true}",
             lambda q, k, v: np_attention(q, k, v, causal="top")),
            ("softcap", 4, None, "{softcap = 2.0}", lambda q, k, v: np_attention(q, k, v, softcap=2)),
            ("mask", 4, (dtype, "b", 1, "s", "t"), "", lambda q, k, v, mask: np_attention(q, k, v, mask)),
            ("row mask", 4, (dtype, "b", 1, 1, "t"), "", lambda q, k, v, mask: np_attention(q, k, v, mask)),
            ("keep mask", 4, ("i1", "b", 4, "s", "t"), "", lambda q, k, v, mask: np_attention(q, k, v, mask))]:
        q, k, v = T(dtype, "b", 4, "s", 16), T(dtype, "b", groups, "t", 16), T(dtype, "b", groups, "t", 24)
        inputs = [In("q", q), In("k", k), In("v", v)]
        text = ""
        if mask:
            m = T(*mask)
            inputs.append(In("mask", m, "bool" if mask[0] == "i1" else "normal"))
            text = f"mask %mask : {m}"
        case(f"attention {name} {dtype}", inputs,
             f"%r = ts.attention %q, %k, %v {text} scale 0.25 {attributes} : {q}, {k}, {v}",
             T(dtype, "b", 4, "s", 24), ATTENTION, numpy, tolerance,
             dict(b=8, s=128, t=128) if dtype == "f32" and not name else None)
# Few queries: sums along the keys.
for dtype in ["f32", "f16", "bf16"]:
    for queries, depth in [(1, 64), (3, 17), (4, 8)]:
        q, k, v = (T(dtype, "b", 4, queries, depth), T(dtype, "b", 2, "t", depth), T(dtype, "b", 2, "t", 24))
        m = T("i1", "b", 1, queries, "t")
        case(f"attention of {queries} queries of {depth} {dtype}", [In("q", q), In("k", k), In("v", v), In("mask", m, "bool")],
             f"%r = ts.attention %q, %k, %v mask %mask : {m} scale 0.25 {{causal = true}} : {q}, {k}, {v}",
             T(dtype, "b", 4, queries, 24), [dict(b=1, t=0), dict(b=2, t=5), dict(b=1, t=70), dict(b=1, t=131)],
             lambda q, k, v, mask: np_attention(q, k, v, mask, causal="bottom"),
             {"f32": "relative 5e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2"}[dtype])
# Heads that are views, and of sizes that no pair, vector or panel divides.
for dtype in ["f32", "bf16"]:
    for depth, width in [(17, 19), (33, 50), (1, 1)]:
        x, y, z = T(dtype, "b", "s", 3, depth), T(dtype, "b", "t", 3, depth), T(dtype, "b", "t", 3, width)
        h = lambda rows, n, dtype=dtype: T(dtype, "b", 3, rows, n)
        case(f"attention odd {depth} {width} {dtype}", [In("q", x), In("k", y), In("v", z)],
             f"%0 = ts.transpose %q [0, 2, 1, 3] : {x}\n  %1 = ts.transpose %k [0, 2, 1, 3] : {y}\n"
             f"  %2 = ts.transpose %v [0, 2, 1, 3] : {z}\n"
             f"  %r = ts.attention %0, %1, %2 scale 0.25 : {h('s', depth)}, {h('t', depth)}, {h('t', width)}",
             h("s", width), ATTENTION + [dict(b=2, s=131, t=67), dict(b=1, s=3, t=0)],
             lambda q, k, v: np_attention(*(np_().moveaxis(a, 1, 2) for a in (q, k, v))),
             {"f32": "relative 5e-6", "bf16": "relative 2e-2"}[dtype])
for dtype in ["f32", "bf16", "f64"]:
    q, k = T(dtype, "b", 2, "s", 64), T(dtype, "b", 2, "t", 64)
    mask = T("i1", "b", 1, 1, "t")
    tolerance = {"f32": "relative 5e-6", "bf16": "relative 2e-2", "f64": "relative 1e-10"}[dtype]
    for empty in ["zero", "nan", "mean"]:
        attributes = "causal = true" + (f', ts.empty_row = "{empty}"' if empty != "zero" else "")
        case(f"attention unseen rows {empty} {dtype}", [In("q", q), In("k", k), In("v", k)],
             f"%r = ts.attention %q, %k, %v scale 0.125 {{{attributes}}} : {q}, {k}, {k}", q,
             [dict(b=1, s=9, t=4), dict(b=1, s=200, t=70), dict(b=2, s=3, t=0)],
             lambda q, k, v, empty=empty: np_attention(q, k, v, scale=0.125, causal="bottom", empty=empty), tolerance)
        # Left padding: the first rows of a batch see padding only.
        case(f"attention masked rows {empty} {dtype}", [In("q", q), In("k", k), In("v", k), In("mask", mask, "bool")],
             f"%r = ts.attention %q, %k, %v mask %mask : {mask} scale 0.125 {{{attributes}}} : {q}, {k}, {k}", q,
             [dict(b=8, s=5, t=5), dict(b=3, s=150, t=150), dict(b=8, s=1, t=1)],
             lambda q, k, v, mask, empty=empty: np_attention(q, k, v, mask, scale=0.125, causal="bottom", empty=empty),
             tolerance)

# Numbers added to keys, by f32 beside narrow operands, that exclude some: positions times the slope of a head.
def np_slopes(q, k, v, mask, n, empty="zero"):
    np = np_()
    slopes = np.float32([0.5, 0.25])
    added = np.where(mask[:, :, :1], n.astype("f4") * slopes[None, :, None, None], -np.inf)
    return np_attention(q, k, v, added, scale=0.125, causal="bottom", empty=empty)


for dtype in ["f32", "f16", "bf16"]:
    q, k, n, keep = T(dtype, "b", 2, "s", 64), T(dtype, "b", 2, "t", 64), T("i64", "b", 1, 1, "t"), T("i1", "b", 1, 1, "t")
    m = T("f32", "b", 2, 1, "t")
    seen = T("i1", "b", 2, 1, "t")
    for empty in ["zero", "nan", "mean"]:
        attributes = "causal = true" + (f', ts.empty_row = "{empty}"' if empty != "zero" else "")
        case(f"attention slopes {empty} {dtype}", [In("q", q), In("k", k), In("v", k), In("mask", keep, "bool"), In("n", n, "normal")],
             f"%s = ts.constant dense<[0.5, 0.25]> : tensor<2xf32>\n  %s4 = ts.broadcast %s [1] : tensor<2xf32> to {m}\n"
             f"  %low = ts.constant dense<0xFF800000> : tensor<f32>\n  %l4 = ts.broadcast %low [] : tensor<f32> to {m}\n"
             f"  %x = ts.convert %n : {n} to {T('f32', 'b', 1, 1, 't')}\n"
             f"  %x4 = ts.broadcast %x [0, 1, 2, 3] : {T('f32', 'b', 1, 1, 't')} to {m}\n  %a = ts.mul %s4, %x4 : {m}\n"
             f"  %k4 = ts.broadcast %mask [0, 1, 2, 3] : {keep} to {seen}\n  %m = ts.select %k4, %a, %l4 : {seen}, {m}\n"
             f"  %r = ts.attention %q, %k, %v mask %m : {m} scale 0.125 {{{attributes}}} : {q}, {k}, {k}", q,
             [dict(b=8, s=5, t=5), dict(b=3, s=150, t=150), dict(b=1, s=40, t=300)],
             lambda q, k, v, mask, n, empty=empty: np_slopes(q, k, v, mask, n, empty),
             {"f32": "relative 5e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2"}[dtype])

# A mask of several tensors, one of them read across its rows, and rows that see no key.
def np_two_addends(q, k, v, c, p, mask):
    np = np_()
    added = c.astype("f8") + p.astype("f8").swapaxes(-1, -2)
    return np_attention(q, k, v, np.where(mask, added, -np.inf), scale=0.125, empty="mean")


for dtype in ["f32", "f16", "bf16"]:
    for depth in [64, 128]:
        q, k, m = T(dtype, "b", 2, "s", depth), T(dtype, "b", 2, "t", depth), T("i1", "b", 1, 1, "t")
        c, p, w, seen = T(dtype, "b", 2, "s", "t"), T(dtype, "b", 2, "t", "s"), T("f32", "b", 2, "s", "t"), T("i1", "b", 2, "s", "t")
        elsewhere = dtype != "f32"  # a conversion to the same type is none
        converted = lambda of, to, n: f"  %{n}w = ts.convert %{n} : {of} to {to}\n" if elsewhere else ""  # noqa: E731
        n = "w" if elsewhere else ""
        case(f"attention two addends {depth} {dtype}",
             [In("q", q), In("k", k), In("v", k), In("c", c), In("p", p), In("mask", m, "bool")],
             f"%low = ts.constant dense<0xFF800000> : tensor<f32>\n  %l4 = ts.broadcast %low [] : tensor<f32> to {w}\n"
             + converted(c, w, "c") + converted(p, T("f32", "b", 2, "t", "s"), "p")
             + f"  %pt = ts.transpose %p{n} [0, 1, 3, 2] : {T('f32', 'b', 2, 't', 's')}\n  %a = ts.add %c{n}, %pt : {w}\n"
             f"  %k4 = ts.broadcast %mask [0, 1, 2, 3] : {m} to {seen}\n  %m = ts.select %k4, %a, %l4 : {seen}, {w}\n"
             f'  %r = ts.attention %q, %k, %v mask %m : {w} scale 0.125 {{ts.empty_row = "mean"}} : {q}, {k}, {k}', q,
             [dict(b=2, s=5, t=5), dict(b=1, s=150, t=70), dict(b=1, s=40, t=301), dict(b=3, s=9, t=1)], np_two_addends,
             {"f32": "relative 5e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2"}[dtype])

# A mask of integers is added as one of floats.
for dtype in ["i64", "ui8", "i16"]:
    q, k, m = T("f32", "b", 2, "s", 32), T("f32", "b", 2, "t", 32), T(dtype, "b", 1, "s", "t")
    case(f"attention mask of {dtype}", [In("q", q), In("k", k), In("v", k), In("m", m, "index0 5")],
         f"%r = ts.attention %q, %k, %v mask %m : {m} scale 0.25 : {q}, {k}, {k}", q, [dict(b=2, s=3, t=9), dict(b=1, s=40, t=70)],
         lambda q, k, v, m: np_attention(q, k, v, m.astype("f8"), scale=0.25), "relative 5e-6")

# Masks of keys over several blocks of them, of batches and of heads: rows that see none, or see keys of one block alone.
for dtype in ["f32", "f16", "bf16"]:
    tolerance = {"f32": "relative 5e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2"}[dtype]
    for name, depth, groups, of, attributes in [
            ("of batches", 64, 4, ("b", 1), ""), ("of heads", 128, 2, (1, 4), ""), ("causal", 128, 4, ("b", 1), "causal = true"),
            ("mean", 64, 2, ("b", 4), 'ts.empty_row = "mean"'), ("causal mean", 64, 4, ("b", 1), 'causal = true, ts.empty_row = "mean"'),
            ("softcap", 32, 4, ("b", 1), "softcap = 2.0"), ("softcap mean", 64, 4, ("b", 1), 'softcap = 2.0, causal = true, ts.empty_row = "mean"')]:
        q, k, mask = T(dtype, "b", 4, "s", depth), T(dtype, "b", groups, "t", depth), T("i1", *of, 1, "t")
        case(f"attention key mask {name} {dtype}", [In("q", q), In("k", k), In("v", k), In("mask", mask, "bool")],
             f"%r = ts.attention %q, %k, %v mask %mask : {mask} scale {depth ** -0.5} {{{attributes}}} : {q}, {k}, {k}", q,
             [dict(b=3, s=200, t=330), dict(b=1, s=64, t=128), dict(b=2, s=131, t=129), dict(b=5, s=3, t=2)],
             lambda q, k, v, mask, a=attributes, scale=depth ** -0.5: np_attention(
                 q, k, v, mask, scale=scale, causal="bottom" if "causal" in a else None,
                 softcap=2 if "softcap" in a else 0, empty="mean" if "mean" in a else "zero"), tolerance)

# Heads wider than 128, in every way that changes or hides scores.
for dtype in ["f16", "bf16"]:
    tolerance = {"f16": "relative 2e-3", "bf16": "relative 2e-2"}[dtype]
    for name, depth, width, groups, mask, attributes in [
            ("", 256, 256, 1, None, ""), ("causal", 192, 256, 2, None, "causal = true"), ("narrow values", 256, 64, 4, None, "causal = true"),
            ("wide values", 64, 200, 4, None, ""), ("key mask", 256, 256, 1, ("i1", "b", 1, 1, "t"), "causal = true"),
            ("softcap", 256, 256, 2, ("i1", "b", 1, 1, "t"), "causal = true, softcap = 2.0"), ("mask", 136, 136, 2, (dtype, 1, 4, "s", "t"), ""),
            ("mean", 256, 192, 4, ("i1", "b", 1, 1, "t"), 'causal = true, ts.empty_row = "mean"'),
            ("softcap mean", 256, 256, 4, ("i1", "b", 1, 1, "t"), 'softcap = 2.0, causal = true, ts.empty_row = "mean"')]:
        q, k, v = T(dtype, "b", 4, "s", depth), T(dtype, "b", groups, "t", depth), T(dtype, "b", groups, "t", width)
        inputs = [In("q", q), In("k", k), In("v", v)]
        if mask:
            inputs.append(In("mask", T(*mask), "bool" if mask[0] == "i1" else "normal"))
        text = f"mask %mask : {T(*mask)}" if mask else ""
        case(f"attention wide heads {name} {dtype}", inputs,
             f"%r = ts.attention %q, %k, %v {text} scale {depth ** -0.5} {{{attributes}}} : {q}, {k}, {v}", T(dtype, "b", 4, "s", width),
             [dict(b=2, s=200, t=330), dict(b=1, s=64, t=128), dict(b=2, s=131, t=65), dict(b=3, s=9, t=2)],
             lambda q, k, v, mask=None, a=attributes, scale=depth ** -0.5: np_attention(
                 q, k, v, mask, scale=scale, causal="bottom" if "causal" in a else None,
                 softcap=2 if "softcap" in a else 0, empty="mean" if "mean" in a else "zero"), tolerance)


def np_rope(x, c, s, interleaved):
    np = np_()
    half = c.shape[-1]
    r = x.astype("f8").copy()
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    c, s = c[:, None], s[:, None]
    r[..., first] = x[..., first] * c - x[..., second] * s
    r[..., second] = x[..., second] * c + x[..., first] * s
    return r


for dtype in ["f32", "f16", "bf16"]:
    for interleaved in [False, True]:
        for half, batch in [(8, "b"), (8, 1), (5, 1)]:
            x, c = T(dtype, "b", 3, "s", 16), T(dtype, batch, "s", half)
            attributes = "{interleaved = true}" if interleaved else ""
            case(f"rope {half} {batch} {attributes} {dtype}", [In("x", x), In("c", c, "unit"), In("s", c, "unit")],
                 f"%r = ts.rope %x, %c, %s {attributes} : {x}, {c}", x,
                 [dict(b=1, s=1), dict(b=2, s=7), dict(b=1, s=40)],
                 lambda x, c, s, i=interleaved: np_rope(x, c, s, i),
                 {"f32": "relative 1e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2"}[dtype])

t = T("f32", "a", "b")
case("kernel", [In("x", t)],
     f"%r = ts.kernel reduce (%y = %x : {t}) -> ({T('f32', 'a')}) {{\n"
     f"    %0 = ts.exp %y : {t}\n    %1 = ts.reduce add %0 [1] : {t}\n    ts.yield %1 : {T('f32', 'a')}\n  }}",
     T("f32", "a"), PLANE, lambda x: np_().exp(wide(x)).sum(1), "relative 4e-6")

# ---- chains that fuse ----

t, p = T("f32", "a", "b"), T("f32", "b")
case("chain relu", [In("x", t)],
     f"%z = ts.constant dense<0.0> : tensor<f32>\n  %h = ts.constant dense<0.5> : tensor<f32>\n"
     f"  %o = ts.constant dense<1.0> : tensor<f32>\n"
     + "".join(f"  %{n}b = ts.broadcast %{n} [] : tensor<f32> to {t}\n" for n in "zho") +
     f"  %1 = ts.max %x, %zb : {t}\n  %2 = ts.mul %1, %hb : {t}\n  %r = ts.add %2, %ob : {t}", t, PLANE,
     lambda x: np_().maximum(x, 0) * np_().float32(0.5) + np_().float32(1), "ulp 1", dict(a=4096, b=4096))
case("chain mlp", [In("x", T("f32", "a", 24)), In("w", T("f32", 24, 40)), In("c", T("f32", 40))],
     f"%d = ts.dot %x, %w batch [] x [] contract [1] x [0] : {T('f32', 'a', 24)}, {T('f32', 24, 40)}\n"
     f"  %b = ts.broadcast %c [1] : {T('f32', 40)} to {T('f32', 'a', 40)}\n"
     f"  %s = ts.add %d, %b : {T('f32', 'a', 40)}\n  %r = ts.gelu %s : {T('f32', 'a', 40)}", T("f32", "a", 40),
     PLANE, None, "relative 3e-6")
# Mish, whose tangent of a logarithm is computed as one. Of 16 bits the reference rounds each op, so that far below zero its own
# result is off: there the ops are float32's.
for dtype in ("f32", "f64", "f16", "bf16"):
    narrow = dtype in ("f16", "bf16")
    for kind in ("normal",) if narrow else ("normal", "wide", "special"):
        x = T(dtype, "a", "b")
        case(f"chain mish {dtype} {kind}", [In("x", x, kind)],
             f"%s = ts.softplus %x : {x}\n  %t = ts.tanh %s : {x}\n  %r = ts.mul %x, %t : {x}", x, PLANE, None, "ulp 4" if narrow else "ulp 6")
    for kind in ("wide", "special") if narrow else ():
        x, f = T(dtype, "a", "b"), T("f32", "a", "b")
        case(f"chain mish in f32 of {dtype} {kind}", [In("x", x, kind)],
             f"%w = ts.convert %x : {x} to {f}\n  %s = ts.softplus %w : {f}\n  %t = ts.tanh %s : {f}\n  %m = ts.mul %w, %t : {f}\n"
             f"  %r = ts.convert %m : {f} to {x}", x, PLANE, None, "ulp 1")
# Functions of float32 whose values are rounded to 16 bits, behind a product and a choice.
for function in ("sin", "cos", "exp", "expm1", "softplus", "tanh", "sigmoid", "sqrt", "rsqrt"):
    for dtype, tolerance in (("bf16", "ulp 4"), ("f16", "ulp 4")):
        for kind in ("normal", "special"):
            x, y, m = T("f32", "a", "b"), T(dtype, "a", "b"), T("i1", "a", "b")
            case(f"chain rounded {function} {dtype} {kind}", [In("x", x, kind), In("p", m)],
                 f"%f = ts.{function} %x : {x}\n  %h = ts.constant dense<0.5> : tensor<f32>\n"
                 f"  %b = ts.broadcast %h [] : tensor<f32> to {x}\n  %m = ts.mul %f, %b : {x}\n"
                 f"  %s = ts.select %p, %m, %x : {m}, {x}\n  %r = ts.convert %s : {x} to {y}", y, PLANE, None, tolerance)
# Scores over a cap, and a gate, in float32 around a matmul; rounded to 16 bits where they are stored.
for dtype, tolerance in (("bf16", "relative 5e-3"), ("f16", "relative 1.2e-3")):
    x, w, f, y = T(dtype, "a", 64), T(dtype, 64, 40), T("f32", "a", 40), T(dtype, "a", 40)
    matmul = f"%d = ts.dot %x, %w batch [] x [] contract [1] x [0] {{result_type = f32}} : {x}, {w}\n  "
    case(f"chain capped {dtype}", [In("x", x), In("w", w)],
         f"{matmul}%c = ts.constant dense<3.0> : tensor<f32>\n  %b = ts.broadcast %c [] : tensor<f32> to {f}\n"
         f"  %q = ts.div %d, %b : {f}\n  %t = ts.tanh %q : {f}\n  %m = ts.mul %t, %b : {f}\n  %r = ts.convert %m : {f} to {y}",
         y, PLANE, None, tolerance)
    for name, op in (("gelu", "ts.gelu %d"), ("gelu.tanh", "ts.gelu %d {tanh = true}"), ("sigmoid", "ts.sigmoid %d")):
        case(f"chain gated {name} {dtype}", [In("x", x), In("w", w), In("z", f)],
             f"{matmul}%g = {op} : {f}\n  %m = ts.mul %g, %z : {f}\n  %r = ts.convert %m : {f} to {y}", y, PLANE, None, tolerance)

case("chain residual norm", [In("x", t), In("y", t), In("scale", p), In("bias", p)],
     f"%s = ts.add %x, %y : {t}\n"
     f"  %r = ts.layer_norm %s scale %scale : {p} bias %bias : {p} dim 1 epsilon 1.0e-12 : {t}", t, ROW_SIZES[1:],
     lambda x, y, scale, bias: np_norm(x.astype("f8") + y, 1e-12, False, scale, bias), "relative 4e-6",
     dict(a=1024, b=768))
case("chain head split", [In("x", T("f32", "b", "s", 48))],
     f"%h = ts.reshape %x : {T('f32', 'b', 's', 48)} to {T('f32', 'b', 's', 4, 12)}\n"
     f"  %t = ts.transpose %h [0, 2, 1, 3] : {T('f32', 'b', 's', 4, 12)}\n  %r = ts.neg %t : {T('f32', 'b', 4, 's', 12)}",
     T("f32", "b", 4, "s", 12), [dict(b=1, s=1), dict(b=2, s=9), dict(b=0, s=3)],
     lambda x: -x.reshape(x.shape[0], x.shape[1], 4, 12).transpose(0, 2, 1, 3))


def np_group_norm(x, groups):
    np = np_()
    n, h, w, c = x.shape
    y = x.astype("f8").reshape(n, h * w, groups, c // groups)
    y = y - y.mean((1, 3), keepdims=True)
    return (y / np.sqrt((y * y).mean((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)


def group_norm(dtype, channels, groups):
    """As graph/layout writes it: statistics of lines, of groups, then all pixels."""
    t, f = T(dtype, 2, "a", "b", channels), T("f32", 2, "a", "b", channels)
    each = channels // groups
    line, group, g = T("f32", 2, "a", channels), T("f32", 2, "a", groups, each), T("f32", 2, groups)
    spread, flat = T("f32", 2, groups, each), T("f32", 2, channels)
    ops = [f"%x0 = ts.convert %x : {t} to {f}"] if dtype != "f32" else []
    x, y = ("%x0", "%y") if ops else ("%x", "%r")
    for name, size in [("w", "b"), ("l", f"{each}*a"), ("p", f"{each}*a*b")]:
        ops += [f'%{name}i = ts.size <"{size}"> : tensor<i64>',
                f"%{name} = ts.convert %{name}i : tensor<i64> to tensor<f32>"]
    number = lambda name, type: f"%{name} = ts.broadcast %{name[0]} [] : tensor<f32> to {type}"
    ops += [
        "%e = ts.constant dense<1.0e-5> : tensor<f32>", "%o = ts.constant dense<1.0> : tensor<f32>",
        number("wl", line), number("lg", g), number("wg", g), number("pg", g), number("eg", g), number("og", g),
        f"%s0 = ts.reduce add {x} [2] : {f}", f"%m0 = ts.div %s0, %wl : {line}",
        f"%b0 = ts.broadcast %m0 [0, 1, 3] : {line} to {f}", f"%d0 = ts.sub {x}, %b0 : {f}",
        f"%q0 = ts.mul %d0, %d0 : {f}", f"%v0 = ts.reduce add %q0 [2] : {f}",
        f"%m1 = ts.reshape %m0 : {line} to {group}", f"%v1 = ts.reshape %v0 : {line} to {group}",
        f"%s1 = ts.reduce add %m1 [1, 3] : {group}", f"%mean = ts.div %s1, %lg : {g}",
        f"%b1 = ts.broadcast %mean [0, 2] : {g} to {group}", f"%d1 = ts.sub %m1, %b1 : {group}",
        f"%q1 = ts.mul %d1, %d1 : {group}", f"%v2 = ts.reduce add %q1 [1, 3] : {group}",
        f"%v3 = ts.reduce add %v1 [1, 3] : {group}", f"%v4 = ts.mul %v2, %wg : {g}",
        f"%v5 = ts.add %v3, %v4 : {g}", f"%v6 = ts.div %v5, %pg : {g}", f"%v7 = ts.add %v6, %eg : {g}",
        f"%v8 = ts.sqrt %v7 : {g}", f"%v9 = ts.div %og, %v8 : {g}",
    ]
    for name, value in [("c", "%mean"), ("k", "%v9")]:
        ops += [f"%{name}0 = ts.broadcast {value} [0, 1] : {g} to {spread}",
                f"%{name}1 = ts.reshape %{name}0 : {spread} to {flat}",
                f"%{name}2 = ts.broadcast %{name}1 [0, 3] : {flat} to {f}"]
    ops += [f"%z = ts.sub {x}, %c2 : {f}", f"{y} = ts.mul %z, %k2 : {f}"]
    if dtype != "f32":
        ops += [f"%r = ts.convert %y : {f} to {t}"]
    case(f"chain group norm {dtype} {channels} {groups}", [In("x", t)], "\n  ".join(ops), t,
         [dict(a=1, b=1), dict(a=3, b=5), dict(a=5, b=33)], lambda x: np_group_norm(x, groups),
         {"f32": "relative 4e-6", "f16": "relative 2e-3", "bf16": "relative 1e-2"}[dtype],
         dict(a=64, b=64) if (dtype, channels) == ("f32", 32) else None)


for dtype, channels, groups in [("f32", 32, 8), ("f32", 24, 6), ("f32", 160, 2), ("f32", 7, 7), ("f16", 48, 3),
                                ("bf16", 12, 1)]:
    group_norm(dtype, channels, groups)

for dtype in ["f32", "bf16", "i8"]:
    t, wide_, u = T(dtype, "a", "b", 24), T(dtype, "a", "b", 3, 24), T(dtype, "a", "3*b", 24)
    other, joined = T(dtype, "a", "3*b", 40), T(dtype, "a", "3*b", 64)
    case(f"chain resize concat {dtype}", [In("x", t), In("y", other)],
         f"%b = ts.broadcast %x [0, 1, 3] : {t} to {wide_}\n  %u = ts.reshape %b : {wide_} to {u}\n"
         f"  %r = ts.concat %u, %y dim 2 : {u}, {other}", joined,
         [dict(a=1, b=1), dict(a=3, b=5), dict(a=2, b=33), dict(a=0, b=2)],
         lambda x, y: np_().concatenate([np_().repeat(x, 3, 1), y], 2),
         speed=dict(a=64, b=64) if dtype == "f32" else None)


def np_paged_attention(q, k, v, table, sequence, position, window=0, softcap=0):
    np = np_()
    result = np.zeros((*q.shape[:2], v.shape[3]))
    share = q.shape[1] // k.shape[1]
    for t, (row, last) in enumerate(zip(sequence, position)):
        if last < 0:
            continue
        keys, values = (np.moveaxis(pool[table[row]], 1, 0).reshape(pool.shape[1], -1, pool.shape[3]) for pool in (k, v))
        first = max(0, last - window + 1) if window else 0
        keys, values = (np.repeat(x[:, first:last + 1].astype("f8"), share, axis=0) for x in (keys, values))
        s = np.einsum("hd,hpd->hp", q[t].astype("f8"), keys) * 0.25
        s = softcap * np.tanh(s / softcap) if softcap else s
        p = np.exp(s - s.max(-1, keepdims=True))
        result[t] = np.einsum("hp,hpe->he", p / p.sum(-1, keepdims=True), values)
    return result


# Tokens of three sequences of up to 3 blocks, in any order; in f64 and of blocks of 8 by gathering. GPUs: each token by
# itself up to 16, or as many as there are sequences, then tiles of neighbours.
for dtype, positions, depth, width, heads, attributes in [
        ("f32", 16, 64, 64, 6, {}), ("f32", 32, 20, 24, 6, {}), ("f32", 16, 16, 16, 6, dict(window=9)),
        ("f32", 16, 64, 32, 6, dict(softcap=2.0)), ("f32", 8, 16, 16, 6, dict(window=5)), ("f64", 16, 8, 8, 6, {}),
        ("bf16", 16, 64, 64, 8, {}), ("bf16", 32, 128, 128, 8, dict(window=21)), ("bf16", 16, 256, 256, 4, dict(softcap=2.0)),
        ("bf16", 48, 80, 96, 2, {}), ("bf16", 16, 128, 64, 40, dict(window=9, softcap=3.0)), ("f16", 16, 64, 128, 6, {}),
        ("bf16", 16, 20, 24, 6, dict(window=9))]:
    q, k, v = T(dtype, "t", heads, depth), T(dtype, 7, 2, positions, depth), T(dtype, 7, 2, positions, width)
    i, s = T("i32", 3, 3), T("i32", "t")
    named = ", ".join(f"{name} = {value}" for name, value in attributes.items())
    case(f"paged_attention {depth} {width} of {heads} {' '.join(attributes)} blocks of {positions} {dtype}",
         [In("q", q), In("k", k), In("v", v), In("i", i, "index0 7"), In("s", s, "index0 3"), In("p", s, f"index0 {3 * positions}")],
         f"%r = ts.paged_attention %q, %k, %v table %i sequence %s position %p scale 0.25 {{{named}}} : "
         f"{q}, {k}, {v}, {i}, {s}, {s}", T(dtype, "t", heads, width),
         [dict(t=0), dict(t=1), dict(t=3), dict(t=5), dict(t=11), dict(t=32), dict(t=33), dict(t=70), dict(t=140)],
         lambda q, k, v, i, s, p, a=attributes: np_paged_attention(q, k, v, i, s, p, **a),
         {"f32": "relative 5e-6", "f64": "relative 1e-10", "f16": "relative 4e-3", "bf16": "relative 2e-2"}[dtype])

# An operand with only some of the dims that lie side by side, beside one of size 1 that all of them have: [3, 1, 5] is one dim of
# 15, of which [1, 1, 5] is neither all nor a single number.
for rows in [(3, 1, 5), (2, 5, 1, 3), (1, 4, 1)]:
    for keep in range(len(rows)):
        t = T("f32", *rows, 3)
        m = T("f32", *[d if i >= keep else 1 for i, d in enumerate(rows)], 3)
        case(f"softmax partly repeated {'x'.join(map(str, rows))} from {keep}", [In("x", t), In("y", m)],
             f"%b = ts.broadcast %y {list(range(len(rows) + 1))} : {m} to {t}\n%a = ts.add %x, %b : {t}\n"
             f"%r = ts.softmax %a dim {len(rows)} : {t}", t, [{}],
             lambda x, y: np_softmax(x.astype("f8") + y, -1, False), "relative 4e-6")

# Softmax over a dim before several short ones.
for dtype in ["f32", "bf16", "f16"]:
    for shape, dim in [((3, 41, 5, 3), 0), ((2, 7, 3, 2), 1), ((1, 3, 1, 5), 0), ((16, 130, 3), 0)]:
        for log in [False, True]:
            t = T(dtype, *shape)
            case(f"softmax before short dims {dim} {'x'.join(map(str, shape))} {log} {dtype}", [In("x", t)],
                 f"%r = ts.softmax %x dim {dim} {'{log = true}' if log else ''} : {t}", t, [{}],
                 lambda x, dim=dim, log=log: np_softmax(x, dim, log), "relative 2e-6" if dtype == "f32" else "ulp 3")
