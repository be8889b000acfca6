"""Knapper under the name onnxruntime: install(), and python -m knapper.ort."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import knapper.ort
from affine_models import affine_model
from knapper.ort.switch import FOLDER
from knapper.ort.type_helper import TypeHelper


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    package = str(Path(knapper.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": package} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> str:
    """A program whose child processes import onnxruntime too."""
    folder = tmp_path_factory.mktemp("switch")
    (folder / "m.onnx").write_bytes(affine_model().SerializeToString())
    path = folder / "script.py"
    path.write_text(textwrap.dedent(f"""
        import multiprocessing, subprocess, sys
        import numpy as np

        def work(rows):
            import onnxruntime
            session = onnxruntime.InferenceSession({str(folder / "m.onnx")!r})
            (total,) = session.run(["total"], {{"input.1": np.ones((rows, 4), "f")}})
            return type(session).__module__, float(total.sum())

        if __name__ == "__main__":
            if "install" in sys.argv:
                import knapper.ort
                knapper.ort.install()
                knapper.ort.install()
            pool = multiprocessing.get_context("spawn").Pool(1)
            print(work(1), pool.map(work, [2, 3]), sys.argv[1:], sys.flags.optimize)
            if "install" not in sys.argv:
                code = "import onnxruntime; print(onnxruntime.get_build_info())"
                print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        """))
    return str(path)


OURS = "('knapper.ort.session', 12.0) [('knapper.ort.session', 24.0), ('knapper.ort.session', 36.0)]"


def test_install(script):
    assert said(python(script, "install")) == f"{OURS} ['install'] 0\n"


def test_program(script):
    out = said(python("-O", "-m", "knapper.ort", script, "-m", "x"))
    assert out.startswith(f"{OURS} ['-m', 'x'] 1\nKnapper ")
    assert said(python("-m", "knapper.ort", "-m", "onnxruntime.capi._pybind_state")) == ""
    assert said(python("-m", "knapper.ort", "--path")).strip() == FOLDER
    path = os.pathsep.join([FOLDER, str(Path(knapper.__file__).parents[1])])
    assert said(python(script, PYTHONPATH=path)).startswith(OURS)
    assert "script.py" in said(python("-m", "knapper.ort", "--help"))
    wrong = python("-m", "knapper.ort")
    assert wrong.returncode == 2 and "script.py" in wrong.stderr


def test_names():
    """What libraries look for, where they look for it."""
    code = """
        import importlib.metadata, importlib.util
        assert importlib.util.find_spec("onnxruntime") is not None
        import onnxruntime, onnxruntime as ort, knapper
        assert ort.__version__ == importlib.metadata.version("onnxruntime") == ort.get_version_string()
        assert tuple(int(p) for p in ort.__version__.split(".")[:2]) >= (1, 14)
        assert knapper.__version__ == knapper.version() in ort.get_build_info()
        import onnxruntime.capi.onnxruntime_pybind11_state as C
        from onnxruntime.capi._pybind_state import Fail, InvalidArgument
        from onnxruntime.capi.onnxruntime_inference_collection import OrtValue, get_ort_device_type
        from onnxruntime.transformers.io_binding_helper import TypeHelper
        import knapper.ort
        assert C.Fail is Fail is knapper.ort.capi.onnxruntime_pybind11_state.Fail
        assert onnxruntime.InferenceSession is knapper.ort.InferenceSession is C.InferenceSession
        assert ort.OrtDevice.make("cpu", 0).device_type() == get_ort_device_type("cpu") == 0
        assert ort.OrtDevice.make("cuda", 1).device_id() == 1
        assert [n for n in knapper.ort.__all__ if not hasattr(ort, n)] == []
        ort.preload_dlls(); ort.print_debug_info()
        try: ort.no_such
        except AttributeError as e: assert "no_such" in str(e)
        for name in ("quantization", "quantization.calibrate", "tools.symbolic_shape_infer",
                     "transformers.optimizer", "datasets", "backend"):
            try: importlib.import_module("onnxruntime." + name)
            except ImportError as e:
                assert "not part of knapper.ort" in str(e) and "try: " in str(e), e
            else: raise AssertionError(name)
        try: importlib.import_module("onnxruntime.nothing")
        except ModuleNotFoundError as e: assert "nothing" in str(e)
        assert importlib.util.find_spec("onnxruntime.training") is None
        print("good")
    """
    assert said(python("-m", "knapper.ort", "-c", textwrap.dedent(code))).endswith("good\n")


def test_install_after_the_real_one():
    pytest.importorskip("onnxruntime")
    done = python("-c", "import onnxruntime, knapper.ort; knapper.ort.install()")
    assert done.returncode == 1 and "imported already" in done.stderr
    assert "python -m knapper.ort" in done.stderr


def test_version_is_that_of_the_distribution():
    (info,) = Path(FOLDER).glob("*.dist-info")
    assert info.name == f"onnxruntime-{knapper.ort.__version__}.dist-info"
    assert f"Version: {knapper.ort.__version__}\n" in (info / "METADATA").read_text()


def test_type_helper():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("torch")
    theirs = pytest.importorskip("onnxruntime.transformers.io_binding_helper").TypeHelper
    ours = TypeHelper
    model = affine_model().SerializeToString()
    facts = []
    for ort, helper in ((onnxruntime, theirs), (knapper.ort, ours)):
        made = ort.InferenceSession(model)
        facts.append(
            [helper.get_input_type(made, "input.1"), helper.get_output_type(made, "y")]
            + [helper.get_io_numpy_type_map(made), helper.get_io_onnx_type_map(made)]
            + [
                (f(f"tensor({word})"))
                for word in ("float", "double", "int64", "bool", "uint8", "float16")
                for f in (
                    helper.ort_type_to_numpy_type,
                    helper.ort_type_to_torch_type,
                    helper.ort_type_to_onnx_type,
                )
            ]
        )
        with pytest.raises(ValueError, match="not found"):
            helper.get_input_type(made, "no")
        with pytest.raises(ValueError):
            helper.ort_type_to_numpy_type("tensor(no)")
    assert facts[0] == facts[1]
