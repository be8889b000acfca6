"""The plugin of JAX: programs, and the interface by itself."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from knapper.jax.plugin import plugin_path

HERE = Path(__file__).parent
FUNCTIONS = 129
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


def has_gpu():
    import knapper

    return any(device["device"] == "cuda" for device in knapper.devices())


@pytest.mark.skipif(not has_gpu(), reason="no NVIDIA GPU is here")
def test_programs_on_a_gpu():
    done = run(str(HERE / "on_knapper.py"), KNAPPER_JAX_DEVICE="cuda")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("options, said", [
    ('device="tpu"', "'tpu' is no kind of device"),
    ('device="cuda"', "no NVIDIA GPU is here"),
])  # fmt: skip
def test_a_device_that_there_is_not(options, said):
    if "cuda" in options and has_gpu():
        pytest.skip("a GPU is here")
    code = f"import knapper.jax; knapper.jax.install({options}); import jax; jax.devices('knapper')"
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"))
    assert said in done.stderr, done.stderr


def test_a_device_by_the_environment():
    code = "import knapper.jax; knapper.jax.initialize(); import jax; print(jax.devices()[0].addresses_host)"
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"), JAX_PLATFORMS="knapper,cpu", KNAPPER_JAX_DEVICE="cpu")
    assert done.stdout.strip() == "1", done.stdout + done.stderr[-2000:]


def test_several_devices():
    done = run(str(HERE / "on_devices.py"))
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_programs_of_several_devices():
    done = run(str(HERE / "on_parts.py"))
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_number_of_devices_that_there_is_not():
    code = "import knapper.jax; knapper.jax.install(num_devices=0); import jax; jax.devices('knapper')"
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"))
    assert "the option num_devices is 0; give 1 to 256" in done.stderr


def test_devices_by_the_environment():
    code = "import knapper.jax; knapper.jax.initialize(); import jax; print(jax.devices())"
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"), JAX_PLATFORMS="knapper,cpu", KNAPPER_JAX_DEVICES="2")
    assert done.stdout.strip() == "[knapper:0, knapper:1]", done.stdout + done.stderr[-2000:]


def test_random_calls():
    done = run(str(HERE / "plugin_calls.py"), "--count", "150")
    assert done.returncode == 0 and "0 crashes, 0 hangs" in done.stdout, done.stdout[-500:] + done.stderr[-2000:]


def test_an_older_mark_names_its_device():
    """Behind the bytes of a program stood its device alone, before programs had parts; clients' caches may hold such bytes."""
    code = """
import ctypes, plugin_calls
session = plugin_calls.Session()
call = session.table.call
program = call("LoadedExecutable_GetExecutable", loaded_executable=session.programs[0][0]).executable
made = call("Executable_Serialize", executable=program)
data = ctypes.string_at(made.serialized_bytes, made.serialized_bytes_size)
for mark in (b"", b"knap dev" + bytes(8), b"knap dev" + b"\\7" + bytes(7)):
    given = data + mark
    print(bool(call("Executable_DeserializeAndLoad", client=session.client, serialized_executable=session.text(given), serialized_executable_size=len(given)).loaded_executable), flush=True)
"""
    done = run("-c", code, PYTHONPATH=f"{HERE}:{HERE.parents[1] / 'python'}")
    assert done.stdout.split() == ["True", "True"] and "there is no device 7" in done.stderr, done.stdout + done.stderr[-2000:]


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
    assert (api[4] & 0xFFFFFFFF, api[4] >> 32) == (0, 93)
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


def varint(number):
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def message(**fields):
    """A protobuf message: `f3` is field 3, an integer or bytes."""
    text = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            text += varint(number << 3) + varint(value % 2**64)
        else:
            text += varint(number << 3 | 2) + varint(len(value)) + value
    return text


def asked(name, **value):
    """Compile options with one entry of `compiler_options`."""
    return message(f7=message(f1=name, f2=message(**value)))


class Options:
    """Compiles what is no program, with options: these are read first."""

    def __init__(self):
        self.api = table()
        library = str(plugin_path()[1]).encode()
        # NamedValue: head, name and its size, type (text), value and its size
        value = (ctypes.c_void_p * 7)(56, None, *self.text(b"library"), 0, *self.text(library))
        error, fields = call(self.api, 10, ctypes.addressof(value), 1)
        assert not error, code_and_message(self.api, error)
        self.client = fields[6]

    def text(self, data):
        self.kept = [*getattr(self, "kept", []), data]
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value, len(data)

    def compile(self, options):
        self.kept = []
        program = (ctypes.c_void_p * 6)(48, None, *self.text(b"nothing"), *self.text(b"mlir"))
        error, _ = call(self.api, 20, self.client, ctypes.addressof(program), *self.text(options))
        return code_and_message(self.api, error)


