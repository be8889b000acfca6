"""The shared library behind the package: where it is and what it exports.

It is looked for in this order, and the first that is named or exists is taken:

1. the file that $KNAPPER_LIBRARY names;
2. `knapper/lib/libknapper.so` of the installed package;
3. `lib/libknapper.so` of an unpacked release, which has the package in `python`;
4. the build folders of a source checkout (`build/release`, `build/dev`).

The declarations repeat include/knapper/knapper.h; ctypes releases the GIL
around every call.
"""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t
from ctypes import c_double, c_uint64, c_void_p
from pathlib import Path

from knapper import log, raised
from knapper.errors import MissingFile, WrongType, WrongValue, of_library


class CTensor(ctypes.Structure):
    """knapper_tensor"""

    _fields_ = [
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
    ]


class CTensorInfo(ctypes.Structure):
    """knapper_tensor_info"""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
        ("dim_text", POINTER(c_char_p)),
    ]


class CLoadOptions(ctypes.Structure):
    """knapper_load_options"""

    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int32),
        ("verify_constants", c_int32),
        ("spin_microseconds", c_int32),
        ("isa", c_char_p),
        ("device", c_char_p),
        ("describe", c_int32),
    ]


class COption(ctypes.Structure):
    """knapper_option"""

    _fields_ = [("key", c_char_p), ("value", c_char_p)]


FLAT = -1  # KNAPPER_FLAT: a rank
ARTEFACT = b"KNAPPER\0"  # what an artefact begins with

Progress = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_int32, c_int32)


class CCompileOptions(ctypes.Structure):
    """knapper_compile_options"""

    _fields_ = [
        ("size", c_size_t),
        ("model_path", c_char_p),
        ("model_bytes", c_void_p),
        ("model_size", c_size_t),
        ("output_path", c_char_p),
        ("options", POINTER(COption)),
        ("num_options", c_int32),
        ("progress", Progress),
        ("progress_user", c_void_p),
        ("stopped_text", c_void_p),
        ("stats_json", c_void_p),
        ("cancel", POINTER(c_int32)),
    ]


class CRunOptions(ctypes.Structure):
    """knapper_run_options"""

    _fields_ = [
        ("size", c_size_t),
        ("cancel", POINTER(c_int32)),
        ("check_only", c_int32),
        ("in_stream", c_int32),
        ("stream", c_void_p),
        ("profile", POINTER(c_void_p)),
    ]


Sample = ctypes.CFUNCTYPE(c_int, c_void_p, c_int32, c_void_p, POINTER(CTensor))


class CQuantizeOptions(ctypes.Structure):
    """knapper_quantize_options"""

    _fields_ = [
        ("size", c_size_t),
        ("weights_only", c_char_p),
        ("range", c_char_p),
        ("percentile", c_double),
        ("activations", c_char_p),
        ("keep", POINTER(c_char_p)),
        ("num_keep", c_int32),
        ("num_samples", c_int32),
        ("sample", Sample),
        ("sample_user", c_void_p),
        ("sample_names", POINTER(c_char_p)),
    ]


class CExplainOptions(ctypes.Structure):
    """knapper_explain_options"""

    _fields_ = [
        ("size", c_size_t),
        ("profile", c_int32),
        ("num_inputs", c_int32),
        ("inputs", c_void_p),
        ("runs", c_int64),
        ("seconds", c_double),
        ("other", c_void_p),
        ("name", c_char_p),
        ("other_name", c_char_p),
        ("progress", c_void_p),
        ("progress_user", c_void_p),
    ]


