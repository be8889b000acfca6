"""The product stands alone: no tools are started, no peer is loaded, and nothing
in it knows the models that it is measured with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx

from affine_models import affine_model

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import resource, sys, numpy, knapper
assert "onnx" not in sys.modules
m = knapper.compile(sys.argv[1], threads=2, cache=False)
y = m(numpy.ones((3, 4), numpy.float32))
assert (y[0] == 3).all()
children = resource.getrusage(resource.RUSAGE_CHILDREN)
print("children", children.ru_maxrss)
print(open("/proc/self/maps").read())
"""
PEERS = "onnxruntime|torch|openvino|libdnnl|mkl|libclang|tvm|iree"
# Names of the measured models and of their tensors.
NAMES = (
    r"(?i)\bbert|minilm|\bgpt|llama|\bvit\b|resnet|mobilenet|whisper|"
    r"input_ids|attention_mask|token_type|pixel_values|input_features|"
    r"last_hidden_state|\blogits\b"
)


def test_no_tools_and_no_peers(tmp_path):
    model = tmp_path / "affine.onnx"
    onnx.save(affine_model(), model)
    environment = {
        "PATH": "/nowhere",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "HOME": str(tmp_path),
    }
    for name in ("KNAPPER_LIBRARY", "ASAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "children 0\n" in done.stdout, "a process was started"
    loaded = {Path(w[-1]).name for l in done.stdout.splitlines() if len(w := l.split()) > 5}
    assert not [name for name in loaded if re.search(PEERS, name)]


def test_no_model_is_known_by_name():
    found = []
    for folder in ("ir", "graph", "codegen", "targets", "frontends", "compiler", "capi", "include", "python", "runtime", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".td", ".def", ".fbs", ".py"):
                continue
            if path.name.endswith(("_test.cpp", "_bench.cpp")):
                continue
            text = path.read_text()
            if path.suffix == ".py":  # comments and docstrings may give examples
                text = re.sub(r'""".*?"""', lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
            for number, line in enumerate(text.splitlines(), 1):
                code = re.sub(r"#.*" if path.suffix == ".py" else r"//.*", "", line)
                if re.search(NAMES, code):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found
