"""Constants, sizes, and ops that move elements."""

from case_list import FLOATS, case, In, np_, NUMBERS, PLANE, T

case("constant", [In("x", T("f32", 3))],
     "%c = ts.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>\n  %r = ts.add %x, %c : tensor<3xf32>", T("f32", 3),
     numpy=lambda x: x + np_().array([1, 2, 4], "f4"))
case("size", [In("x", T("f32", "n", "m"))], '%r = ts.size <"2*n*m + 1"> : tensor<i64>', T("i64"),
     [dict(n=0, m=3), dict(n=5, m=7)], lambda n, m: np_().array(2 * n * m + 1))
case("bind_size", [In("k", T("i64"), "index0 9")],
     f'ts.bind_size %k, "late" : tensor<i64>\n  %r = ts.iota 0 : {T("f32", "late")}', T("f32", "late"),
     numpy=lambda k: np_().arange(int(k), dtype="f4"))
case("dim_cast", [In("x", T("f32", "n")), In("y", T("f32", "m"))],
     f'%c = ts.dim_cast %y : {T("f32", "m")} to {T("f32", "n")}\n  %r = ts.add %x, %c : {T("f32", "n")}',
     T("f32", "n"), [dict(n=5, m=5)], lambda x, y: x + y)

for dtype in ["f32", "i64", "i8", "i1", "bf16", "ui16", "f8E4M3FN", "i4"]:
    t = lambda *dims: T(dtype, *dims)
    move = lambda name, type, op, result, sizes, numpy, **options: case(
        f"{name} {dtype}", [In("x", type, "wide")], f"%r = ts.{op}", result, sizes, numpy, **options)
    move("broadcast row", t("b"), f'broadcast %x [1] : {t("b")} to {t("a", "b")}', t("a", "b"),
         PLANE, lambda x, a, b: np_().broadcast_to(x, (a, b)), speed=dict(a=4096, b=4096) if dtype == "f32" else None)
    move("broadcast column", t("a", 1), f'broadcast %x [0, 2] : {t("a", 1)} to {t("a", "b", 5)}', t("a", "b", 5),
         PLANE[:5], lambda x, a, b: np_().broadcast_to(x[:, :, None], (a, b, 5)))
    move("broadcast 0-d", t(), f'broadcast %x [] : {t()} to {t("a", "b")}', t("a", "b"), PLANE,
         lambda x, a, b: np_().broadcast_to(x, (a, b)))
    move("reshape", t("a", 6, "b"), f'reshape %x : {t("a", 6, "b")} to {t("2*a*b", 3)}', t("2*a*b", 3), PLANE,
         lambda x: x.reshape(-1, 3))
    move("transpose 10", t("a", "b"), f'transpose %x [1, 0] : {t("a", "b")}', t("b", "a"), PLANE,
         lambda x: x.T, speed=dict(a=4096, b=4096) if dtype == "f32" else None)
    move("transpose 0213", t("a", 7, 4, "b"), f'transpose %x [0, 2, 1, 3] : {t("a", 7, 4, "b")}', t("a", 4, 7, "b"),
         PLANE[:5], lambda x: x.transpose(0, 2, 1, 3))
    move("transpose 2031", t("a", 7, 4, "b"), f'transpose %x [2, 0, 3, 1] : {t("a", 7, 4, "b")}', t(4, "a", "b", 7),
         PLANE[:5], lambda x: x.transpose(2, 0, 3, 1))
    move("slice", t("a", "b + 4"), f'slice %x [#ts.dim<0>, #ts.dim<3>] [1, 1] : {t("a", "b + 4")} to {t("a", "b")}',
         t("a", "b"), PLANE, lambda x, b: x[:, 3:3 + b])
    move("slice steps", t("a", 20),
         f'slice %x [#ts.dim<"a - 1">, #ts.dim<18>] [-1, -3] : {t("a", 20)} to {t("a", 6)}', t("a", 6),
         PLANE[1:5], lambda x: x[::-1, 18:0:-3])
    move("slice reversed", t("a", "b"),
         f'slice %x [#ts.dim<0>, #ts.dim<"b - 1">] [1, -1] : {t("a", "b")} to {t("a", "b")}', t("a", "b"), PLANE, lambda x: x[:, ::-1])
    move("slice of all reversed", t(150), f"slice %x [#ts.dim<149>] [-1] : {t(150)} to {t(150)}", t(150), [{}], lambda x: x[::-1])
    move("slice strided", t("2*a", "b"),
         f'slice %x [#ts.dim<1>, #ts.dim<0>] [2, 1] : {t("2*a", "b")} to {t("a", "b")}', t("a", "b"), PLANE,
         lambda x: x[1::2])
    case(f"pad constant {dtype}", [In("x", t("a", "b"), "wide"), In("v", t(), "wide")],
         f'%r = ts.pad %x value %v : {t()} low [#ts.dim<1>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<"b + 2">] : '
         f'{t("a", "b")}', t("a + 1", "2*b + 2"), PLANE,
         lambda x, v, b: np_().pad(x, ((1, 0), (0, b + 2)), constant_values=v))
    for mode in ["reflect", "edge", "wrap"]:
        move(f"pad {mode}", t("a", "b"),
             f'pad %x low [#ts.dim<2>, #ts.dim<1>] high [#ts.dim<2>, #ts.dim<3>] {{mode = #ts<pad_mode {mode}>}} : '
             f'{t("a", "b")}', t("a + 4", "b + 4"), PLANE[2:5],
             lambda x, mode=mode: np_().pad(x, ((2, 2), (1, 3)), mode=mode))
    case(f"concat 0 {dtype}", [In("x", t("a", "b")), In("y", t(3, "b")), In("z", t("2*a", "b"))],
         f'%r = ts.concat %x, %y, %z dim 0 : {t("a", "b")}, {t(3, "b")}, {t("2*a", "b")}', t("3*a + 3", "b"), PLANE,
         lambda x, y, z: np_().concatenate([x, y, z]))
    case(f"concat 1 {dtype}", [In("x", t("a", "b", 2)), In("y", t("a", 3, 2))],
         f'%r = ts.concat %x, %y dim 1 : {t("a", "b", 2)}, {t("a", 3, 2)}', t("a", "b + 3", 2), PLANE,
         lambda x, y: np_().concatenate([x, y], 1))