_OUT = POINTER(c_void_p)
_TENSORS = POINTER(CTensor)
# name: (result type, argument types). A result c_void_p of a function that can
# fail is its error.
_FUNCTIONS = {
    "knapper_version": (c_char_p, []),
    "knapper_has_compiler": (c_int, []),
    "knapper_command_line": (c_int, [c_int, POINTER(c_char_p)]),
    "knapper_error_get_kind": (c_int, [c_void_p]),
    "knapper_error_get_message": (c_char_p, [c_void_p]),
    "knapper_error_get_where": (c_char_p, [c_void_p]),
    "knapper_error_get_hint": (c_char_p, [c_void_p]),
    "knapper_error_release": (None, [c_void_p]),
    "knapper_set_log_callback": (None, [log.LogCallback, c_void_p, c_int]),
    "knapper_dtype_size": (c_size_t, [c_int]),
    "knapper_dtype_name": (c_char_p, [c_int]),
    "knapper_register_operator": (c_void_p, [c_void_p]),
    "knapper_unregister_operator": (c_void_p, [c_char_p, c_char_p]),
    "knapper_load_operators": (c_void_p, [c_char_p]),
    "knapper_load": (c_void_p, [c_char_p, POINTER(CLoadOptions), _OUT]),
    "knapper_load_memory": (
        c_void_p,
        [c_char_p, c_size_t, POINTER(CLoadOptions), _OUT],
    ),
    "knapper_module_release": (None, [c_void_p]),
    "knapper_module_save": (c_void_p, [c_void_p, c_char_p]),
    "knapper_module_num_inputs": (c_int32, [c_void_p]),
    "knapper_module_num_outputs": (c_int32, [c_void_p]),
    "knapper_module_input": (c_void_p, [c_void_p, c_int32, POINTER(CTensorInfo)]),
    "knapper_module_output": (c_void_p, [c_void_p, c_int32, POINTER(CTensorInfo)]),
    "knapper_module_may_replace": (c_int, [c_void_p, c_int32, c_int32]),
    "knapper_module_peak_memory": (
        c_void_p,
        [
            c_void_p,
            POINTER(c_char_p),
            POINTER(c_int64),
            c_int32,
            POINTER(c_uint64),
            POINTER(c_uint64),
        ],
    ),
    "knapper_module_describe": (c_void_p, [c_void_p, POINTER(c_char_p)]),
    "knapper_run": (
        c_void_p,
        [c_void_p, _TENSORS, c_int32, _TENSORS, c_int32, _OUT],
    ),
    "knapper_run_with": (
        c_void_p,
        [c_void_p, _TENSORS, c_int32, _TENSORS, c_int32, POINTER(CRunOptions), _OUT],
    ),
    "knapper_result_num_outputs": (c_int32, [c_void_p]),
    "knapper_result_output": (c_void_p, [c_void_p, c_int32, _TENSORS]),
    "knapper_result_release": (None, [c_void_p]),
    "knapper_run_async": (
        c_void_p,
        [c_void_p, _TENSORS, c_int32, _TENSORS, c_int32, _OUT],
    ),
    "knapper_event_wait": (c_void_p, [c_void_p, _OUT]),
    "knapper_event_wait_for": (c_int, [c_void_p, c_int64]),
    "knapper_event_done": (c_int, [c_void_p]),
    "knapper_event_cancel": (None, [c_void_p]),
    "knapper_profile": (c_void_p, [c_void_p, _TENSORS, c_int32, _OUT]),
    "knapper_string_release": (None, [c_void_p]),
    "knapper_compile": (
        c_void_p,
        [POINTER(CCompileOptions), POINTER(CLoadOptions), _OUT],
    ),
    "knapper_quantize": (
        c_void_p,
        [
            POINTER(CCompileOptions),
            POINTER(CQuantizeOptions),
            POINTER(CLoadOptions),
            _OUT,
            _OUT,
        ],
    ),
    "knapper_verify": (
        c_void_p,
        [POINTER(CCompileOptions), _TENSORS, c_int32, _OUT],
    ),
    "knapper_inspect": (c_void_p, [POINTER(CCompileOptions), _OUT]),
    "knapper_translate": (c_void_p, [POINTER(CCompileOptions), _OUT]),
    "knapper_explain_with": (
        c_void_p,
        [c_void_p, POINTER(CExplainOptions), _OUT, _OUT],
    ),
    "knapper_devices": (c_void_p, [c_int, _OUT]),
}


