"""What data selects: places of true elements, boxes that do not overlap."""

import math

from case_list import case, In, np_, T


def true_places(dims, period, below, part=1):
    """Elements are true whose row-major place p has p * p mod `period` < `below`. Wanted are the first 1 / `part` of them."""
    size = math.prod(dims)
    isTrue = [(p * p) % period < below for p in range(size)]
    count, rank = sum(isTrue) // part, len(dims)
    shape, flat, rows = T("i1", *dims), T("i64", size), dims[:-1]
    numbers, before = T("i64", *dims), T("i64", *rows)
    # The zero is an input: of constants alone the compiler would compute the result.
    lines = [f"%i = ts.iota 0 : {flat}", f"%zeros = ts.broadcast %zero [0] : {T('i64', 1)} to {flat}",
             f"%p = ts.add %i, %zeros : {flat}", f"%q = ts.mul %p, %p : {flat}"]  # fmt: skip
    for name, number in [("period", period), ("below", below)]:
        lines.append(f"%{name}0 = ts.constant dense<{number}> : tensor<i64>")
        lines.append(f"%{name} = ts.broadcast %{name}0 [] : tensor<i64> to {flat}")
    lines += [f"%m = ts.mod %q, %period : {flat}", f"%l = ts.compare lt %m, %below : {flat}",
              f"%mask = ts.reshape %l : {T('i1', size)} to {shape}", f"%n = ts.convert %mask : {shape} to {numbers}",
              f"%c = ts.reduce add %n [{rank - 1}] : {numbers}"]  # fmt: skip
    if rows:
        line = T("i64", math.prod(rows))
        lines += [f"%c1 = ts.reshape %c : {before} to {line}", f"%b1 = ts.scan add %c1 dim 0 {{exclusive = true}} : {line}",
                  f"%b = ts.reshape %b1 : {line} to {before}"]  # fmt: skip
    else:
        lines.append(f"%b = ts.sub %c, %c : {before}")
    lines.append(f"%r = ts.true_places %mask before %b count <{count}> : {shape}, {before}")

    def numpy(**_):
        np = np_()
        return np.array(np.nonzero(np.array(isTrue, bool).reshape(dims)))[:, :count].reshape(rank, count)

    wanted = "some of " if part > 1 else ""
    case(f"true_places {wanted}{'x'.join(map(str, dims))} {below} of {period}", [In("zero", T("i64", 1), "index0 1")], "\n  ".join(lines),
         T("i64", rank, count), [{}], numpy)  # fmt: skip


for dims in [(1,), (16,), (17,), (1000,), (5, 33), (70, 16), (300, 3), (3, 4, 50), (40, 1), (2, 3, 2, 31)]:
    for period, below in [(7, 1), (101, 2), (5, 5), (11, 7), (3, 0)]:
        true_places(dims, period, below)
for dims in [(1000,), (70, 16), (3, 4, 50)]:
    true_places(dims, 5, 5, part=3)
for dims in [(0,), (0, 5), (5, 0), (2, 0, 3)]:
    true_places(dims, 2, 1)


def np_suppression(boxes, scores, limit, most):
    np = np_()
    f = np.float32
    result = np.full((*scores.shape[:2], most), -1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    with np.errstate(all="ignore"):
        areas = np.prod(high - low, axis=-1, dtype=f)
        for b, c in np.ndindex(*result.shape[:2]):
            score = np.where(np.isnan(scores[b, c]), f(-np.inf), scores[b, c])
            kept = []
            for i in np.argsort(-score, kind="stable"):
                if len(kept) == most or score[i] == -np.inf:
                    break
                sides = np.minimum(high[b, kept], high[b, i]) - np.maximum(low[b, kept], low[b, i])
                shared = sides[:, 0] * sides[:, 1]
                whole = (areas[b, kept] + areas[b, i]) - shared
                meets = (sides > 0).all(1) & (areas[b, kept] > 0) & (areas[b, i] > 0)
                if not (meets & (shared / whole > f(limit))).any():
                    kept.append(i)
            result[b, c, : len(kept)] = kept
    return result


def suppression(name, batches, classes, boxes, most, limit, box_values="normal", score_values="normal", sizes=({},)):
    x, s, y = T("f32", batches, boxes, 4), T("f32", batches, classes, boxes), T("i64", batches, classes, most)
    case(f"non_max_suppression {name} {limit}", [In("x", x, box_values), In("s", s, score_values)],
         f"%l = ts.constant dense<{limit}> : tensor<f32>\n"
         f"  %r = ts.non_max_suppression %x, %s limit %l most <{chr(34) + most + chr(34) if isinstance(most, str) else most}> : {x}, {s}, tensor<f32>",
         y, list(sizes), (lambda x, s, **_: np_suppression(x, s, limit, most)) if isinstance(most, int) and "special" not in (box_values, score_values)
         else None)  # fmt: skip


for limit in [0.0, 0.3, 0.7]:
    for batches, classes, boxes, most in [(1, 1, 1, 1), (1, 2, 16, 5), (2, 1, 17, 17), (1, 3, 100, 20), (1, 1, 700, 700), (2, 2, 300, 40),
                                          (1, 1, 255, 0), (1, 1, 5000, 33), (1, 2, 0, 3)]:
        suppression(f"{batches}x{classes}x{boxes} {most}", batches, classes, boxes, most, limit)
    for values in ["ties", "special"]:
        suppression(f"scores {values}", 2, 3, 90, 60, limit, score_values=values)
        suppression(f"boxes {values}", 2, 3, 90, 60, limit, box_values=values)
        suppression(f"both {values}", 1, 1, 300, 300, limit, values, values)
    suppression("symbolic", "b", "c", "n", "k", limit, sizes=[dict(b=1, c=1, n=40, k=9), dict(b=2, c=3, n=0, k=5), dict(b=0, c=1, n=5, k=5),
                                                              dict(b=1, c=2, n=129, k=0), dict(b=1, c=1, n=400, k=500)])  # fmt: skip
