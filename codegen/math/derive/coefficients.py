"""Writes Coefficients.h: the polynomials of the vector mathematics.

    python3 coefficients.py > ../Coefficients.h

Needs mpmath and numpy. Each line of `TABLE` is a name, the function of t that
is fitted, its interval, the degree, the weight that turns the fit's error into
a relative error of the result, and the precision of the coefficients.
"""

import sys

import mpmath as mp
import numpy as np

import minimax

one = mp.mpf(1)


LN2 = mp.log(2)
SQ = mp.sqrt(2)
PI4 = mp.pi / 4


def expm1_tail(t):  # (exp(t) - 1 - t) / t^2
    return (mp.expm1(t) - t) / t**2


def exp2m1_ratio(t):  # (2^t - 1) / t
    return mp.expm1(t * LN2) / t


def log1p_ratio(u):
    return mp.log1p(u) / u


def log_tail(f):  # (log(1 + f) - f + f^2/2) / f^3
    return (mp.log1p(f) - f + f * f / 2) / f**3


def log_even(u):  # log((1+s)/(1-s)) = 2s + s^3 * this, u = s^2
    s = mp.sqrt(u)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3


def log_even_tail(u):  # log((1+s)/(1-s)) = 2s + s^3 (2/3 + s^2 * this)
    return (log_even(u) - mp.mpf(2) / 3) / u


def sin_tail(u):
    x = mp.sqrt(u)
    return (mp.sin(x) - x) / x**3


def cos_tail(u):
    x = mp.sqrt(u)
    return (mp.cos(x) - 1 + u / 2) / u**2


def atan_tail(u):
    x = mp.sqrt(u)
    return (mp.atan(x) - x) / x**3


def erf_even(u):
    x = mp.sqrt(u)
    return mp.erf(x) / x


def log2_erfc_ratio(a):
    return mp.log(mp.erfc(a)) / LN2 / a


def log2_erfc_weight(a):  # d erf / erf, of the exponent a * R(a).
    return a * LN2 * mp.erfc(a) / mp.erf(a)


def erfcx_scaled(t):  # (1 + 2x) exp(x^2) erfc(x), t = (x - 4) / (x + 4)
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


tiny = mp.mpf("1e-22")
f32, f64 = np.float32, np.float64
NEAR0 = mp.mpf("1e-20")