def candidates() -> list[Path]:
    """The files that are tried, in order."""
    named = os.environ.get("KNAPPER_LIBRARY")
    if named:
        return [Path(named)]
    here = Path(__file__).resolve().parent
    found = [here / "lib" / "libknapper.so"]
    checkout = here.parents[1]
    if here.parent.name == "python":
        found.append(checkout / "lib" / "libknapper.so")
    if (checkout / "include" / "knapper" / "knapper.h").exists():
        found += [
            checkout / "build" / preset / "capi" / "libknapper.so"
            for preset in ("release", "dev")
        ]
    return found


_loaded: ctypes.CDLL | None = None
_loading = threading.Lock()


def library() -> ctypes.CDLL:
    """The library, loaded at its first use.

    Raises UserError when there is none, or when it is not a Knapper library.
    """
    global _loaded
    if _loaded is not None:
        return _loaded
    with _loading:
        if _loaded is None:
            _loaded = _load()
            from knapper import vendors

            log.install(_loaded)
            vendors.name_folders()
    return _loaded


def _load() -> ctypes.CDLL:
    tried = candidates()
    path = next((p for p in tried if p.exists()), None)
    if path is None and os.environ.get("KNAPPER_LIBRARY"):
        raise MissingFile(
            f"KNAPPER_LIBRARY names {os.fspath(tried[0])!r}, which does not exist",
            where="environment variable KNAPPER_LIBRARY",
            hint="unset it to use the library of the package, or name libknapper.so",
        )
    if path is None:
        raise MissingFile(
            "the library libknapper.so was not found; looked for: "
            + ", ".join(str(p) for p in tried),
            hint="install the wheel again (docs/install.md), build a checkout "
            "(make build), or set KNAPPER_LIBRARY to the library's path",
        )
    try:
        lib = ctypes.CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(lib, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise WrongValue(
            f"{path}: not a library of this version of Knapper: {error}",
            where=str(path),
            hint="set KNAPPER_LIBRARY to the library that belongs to the package",
        ) from error
    return lib


def check(error: int | None) -> None:
    """Raises the Python error of a knapper_error pointer; None passes. What a
    function of the caller's raised is its cause; what ends a program
    (KeyboardInterrupt and its kind) is raised as it is."""
    if error is None:
        return
    lib = library()
    try:
        kind = lib.knapper_error_get_kind(error)
        message = lib.knapper_error_get_message(error) or b""
        where = lib.knapper_error_get_where(error) or b""
        hint = lib.knapper_error_get_hint(error) or b""
    finally:
        lib.knapper_error_release(error)
    text, cause = raised.take(message.decode(errors="replace"))
    made = of_library(
        kind,
        text,
        where.decode(errors="replace"),
        hint.decode(errors="replace"),
    )
    if cause is not None and not isinstance(cause, Exception):
        raise cause from made
    raise made from cause


def encode_path(path: str | os.PathLike[str], argument: str = "path") -> bytes:
    """A path as C takes it."""
    try:
        encoded = os.fsencode(path)
    except TypeError:
        raise WrongType(
            f"{argument}: a path is a str or an os.PathLike, not {type(path).__name__}",
            where=argument,
            hint="pass the name of a file",
        ) from None
    if b"\0" in encoded:
        raise WrongValue(
            f"{argument}: {os.fsdecode(encoded)!r} has a null character; no path has one",
            where=argument,
            hint="check how the path is made",
        )
    if not encoded:
        raise WrongValue(
            f"{argument}: the path is empty",
            where=argument,
            hint="pass the name of a file",
        )
    return encoded


def take_string(pointer: c_void_p) -> str:
    """The text of a string that the library made; releases it."""
    try:
        return ctypes.string_at(pointer.value or 0).decode()
    finally:
        library().knapper_string_release(pointer)


def version() -> str:
    """The library's version, for example "0.1.0"."""
    return library().knapper_version().decode()


def has_compiler() -> bool:
    """Whether the library can compile; false for the runtime alone."""
    return bool(library().knapper_has_compiler())
