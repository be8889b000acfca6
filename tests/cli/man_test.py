"""Manual pages: one for each command, from what is parsed, in roff that man(1) takes."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest


@pytest.fixture
def pages(tool, tmp_path):
    tool("man", "-o", tmp_path / "man1")
    return {path.name: path.read_text() for path in (tmp_path / "man1").iterdir()}


def commands(tool):
    listed = tool("--help").split("Subcommands:")[1].split("For example")[0]
    return re.findall(r"^  ([a-z-]+) ", listed, re.M)


def test_a_page_for_each_command(tool, pages):
    names = commands(tool)
    assert "compile" in names and "man" in names
    assert set(pages) == {"knapper.1"} | {f"knapper-{name}.1" for name in names}
    for name in names:
        escaped = name.replace("-", r"\-")
        assert rf"\fB{escaped}\fR" in pages["knapper.1"]
        assert tool("man", name) == pages[f"knapper-{name}.1"]
    assert tool("man") == pages["knapper.1"]


def test_every_option_is_on_its_page(tool, pages):
    for name in commands(tool):
        page = pages[f"knapper-{name}.1"].replace("\\-", "-")
        flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", re.sub(r"\(.*?\)|\[.*?\]", "", tool(name, "--help"))))
        assert flags <= set(re.findall(r"--[a-z][a-z0-9-]+", page)), name


def test_pages_are_well_formed(pages):
    for name, page in pages.items():
        lines = page.splitlines()
        assert lines[0].startswith(f".TH {name[:-2]} 1 ")
        assert [line for line in lines if line.startswith(".SH")][:3] == [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"]
        known = (".TH", ".SH", ".TP", ".nf", ".fi", ".RS", ".RE")
        assert all(line.startswith(known) for line in lines if line.startswith((".", "'"))), name
        assert not re.search(r"(?<!\\)-", re.sub(r"^\.TH.*|^knapper\S* |knapper-[a-z-]+", "", page, flags=re.M).replace(r"\-", "")), name


def test_man_takes_them(pages, tmp_path):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    for name in pages:
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Wbreak", "-z", tmp_path / "man1" / name], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_an_unknown_command(tool):
    assert "there is no command 'compil'" in tool("man", "compil", code=1)


def test_a_folder_that_cannot_be(tool, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file/man1" in tool("man", "-o", tmp_path / "file" / "man1", code=1)