TABLE = [
    # name, what, function, lo, hi, degree, weight, precision, given
    ("kExpF32", "exp(r) by powers of r, |r| <= ln2/2",
     mp.exp, -LN2 / 2, LN2 / 2, 6, lambda t: mp.exp(-t), f32, [1, 1]),
    ("kExp2F32", "2^r by powers of r, |r| <= 1/2",
     lambda t: mp.mpf(2) ** t, -one / 2, one / 2, 6,
     lambda t: mp.mpf(2) ** -t, f32, [1]),
    ("kExp2ShortF32", "2^r by powers of r, |r| <= 1/2",
     lambda t: mp.mpf(2) ** t, -one / 2, one / 2, 5,
     lambda t: mp.mpf(2) ** -t, f32, [1]),
    ("kExp2NearF32", "2^r by powers of r, |r| <= 1/64",
     lambda t: mp.mpf(2) ** t, -one / 64, one / 64, 2,
     lambda t: mp.mpf(2) ** -t, f32, [1]),
    ("kExpm1F32", "(exp(r)-1-r)/r^2 by powers of r, |r| <= ln2/2",
     expm1_tail, -LN2 / 2, LN2 / 2, 5,
     lambda t: t * t / mp.expm1(t), f32, []),
    ("kExp2m1F32", "(2^r-1)/r by powers of r, |r| <= 1/2",
     exp2m1_ratio, -one / 2, one / 2, 6,
     lambda t: t / mp.expm1(t * LN2), f32, []),
    ("kLogF32", "(log(1+f)-f+f^2/2)/f^3 by powers of f, sqrt(1/2) <= 1+f <= sqrt(2)",
     log_tail, 1 / SQ - 1, SQ - 1, 7,
     lambda f: f**3 / mp.log1p(f), f32, []),
    ("kSinF32", "(sin(r)-r)/r^3 by powers of r^2, |r| <= pi/4",
     sin_tail, tiny, PI4**2, 3, lambda u: mp.sqrt(u)**3 / mp.sin(mp.sqrt(u)), f32, []),
    ("kCosF32", "(cos(r)-1+r^2/2)/r^4 by powers of r^2, |r| <= pi/4",
     cos_tail, tiny, PI4**2, 2, lambda u: u**2 / mp.cos(mp.sqrt(u)), f32, []),
    ("kAtanF32", "(atan(x)-x)/x^3 by powers of x^2, |x| <= 1",
     atan_tail, tiny, one, 8, lambda u: mp.sqrt(u)**3 / mp.atan(mp.sqrt(u)), f32, []),
    ("kErfF32", "log2(erfc(a))/a by powers of a, 0 <= a <= 4",
     log2_erfc_ratio, tiny, mp.mpf(4), 10, log2_erfc_weight, f32, []),
    ("kGeluF32", "log2(erfc(a/sqrt(2))/2) by powers of a, 0 <= a <= 6",
     lambda a: mp.log(mp.erfc(a / SQ) / 2) / LN2, mp.mpf(0), mp.mpf(6), 8,
     lambda a: LN2 * mp.erfc(a / SQ), f32, []),
    # For results that are rounded to 16 bits: relative to the power itself.
    ("kGelu16", "log2(erfc(a/sqrt(2))/2) by powers of a, 0 <= a <= 6",
     lambda a: mp.log(mp.erfc(a / SQ) / 2) / LN2, mp.mpf(0), mp.mpf(6), 6,
     lambda a: LN2, f32, []),
    ("kSin16", "(sin(r)-r)/r^3 by powers of r^2, |r| <= pi/2",
     sin_tail, tiny, (2 * PI4)**2, 2, lambda u: mp.sqrt(u)**3 / mp.sin(mp.sqrt(u)), f32, []),
    ("kLog1p16", "log(1+u)/u by powers of u, 0 <= u <= 1",
     log1p_ratio, tiny, one, 6, lambda u: u / mp.log1p(u), f32, []),
    ("kExpm1_16", "(exp(r)-1-r)/r^2 by powers of r, |r| <= 1/4",
     expm1_tail, -one / 4, one / 4, 2,
     lambda t: t * t / mp.expm1(t), f32, []),
    ("kExpm1F64", "(exp(r)-1-r)/r^2 by powers of r, |r| <= ln2/2",
     expm1_tail, -LN2 / 2, LN2 / 2, 11,
     lambda t: t * t / mp.expm1(t), f64, []),
    ("kLogF64", "(log((1+s)/(1-s))-2s)/s^3 by powers of s^2, |s| <= 0.1716",
     log_even, tiny, (3 - 2 * SQ) ** 2, 7, lambda u: u, f64, []),
    ("kLogSumF64", "((log((1+s)/(1-s))-2s)/s^3-2/3)/s^2 by powers of s^2, |s| <= 0.1716",
     log_even_tail, tiny, (3 - 2 * SQ) ** 2, 7, lambda u: u * u, f64, []),
    ("kSinF64", "(sin(r)-r)/r^3 by powers of r^2, |r| <= pi/4",
     sin_tail, tiny, PI4**2, 6, lambda u: u, f64, []),
    ("kCosF64", "(cos(r)-1+r^2/2)/r^4 by powers of r^2, |r| <= pi/4",
     cos_tail, tiny, PI4**2, 6, lambda u: u**2, f64, []),
    ("kAtanF64", "(atan(x)-x)/x^3 by powers of x^2, |x| <= 1",
     atan_tail, tiny, one, 21, lambda u: u, f64, []),
    ("kErfF64", "erf(x)/x by powers of x^2, |x| <= 1",
     erf_even, tiny, one, 11, lambda u: 1, f64, []),
    ("kErfcF64", "(1+2x)exp(x^2)erfc(x) by powers of (x-4)/(x+4), 0 <= x <= 28",
     erfcx_scaled, -one, mp.mpf(24) / 32, 22, lambda t: 1, f64, []),
]


def main():
    out = ["// Written by derive/coefficients.py: do not edit.",
           "// Ascending powers. `err`: the fit's own error, relative to the result.",
           "#pragma once",
           "", "namespace knapper::vecmath {", ""]
    for name, what, f, lo, hi, degree, weight, to, given in TABLE:
        # The closed forms cancel at 0; a point that near is not needed.
        def safe(t, f=f):
            return f(t if abs(t) > NEAR0 else NEAR0)

        def safe_weight(t, w=weight):
            return w(t if abs(t) > NEAR0 else NEAR0)

        mp.mp.dps = 120
        if to is f32:
            c = minimax.rounded(safe, lo, hi, degree, to, safe_weight, given)
        else:
            c, _ = minimax.poly(safe, lo, hi, range(degree + 1), safe_weight)
            c = [mp.mpf(float(v)) for v in c]
        worst = max(
            abs(safe_weight(x) * (mp.polyval(c[::-1], x) - safe(x)))
            for x in minimax.grid(lo, hi, 500))
        print(name, mp.nstr(worst, 3),
              mp.nstr(worst * 2 ** (24 if to is f32 else 53), 3), "ulp",
              file=sys.stderr, flush=True)
        out.append(f"/// {what}. err {mp.nstr(worst, 3)}.")
        out.append(f"inline constexpr double {name}[] = {{")
        out.append("    " + ", ".join(float(v).hex() for v in c) + "};")
        out.append("")
    out.append("} // namespace knapper::vecmath")
    print("\n".join(out))


if __name__ == "__main__":
    main()
