"""Compiles and runs that are told to end, from other threads, in children, many at once."""

from __future__ import annotations

import shutil
import threading
import time

import numpy as np
import pytest
from against import BOOL, FLOAT, INT64, model, node, random, value
from arrays_test import in_child
from onnx import helper

import knapper

X = random(4, 4)


def halves():
    """x halved as often as data says."""
    body = helper.make_graph(
        [node("Mul", ["c", "half"], ["d"]), node("Identity", ["go"], ["on"])], "body",
        [value("i", INT64, []), value("go", BOOL, []), value("c", FLOAT, ["n", 4])],
        [value("on", BOOL, []), value("d", FLOAT, ["n", 4])])  # fmt: skip
    return model([node("Loop", ["turns", "", "x"], ["y"], body=body)],
                 {"x": (FLOAT, ["n", 4]), "turns": (INT64, [])}, {"y": (FLOAT, None)},
                 {"half": np.float32(0.5)})  # fmt: skip


@pytest.fixture(scope="module")
def endless():
    return knapper.compile(halves(), threads=2)


FOREVER = {"x": X, "turns": np.int64(1 << 60)}
TWICE = {"x": X, "turns": np.int64(2)}


def works(module):
    np.testing.assert_array_equal(module(**TWICE)[0], X / 4)


def deep(layers=40):
    """Different kernels, so that a compile takes a while."""
    nodes, name = [], "x"
    for i in range(layers):
        op = ["Exp", "Neg", "Tanh", "Sin"][i % 4]
        nodes += [node(op, [name], [f"a{i}"]), node("CumSum", [f"a{i}", "axis"], [f"b{i}"], reverse=i % 2),
                  node("Softmax", [f"b{i}"], [f"c{i}"], axis=i % 2)]  # fmt: skip
        name = f"c{i}"
    return model(nodes, {"x": (FLOAT, ["n", 4])}, {name: (FLOAT, None)}, {"axis": np.int64(1)})


def after(seconds, call):
    timer = threading.Timer(seconds, call)
    timer.start()
    return timer


def test_a_run_is_ended(endless):
    cancel = knapper.Cancellation()
    timer = after(0.05, cancel.cancel)
    start = time.monotonic()
    with pytest.raises(knapper.UserError, match="run: the run was cancelled"):
        endless.run(FOREVER, cancel=cancel)
    timer.join()
    assert time.monotonic() - start < 30 and cancel.cancelled
    works(endless)
    with pytest.raises(knapper.UserError, match="cancelled"):  # it stays cancelled
        endless.run(TWICE, cancel=cancel)
    y = np.zeros((4, 4), np.float32)
    endless.run(TWICE, {"y": y}, cancel=knapper.Cancellation())
    np.testing.assert_array_equal(y, X / 4)


def test_a_started_run_is_ended(endless):
    first, second = endless.start(FOREVER), endless.start(FOREVER)
    second.cancel()  # before it begins
    time.sleep(0.02)
    assert not first.done()
    first.cancel()
    first.cancel()
    for pending in (first, second):
        with pytest.raises(knapper.UserError, match="cancelled"):
            pending.wait()
        pending.cancel()  # nothing is left of it
    done = endless.start(TWICE)
    while not done.done():
        time.sleep(0.001)
    done.cancel()
    np.testing.assert_array_equal(done.wait()[0], X / 4)


def test_one_of_many_runs_is_ended(endless):
    """The others do not notice."""
    cancel, wrong = knapper.Cancellation(), []

    def run():
        for _ in range(50):
            try:
                works(endless)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    timer = after(0.02, cancel.cancel)
    with pytest.raises(knapper.UserError, match="cancelled"):
        endless.run(FOREVER, cancel=cancel)
    for thread in [*threads, timer]:
        thread.join()
    assert not wrong


def test_a_module_goes_with_its_runs_pending():
    module = knapper.compile(halves(), threads=2)
    pending = module.start(FOREVER)
    del module
    pending.cancel()
    with pytest.raises(knapper.UserError, match="cancelled"):
        pending.wait()


