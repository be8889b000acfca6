"""Attention in float32 of queries, keys and values that were widened from 16 bits, as exporters write it.

The result keeps float32's accuracy, whatever reads the 16 bits: weights as sums of 16-bit terms on tensor cores, or FMAs.
"""

from case_list import case, In, np_, T
from composite_cases import np_attention

SIZES = [dict(b=2, s=200, t=330), dict(b=1, s=64, t=128), dict(b=2, s=131, t=65), dict(b=3, s=9, t=2), dict(b=1, s=16, t=1041)]


def widened(name, dtype, q, k, v, mask=None, attributes="", sizes=SIZES, scale=None, tolerance="relative 5e-6"):
    """Dims [B, H, S, D], [B, G, T, D], [B, G, T, E]."""
    wide = [T("f32", *dims) for dims in (q, k, v)]
    scale = q[3] ** -0.5 if scale is None else scale
    inputs = [In(n, T(dtype, *dims)) for n, dims in zip("qkv", (q, k, v))]
    text = ""
    if mask:
        m = T(*mask)
        inputs.append(In("mask", m, "bool" if mask[0] == "i1" else "normal"))
        text = f"mask %mask : {m}"
    body = "".join(f"%{n}w = ts.convert %{n} : {i.type} to {w}\n  " for n, i, w in zip("qkv", inputs, wide))
    case(f"attention widened {name} {dtype}", inputs,
         f"{body}%r = ts.attention %qw, %kw, %vw {text} scale {scale} {{{attributes}}} : {wide[0]}, {wide[1]}, {wide[2]}",
         T("f32", *q[:3], v[3]), sizes,
         lambda q, k, v, mask=None: np_attention(
             q, k, v, mask, scale=scale, causal="top" if "top_left" in attributes else "bottom" if "causal" in attributes else None,
             softcap=2 if "softcap" in attributes else 0,
             empty="mean" if '"mean"' in attributes else "nan" if '"nan"' in attributes else "zero"), tolerance)


for dtype in ["bf16", "f16"]:
    for name, depth, width, groups, mask, attributes in [
            ("", 64, 64, 4, None, ""), ("grouped", 128, 128, 2, None, ""), ("of one head", 32, 32, 1, None, "causal = true"),
            ("causal", 80, 80, 4, None, "causal = true"), ("top left", 72, 40, 2, None, "causal = true, causal_top_left = true"),
            ("unseen rows", 64, 64, 4, None, 'causal = true, ts.empty_row = "nan"'),
            ("mean of unseen rows", 64, 64, 4, None, 'causal = true, ts.empty_row = "mean"'),
            ("softcap", 32, 64, 4, None, "softcap = 2.0"), ("causal softcap", 128, 96, 2, None, "causal = true, softcap = 2.0"),
            ("added mask", 64, 64, 4, ("f32", "b", 1, "s", "t"), ""), ("narrow mask", 128, 128, 2, (dtype, 1, 4, "s", "t"), ""),
            ("bool mask", 48, 48, 2, ("i1", 1, 1, "s", "t"), ""), ("bool mask of heads", 96, 128, 4, ("i1", "b", 4, "s", "t"), "causal = true"),
            ("padding", 24, 24, 4, ("i1", "b", 1, 1, "t"), ""), ("causal padding", 128, 64, 2, ("i1", "b", 1, 1, "t"), "causal = true"),
            ("padding of heads", 64, 64, 2, ("i1", 1, 4, 1, "t"), 'ts.empty_row = "mean"'),
            ("causal padding mean", 112, 112, 4, ("i1", "b", 1, 1, "t"), 'causal = true, ts.empty_row = "mean"'),
            ("softcap padding mean", 64, 64, 4, ("i1", "b", 1, 1, "t"), 'softcap = 2.0, causal = true, ts.empty_row = "mean"'),
            ("wide", 256, 256, 2, None, ""), ("wide causal", 192, 256, 4, None, "causal = true"), ("wide keys", 256, 64, 4, None, "causal = true"),
            ("wide values", 64, 200, 4, None, ""), ("wide bool mask", 256, 256, 1, ("i1", "b", 1, "s", "t"), ""),
            ("wide padding", 192, 192, 2, ("i1", "b", 1, 1, "t"), "causal = true"),
            ("wide softcap mean", 256, 256, 4, ("i1", "b", 1, 1, "t"), 'softcap = 2.0, causal = true, ts.empty_row = "mean"'),
            # No copies of boxes reach such heads.
            ("odd", 17, 19, 4, None, "causal = true"), ("even", 36, 66, 2, ("i1", "b", 1, "s", "t"), "")]:
        widened(name, dtype, ("b", 4, "s", depth), ("b", groups, "t", depth), ("b", groups, "t", width), mask, attributes)
    # Sizes that are known: of a sweep's cases that were slow.
    for name, q, k, mask, attributes in [
            ("known causal", (2, 3, 960, 64), (2, 3, 960, 64), None, "causal = true"), ("known wide", (3, 14, 77, 256), (3, 7, 77, 256), None, "causal = true"),
            ("known few queries", (2, 8, 16, 48), (2, 2, 3114, 48), ("i1", 1, 1, 16, 3114), ""), ("known bool mask", (3, 2, 768, 24), (3, 2, 255, 24), ("i1", 1, 1, 768, 255), ""),
            ("known small", (7, 14, 16, 80), (7, 14, 16, 80), None, "causal = true"), ("known one query", (3, 8, 1, 64), (3, 2, 300, 64), None, "")]:
        widened(name, dtype, q, k, k, mask, attributes, [{}])
    # Large scores, whose own last bits are what the weights are off by. A scale below 0.
    widened("large scores", dtype, ("b", 4, "s", 64), ("b", 4, "t", 64), ("b", 4, "t", 64), scale=0.5, tolerance="relative 2e-5")
    widened("negative scale", dtype, ("b", 4, "s", 64), ("b", 2, "t", 64), ("b", 2, "t", 64), attributes="causal = true", scale=-0.25)

    # Heads out of one matrix, the result as the next matmul reads it; the wide keys are values, too.
    x, p = T(dtype, "b", "s", 576), T(dtype, "b", "s", 192)
    h, w, o = T(dtype, "b", "s", 3, 64), T("f32", "b", 3, "s", 64), T("f32", "b", "s", 192)
    slices = "".join(f'%{n}0 = ts.slice %x [#ts.dim<"0">, #ts.dim<"0">, #ts.dim<"{at}">] [1, 1, 1] : {x} to {p}\n  '
                     f"%{n}1 = ts.reshape %{n}0 : {p} to {h}\n  %{n}2 = ts.transpose %{n}1 [0, 2, 1, 3] : {h}\n  "
                     f"%{n} = ts.convert %{n}2 : {T(dtype, 'b', 3, 's', 64)} to {w}\n  " for n, at in [("q", 0), ("k", 192), ("v", 384)])

    def heads(x, values):
        np = np_()
        q, k, v = (np.moveaxis(x[..., i:i + 192].reshape(*x.shape[:2], 3, 64), 1, 2) for i in (0, 192, values))
        r = np_attention(q, k, v, scale=0.125, causal="bottom")
        return np.moveaxis(r, 1, 2).reshape(*x.shape[:2], 192)

    for name, v, at in [("", "%v", 384), (" with keys as values", "%k", 192)]:
        case(f"attention widened heads{name} {dtype}", [In("x", x)],
             f"{slices}%a = ts.attention %q, %k, {v} scale 0.125 {{causal = true}} : {w}, {w}, {w}\n"
             f"  %t = ts.transpose %a [0, 2, 1, 3] : {w}\n  %r = ts.reshape %t : {T('f32', 'b', 's', 3, 64)} to {o}", o,
             [dict(b=1, s=1), dict(b=2, s=67), dict(b=1, s=200)], lambda x, at=at: heads(x, at), "relative 5e-6")