# Rows of several tiles: those that lie inside are read as they lie, the ends are folded; pads of several periods.
for dtype in ["f32", "f64", "i8", "bf16"]:
    for mode in ["reflect", "edge", "wrap"]:
        for dims, low, high in [((3, 505), (0, 2), (0, 3)), ((2, 130), (1, 64), (1, 129)), ((2, 200), (0, 0), (1, 9)), ((2, 4), (0, 7), (1, 70)),
                                ((300, 1), (2, 0), (5, 0)), (("a", "b + 200"), (0, 3), (0, 70))]:  # fmt: skip
            given = T(dtype, *dims)
            made = [d + l + h if isinstance(d, int) else d.replace("200", str(200 + l + h)) for d, l, h in zip(dims, low, high)]
            case(f"pad {mode} of rows {'x'.join(map(str, dims))} by {low[1]} and {high[1]} {dtype}", [In("x", given, "wide")],
                 f"%r = ts.pad %x low [{', '.join(f'#ts.dim<{l}>' for l in low)}] high [{', '.join(f'#ts.dim<{h}>' for h in high)}] "
                 f"{{mode = #ts<pad_mode {mode}>}} : {given}", T(dtype, *made), [dict(a=a, b=b) for a, b in [(2, 1), (3, 100)]]
                 if "a" in dims else [{}],
                 lambda x, mode=mode, pads=list(zip(low, high)): np_().pad(x, pads, mode=mode))  # fmt: skip
