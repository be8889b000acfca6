"""What may be shipped: the checks see what they are there for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

import release  # noqa: E402

BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev"))


def compiled(folder: Path, code: str, *flags: str) -> Path:
    source = folder / "library.c"
    source.write_text(code)
    library = folder / "libthing.so"
    subprocess.run(
        ["clang-22", "-shared", "-fPIC", "-O1", *flags, source, "-o", library],
        check=True,
    )
    return library


def test_runtime_library_can_be_shipped(tmp_path):
    library = (BUILD / "capi" / "libknapper_rt.so").resolve()
    assert release.complaints(release.stripped(library, tmp_path)) == []


def test_clean_library(tmp_path):
    library = compiled(tmp_path, "int knapper_run(void) { return 1; }", "-Wl,-s")
    assert release.complaints(library) == []


@pytest.mark.parametrize(
    "code, flags, complaint",
    [
        ("int other(void) { return 1; }", ("-Wl,-s",), "exports other"),
        ("int knapper_run(void) { return 1; }", (), "is not stripped"),
        (
            "#include <stdlib.h>\nint knapper_run(void) { return arc4random(); }",
            ("-Wl,-s",),
            "needs arc4random of GLIBC_2.36",
        ),
        (
            "int knapper_run(void) { return 1; }",
            ("-Wl,-s,--no-as-needed", "-lz"),
            "needs libz.so.1",
        ),
    ],
)
def test_complaints(tmp_path, code, flags, complaint):
    library = compiled(tmp_path, code, *flags)
    assert [c for c in release.complaints(library) if complaint in c]


def test_version_is_that_of_the_header():
    parts = release.version().split(".")
    assert len(parts) == 3 and all(p.isdigit() for p in parts)


def test_every_notice_has_its_text():
    """Each file that the notices name exists, and each text is named."""
    notices = (ROOT / "THIRD_PARTY_NOTICES").read_text()
    for path in sorted((ROOT / "licenses").iterdir()):
        assert f"licenses/{path.name}" in notices
    for word in notices.split():
        if word.startswith("licenses/") and word.endswith(".txt"):
            assert (ROOT / word).is_file(), word


def test_wheel(tmp_path):
    """A wheel of a library with the C API's name installs and imports."""
    library = BUILD / "capi" / "libknapper_rt.so"
    out = tmp_path / "dist"
    subprocess.run(
        [
            sys.executable,
            ROOT / "packaging" / "wheel.py",
            "--library",
            library.resolve(),
            "--out",
            out,
        ],
        check=True,
    )
    (wheel,) = out.glob("*.whl")
    assert wheel.name.endswith("-py3-none-manylinux_2_34_x86_64.whl")
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        + ["--no-index", "--disable-pip-version-check", "--target", site, wheel],
        check=True,
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KNAPPER")}
    environment["PYTHONPATH"] = str(site)
    done = subprocess.run(
        [sys.executable, "-c", "import knapper; print(knapper.__file__, knapper.version())"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{site}/knapper/__init__.py {release.version()}\n", done.stderr
    # The command is there; this library has none behind it.
    for command in ([site / "bin" / "knapper"], [sys.executable, "-m", "knapper"]):
        done = subprocess.run([*command, "version"], env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("knapper: error: this library is the runtime only")
    names = zipfile.ZipFile(wheel).namelist()
    metadata = zipfile.ZipFile(wheel).read(f"knapper-{release.version()}.dist-info/METADATA").decode()
    for named in mentioned(metadata):
        assert f"knapper/share/{named}" in names, named
    fields = metadata.split("\n\n", 1)[0]
    assert {"Classifier", "Keywords", "Provides-Extra"} <= set(re.findall(r"^([\w-]+):", fields, re.M))
    assert "://" not in fields  # docs/decisions/no-links-in-the-wheel.md


def mentioned(text: str) -> list[str]:
    """Files of the checkout that a page names, in links or between backticks, as one may look for them."""
    links = re.findall(r"\]\((?![a-z]+:|#)([^)#]+)", text)
    quoted = re.findall(r"`((?:docs|examples|include)/[\w./-]*\w\.\w+)`", text)
    return links + quoted


def test_pages_name_what_ships():
    shipped = {p.resolve() for p in release.pages()}
    shipped |= {folder for path in shipped for folder in path.parents if folder.is_relative_to(ROOT)}
    for page in release.pages():
        if page.suffix != ".md":
            continue
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)  # `[&](Type name)` is C++
        for link in re.findall(r"\]\((?![a-z]+:|#)([^)#]+)", prose):
            assert (page.parent / link).resolve() in shipped, f"{page}: {link}"


def test_programs_that_user_pages_name_ship():
    shipped = {p.relative_to(ROOT) for p in release.examples()}
    shipped |= {folder for path in shipped for folder in path.parents}
    named = 0
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for path in re.findall(r"(?<![\w/])examples/[\w./]*\w", page.read_text()):
            assert Path(path) in shipped, f"{page}: {path}"
            named += 1
    assert named > 5


def test_readme_is_short_and_begins_with_installing():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 90
    assert next(line for line in lines if line.startswith("    ")).strip().startswith("pip install")


def test_wheel_is_reproducible(tmp_path):
    import wheel

    library = (BUILD / "capi" / "libknapper_rt.so").resolve()
    one = wheel.build(library, tmp_path / "a").read_bytes()
    shutil.rmtree(tmp_path / "a")
    assert wheel.build(library, tmp_path / "b").read_bytes() == one
