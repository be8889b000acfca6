"""The plugin of JAX: programs, and the interface by itself."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from knapper.jax.plugin import plugin_path

HERE = Path(__file__).parent
FUNCTIONS = 128
UNIMPLEMENTED, INVALID = 12, 3


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"} | environment,
    )


def test_programs():
    done = run(str(HERE / "on_knapper.py"))
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_who_does_not_ask_keeps_the_own_platform():
    code = (
        "import knapper.jax, sys; assert 'jax' not in sys.modules; knapper.jax.initialize();"
        "import jax; print(jax.jit(lambda x: x + 1)(1.0).devices())"
    )
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"))
    assert done.returncode == 0 and "knapper" not in done.stdout, done.stdout + done.stderr


def test_too_late():
    code = "import jax; jax.devices(); import knapper.jax; knapper.jax.install()"
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"))
    assert "JAX has looked for its devices already" in done.stderr


class Head(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("extensions", ctypes.c_void_p)]


class Arguments(ctypes.Structure):
    """As long as the longest struct of arguments."""

    _fields_ = [("size", ctypes.c_size_t), ("extensions", ctypes.c_void_p), ("fields", ctypes.c_void_p * 40)]


def table():
    plugin = ctypes.CDLL(str(plugin_path()[0]))
    plugin.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_void_p * (5 + FUNCTIONS))
    return plugin.GetPjrtApi().contents


def call(api, index, *fields):
    arguments = Arguments(ctypes.sizeof(Arguments), None, (ctypes.c_void_p * 40)(*fields))
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(api[5 + index])
    return function(ctypes.addressof(arguments)), arguments.fields


def code_and_message(api, error):
    fields = call(api, 1, error)[1]
    message = ctypes.string_at(fields[1], fields[2]).decode()
    code = (call(api, 2, error)[1][1] or 0) & 0xFFFFFFFF
    call(api, 0, error)
    return code, message


def test_every_function_answers():
    api = table()
    assert api[0] == (5 + FUNCTIONS) * 8
    assert (api[4] & 0xFFFFFFFF, api[4] >> 32) == (0, 90)
    assert all(api[5 + i] for i in range(FUNCTIONS))
    unimplemented = 0
    for index in range(3, FUNCTIONS):
        error, _ = call(api, index)  # every field null
        if error:
            code, message = code_and_message(api, error)
            assert code in (UNIMPLEMENTED, INVALID, 9), (index, message)
            unimplemented += code == UNIMPLEMENTED
            assert len(message) > 15
    assert 15 <= unimplemented <= 40


def test_no_library():
    code = "import knapper.jax; knapper.jax.install()"
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"), KNAPPER_LIBRARY="/nowhere.so")
    assert "libknapper_pjrt.so was not found beside libknapper.so" in done.stderr