rows = T("f32", 4, 333)
case("pad reflect between ops", [In("x", rows)],
     f"%a = ts.exp %x : {rows}\n  %p = ts.pad %a low [#ts.dim<0>, #ts.dim<40>] high [#ts.dim<0>, #ts.dim<5>] {{mode = #ts<pad_mode reflect>}} : {rows}\n"
     f"  %r = ts.neg %p : {T('f32', 4, 378)}", T("f32", 4, 378),
     numpy=lambda x: -np_().pad(np_().exp(x.astype("f8")), ((0, 0), (40, 5)), mode="reflect"), tolerance="ulp 2")  # fmt: skip

# Elements repeated side by side: rows of one, of less and of more than a register, of several; planes of rows that are too.
for dtype in ["f32", "f64", "i8", "bf16"]:
    for width, times in [(1, 2), (5, 2), (16, 2), (17, 3), (56, 2), (113, 4), (300, 7), (33, 16), (9, 17), (4099, 2)]:
        move(f"broadcast side by side {width} {times}", T(dtype, "a", width),
             f'broadcast %x [0, 1] : {T(dtype, "a", width)} to {T(dtype, "a", width, times)}', T(dtype, "a", width, times),
             [dict(a=0), dict(a=1), dict(a=7)], lambda x, a, times=times: np_().repeat(x[:, :, None], times, 2))
    t, u = T(dtype, "a", 3, 5, 21), T(dtype, "a", 3, 5, 2, 21, 3)
    move("broadcast image side by side", t, f"broadcast %x [0, 1, 2, 4] : {t} to {u}", u, [dict(a=1), dict(a=2), dict(a=70)],
         lambda x, a: np_().broadcast_to(x[:, :, :, None, :, None], (*x.shape[:3], 2, 21, 3)))
# Functions over rows of a few elements, which lanes cross: where elements are read in place and where they are not, the last tile cut.
# (Five roundings of bf16 each move what exp makes of it by up to half a unit.)
for dtype in ["f32", "bf16", "f64"]:
    for shape in [(4, 73, 2, 2), (3, 5, 7), (1, 2, 3), (11, 1, 8), (1, 1, 5), (131, 3)]:
        rank, t = len(shape), T(dtype, *shape)
        row, ints = T(dtype, shape[-1]), T("i32", *shape)
        chain = f"%t = ts.tanh %x : {t}\n%s = ts.gelu %t : {t}\n%u = ts.exp %s : {t}\n"
        case(f"functions over short rows {'x'.join(map(str, shape))} {dtype}", [In("x", t), In("y", row)],
             f"{chain}%b = ts.broadcast %y [{rank - 1}] : {row} to {t}\n%i = ts.iota {rank - 1} : {t}\n%a = ts.add %u, %i : {t}\n%r = ts.mul %a, %b : {t}",
             t, [{}], None, {"f32": "relative 2e-6", "f64": "relative 1e-12", "bf16": "relative 2e-2"}[dtype])
        made = T(dtype, *shape[:-2], shape[-2] + 3, shape[-1] + 1)
        none = ["#ts.dim<0>"] * (rank - 2)
        low, high = ", ".join([*none, "#ts.dim<1>", "#ts.dim<1>"]), ", ".join([*none, "#ts.dim<2>", "#ts.dim<0>"])
        case(f"pad of functions over short rows {'x'.join(map(str, shape))} {dtype}", [In("x", t), In("y", made)],
             f"{chain}%p = ts.pad %u low [{low}] high [{high}] {{mode = #ts<pad_mode edge>}} : {t}\n%r = ts.add %p, %y : {made}",
             made, [{}], None, {"f32": "relative 2e-6", "f64": "relative 1e-12", "bf16": "relative 2e-2"}[dtype])

