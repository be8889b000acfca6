"""What a row of the list of op cases is made of (cases.py)."""

import inspect

FLOATS = ["f32", "f64", "f16", "bf16"]
INTS = ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"]
NUMBERS = FLOATS + INTS
SMALL_FLOATS = ["f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E4M3", "f8E3M4", "f8E4M3B11FNUZ", "f8E8M0FNU", "f6E2M3FN",
                "f6E3M2FN", "f4E2M1FN"]
STORAGE = SMALL_FLOATS + ["i4", "ui4", "i2", "ui2"]

CASES = []


class T:
    """A tensor type. Sizes are numbers or expressions over symbols."""

    def __init__(self, dtype, *dims):
        self.dtype, self.dims = dtype, dims

    def __str__(self):
        shape = "".join("?x" if isinstance(d, str) else f"{d}x" for d in self.dims)
        if not any(isinstance(d, str) for d in self.dims):
            return f"tensor<{shape}{self.dtype}>"
        sizes = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in self.dims)
        return f"tensor<{shape}{self.dtype}, #ts.dims<{sizes}>>"


class In:
    """An input: its type and how its values are made.

    bytes       any byte, for storage types
    normal      around 0, up to a few units     positive   0.1 to 4      unit     inside (-1, 1)
    wide        any finite number               ties       few distinct  bool
    midway      between two neighbours of a narrower type, or just beside
    special     NaN, infinities, zeros of both signs, denormals, extremes, mixed with others
    index D     -D to D - 1, for a size D       index0 D   0 to D - 1
    """

    def __init__(self, name, type, values="normal"):
        self.name, self.type, self.values = name, type, values


def case(name, inputs, body, results, sizes=({},), numpy=None, tolerance="exact", speed=None):
    """`body` is ts ops; %input names and %r (or %r0, %r1...) for results are given. `tolerance`:
    "exact" (bit for bit, any NaN, either zero), "ulp N" (of the result's dtype), "relative X" (of
    the largest magnitude in the result). `speed`: sizes to measure at."""
    if isinstance(results, T):
        results = [results]
    # Compiled code takes sizes from its inputs: what none has gets one of its own.
    bound = {d for i in inputs for d in i.type.dims}
    inputs = list(inputs) + [In(f"size_{s}", T("i1", s), "bool") for s in sizes[0] if s not in bound]
    names = ["%r"] if len(results) == 1 else [f"%r{i}" for i in range(len(results))]
    arguments = ", ".join(f"%{i.name}: {i.type}" for i in inputs)
    types = ", ".join(map(str, results))
    text = (f"func.func @main({arguments}) -> ({types}) {{\n  {body.strip()}\n"
            f"  return {', '.join(names)} : {types}\n}}\n")
    CASES.append(dict(name=name, mlir=text, inputs=[i.values for i in inputs],
                      input_names=[i.name for i in inputs], sizes=list(sizes), tolerance=tolerance,
                      speed=[speed] if isinstance(speed, dict) else speed or [], numpy=numpy))


# Empty, one element, odd, just below and above vector widths, several rows.
PLANE = [dict(a=0, b=3), dict(a=1, b=1), dict(a=3, b=5), dict(a=7, b=33), dict(a=16, b=64), dict(a=5, b=257)]


def np_():
    import numpy
    return numpy


def stored(x, dtype):
    """Floats as an op stores them in the dtype, rounded once; float64."""
    np = np_()
    if dtype == "bf16":
        bits = np.asarray(x, "f4").view("u4")
        x = (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).astype("u4").view("f4")
    elif dtype in ("f16", "f32"):
        x = np.asarray(x, {"f16": "f2", "f32": "f4"}[dtype])
    return np.asarray(x, "f8")


def wide(x):
    return x.astype("f8") if x.dtype.kind == "f" else x


# How near sums come to exact ones.
ROUNDING = {"f32": "relative 2e-6", "f64": "relative 1e-12", "f16": "ulp 2", "bf16": "ulp 2"}


def apply_numpy(case, inputs, sizes):
    """NumPy's answer for the inputs (by name) of one case: a list of arrays, or None."""
    f = case["numpy"]
    if f is None:
        return None
    given = dict(sizes, **inputs)
    parameters = inspect.signature(f).parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        result = f(**inputs)
    else:
        named = [p.name for p in parameters if p.name in given and p.default is p.empty]
        optional = [p.name for p in parameters if p.name in inputs and p.default is not p.empty]
        result = f(**{n: given[n] for n in named + optional})
    return list(result) if isinstance(result, tuple) else [result]
