"""Compares what the reference evaluator computed (op_cases --dump FOLDER) with NumPy.

    python3 check_numpy.py FOLDER

Exits 1 when a case differs. Cases without a NumPy answer are counted, not compared.
"""

import json
import os
import sys
import warnings

import numpy as np

import cases

DTYPES = dict(f32="f4", f64="f8", f16="f2", bf16="u2", i1="u1", i8="i1", u8="u1", i16="i2", i32="i4", i64="i8",
              u16="u2", u32="u4", u64="u8")
# Where NumPy computes in the element type, several roundings; the reference rounds once.
RELATIVE = dict(f32=2e-6, f64=1e-12, f16=4e-3, bf16=2e-2)
DENORMAL = dict(f32=2.0**-149, f64=0, f16=2.0**-24, bf16=2.0**-133)


def read(folder, entry):
    """Arrays, and their dtypes as we name them; bf16 widened to float32."""
    arrays = []
    with open(os.path.join(folder, entry["file"]), "rb") as file:
        for tensor in entry["tensors"]:
            dtype = np.dtype(DTYPES.get(tensor["dtype"], "u1"))  # storage types as bytes
            count = int(np.prod(tensor["dims"], dtype=np.int64))
            x = np.frombuffer(file.read(count * dtype.itemsize), dtype).reshape(tensor["dims"])
            if tensor["dtype"] == "bf16":
                x = (x.astype("u4") << 16).view("f4")
            elif tensor["dtype"] == "i1":
                x = x.astype(bool)
            arrays.append((x, tensor["dtype"]))
    return arrays


def close(expected, actual, dtype):
    expected = np.asarray(expected)
    if expected.shape != actual.shape:
        return f"shape {actual.shape}, NumPy says {expected.shape}"
    if expected.size == 0:
        return None
    if dtype not in RELATIVE:
        # Exact, in the width of the dtype: numbers beyond it wrap.
        if dtype == "i1":
            same = expected.astype(bool) == actual
        else:
            bits = 8 * actual.dtype.itemsize
            mask = (1 << bits) - 1
            same = np.array([(int(e) - int(a)) & mask == 0
                             for e, a in zip(expected.ravel().tolist(), actual.ravel().tolist())]).reshape(actual.shape)
    else:
        limit = {"f16": 65504, "bf16": 3.3895e38, "f32": 3.4028235e38}.get(dtype, np.inf)
        e, a = expected.astype("f8"), actual.astype("f8")
        e = np.where(np.abs(e) > limit * 1.002, np.sign(e) * np.inf, e)
        near_limit = np.abs(e) > limit * 0.98
        # Relative to the element, or to the largest where that is below 1; never finer than a denormal.
        scale = min(1.0, float(np.max(np.abs(e[np.isfinite(e)]), initial=0)))
        bound = RELATIVE[dtype] * np.maximum(np.abs(np.where(np.isfinite(e), e, 0)), scale)
        bound = np.maximum(bound, DENORMAL[dtype])
        same = (e == a) | (np.isnan(e) & np.isnan(a)) | (np.abs(e - a) <= bound) | (near_limit & ~np.isnan(a))
    if same.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"element {list(at)} is {actual[at]!r}, NumPy says {expected[at]!r}"


def main(folder):
    warnings.simplefilter("ignore")
    by_name = {c["name"]: c for c in cases.CASES}
    compared = skipped = failed = 0
    for entry in json.load(open(os.path.join(folder, "manifest.json"))):
        case = by_name[entry["name"]]
        inputs = [x for x, _ in read(folder, entry["inputs"])]
        results = read(folder, entry["results"])
        expected = cases.apply_numpy(case, dict(zip(case["input_names"], inputs)), entry["sizes"])
        if expected is None:
            skipped += 1
            continue
        compared += 1
        for e, (a, dtype) in zip(expected, results):
            wrong = close(e, a, dtype)
            if wrong:
                failed += 1
                print(f"{entry['name']} {entry['sizes']}: {wrong}")
                break
    print(f"{compared} compared with NumPy, {skipped} without an answer of NumPy, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
