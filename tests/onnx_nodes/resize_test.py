"""Resize to the nearest element, against positions in rational numbers: constant sizes and sizes of the inputs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from node_models import model, node

import knapper

COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
ROUNDINGS = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda at: math.ceil(at - Fraction(1, 2)),
    "round_prefer_ceil": lambda at: math.floor(at + Fraction(1, 2)),
}
MODES = [(c, r) for c in COORDINATES for r in ROUNDINGS]
# Positions that a rounded scale moves past a whole number or a half.
PAIRS = [(51, 59), (30, 22), (58, 71), (18, 44), (67, 58), (7, 1), (1, 6), (5, 5), (3, 12)]


def positions(coordinates, size, to, scale):
    """As the standard's text has them; `scale` is exact."""
    half, resized = Fraction(1, 2), scale * size
    for o in range(to):
        if coordinates == "asymmetric":
            yield o / scale
        elif coordinates == "align_corners":
            yield o * (size - 1) / (resized - 1) if resized != 1 else Fraction(0)
        elif coordinates == "pytorch_half_pixel" and resized == 1:
            yield -half
        elif coordinates == "half_pixel_symmetric":
            yield Fraction(size, 2) * (1 - to / resized) + (o + half) / scale - half
        else:
            yield (o + half) / scale - half


def nearest(coordinates, rounding, size, to, scale):
    return [min(max(ROUNDINGS[rounding](at), 0), size - 1) for at in positions(coordinates, size, to, scale)]


def drawn(seed, count):
    rng = np.random.default_rng(seed)
    return [tuple(int(v) for v in rng.integers(1, (71, 91))) for _ in range(count)]


def resize(given, made, mode, **operands):
    coordinates, rounding = mode
    return node("Resize", [given, "", operands.get("scales", ""), operands.get("sizes", "")], [made], mode="nearest",
                coordinate_transformation_mode=coordinates, nearest_mode=rounding)  # fmt: skip


def cases_of(pairs, modes=tuple(MODES)):
    """Every mode for the pairs that are known to be hard, three each for those that are drawn."""
    rng = np.random.default_rng(4)
    return [(pair, modes[m]) for pair in pairs
            for m in (range(len(modes)) if pair in PAIRS[:5] else rng.choice(len(modes), 3, replace=False))]  # fmt: skip


def test_to_sizes():
    """Of constant sizes, and by one module of sizes of the inputs."""
    cases = cases_of(PAIRS + drawn(1, 50))
    fixed = model(
        [resize(f"x{i}", f"y{i}", mode, sizes=f"s{i}") for i, (_, mode) in enumerate(cases)],
        {f"x{i}": [size] for i, ((size, _), _) in enumerate(cases)},
        outputs=[f"y{i}" for i in range(len(cases))],
        initializers={f"s{i}": np.int64([to]) for i, ((_, to), _) in enumerate(cases)},
    )
    of_inputs = model(
        [node("Shape", ["z"], ["s"]), *(resize("x", "-".join(mode), mode, sizes="s") for mode in MODES)],
        {"x": ["size"], "z": ["to"]},
        outputs=["-".join(mode) for mode in MODES],
    )
    got = knapper.compile(fixed)(**{f"x{i}": np.arange(p[0], dtype=np.float32) for i, (p, _) in enumerate(cases)})
    symbolic = knapper.compile(of_inputs)
    for i, ((size, to), mode) in enumerate(cases):
        want = nearest(*mode, size, to, Fraction(to, size))
        np.testing.assert_array_equal(got[i], want, err_msg=f"{mode} {size} -> {to}")
        again = symbolic(x=np.arange(size, dtype=np.float32), z=np.zeros(to, np.float32))
        np.testing.assert_array_equal(again["-".join(mode)], want, err_msg=f"{mode} {size} -> {to}, symbolic")


@pytest.mark.parametrize("policy, to", [("not_larger", 37), ("not_smaller", 81)])
def test_aspect_ratios(policy, to):
    """53 x 29 into a box of 73 x 81: the other side's factor is used, halves are rounded up."""
    made = model(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="nearest", keep_aspect_ratio_policy=policy, nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")],
        {"x": [53, 29]}, initializers={"s": np.int64([73, 37 if policy == "not_larger" else 81])})  # fmt: skip
    scale = Fraction(to, 29)
    tall = math.floor(scale * 53 + Fraction(1, 2))
    x = np.arange(53 * 29, dtype=np.float32).reshape(53, 29)
    rows, columns = (
        nearest("asymmetric", "floor", size, wide, scale) for size, wide in ((53, tall), (29, to))
    )
    np.testing.assert_array_equal(knapper.compile(made)(x)[0], x[np.ix_(rows, columns)])


