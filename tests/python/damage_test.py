"""Bits flipped anywhere in a file or a cache entry: an error or equal results,
never other numbers. `KNAPPER_FLIPS=10000` and `KNAPPER_FLIP_SEED` search further."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import knapper
from affine_models import build

SEED = int(os.environ.get("KNAPPER_FLIP_SEED", "20"))
FLIPS = int(os.environ.get("KNAPPER_FLIPS", "200"))
RNG = np.random.default_rng(SEED)
X = RNG.standard_normal((3, 640), dtype=np.float32)


@pytest.fixture(scope="module")
def model():
    """Two matmuls and a bias: constants of one hash and of several."""
    weights = {
        "wide": RNG.standard_normal((640, 600), dtype=np.float32),
        "bias": RNG.standard_normal(600, dtype=np.float32),
        "small": RNG.standard_normal((600, 40), dtype=np.float32),
    }
    return build(
        [
            helper.make_node("MatMul", ["x", "wide"], ["p"]),
            helper.make_node("Add", ["p", "bias"], ["q"]),
            helper.make_node("MatMul", ["q", "small"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, ("n", 640))],
        [("y", TensorProto.FLOAT, ("n", 40))],
        initializers=[numpy_helper.from_array(v, k) for k, v in weights.items()],
    )


@pytest.fixture(scope="module")
def artefact(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "m.knap"
    knapper.compile(model, output=path, threads=1)
    return path.read_bytes()


def flipped(data: bytes, count: int):
    """Copies of which each has one bit flipped: at both ends, and anywhere."""
    rng = random.Random(SEED)
    places = [0, 8, 16, 24, 63, len(data) - 1]
    places += [rng.randrange(len(data)) for _ in range(count)]
    places += [rng.randrange(4096) for _ in range(count // 8)]
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 1 << rng.randrange(8)
        yield at, bytes(damaged)


@pytest.mark.parametrize("verify", ["lazy", True])
def test_file(artefact, verify):
    right = knapper.load(artefact, threads=1)(X)["y"]
    found = 0
    for at, damaged in flipped(artefact, FLIPS):
        try:
            y = knapper.load(damaged, threads=1, verify=verify)(X)["y"]
        except knapper.UserError:
            found += 1
            continue
        np.testing.assert_array_equal(y, right, err_msg=f"byte {at}")
    assert found > 0.9 * FLIPS  # the others are padding


def test_run_that_met_damage_meets_it_again(artefact):
    damaged = bytearray(artefact)
    damaged[4096 + 1000] ^= 4  # the constants come after the first page
    module = knapper.load(bytes(damaged), threads=2)
    for _ in range(3):
        with pytest.raises(ValueError, match="the hash of constant"):
            module(X)
    with pytest.raises(ValueError, match="the hash of constant"):
        module.start([X]).wait()
    with pytest.raises(ValueError, match="the hash of constant"):
        module.bind([X])()
    with pytest.raises(ValueError, match="the hash of constant"):
        knapper.load(bytes(damaged), verify=True)


def test_cache_entry(model, tmp_path):
    options = {"cache_dir": tmp_path, "cache": True, "threads": 1}
    right = knapper.compile(model, **options)(X)["y"]
    (entry,) = tmp_path.glob("*.knap")
    recompiled = tried = 0
    whole = entry.read_bytes()
    for at, damaged in flipped(whole, FLIPS // 33):
        tried += 1
        entry.write_bytes(damaged)
        y = knapper.compile(model, **options)(X)["y"]
        np.testing.assert_array_equal(y, right, err_msg=f"byte {at}")
        if entry.read_bytes() != damaged:
            knapper.load(entry, verify=True)
            recompiled += 1
    assert recompiled > 0.7 * tried  # the others are padding
