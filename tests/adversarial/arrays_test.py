"""What a program hands in at run time: arrays of any layout, memory that is
shared, threads, forks, artefacts that are broken, paths that are no files."""

from __future__ import annotations

import faulthandler
import os

import numpy as np
import pytest
from against import FLOAT, i64, model, node, one, random

import knapper

W = np.float32([1, 2, 3, 4])
X = random(6, 4)


@pytest.fixture(scope="module")
def module():
    """h = x * w; y = h + w, s = sums of h's rows."""
    nodes = [
        node("Mul", ["x", "w"], ["h"]),
        node("ReduceSum", ["h", "axes"], ["s"], keepdims=0),
        node("Add", ["h", "w"], ["y"]),
    ]
    made = model(nodes, {"x": (FLOAT, ["n", 4])}, {"y": (FLOAT, None), "s": (FLOAT, None)},
                 {"w": W, "axes": i64([1])})  # fmt: skip
    return knapper.compile(made, threads=2)


@pytest.fixture(scope="module")
def artefact(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "m.knap"
    module.save(path)
    return path.read_bytes()


def right(result, x):
    x = np.asarray(x, np.float32)
    np.testing.assert_allclose(result["y"], x * W + W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result["s"], (x * W).sum(1), rtol=1e-4, atol=1e-5)


def unaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    shifted = raw[1:].view(np.float32).reshape(x.shape)
    shifted[:] = x
    assert not shifted.flags.aligned
    return shifted


def fixed(x):
    x = x.copy()
    x.setflags(write=False)
    return x


@pytest.mark.parametrize("x", [
    random(12, 8)[::2, ::2], random(12, 8)[::-2, ::-2], random(4, 6).T, np.asfortranarray(X),
    np.broadcast_to(W, (5, 4)), unaligned(X), fixed(X), X.tolist(), np.matrix(X),
    np.empty((0, 4), np.float32)[::-1],
], ids=["steps", "backwards", "transposed", "fortran", "broadcast", "unaligned", "read_only",
        "list", "matrix", "empty"])  # fmt: skip
def test_layouts(module, x):
    right(module(x), x)


@pytest.mark.parametrize("x", [
    3.0, [1, 2, 3, 4], [[1, 2, 3]], None, X.astype(np.int32), X.astype(object), b"bytes",
    X.astype(np.complex64), np.zeros((2, 4), "M8[s]"), np.zeros((2, 4), np.longdouble),
    np.zeros((2, 4), [("a", "f4")]), X.astype(">f4"), {"x": None}, {"x": X, "y": X}, [X, X],
], ids=lambda x: str(getattr(x, "dtype", type(x).__name__)))  # fmt: skip
def test_no_input_at_all(module, x):
    with pytest.raises(knapper.UserError, match="x|y|inputs"):
        module(x)
    right(module(X), X)


def test_outputs_in_odd_memory(module):
    out = unaligned(np.zeros((6, 4), np.float32))
    module.run([X], {"y": out})
    np.testing.assert_allclose(out, X * W + W, rtol=1e-5)
    for wrong in (fixed(out), np.zeros((6, 8), np.float32)[:, ::2], np.zeros((6, 4), np.float16),
                  np.zeros((5, 4), np.float32)):  # fmt: skip
        with pytest.raises(knapper.UserError, match="y"):
            module.run([X], {"y": wrong})
        assert not wrong.any() or wrong.shape == out.shape


def test_memory_that_is_shared(module):
    """Kernels would read what they have written: refused before they start."""
    both = np.zeros(40, np.float32)
    both[:24] = X.ravel()
    x, before = both[:24].reshape(6, 4), both.copy()
    for y in (x, both[4:28].reshape(6, 4), both[12:36].reshape(6, 4)):
        with pytest.raises(knapper.UserError, match="output 'y': .* also input 'x'"):
            module.run([x], [y, None])
    with pytest.raises(knapper.UserError, match="is also output"):
        module.run([X], {"y": both[:24].reshape(6, 4), "s": both[20:26]})
    np.testing.assert_array_equal(both, before)
    module.run([x], {"y": (beside := np.zeros((6, 4), np.float32)), "s": both[24:30]})
    np.testing.assert_allclose(beside, X * W + W, rtol=1e-5)


def test_two_threads(module, at_once):
    wrong = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(100):
            x = generator.standard_normal((int(generator.integers(0, 300)), 4), np.float32)
            try:
                right(module(x), x)
            except Exception as error:
                wrong.append(error)

    at_once(work, range(2))
    assert not wrong


def in_child(call) -> int:
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(30, exit=True)  # a hang is a failure
        try:
            call()
            os._exit(0)
        except BaseException:
            os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_fork_after_load(module):
    """The child has no worker threads: the module still runs, in both."""
    big = random(20_000, 4)
    right(module(big), big)
    assert in_child(lambda: right(module(big), big)) == 0
    small = one("Relu", {"x": X})
    assert in_child(lambda: knapper.compile(small, threads=2)(X)) == 0
    right(module(big), big)


def test_broken_artefacts(artefact):
    size = len(artefact)
    damaged = [artefact[:cut] for cut in (0, 1, 7, 8, 16, 64, 100, *range(0, size, 997))]
    damaged += [artefact + b"x", b"KNAPPER\0", artefact[:64] * 100]
    for at in (*range(0, 300, 3), *range(300, size, 1009)):
        flipped = bytearray(artefact)
        flipped[at] ^= 0x41
        damaged.append(bytes(flipped))
    refused = 0
    for data in damaged:
        try:
            right(knapper.load(data, verify=True)(X), X)  # zeros between sections
        except knapper.UserError as error:
            assert "\n  try: " in str(error)
            refused += 1
    assert refused > 50


def test_another_format(artefact):
    newer = bytearray(artefact)
    newer[8:10] = b"\x77\x00"
    with pytest.raises(knapper.UserError, match="(?s)format 119.* reads format 1\n  try: .*compile"):
        knapper.load(bytes(newer))


@pytest.mark.parametrize("name", ["none", "", ".", "/dev/null", "pipe", "a\0b", "loop", b"", 5, None])
def test_paths_that_are_no_artefact(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    with pytest.raises(knapper.UserError):
        knapper.load(name)
