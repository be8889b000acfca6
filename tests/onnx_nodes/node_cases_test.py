"""The official node cases through import and the reference evaluator.

What this proves: the importer gives every case its right meaning or refuses it
with a UserError. Compiled code has its own suite over the same cases.

    pytest tests/onnx_nodes -q -s        prints what is refused, by reason
"""

from __future__ import annotations

import collections
import os
import re
import subprocess
import warnings
from pathlib import Path

import expectations
import ml_dtypes
import numpy as np
import onnx
import pytest
from case_inputs import fixed_parameters
from onnx import numpy_helper

BUILD = Path(os.environ.get("KNAPPER_BUILD", "build/dev")).resolve()
PROGRAM = BUILD / "tests" / "onnx_nodes" / "onnx-evaluate"
DTYPES = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64",
    "bool": "i1", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0", "float4_e2m1fn": "f4e2m1",
    "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2",
}  # fmt: skip
NUMPY = {v: np.dtype(getattr(ml_dtypes, k, None) or k) for k, v in DTYPES.items()}
REFUSED = 39  # sequences, optionals, images; fewer is progress


def cases() -> list:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def write_tensors(path: Path, arrays: list[np.ndarray]) -> None:
    with path.open("wb") as file:
        for array in arrays:
            array = np.ascontiguousarray(array).reshape(np.shape(array))
            head = [DTYPES.get(str(array.dtype), str(array.dtype))]
            head += [str(d) for d in array.shape]
            file.write((" ".join(head) + "\n").encode())
            file.write(array.tobytes())


def read_tensors(path: Path) -> list[np.ndarray]:
    data, at, arrays = path.read_bytes(), 0, []
    while at < len(data):
        end = data.index(b"\n", at)
        name, *dims = data[at:end].decode().split()
        shape = [int(d) for d in dims]
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(
            np.frombuffer(data, NUMPY[name], count, end + 1).reshape(shape)
        )
        at = end + 1 + count * NUMPY[name].itemsize
    return arrays


def evaluate(folders: list[Path]) -> list[str]:
    """A line a folder; a crash of the program names the folder."""
    lines: list[str] = []
    while len(lines) < len(folders):
        rest = "".join(f"{f}\n" for f in folders[len(lines) :])
        run = subprocess.run(
            [PROGRAM], input=rest, capture_output=True, text=True, timeout=600
        )
        lines += run.stdout.splitlines()
        if len(lines) < len(folders):
            lines.append(f"crash {run.returncode} {run.stderr[-300:]}")
    return lines


def as_array(value) -> np.ndarray | None:
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, (list, tuple, dict)) or value is None:
        return None
    return np.asarray(value)


def wrong(got: list[np.ndarray], want: list, rtol: float, atol: float) -> str:
    if len(got) != len(want):
        return f"{len(got)} results for {len(want)}"
    for i, (mine, theirs) in enumerate(zip(got, want)):
        theirs = as_array(theirs)
        if theirs is None or mine.shape != theirs.shape:
            return f"result {i}: shape {mine.shape}"
        if mine.dtype != theirs.dtype:
            return f"result {i}: {mine.dtype} for {theirs.dtype}"
        if mine.dtype.kind in "biu":
            if not np.array_equal(mine, theirs):
                return f"result {i}: {mine.ravel()[:4]} for {theirs.ravel()[:4]}"
            continue
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        r, t = rtol, atol
        if mine.dtype.itemsize == 2:
            r = max(rtol, 2e-2 if mine.dtype != np.float16 else 2e-3)
            t = max(atol, 1e-2 if mine.dtype != np.float16 else 1e-3)
        if not np.allclose(a, b, rtol=r, atol=t, equal_nan=True):
            return f"result {i}: {a.ravel()[:4]} for {b.ravel()[:4]}"
    return ""


def reason(line: str) -> str:
    """The message without what names one case only."""
    text = line.split("\\n  try:")[0].replace("\\n", " ")
    text = re.sub(r"\S*/model\.onnx: ", "", text)
    text = re.sub(r"; \d+ nodes?: .*", "", text)
    return re.sub(r"node '[^']*' ", "", text)[:150]


def test_node_cases(tmp_path):
    folders, chosen = [], []
    for case in cases():
        for i, (inputs, outputs) in enumerate(case.data_sets):
            arrays = [as_array(x) for x in inputs]
            tensors = [a for a in map(as_array, [*inputs, *outputs]) if a is not None]
            if any(a.dtype.kind == "O" for a in tensors):
                continue  # strings are the runtime's: compiled code has these cases
            folder = tmp_path / f"{case.name}.{i}"
            folder.mkdir()
            (folder / "model.onnx").write_bytes(case.model.SerializeToString())
            write_tensors(
                folder / "inputs",
                [a for a in arrays if a is not None and a.dtype.kind != "O"],
            )
            folders.append(folder)
            chosen.append((case, outputs))
    lines = evaluate(folders)
    again = []
    for i, (case, _) in enumerate(chosen):
        if re.search("depends on data|not a constant", lines[i]):
            arrays = [as_array(x) for x in case.data_sets[0][0]]
            if any(a is None or a.dtype.kind == "O" for a in arrays):
                continue
            model, left = fixed_parameters(case.model, arrays)
            (folders[i] / "model.onnx").write_bytes(model.SerializeToString())
            write_tensors(folders[i] / "inputs", left)
            again.append(i)
    for i, line in zip(again, evaluate([folders[i] for i in again])):
        lines[i] = line
    print(f"{len(again)} cases with fixed parameters")
    passed, bad, refused = 0, [], collections.defaultdict(list)
    for folder, (case, outputs), line in zip(folders, chosen, lines):
        if line == "ok":
            got = read_tensors(folder / "outputs")
            if expectations.is_random(case.name):
                outputs = got if [g.shape for g in got] == [
                    np.shape(as_array(o)) for o in outputs
                ] else outputs  # fmt: skip
            outputs = expectations.exact(case.name) or outputs
            problem = wrong(got, outputs, case.rtol, case.atol)
            if problem:
                bad.append(f"{case.name}: {problem}")
            else:
                passed += 1
        elif line.startswith(("import user", "run user")):
            refused[reason(line)].append(case.name)
        else:
            bad.append(f"{case.name}: {line[:300]}")
    for text, names in sorted(refused.items(), key=lambda r: -len(r[1])):
        print(f"{len(names):4} {text}  [{names[0]}]")
    print("\n".join(bad))
    print(f"{passed} of {len(folders)} pass, {len(bad)} are wrong")
    assert not bad
    assert passed
    assert len(folders) - passed <= REFUSED


if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)
