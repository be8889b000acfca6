"""Attention of heads whose width is no multiple of 64, and of two blocks of keys.

A wgmma takes 16 of a depth and 8 columns: what pads a head in shared memory is not multiplied.
"""

from case_list import case, In, T
from composite_cases import np_attention

WIDTHS = [(40, 40), (80, 80), (96, 96), (160, 160), (24, 16), (40, 72), (192, 128), (24, 200)]

for dtype in ["bf16", "f16"]:
    for depth, width in WIDTHS:
        for attributes, causal in [("", None), ("{causal = true}", "bottom")]:
            q, k, v = T(dtype, 1, 2, "s", depth), T(dtype, 1, 2, "t", depth), T(dtype, 1, 2, "t", width)
            case(f"attention of heads of {depth} and {width} {causal or 'all'} {dtype}", [In("q", q), In("k", k), In("v", v)],
                 f"%r = ts.attention %q, %k, %v scale 0.15 {attributes} : {q}, {k}, {v}", T(dtype, 1, 2, "s", width),
                 [dict(s=130, t=256), dict(s=5, t=77), dict(s=200, t=500)],
                 lambda q, k, v, causal=causal: np_attention(q, k, v, scale=0.15, causal=causal),
                 {"bf16": "relative 2e-2", "f16": "relative 2e-3"}[dtype])
# Two blocks of keys that are known: a loop of one iteration.
for width in [40, 64, 128, 160]:
    q, k = T("bf16", 1, 2, 70, width), T("bf16", 1, 2, 256 if width <= 128 else 128, width)
    case(f"attention of two blocks of {width} bf16", [In("q", q), In("k", k), In("v", k)],
         f"%r = ts.attention %q, %k, %v scale 0.15 : {q}, {k}, {k}", q, [{}],
         lambda q, k, v: np_attention(q, k, v, scale=0.15), "relative 2e-2")
