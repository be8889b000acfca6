"""A pkg-config file for each library, named as the library."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))


@pytest.mark.parametrize("library", ["knapper", "knapper_rt"])
def test_file_names_its_library(library):
    folder = BUILD / "capi"
    if not (folder / f"lib{library}.so").exists():
        pytest.skip(f"lib{library}.so is not built")
    fields = dict(
        line.split(": ", 1)
        for line in (folder / f"{library}.pc").read_text().splitlines()
        if ": " in line
    )
    assert fields["Name"] == library
    assert fields["Libs"].split() == ["-L${libdir}", f"-l{library}"]
    assert fields["Cflags"] == "-I${includedir}"
