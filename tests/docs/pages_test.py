"""What the user pages say works: every block of them runs, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOCS = ROOT / "docs"
BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev")).resolve()
BUNDLE = "knapper-0.1.0-linux-x86_64"
PAGES = (
    "install",
    "export",
    "pytorch",
    "coming-from-inductor",
    "jax",
    "coming-from-onnxruntime",
    "coming-from-openvino",
    "deploy",
    "c-and-cpp",
    "custom-operators",
    "user-kernels",
    "vendor-libraries",
    "serve",
    "gpus",
    "faster",
    "numerics",
    "compatibility",
    "security",
    "troubleshooting",
    "glossary",
    "life-of-a-matmul",
)
sys.path[:0] = [str(HERE), str(ROOT / "packaging"), str(ROOT / "tests" / "serving")]

import null_server  # noqa: E402
import page  # noqa: E402
import release  # noqa: E402
import small_models  # noqa: E402
import wheel  # noqa: E402

# Of somebody who has code already.
MODEL = """
<ir_version: 10, opset_import: ["": 21]>
g (float[batch, 16] x) => (float[batch, 4] logits) <int64[2] shape = {16, 4}> {
  w = ConstantOfShape <value = float[1] {0.25}> (shape)
  logits = MatMul(x, w)
}"""
# Of README.
CLASSIFIER = """
<ir_version: 10, opset_import: ["": 21]>
g (int64[batch, sequence] input_ids, int64[batch, sequence] attention_mask) => (float[batch, 4] logits)
    <int64[2] shape = {16, 4}, int64[1] one = {1}, int64[1] minus = {-1}> {
  table = ConstantOfShape <value = float[1] {0.5}> (shape)
  rows = Gather(table, input_ids)
  mask = Cast <to = 1> (attention_mask)
  wide = Unsqueeze(mask, minus)
  kept = Mul(rows, wide)
  logits = ReduceMean <keepdims = 0> (kept, one)
}"""


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    """What a release unpacks to."""
    prefix = tmp_path_factory.mktemp("release") / BUNDLE
    subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL
    )
    # A developer's build finds LLVM where it lies; installed, it would not.
    for name in ("bin/knapper", "lib/libknapper.so.0.1.0"):
        (prefix / name).unlink()
    (prefix / "bin" / "knapper").symlink_to(BUILD / "bin" / "knapper")
    (prefix / "lib" / "libknapper.so.0.1.0").symlink_to(BUILD / "capi" / "libknapper.so.0.1.0")
    (prefix / "python").symlink_to(ROOT / "python")
    for path in release.examples():
        shipped = prefix / "share" / "doc" / "knapper" / path.relative_to(ROOT)
        shipped.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, shipped)
    return prefix


@pytest.fixture
def start(bundle, tmp_path):
    """Runs Python in an empty folder, in which the bundle lies, as a user has it after installing."""
    folder = tmp_path / "page"
    tools = tmp_path / "tools"
    installed = tmp_path / "site" / "knapper-0.1.0.dist-info"
    for each in (folder, tools, installed):
        each.mkdir(parents=True)
    (installed / "METADATA").write_text(wheel.metadata())
    (installed / "entry_points.txt").write_text(wheel.ENTRY_POINTS)
    (folder / BUNDLE).symlink_to(bundle)
    (tools / "python").symlink_to(sys.executable)
    for command, ours in (("cc", "clang-22"), ("c++", "clang++-22")):
        if not shutil.which(command):
            (tools / command).symlink_to(shutil.which(ours) or ours)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KNAPPER_")}
    if "KNAPPER_LIBRARY" in os.environ:
        environment["KNAPPER_LIBRARY"] = os.environ["KNAPPER_LIBRARY"]
    environment |= {
        "PATH": f"{tools}:{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'python'}:{installed.parent}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    def call(*command, model: str = "", language_model: str = "") -> str:
        if model:
            onnx.save(onnx.parser.parse_model(model), folder / "model.onnx")
        if language_model:
            made = null_server.make_folder(folder / language_model)
            small_models.make("llama", made, vocab_size=1500, max_position_embeddings=8192)
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return call


@pytest.mark.parametrize("name", PAGES)
def test_page(name, start):
    model = MODEL if name.startswith("coming-from") else ""
    language_model = "SmolLM2-135M-Instruct" if name == "serve" else ""
    start(sys.executable, HERE / "page.py", DOCS / f"{name}.md", model=model, language_model=language_model)


def test_readme(start):
    """Its Python, then its commands with less time to tune."""
    readme = ROOT / "README.md"
    start(sys.executable, HERE / "page.py", readme, model=CLASSIFIER)
    commands = re.findall(r"^    (knapper .*)$", readme.read_text(), re.M)
    assert len(commands) >= 8
    said = start("bash", "-exc", "\n".join(commands).replace("--budget 60s", "--budget 1s"))
    assert "verified: " in said and "every operator is known" in said


@pytest.mark.parametrize("name", ("README", *PAGES))
def test_links_lead_somewhere(name):
    text = (DOCS / f"{name}.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (DOCS / target).exists(), target


def test_index_has_every_page():
    index = (DOCS / "README.md").read_text()
    for path in DOCS.glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in index, path.name


@pytest.mark.parametrize(
    "text, said",
    [
        ("```sh\nfalse\n```\n", ":2: fails"),
        ("```sh\ncd /; false | true\n```\n", ":2: fails"),
        ("```python\nx = 1\n```\n```python\nassert x == 2\n```\n", ":5: fails"),
        ("<!-- fails -->\n```sh\ntrue\n```\n```text\nno\n```\n", ":3: succeeds"),
        ("```sh\necho one two\n```\n```text\none ... three\n```\n", "'one ... three' is not in"),
        ("<!-- not run: needs luck -->\n```sh\nfalse\n```\n", "'not run: needs luck' is none of"),
        ("```c\nint x;\n```\n", "names no file"),
        ("```sh\ntrue\n", "not closed"),
        ("```yaml\na: 1\n```\n", "a block of 'yaml'"),
        ("<!-- in the background -->\n```sh\nsleep 9\n```\n", "no text says when it is ready"),
        ("<!-- in the background -->\n```sh\necho at 8000\n```\n```text\nready at 8000\n```\n", ":3: fails"),
    ],
)
def test_a_wrong_page_is_seen(text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong.md"
    path.write_text(text)
    with pytest.raises(page.Wrong, match=re.escape(said)):
        page.run(path)


def test_a_right_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHAT", "")
    path = tmp_path / "right.md"
    path.write_text(
        "```sh\nexport WHAT=sky; mkdir in; cd in\n```\n"
        "```c\n/* a.c */\nint main(void) { return 0; }\n```\n"
        "```python\nimport os\nprint(os.environ['WHAT'], os.listdir())\n```\n"
        "```text\nsky [...a.c...]\n```\n"
        "<!-- not run: needs a GPU -->\n```sh\nexit 1\n```\n"
        "<!-- fails -->\n```python\n1 / 0\n```\n```text\nZeroDivisionError: ... by zero\n```\n"
        "<!-- in the background -->\n```sh\npython3 -um http.server 8000 --bind 127.0.0.1\n```\n```text\nServing HTTP on 127.0.0.1\n```\n"
        "```python\nimport urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:8000').read())\n```\n"
        "```text\na.c\n```\n"
    )
    page.run(path)
