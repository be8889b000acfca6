"""Minimax fits: weighted Remez exchange for polynomials.

All arithmetic is in mpmath; a fit is found on a dense grid, which is enough
for the smooth functions that are fitted here.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 50


def grid(lo, hi, count):
    """Chebyshev points of [lo, hi], ascending."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    mid, half = (lo + hi) / 2, (hi - lo) / 2
    return [mid - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]


def _extrema(errors, count):
    """Indices of `count` alternating extrema of the sequence of errors."""
    runs = []
    for i, e in enumerate(errors):
        if e == 0:
            continue
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > count:
        if len(runs) == count + 1 or abs(errors[runs[0]]) < abs(errors[runs[-1]]):
            drop = 0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1
            runs.pop(drop)
        else:
            runs.pop(-1)
    return runs


def poly(f, lo, hi, powers, weight=lambda t: 1, points=None, rounds=12):
    """Coefficients c (one for each of `powers`) that minimise the maximum over
    [lo, hi] of |weight(t) * (sum c_k t^k - f(t))|; and that maximum."""
    n = len(powers)
    xs = grid(lo, hi, points or 24 * (n + 1) + 1)
    fs = [mp.mpf(f(x)) for x in xs]
    ws = [mp.mpf(weight(x)) for x in xs]
    ref = [round(i * (len(xs) - 1) / n) for i in range(n + 1)]
    for _ in range(rounds):
        a = mp.matrix(n + 1, n + 1)
        b = mp.matrix(n + 1, 1)
        for row, i in enumerate(ref):
            for col, k in enumerate(powers):
                a[row, col] = ws[i] * xs[i] ** k
            a[row, n] = (-1) ** row
            b[row] = ws[i] * fs[i]
        sol = mp.lu_solve(a, b)
        c = [sol[i] for i in range(n)]
        errors = [
            w * (sum(ck * x**k for ck, k in zip(c, powers)) - y)
            for x, y, w in zip(xs, fs, ws)
        ]
        worst = max(abs(e) for e in errors)
        new = _extrema(errors, n + 1)
        if len(new) < n + 1 or worst <= abs(sol[n]) * mp.mpf("1.0005"):
            break
        ref = new
    return c, worst


def rounded(f, lo, hi, degree, to, weight=lambda t: 1, fixed=(), rounds=300):
    """As `poly`, for low precisions: coefficients representable after `to`
    (np.float32 ...). They are rounded one after another, the rest refitted each
    time by reweighted least squares (Lawson). The first are given by `fixed`."""
    ts = grid(lo, hi, 40 * (degree + 2))
    fs = [mp.mpf(f(t)) for t in ts]
    ws = np.array([float(weight(t)) for t in ts])
    done = [mp.mpf(v) for v in fixed]
    scale = max(abs(float(lo)), abs(float(hi)))
    while len(done) <= degree:
        y = np.array([
            float(v - sum(c * t**k for k, c in enumerate(done)))
            for t, v in zip(ts, fs)
        ])
        x = np.array([float(t) for t in ts]) / scale
        powers = range(len(done), degree + 1)
        a = np.stack([x**k for k in powers], axis=1) * ws[:, None]
        lawson = np.ones(len(ts))
        best = None
        for _ in range(rounds):
            root = np.sqrt(lawson)
            c = np.linalg.lstsq(a * root[:, None], y * ws * root, rcond=None)[0]
            e = np.abs(a @ c - y * ws)
            if best is None or e.max() < best[0]:
                best = (e.max(), c)
            lawson *= e / e.max() + 1e-4
            lawson *= len(ts) / lawson.sum()
        k = len(done)
        done.append(mp.mpf(float(to(best[1][0] / scale**k))))
    return done