def test_by_scales():
    """A scale is the number that float32 holds; the length is rounded down."""
    given = [(size, float(np.float32(to / size))) for size, to in PAIRS[:5] + drawn(3, 20)]
    given += [(size, s) for size, s in zip(range(4, 60, 7), (0.25, 0.5, 0.75, 1.25, 1.5, 2.5, 3.0, 0.875))]
    given = [(size, s) for size, s in given if s != 1 and math.floor(Fraction(s) * size)]
    # align_corners divides by nothing where the length is 1 and a bit.
    cases = cases_of(given, [mode for mode in MODES if mode[0] != "align_corners"])
    for symbolic in (False, True):
        if symbolic:
            cases = cases[::7]
        made = model(
            [resize(f"x{i}", f"y{i}", mode, scales=f"s{i}") for i, (_, mode) in enumerate(cases)],
            {f"x{i}": [f"n{i}" if symbolic else size] for i, ((size, _), _) in enumerate(cases)},
            outputs=[f"y{i}" for i in range(len(cases))],
            initializers={f"s{i}": np.float32([s]) for i, ((_, s), _) in enumerate(cases)},
        )
        got = knapper.compile(made)(**{f"x{i}": np.arange(p[0], dtype=np.float32) for i, (p, _) in enumerate(cases)})
        for i, ((size, s), mode) in enumerate(cases):
            want = nearest(*mode, size, math.floor(Fraction(s) * size), Fraction(s))
            np.testing.assert_array_equal(got[i], want, err_msg=f"{mode} {size} by {s}, symbolic {symbolic}")


# Positions are constants up to 65536 of them, and are computed at run time beyond. Of 77755 elements torch, which rounds
# the scale to float32, takes 4 neighbours of those that the standard's quotient names, and ONNX Runtime 8.
LONG = [(77755, 3001), (51, 8193), (7001, 9000), (20000, 65536), (70003, 65537), (30011, 70001), (100, 70000)]


def test_long_dims():
    """To sizes whose positions are constants and to longer ones; the last pair repeats elements."""
    modes = [("half_pixel", "round_prefer_floor"), ("align_corners", "ceil"), ("asymmetric", "floor")]
    cases = [(pair, mode) for pair in LONG for mode in modes]
    linear = [node("Resize", ["z", "", "", s], [f"z{s}"], mode="linear") for s in ("short", "long")]
    made = model(
        [*(resize(f"x{i}", f"y{i}", mode, sizes=f"s{i}") for i, (_, mode) in enumerate(cases)), *linear],
        {**{f"x{i}": [size] for i, ((size, _), _) in enumerate(cases)}, "z": [3, 33]},
        outputs=[*(f"y{i}" for i in range(len(cases))), "zshort", "zlong"],
        initializers={**{f"s{i}": np.int64([to]) for i, ((_, to), _) in enumerate(cases)},
                      "short": np.int64([3, 60000]), "long": np.int64([3, 70000])},
    )  # fmt: skip
    z = np.random.default_rng(6).standard_normal((3, 33)).astype(np.float32)
    got = knapper.compile(made)(z=z, **{f"x{i}": np.arange(p[0], dtype=np.float32) for i, (p, _) in enumerate(cases)})
    for i, ((size, to), mode) in enumerate(cases):
        want = nearest(*mode, size, to, Fraction(to, size))
        np.testing.assert_array_equal(got[i], want, err_msg=f"{mode} {size} -> {to}")
    for to, y in ((60000, got[-2]), (70000, got[-1])):
        at = np.clip((np.arange(to) + 0.5) * 33 / to - 0.5, 0, 32)
        want = np.stack([np.interp(at, np.arange(33), row) for row in z.astype(np.float64)])
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_long_dims_by_a_scale():
    scale = float(np.float32(2.7))
    made = model([resize("x", "y", ("half_pixel", "floor"), scales="s")], {"x": [30011]},
                 initializers={"s": np.float32([scale])})  # fmt: skip
    want = nearest("half_pixel", "floor", 30011, math.floor(Fraction(scale) * 30011), Fraction(scale))
    np.testing.assert_array_equal(knapper.compile(made)(np.arange(30011, dtype=np.float32))[0], want)


@pytest.mark.parametrize("length, target", [(80000, 65537), (5000, 70)])
def test_long_dims_and_much_smaller_ones_with_antialias(length, target):
    made = model([node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=1)], {"x": [length]},
                 initializers={"s": np.int64([target])})  # fmt: skip
    x = np.random.default_rng(5).standard_normal(length).astype(np.float32)
    scale = target / length
    at = (np.arange(target) + 0.5) / scale - 0.5
    taps = np.floor(at)[:, None] + np.arange(-math.ceil(1 / scale), math.ceil(1 / scale) + 2)
    weight = np.maximum(0, 1 - np.abs(taps - at[:, None]) * scale)
    want = (x[np.clip(taps, 0, length - 1).astype(int)] * weight).sum(1) / weight.sum(1)
    np.testing.assert_allclose(knapper.compile(made)(x)[0], want, rtol=1e-5, atol=1e-5)