# Known sizes: tiles that are transposed in registers, a last one that begins earlier; images of few channels.
for dtype in ["f32", "f64", "i8", "bf16"]:
    for a, b in [(37, 50), (16, 32), (5, 40), (300, 3), (7, 129), (2, 2)]:
        t = T(dtype, "n", a, b)
        for permutation in [[0, 2, 1], [2, 0, 1], [1, 2, 0]]:
            shape = ["n", a, b]
            case(f"transpose {a}x{b} {''.join(map(str, permutation))} {dtype}", [In("x", t, "wide")],
                 f"%r = ts.transpose %x {permutation} : {t}", T(dtype, *[shape[d] for d in permutation]),
                 [dict(n=1), dict(n=3), dict(n=0)], lambda x, permutation=permutation: x.transpose(permutation))
    # Short rows that lie side by side in the operand.
    for rows, heads, depth in [(70, 12, 64), (70, 6, 20), (2, 8, 16), (1, 5, 16)]:
        apart = T(dtype, "n", rows, heads, depth)
        case(f"transpose {rows} rows of {heads} heads of {depth} {dtype}", [In("x", apart, "wide")],
             f"%r = ts.transpose %x [0, 2, 1, 3] : {apart}", T(dtype, "n", heads, rows, depth),
             [dict(n=1), dict(n=3), dict(n=0)], lambda x: x.transpose(0, 2, 1, 3))
t = T("f32", 70, 33)
# Rows far apart: blocks are put together in scratch.
for dtype in ["f32", "f64", "f16", "i8"]:
    far = T(dtype, "n", 144, 1040)
    case(f"transpose far {dtype}", [In("x", far)], f"%r = ts.transpose %x [0, 2, 1] : {far}", T(dtype, "n", 1040, 144),
         [dict(n=1), dict(n=2)], lambda x: x.transpose(0, 2, 1))
case("transpose between ops", [In("x", t)],
     f'%a = ts.exp %x : {t}\n  %t = ts.transpose %a [1, 0] : {t}\n  %r = ts.neg %t : {T("f32", 33, 70)}', T("f32", 33, 70),
     numpy=lambda x: -np_().exp(x.astype("f8")).T, tolerance="ulp 2")