# One key takes half of the weight, 8,192 others e^-9 of it each: what these are off by adds up.
# (So do the roundings of running sums in float32, 9e-6 on CPUs.)
for dtype in ["bf16", "f16"]:
    q, k, n, w, u = T(dtype, 1, 2, 64, 64), T(dtype, 1, 2, 8193, 64), T("i64", 1, 1, 64, 8193), T("f32", 1, 2, 64, 64), T("f32", 1, 2, 8193, 64)
    m, c = T("f32", 1, 1, 64, 8193), T("i1", 1, 1, 64, 8193)
    case(f"attention widened sink {dtype}", [In("q", q), In("k", k), In("v", k, "positive")],
         f"%a = ts.convert %q : {q} to {w}\n  %b = ts.convert %k : {k} to {u}\n  %d = ts.convert %v : {k} to {u}\n"
         f"  %i = ts.iota 3 : {n}\n  %z = ts.constant dense<0> : tensor<i64>\n  %o = ts.broadcast %z [] : tensor<i64> to {n}\n"
         f"  %s = ts.compare eq %i, %o : {n}\n  %e = ts.constant dense<0.0> : tensor<f32>\n  %f = ts.broadcast %e [] : tensor<f32> to {m}\n"
         f"  %g = ts.constant dense<-9.0> : tensor<f32>\n  %h = ts.broadcast %g [] : tensor<f32> to {m}\n  %m = ts.select %s, %f, %h : {c}, {m}\n"
         f"  %r = ts.attention %a, %b, %d mask %m : {m} scale 0.00000001 {{}} : {w}, {u}, {u}", w, [{}],
         lambda q, k, v: np_attention(q, k, v, np_().where(np_().arange(8193) == 0, 0.0, -9.0)[None, None, None], scale=1e-8), "relative 2e-5")

# Of two types: each is read as it lies.
q, k = T("bf16", "b", 2, "s", 64), T("f16", "b", 2, "t", 64)
w, u = T("f32", "b", 2, "s", 64), T("f32", "b", 2, "t", 64)
case("attention widened of two types", [In("q", q), In("k", k), In("v", u)],
     f"%a = ts.convert %q : {q} to {w}\n  %c = ts.convert %k : {k} to {u}\n  %r = ts.attention %a, %c, %v scale 0.125 {{}} : {w}, {u}, {u}", w,
     SIZES, lambda q, k, v: np_attention(q, k, v, scale=0.125), "relative 5e-6")