NO_PROGRAM = "holds no MLIR bytecode"
COMPILE_OPTIONS = [
    (b"", NO_PROGRAM),
    (message(f3=message(f3=b"anything", f4=1, f5=1, f9=message(f1=1, f2=1, f3=message(f1=b"\0")))), NO_PROGRAM),
    (asked(b"allow_tf32", f2=1), NO_PROGRAM),
    (asked(b"verify_each", f1=b"maybe"), "use true or false"),
    (asked(b"cache_byte", f3=1), "there is no option 'cache_byte' on knapper; the nearest is 'cache_bytes'"),
    (asked(b"xla_cpu_enable_fast_math", f2=1), "there is no option 'xla_cpu_enable_fast_math'"),
    (asked(b"cache-dir", f1=b"x"), "the nearest is 'cache_dir'"),
    (asked(b"target", f1=b"cuda"), "'target' is the platform's own to choose"),
    (message(f2=1), "the arguments come in a tuple"),
    (message(f3=message(f4=2)), "is for 2 replicas, and knapper runs one, of several partitions"),
    (message(f3=message(f5=8)), "there is no device 1: there is one, 0"),
    (message(f3=message(f5=1000)), "is for 1000 partitions and is put on 0 devices"),
    (message(f3=message(f5=2, f9=message(f3=message(f1=b"\0")))), "is for 2 partitions and is put on 1 devices"),
    (message(f3=message(f9=message(f1=2))), "is for 2 replicas"),
    (message(f3=message(f9=message(f3=message(f1=b"\3")))), "there is no device 3: there is one, 0; the option num_devices says how many"),
    (message(f3=message(f9=message(f3=message(f1=varint(-5 % 2**64))))), "there is no device -5"),
    (message(f3=message(f9=message(f3=b""))), "the compile options are damaged"),
    (message(f3=message(f9=message(f1=1, f2=1))), "is for 1 partitions and is put on 0 devices"),
    (message(f3=message(f1=-1)), NO_PROGRAM),
    (message(f3=message(f1=2)), "there is no device 2: there is one, 0"),
    (asked(b"devices", f3=2), "'devices' is the platform's own to choose"),
    (b"\x3a\x05ab", "the compile options are damaged"),
    (asked(b"cache_dir", f1=b"\xe3a"), "the compile options are damaged"),
    (b"\x0b", "the compile options are damaged"),
    (b"\xff" * 11, "the compile options are damaged"),
]  # fmt: skip


def test_compile_options():
    options = Options()
    for given, expected in COMPILE_OPTIONS:
        assert expected in options.compile(given)[1], given


def test_damaged_compile_options():
    options, random = Options(), np.random.default_rng(0)
    whole = message(f3=message(f3=b"abc", f4=1, f9=message(f3=message(f1=b"\0")))) + asked(b"cache", f2=1)
    for _ in range(2000):
        given = bytearray(whole)
        for at in random.integers(0, len(given), 3):
            given[at] = random.integers(256)
        code, text = options.compile(bytes(given[: random.integers(len(given) + 1)]))
        assert code in (UNIMPLEMENTED, INVALID) and text


def test_no_library():
    code = "import knapper.jax; knapper.jax.install()"
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"), KNAPPER_LIBRARY="/nowhere.so")
    assert "libknapper_pjrt.so was not found beside libknapper.so" in done.stderr


def test_memory_of_others_ends_behind_the_run():
    """NumPy's deleter takes Python's lock, which who waits for a pointer holds."""
    code = """
import faulthandler; faulthandler.dump_traceback_later(60, exit=True)
import knapper.jax; knapper.jax.install(threads=1, device="cpu")
import jax, jax.numpy as jnp, numpy as np
from jax._src.lib import _jax
device = jax.devices("knapper")[0]
long = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda i, y: jnp.tanh(y @ x) * 0.5, x))
jax.block_until_ready(long(jax.device_put(np.eye(200, dtype=np.float32), device)))
given = np.eye(200, dtype=np.float32)
x = _jax.dlpack_managed_tensor_to_buffer(given.__dlpack__(), device, None, None, 1)
y = long(x)
del x, given
print(y.unsafe_buffer_pointer() > 0)
"""
    done = run("-c", code, PYTHONPATH=str(HERE.parents[1] / "python"))
    assert done.stdout.strip() == "True", done.stdout + done.stderr[-2000:]