def test_a_compile_is_ended(tmp_path, monkeypatch):
    """At any moment: no file, no entry of the cache, and the next compile is whole."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made, x = deep(), X.copy()
    start = time.monotonic()
    wanted = knapper.compile(made, cache=False)(x)[0]
    whole = time.monotonic() - start
    ended = 0
    # Further moments, earlier ones, where the first compile took so much longer that all others were done.
    moments = [whole * moment / 8 for moment in range(8)] + [whole / 8 / 2**halved for halved in range(1, 11)]
    for moment, seconds in enumerate(moments):
        if moment >= 8 and ended >= 2:
            break
        cancel = knapper.Cancellation()
        if moment == 0:
            cancel.cancel()
        timer = after(seconds, cancel.cancel)
        try:
            knapper.compile(made, output=tmp_path / f"{moment}.knap", cache=moment % 2 == 0, cancel=cancel)
        except knapper.UserError as error:
            assert "compile: the compile was cancelled" in str(error)
            assert not (tmp_path / f"{moment}.knap").exists()
            assert not list(tmp_path.glob("*.tmp*"))
            assert not list((tmp_path / "cache").rglob("*.knap"))
            ended += 1
        timer.cancel()
        if (tmp_path / f"{moment}.knap").exists():
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # the next one compiles, too
            if ended >= 2:
                break
    assert ended >= 2
    np.testing.assert_array_equal(knapper.compile(made)(x)[0], wanted)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("phase", ["import", "schedule", "emit", "pack"])
def test_progress_that_raises_ends_the_compile(phase, raised):
    seen = []

    def progress(name, done, total):
        seen.append(name)
        if name == phase:
            raise raised(name)

    with pytest.raises(raised, match=phase):
        knapper.compile(deep(4), cache=False, progress=progress)
    assert seen[-1] == phase
    cancel = knapper.Cancellation()
    with pytest.raises(knapper.UserError, match="the compile was cancelled"):
        knapper.compile(deep(4), cache=False, cancel=cancel, target="cpu,cuda:sm_90a",
                        progress=lambda name, *_: cancel.cancel() if name == phase else None)  # fmt: skip


def test_many_modules_in_many_threads(tmp_path, at_once):
    """Compiled, saved, loaded, run and let go at once; two write one file."""
    wrong = []

    def work(seed):
        try:
            rows = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ["n", 4])}, {"y": (FLOAT, None)},
                         {"w": np.full((4, 3), seed % 4, np.float32)})  # fmt: skip
            for _ in range(3):
                module = knapper.compile(rows, threads=1 + seed % 3, cache=False)
                path = tmp_path / f"{seed % 4}.knap"
                module.save(path)
                other = knapper.load(path, threads=2)
                for each in (module, other):
                    np.testing.assert_allclose(each(X)[0], X @ np.full((4, 3), seed % 4), rtol=1e-5, atol=1e-6)
        except Exception as error:
            wrong.append(error)

    at_once(work, range(8))
    assert not wrong


def test_fork_while_others_run(endless):
    """Children of a process whose threads run and compile: they compile and run, too."""
    stop, cancel = threading.Event(), knapper.Cancellation()

    def compiles():
        while not stop.is_set():
            knapper.compile(deep(2), cache=False)

    def runs():
        with pytest.raises(knapper.UserError, match="cancelled"):
            endless.run(FOREVER, cancel=cancel)

    threads = [threading.Thread(target=compiles), threading.Thread(target=runs)]
    for thread in threads:
        thread.start()

    def child():
        works(endless)
        fresh = knapper.compile(halves(), threads=2, cache=False)
        works(fresh)
        pending = fresh.start(FOREVER)
        pending.cancel()
        with pytest.raises(knapper.UserError, match="cancelled"):
            pending.wait()

    try:
        for _ in range(6):
            time.sleep(0.03)
            assert in_child(child) == 0
    finally:
        stop.set()
        cancel.cancel()
        for thread in threads:
            thread.join()
