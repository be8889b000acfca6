"""Where the package finds libraries of vendors."""

from __future__ import annotations

import os
import sysconfig

import pytest

from knapper import vendors


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """An environment that holds some."""
    paths = {"data": str(tmp_path), "platlib": str(tmp_path / "site-packages")}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: paths)
    monkeypatch.delenv(vendors.VARIABLE, raising=False)

    def add(folder: str, file: str) -> str:
        path = tmp_path / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / file).touch()
        return str(path)

    return add


def test_folders_with_a_library(packages):
    assert vendors.folders() == []
    first = packages("lib", "libdnnl.so.3")
    second = packages("site-packages/nvidia/cublas/lib", "libcublasLt.so.12")
    third = packages("site-packages/nvidia/cu13/lib", "libcublasLt.so.13")
    packages("site-packages/nvidia/cublas/lib", "libcublasLt.so.13")
    assert vendors.folders() == [first, second, third]


def test_the_variable_is_the_users(packages, monkeypatch):
    vendors.name_folders()
    assert vendors.VARIABLE not in os.environ  # nothing to say
    folder = packages("lib", "libdnnl.so.3")
    monkeypatch.setenv(vendors.VARIABLE, "")
    vendors.name_folders()
    assert os.environ[vendors.VARIABLE] == ""
    monkeypatch.delenv(vendors.VARIABLE)
    vendors.name_folders()
    assert os.environ[vendors.VARIABLE] == folder
