"""Short rows, of which a thread of a GPU takes runs of neighbours: what moves and computes them, with
boundaries at runs and between them."""

from case_list import case, In, np_, T

SIZES = [dict(b=1, s=1), dict(b=2, s=3), dict(b=3, s=33)]


def zeros(count):
    return ", ".join(["#ts.dim<0>"] * count)


def part(name, source, start, given, taken):
    """A slice of the last dim."""
    rank = len(given.dims)
    return f"%{name} = ts.slice %{source} [{zeros(rank - 1)}, #ts.dim<{start}>] {[1] * rank} : {given} to {taken}"


# A static shape of more elements than a GPU has threads at once, and one whose sizes a run knows. Rows of whole runs; of 256 bytes
# and more; of an odd number of elements.
for dtype in ["bf16", "f32", "i8", "i64"]:
    for lead, sizes in [((300, 17), [{}]), (("b", 9, "s"), SIZES)]:
        static = "static" if sizes == [{}] else "symbolic"
        for row in [16, 64, 128, 72, 33]:
            if row > 64 and dtype == "i64":
                continue
            name = f"{dtype} rows of {row} {static}"
            full = T(dtype, *lead, row)
            for first in sorted({row // 2, 8, row - 5} - {0, row}):
                x, y = T(dtype, *lead, first), T(dtype, *lead, row - first)
                axis = len(lead)
                case(f"short rows concat {first} {name}", [In("x", x, "wide"), In("y", y, "wide")],
                     f"%r = ts.concat %x, %y dim {axis} : {x}, {y}", full, sizes, lambda x, y: np_().concatenate([x, y], -1))
                case(f"short rows slice {first} {name}", [In("x", full, "wide")], part("r", "x", first, full, y), y, sizes,
                     lambda x, first=first: x[..., first:])
            for low, inner in [(8, row - 8), (3, row - 8), (0, row - 5)]:
                x, v = T(dtype, *lead, inner), T(dtype)
                rank = len(lead) + 1
                lows = ", ".join(["#ts.dim<0>"] * (rank - 1) + [f"#ts.dim<{low}>"])
                highs = ", ".join(["#ts.dim<0>"] * (rank - 1) + [f"#ts.dim<{row - inner - low}>"])
                case(f"short rows pad {low} {name}", [In("x", x, "wide"), In("v", v, "wide")],
                     f"%r = ts.pad %x value %v : {v} low [{lows}] high [{highs}] : {x}", full, sizes,
                     lambda x, v, low=low, row=row, inner=inner: np_().pad(x, [(0, 0)] * (x.ndim - 1) + [(low, row - inner - low)], constant_values=v))

# Rotary embedding by halves, of heads that lie beside each other in one operand; two results.
for dtype, tolerance in [("bf16", "relative 1e-2"), ("f32", "relative 2e-6")]:
    for heads, row in [(4, 64), (3, 24), (2, 128), (2, 20)]:
        whole, split = T(dtype, "b", "s", 3 * heads * row), T(dtype, "b", "s", heads, row)
        head, half, table = T(dtype, "b", heads, "s", row), T(dtype, "b", heads, "s", row // 2), T(dtype, 1, "s", row // 2)
        flat = T(dtype, "b", "s", heads * row)

        def rotated(at, out):
            return "\n".join([
                part(f"p{out}", "x", at, whole, flat), f"%q{out} = ts.reshape %p{out} : {flat} to {split}",
                f"%t{out} = ts.transpose %q{out} [0, 2, 1, 3] : {split}",
                part(f"a{out}", f"t{out}", 0, head, half), part(f"b{out}", f"t{out}", row // 2, head, half),
                f"%c{out} = ts.broadcast %cos [0, 2, 3] : {table} to {half}", f"%s{out} = ts.broadcast %sin [0, 2, 3] : {table} to {half}",
                f"%ac{out} = ts.mul %a{out}, %c{out} : {half}", f"%bs{out} = ts.mul %b{out}, %s{out} : {half}",
                f"%l{out} = ts.sub %ac{out}, %bs{out} : {half}",
                f"%bc{out} = ts.mul %b{out}, %c{out} : {half}", f"%as{out} = ts.mul %a{out}, %s{out} : {half}",
                f"%h{out} = ts.add %bc{out}, %as{out} : {half}",
                f"%r{out} = ts.concat %l{out}, %h{out} dim 3 : {half}, {half}"])  # fmt: skip

        case(f"short rows rotated {dtype} {heads} of {row}", [In("x", whole), In("cos", table, "unit"), In("sin", table, "unit")],
             rotated(0, 0) + "\n" + rotated(heads * row, 1), [head, head], [dict(b=2, s=3), dict(b=1, s=70)], tolerance=tolerance)

# Operands that are read at other places than the result's: along the row alone, along the dims around it, by an index, in another
# order, of other widths.
for dtype, wide in [("bf16", "f32"), ("f32", "f64"), ("i8", "i64")]:
    for row in [64, 40, 12]:
        x, out = T(dtype, "b", "s", 5, row), T(wide, "b", 5, "s", row)
        line, column, head, truth = T(wide, row), T(wide, "b", 5, "s", 1), T(wide, 5, row), T("i1", "s", row)
        near = T(dtype, "b", 5, "s", row)
        all_ = lambda type: T(type, "b", 5, "s", row)
        case(f"short rows of several operands {dtype} {wide} {row}",
             [In("x", x), In("l", line), In("c", column), In("h", head), In("m", truth, "bool")],
             f"""%t = ts.transpose %x [0, 2, 1, 3] : {x}
  %w = ts.convert %t : {near} to {out}
  %bl = ts.broadcast %l [3] : {line} to {out}
  %bc = ts.broadcast %c [0, 1, 2, 3] : {column} to {out}
  %bh = ts.broadcast %h [1, 3] : {head} to {out}
  %bm = ts.broadcast %m [2, 3] : {truth} to {all_("i1")}
  %s0 = ts.add %w, %bl : {out}
  %s1 = ts.add %bc, %bh : {out}
  %r = ts.select %bm, %s0, %s1 : {all_("i1")}, {out}""", out, SIZES, tolerance="relative 1e-6")
        table, at = T(dtype, 37, row), T("i32", "b", "s")
        case(f"short rows by an index {dtype} {row}", [In("x", table, "wide"), In("i", at, "index 37")],
             f"%r = ts.gather %x, %i dim 0 : {table}, {at}", T(dtype, "b", "s", row), SIZES, lambda x, i: x[i])