# Operands of known widths along the last dim, rows of a few elements.
for dtype in ["f32", "i64", "i8", "bf16"]:
    t = lambda *dims: T(dtype, *dims)
    for widths in [(5, 1, 17), (4, 4, 3, 5), (5, 2, 1), (100, 27, 1), (64, 32), (3000, 2000)]:
        names = "xyzw"[:len(widths)]
        types = [t("a", width) for width in widths]
        case(f"concat last {'+'.join(map(str, widths))} {dtype}",
             [In(name, type, "wide") for name, type in zip(names, types)],
             f'%r = ts.concat {", ".join("%" + n for n in names)} dim 1 : {", ".join(map(str, types))}',
             t("a", sum(widths)), [dict(a=1), dict(a=9), dict(a=0)],
             lambda **parts: np_().concatenate([parts[n] for n in "xyzw" if n in parts], 1))
    case(f"concat of sums {dtype}", [In("x", t("a", 7)), In("y", t("a", 7)), In("z", t("a", 9))],
         f'%s = ts.add %x, %y : {t("a", 7)}\n  %c = ts.concat %s, %z dim 1 : {t("a", 7)}, {t("a", 9)}\n'
         f'  %r = ts.neg %c : {t("a", 16)}', t("a", 16), [dict(a=5), dict(a=40)],
         None if dtype == "bf16" else lambda x, y, z: -np_().concatenate([x + y, z], 1), "ulp 1")
    for width in [2, 3, 16]:
        case(f"gather rows of {width} {dtype}", [In("x", t(50, width)), In("i", T("i64", "a", 2), "index 50")],
             f'%r = ts.gather %x, %i dim 0 : {t(50, width)}, {T("i64", "a", 2)}', t("a", 2, width),
             [dict(a=1), dict(a=700)], lambda x, i: np_().take(x, i, 0))
    # On a GPU the lanes of many elements lie across short rows, several a thread.
    for width in [2, 31]:
        case(f"gather many rows of {width} {dtype}", [In("x", t(50, width)), In("i", T("i64", 300001 // width), "index 50")],
             f'%r = ts.gather %x, %i dim 0 : {t(50, width)}, {T("i64", 300001 // width)}', t(300001 // width, width), [{}],
             lambda x, i: np_().take(x, i, 0))
    case(f"concat many short rows {dtype}", [In("x", t(30007, 7), "wide"), In("y", t(30007, 4), "wide")],
         f'%r = ts.concat %x, %y dim 1 : {t(30007, 7)}, {t(30007, 4)}', t(30007, 11), [{}],
         lambda x, y: np_().concatenate([x, y], 1))

for dtype in NUMBERS:
    for dim in [0, 1]:
        case(f"iota {dim} {dtype}", [In("x", T(dtype, "a", "b"))],
             f'%i = ts.iota {dim} : {T(dtype, "a", "b")}\n  %r = ts.add %x, %i : {T(dtype, "a", "b")}',
             T(dtype, "a", "b"), PLANE, tolerance="ulp 1")

for dtype in ["f32", "i64", "i8", "bf16"]:
    for index in ["i64", "i32"]:
        t = lambda *dims: T(dtype, *dims)
        i = lambda *dims: T(index, *dims)
        case(f"gather rows {dtype} {index}", [In("x", t(11, "b")), In("i", i("a", 3), "index 11")],
             f'%r = ts.gather %x, %i dim 0 : {t(11, "b")}, {i("a", 3)}', t("a", 3, "b"), PLANE,
             lambda x, i: np_().take(x, i, 0), speed=dict(a=1024, b=768) if dtype == "f32" else None)
        case(f"gather inner {dtype} {index}", [In("x", t("a", 11, "b")), In("i", i(5), "index 11")],
             f'%r = ts.gather %x, %i dim 1 : {t("a", 11, "b")}, {i(5)}', t("a", 5, "b"), PLANE,
             lambda x, i: np_().take(x, i, 1))
        case(f"gather one {dtype} {index}", [In("x", t("a", 4)), In("i", i(), "index 4")],
             f'%r = ts.gather %x, %i dim 1 : {t("a", 4)}, {i()}', t("a"), PLANE, lambda x, i: np_().take(x, i, 1))
    case(f"gather_elements {dtype}", [In("x", t("a", 9)), In("i", T("i64", "a", 4), "index 9")],
         f'%r = ts.gather_elements %x, %i dim 1 : {t("a", 9)}, {T("i64", "a", 4)}', t("a", 4), PLANE,
         lambda x, i: np_().take_along_axis(x, i, 1))
    case(f"gather_elements 0 {dtype}", [In("x", t(9, "b")), In("i", T("i32", 4, "b"), "index 9")],
         f'%r = ts.gather_elements %x, %i dim 0 : {t(9, "b")}, {T("i32", 4, "b")}', t(4, "b"), PLANE,
         lambda x, i: np_().take_along_axis(x, i.astype("i8"), 0))
    case(f"gather_nd {dtype}", [In("x", t(4, 4, "b")), In("i", T("i64", "a", 2), "index 4")],
         f'%r = ts.gather_nd %x, %i batch_dims 0 : {t(4, 4, "b")}, {T("i64", "a", 2)}', t("a", "b"), PLANE,
         lambda x, i: x[i[:, 0], i[:, 1]])
    case(f"gather_nd batch {dtype}", [In("x", t("a", 5, 3)), In("i", T("i64", "a", 2, 1), "index 5")],
         f'%r = ts.gather_nd %x, %i batch_dims 1 : {t("a", 5, 3)}, {T("i64", "a", 2, 1)}', t("a", 2, 3), PLANE,
         lambda x, i: np_().take_along_axis(x, i, 1))


def np_scatter(x, i, u, dim):
    r = x.copy()
    np_().put_along_axis(r, i.astype("i8"), u, dim)
    return r


def np_scatter_nd_last_first(x, u):
    x = x.copy()
    x[::-2] = u
    return x


def np_scatter_nd(x, i, u):
    r = x.copy()
    for at, value in zip(i, u):
        r[tuple(at)] = value
    return r


for dtype in ["f32", "i64", "i8", "bf16"]:
    t = lambda *dims: T(dtype, *dims)
    s, i, u = t("a", 9), T("i64", "a", 4), t("a", 4)
    for reduction in ["", "add", "mul", "max", "min"]:
        attribute = f"{{reduction = #ts<reduce_kind {reduction}>}}" if reduction else ""
        # What stores, or takes the larger or smaller, rounds nothing.
        rounds = reduction in ("add", "mul")
        tolerance = {"f32": "relative 1e-6", "bf16": "relative 2e-2"}.get(dtype, "exact") if rounds else "exact"
        case(f"scatter_elements {reduction} {dtype}", [In("x", s), In("i", i, "index 9"), In("u", u)],
             f"%r = ts.scatter_elements %x, %i, %u dim 1 {attribute} : {s}, {i}, {u}", s, PLANE,
             None if reduction else lambda x, i, u: np_scatter(x, i, u, 1),
             tolerance=tolerance)
        # Tiles of lines beside each other: an index for each, or one for all of them.
        s3, i3, u3 = t("a", 9, "b"), T("i64", "a", 4, "b"), t("a", 4, "b")
        case(f"scatter_elements inner {reduction} {dtype}", [In("x", s3), In("i", i3, "index 9"), In("u", u3)],
             f"%r = ts.scatter_elements %x, %i, %u dim 1 {attribute} : {s3}, {i3}, {u3}", s3, PLANE,
             None if reduction else lambda x, i, u: np_scatter(x, i, u, 1), tolerance=tolerance)
        at = T("i64", "a", 4)
        case(f"scatter_elements rows {reduction} {dtype}", [In("x", s3), In("i", at, "index 9"), In("u", u3)],
             f"%j = ts.broadcast %i [0, 1] : {at} to {i3}\n"
             f"%r = ts.scatter_elements %x, %j, %u dim 1 {attribute} : {s3}, {i3}, {u3}", s3, PLANE,
             None if reduction else
             lambda x, i, u: np_scatter(x, np_().broadcast_to(i[:, :, None], u.shape), u, 1), tolerance=tolerance)
        s2, i2, u2 = t(5, 6, "b"), T("i64", "a", 2), t("a", "b")
        case(f"scatter_nd {reduction} {dtype}", [In("x", s2), In("i", i2, "index 5"), In("u", u2)],
             f"%r = ts.scatter_nd %x, %i, %u {attribute} : {s2}, {i2}, {u2}", s2, PLANE,
             None if reduction else np_scatter_nd,
             tolerance=tolerance)
        if not reduction and dtype in ("f32", "bf16", "i8"):
            # Every second row of a plane, the last one first: on GPUs a thread an update, in runs of 16 bytes or by elements.
            for width in (24, 13):
                s6, i6, u6 = t("2*a", 3, width), T("i32", "a", 1), t("a", 3, width)
                case(f"scatter_nd unique {width} {dtype}", [In("x", s6), In("u", u6)],
                     f"%n = ts.iota 0 : {i6}\n%m = ts.add %n, %n : {i6}\n%e = ts.constant dense<-1> : tensor<i32>\n"
                     f"%f = ts.broadcast %e [] : tensor<i32> to {i6}\n%i = ts.sub %f, %m : {i6}\n"
                     f"%r = ts.scatter_nd %x, %i, %u {{ts.unique_indices}} : {s6}, {i6}, {u6}", s6,
                     [dict(a=1), dict(a=2), dict(a=37)], np_scatter_nd_last_first)
        # On GPUs ranges of the result, some of them empty; many updates of an element.
        s4, i4, u4, at4 = t(37, "b"), T("i64", 64, "b"), t(64, "b"), T("i64", 64)
        case(f"scatter_elements ranges {reduction} {dtype}", [In("x", s4), In("i", at4, "index 37"), In("u", u4)],
             f"%j = ts.broadcast %i [0] : {at4} to {i4}\n"
             f"%r = ts.scatter_elements %x, %j, %u dim 0 {attribute} : {s4}, {i4}, {u4}", s4, PLANE,
             None if reduction else
             lambda x, i, u: np_scatter(x, np_().broadcast_to(i[:, None], u.shape), u, 0), tolerance=tolerance)
        s5, i5, u5 = t(19, 3), T("i64", 64, 2), t(64)
        case(f"scatter_nd ranges {reduction} {dtype}", [In("x", s5), In("i", i5, "index 3"), In("u", u5)],
             f"%r = ts.scatter_nd %x, %i, %u {attribute} : {s5}, {i5}, {u5}", s5, PLANE,
             None if reduction else np_scatter_nd, tolerance=tolerance)

# Sizes that are known, whose updates GPUs combine in memory: rows that four, two and no neighbours of an access
# divide, more updates than elements, an element for each index, none, indices that many share.
for dtype, kinds in [("f32", ["add", "mul", "max", "min"]), ("f16", ["add", "max"]), ("bf16", ["add", "min"]), ("f64", ["add", "max"]),
                     ("i32", ["add", "mul", "max"]), ("ui32", ["max", "min"]), ("i64", ["add", "min"]), ("i8", ["add", "max"]), ("ui16", ["add", "min"])]:
    for kind in kinds:
        attribute = f"{{reduction = #ts<reduce_kind {kind}>}}"
        tolerance = {"f32": "relative 4e-6", "f64": "relative 1e-12", "f16": "relative 2e-3", "bf16": "relative 2e-2"}.get(dtype, "exact")
        if kind in ("max", "min"):
            tolerance = "exact"
        values = "unit" if kind == "mul" and dtype == "f32" else "special" if tolerance == "exact" and dtype in FLOATS else "normal"
        for rows, width, updates in [(100, 64, 301), (1000, 74, 30), (7, 75, 129), (1, 4, 1000), (50, 1, 333), (9, 8, 0)]:
            x, u, at, all_ = T(dtype, rows, width), T(dtype, updates, width), T("i64", updates), T("i64", updates, width)
            case(f"scatter_elements known {kind} {dtype} {updates} of {width} into {rows}", [In("x", x, values), In("i", at, f"index {rows}"), In("u", u, values)],
                 f"%j = ts.broadcast %i [0] : {at} to {all_}\n%r = ts.scatter_elements %x, %j, %u dim 0 {attribute} : {x}, {all_}, {u}", x, tolerance=tolerance)
        x, u, at = T(dtype, 5, 33), T(dtype, 5, 70), T("i32", 5, 70)
        case(f"scatter_elements known {kind} {dtype} within rows", [In("x", x, values), In("i", at, "index 33"), In("u", u, values)],
             f"%r = ts.scatter_elements %x, %i, %u dim 1 {attribute} : {x}, {at}, {u}", x, tolerance=tolerance)
        x, u, at = T(dtype, 5, 6, 12), T(dtype, 4, 31, 12), T("i64", 4, 31, 2)
        case(f"scatter_nd known {kind} {dtype}", [In("x", x, values), In("i", at, "index 5"), In("u", u, values)],
             f"%r = ts.scatter_nd %x, %i, %u {attribute} : {x}, {at}, {u}", x, tolerance=tolerance)
# Vectors, whose updates CPUs prepare by runs and, where there are many of each element, add in parts.
for dtype, kind in [("f32", "add"), ("f32", "max"), ("f64", "mul"), ("i32", "add"), ("i64", "min"), ("f16", "add"), ("ui8", "add")]:
    attribute, tolerance = f"{{reduction = #ts<reduce_kind {kind}>}}", {"f32": "relative 2e-5", "f16": "relative 2e-2"}.get(dtype, "exact")
    for updates, elements, index in [(70000, 301, "i64"), (65537, 7, "i32"), (64, 9, "i64"), (131, 500, "i32")]:
        if (kind == "mul" or dtype == "f16") and updates > 1000:
            continue
        values = "unit" if kind == "mul" else "normal"
        x, u, at, places = T(dtype, elements), T(dtype, updates), T(index, updates), T(index, updates, 1)
        case(f"scatter_elements vector {kind} {dtype} {updates} into {elements}", [In("x", x, values), In("i", at, f"index {elements}"), In("u", u, values)],
             f"%r = ts.scatter_elements %x, %i, %u dim 0 {attribute} : {x}, {at}, {u}", x, tolerance="relative 1e-12" if dtype == "f64" else tolerance)
        case(f"scatter_nd vector {kind} {dtype} {updates} into {elements}", [In("x", x, values), In("i", places, f"index {elements}"), In("u", u, values)],
             f"%r = ts.scatter_nd %x, %i, %u {attribute} : {x}, {places}, {u}", x, tolerance="relative 1e-12" if dtype == "f64" else tolerance)
# Narrower updates than the result: rows of one begin where those of the other do not.
x, u, at = T("f32", 40, 11), T("f32", 64, 8), T("i64", 64, 8)
case("scatter_elements known narrower updates", [In("x", x), In("i", at, "index 40"), In("u", u)],
     f"%r = ts.scatter_elements %x, %i, %u dim 0 {{reduction = #ts<reduce_kind add>}} : {x}, {at}, {u}", x, tolerance="relative 4e-6")
for kind in ["or", "and"]:
    x, u, at = T("i1", 30, 5), T("i1", 64, 5), T("i64", 64, 5)
    case(f"scatter_elements known {kind}", [In("x", x, "bool"), In("i", at, "index 30"), In("u", u, "bool")],
         f"%r = ts.scatter_elements %x, %i, %u dim 0 {{reduction = #ts<reduce_kind {kind}>}} : {x}, {at}, {u}", x)

# Many updates meet in one element: 16-bit sums are rounded once.
for dtype, tolerance in [("f16", "relative 6e-4"), ("bf16", "relative 5e-3")]:
    x, u, at = T(dtype, 3, "b"), T(dtype, "a", "b"), T("i64", "a", "b")
    attribute = "{reduction = #ts<reduce_kind add>}"
    case(f"scatter_elements sums of many {dtype}", [In("x", x), In("i", at, "index 3"), In("u", u)],
         f"%r = ts.scatter_elements %x, %i, %u dim 0 {attribute} : {x}, {at}, {u}", x, [dict(a=1723, b=4)], tolerance=tolerance)
    at = T("i64", "a", 1)
    case(f"scatter_nd sums of many {dtype}", [In("x", x), In("i", at, "index 3"), In("u", u)],
         f"%r = ts.scatter_nd %x, %i, %u {attribute} : {x}, {at}, {u}", x, [dict(a=1723, b=4)], tolerance=tolerance)
# Slices that leave the last dims whole, which a GPU sees as one dim: rows of odd widths, several slices of one operand, steps
# before that dim, what is computed around them.
for dtype, shape, cuts in [("bf16", (2, 4, 37, 45), [(2, 1, 1)]), ("f32", (67, 3, 5), [(0, 3, 1)]), ("i8", (3, 90, 11, 13), [(1, 7, 1), (0, 1, 1)]),
                           ("f16", (40, 3, 8), [(0, 3, 2)]), ("i64", (5, 6, 7, 3), [(1, 5, -2), (2, 2, 1)]), ("f32", (9, 4000), [(0, 2, 1)]),
                           ("ui8", (33, 1, 257), [(0, 1, 1)])]:
    t = T(dtype, *shape)
    starts, steps, out = [0] * len(shape), [1] * len(shape), list(shape)
    for dim, start, step in cuts:
        starts[dim], steps[dim] = start, step
        out[dim] = (start + -step) // -step if step < 0 else -(-(shape[dim] - start) // step)
    r = T(dtype, *out)
    at = tuple(slice(s, None, p) for s, p in zip(starts, steps))
    text = f'[{", ".join(f"#ts.dim<{s}>" for s in starts)}] {steps} : {t} to {r}'
    name = f"{dtype} {'x'.join(map(str, shape))} {cuts}"
    case(f"slice of whole rows {name}", [In("x", t)], f"%r = ts.slice %x {text}", r, [{}], lambda x, at=at: x[at])
    case(f"slices of whole rows {name}", [In("x", t), In("y", t), In("s", T(dtype))],
         f"%a = ts.slice %x {text}\n%b = ts.slice %y {text}\n%c = ts.broadcast %s [] : {T(dtype)} to {r}\n%m = ts.max %a, %b : {r}\n%r = ts.min %m, %c : {r}",
         r, [{}], lambda x, y, s, at=at: np_().minimum(np_().maximum(x[at], y[at]), s))
