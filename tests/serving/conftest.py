"""The fixtures of the tests of serving."""

from __future__ import annotations

import functools

import pytest
from null_server import Server, make_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("serving") / "tiny")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """The folder of the compiler's cache."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    return str(folder)


@pytest.fixture(scope="session")
def models(tmp_path_factory, cache):
    """`models("llama")`: the small model of that name, made once."""
    from engine_models import Model  # needs torch

    return functools.cache(lambda name: Model(name, tmp_path_factory.mktemp("model"), cache))


@pytest.fixture(scope="session")
def server(folder):
    made = Server(folder)
    yield made
    assert made.stop() == 0


@pytest.fixture
def serve(folder):
    """Servers with flags of their own."""
    made = []

    def start(*flags: str) -> Server:
        made.append(Server(folder, *flags))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            assert one.stop() == 0
