"""Discrete Fourier transforms: lengths of every kind of plan, and those without one."""

import random

from case_list import case, In, np_, T


def np_dft(kind, length, inverse):
    def numpy(x):
        np = np_()
        z = x.astype("f8")
        if kind == "from_real":
            y = np.fft.rfft(z)
            y = np.conj(y) if inverse else y
        else:
            z = z.reshape(len(x), x.shape[1] // 2, 2)
            z = z[..., 0] + 1j * z[..., 1]
            if kind == "to_real":
                y = np.fft.irfft(z if inverse else np.conj(z), length) * length if length > 1 else z.real
                return y.astype(x.dtype)
            y = np.fft.ifft(z) * length if inverse else np.fft.fft(z)
        return np.stack([y.real, y.imag], -1).reshape(len(x), 2 * y.shape[1]).astype(x.dtype)

    return numpy


def dft(dtype, rows, length, kind="complex", inverse=False, sizes=({},)):
    half = 2 * (length // 2 + 1) if isinstance(length, int) else f"2 * floordiv({length}, 2) + 2"
    twice = 2 * length if isinstance(length, int) else f"2 * {length}"
    x = T(dtype, rows, length if kind == "from_real" else half if kind == "to_real" else twice)
    y = T(dtype, rows, half if kind == "from_real" else length if kind == "to_real" else twice)
    words = (" inverse" if inverse else "") + ("" if kind == "complex" else f" {kind}")
    size = f'"{length}"' if isinstance(length, str) else length
    # Up to a prime of 2048 a row is one product: its sum's error grows with the length.
    case(f"dft {dtype} {rows}x{length}{words}", [In("x", x)], f"%r = ts.dft %x length <{size}>{words} : {x}", y, list(sizes),
         np_dft(kind, length, inverse) if isinstance(length, int) else None, tolerance="relative 4e-6" if dtype == "f32" else "relative 1e-12")  # fmt: skip


rng = random.Random(19)
KINDS = ["complex", "from_real", "to_real"]
# Each power of two; small factors in every order that a plan has; odd ones; primes, whose products are matrices.
LENGTHS = [2**i for i in range(14)] + [6, 10, 12, 74, 111, 148, 222, 15, 18, 20, 24, 27, 30, 36, 40, 45, 48, 60, 77, 80, 81, 90, 96, 100, 105, 112, 121, 125, 126, 143,
                                       144, 150, 160, 169, 200, 240, 250, 256, 288, 320, 343, 360, 400, 480, 500, 640, 729, 800, 882, 1000, 1001, 1155,
                                       1200, 1280, 1536, 1715, 2187, 2310, 2400, 3000, 3125, 3600, 4410, 5000, 6000, 6174, 7168] + [
                                       3, 7, 11, 13, 17, 31, 34, 97, 127, 257, 331, 509, 592, 942, 1018, 1994, 2003, 4489]  # fmt: skip
for length in sorted(set(LENGTHS)):
    for kind in KINDS:
        for inverse in [False, True]:
            if rng.random() < 0.6:
                dft("f32", rng.choice([1, 2, 3, 5]), length, kind, inverse)
        if rng.random() < 0.4:
            dft("f64", rng.choice([1, 2, 3]), length, kind, rng.random() < 0.5)
for kind in KINDS:
    for length in [64, 120, 1024]:
        dft("f32", "r", length, kind, False, [dict(r=0), dict(r=1), dict(r=7), dict(r=130)])
    dft("f32", "r", "n", kind, True, [dict(r=1, n=1), dict(r=2, n=2), dict(r=3, n=37), dict(r=0, n=16), dict(r=5, n=64)])
