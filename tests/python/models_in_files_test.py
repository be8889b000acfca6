"""Compiling, saving, loading, and what a module tells about itself."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper
from affine_models import affine_model

X = np.ones((2, 4), np.float32)


def test_compile_from_path_bytes_and_proto(tmp_path):
    path = tmp_path / "affine.onnx"
    onnx.save(affine_model(), path)
    for model in (path, str(path), path.read_bytes(), affine_model()):
        module = knapper.compile(model, threads=1)
        np.testing.assert_array_equal(module(X)["y"], X * 2 + 1)


def test_output_and_load(tmp_path):
    path = tmp_path / "affine.knap"
    knapper.compile(affine_model(), output=path)
    for module in (
        knapper.load(path),
        knapper.load(str(path), threads=1, verify=True),
        knapper.load(path.read_bytes()),
    ):
        np.testing.assert_array_equal(module(X)["y"], X * 2 + 1)


def test_save_is_the_same_file(affine, affine_artefact, tmp_path):
    again = tmp_path / "again.knap"
    knapper.load(affine_artefact).save(again)
    assert again.read_bytes() == affine_artefact.read_bytes()


def test_save_where_nothing_can_be_written(affine, tmp_path):
    with pytest.raises(knapper.Error, match="missing"):
        affine.save(tmp_path / "missing" / "x.knap")


def test_load_refuses(tmp_path):
    with pytest.raises(knapper.UserError, match="nowhere.knap"):
        knapper.load(tmp_path / "nowhere.knap")
    text = tmp_path / "text.knap"
    text.write_text("not an artefact" * 100)
    with pytest.raises(knapper.UserError):
        knapper.load(text)
    with pytest.raises(knapper.UserError):
        knapper.load(b"")
    with pytest.raises(knapper.UserError, match="threads is -1"):
        knapper.load(text, threads=-1)


def test_damaged_artefact(affine_artefact):
    whole = affine_artefact.read_bytes()
    with pytest.raises(knapper.UserError):
        knapper.load(whole[: len(whole) // 2])


def test_compile_refuses(tmp_path):
    with pytest.raises(knapper.UserError, match="nowhere.onnx"):
        knapper.compile(tmp_path / "nowhere.onnx")
    with pytest.raises(knapper.UserError):
        knapper.compile(b"not a model")
    with pytest.raises(knapper.UserError, match="not int"):
        knapper.compile(7)
    with pytest.raises(knapper.UserError, match="no option 'no_such_option'"):
        knapper.compile(affine_model(), no_such_option=1)
    with pytest.raises(knapper.UserError, match="toaster"):
        knapper.compile(affine_model(), target="toaster")


def test_unsupported_operator_names_the_node():
    graph = helper.make_graph(
        [helper.make_node("Mystery", ["x"], ["y"], name="riddle", domain="odd")],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("odd", 1)],
    )
    with pytest.raises(knapper.UserError, match="Mystery"):
        knapper.compile(model)


def test_progress_and_an_exception_in_it():
    phases = []
    knapper.compile(affine_model(), progress=lambda *a: phases.append(a))
    assert phases and all(len(p) == 3 and p[0] for p in phases)

    def fail(*_):
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        knapper.compile(affine_model(), progress=fail)


def test_inspect():
    found = knapper.inspect(affine_model())
    assert "ReduceSum" in str(found)


def test_describe_profile_memory_explain(affine, tmp_path):
    assert affine.describe()
    profile = affine.profile(X)
    assert profile["total_ns"] > 0
    assert profile["launches"] and all(l["kernel"] for l in profile["launches"])
    memory = affine.peak_memory(batch=8)
    assert memory["arena"] >= 0
    page = affine.explain(tmp_path / "report.html")
    assert "<html" in page.lower()
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_peak_memory_wants_known_symbols(affine):
    with pytest.raises(knapper.UserError, match="batch"):
        affine.peak_memory()
    with pytest.raises(knapper.UserError, match="bach"):
        affine.peak_memory(batch=8, bach=8)
    fixed = knapper.compile(affine_model(), dim={"batch": 2})
    with pytest.raises(knapper.UserError, match="all sizes are numbers"):
        fixed.peak_memory(batch=2)


def test_devices():
    assert any(d["device"] == "cpu" for d in knapper.devices())


def test_version():
    assert knapper.version() == knapper.__version__
    assert knapper.has_compiler()


def test_logging_goes_to_python(affine_artefact, caplog):
    with caplog.at_level(logging.DEBUG, logger="knapper"):
        knapper.compile(affine_model())
    assert any(record.name == "knapper" for record in caplog.records)


def python(code: str, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_silent_by_default(affine_artefact):
    done = python(
        f"import knapper, numpy; m = knapper.load({str(affine_artefact)!r});"
        "m(numpy.ones((1, 4), numpy.float32))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_library_that_is_not_there():
    done = python(
        "import knapper\n"
        "try: knapper.version()\n"
        "except knapper.UserError as e: print(e)",
        KNAPPER_LIBRARY="/nowhere/libknapper.so",
    )
    assert "/nowhere/libknapper.so" in done.stdout, done.stderr


def test_needs_numpy_only(affine_artefact):
    """Import and run with every other third-party package hidden."""
    code = f"""
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('onnx', 'torch', 'ml_dtypes', 'transformers'):
            raise ImportError(name)
sys.meta_path.insert(0, Hide())
import knapper, numpy
m = knapper.load({str(affine_artefact)!r})
print(m(numpy.ones((1, 4), numpy.float32))['y'])
"""
    done = python(code)
    assert done.stdout == "[[3. 3. 3. 3.]]\n", done.stderr
