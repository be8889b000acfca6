"""Compiled models: loading, signature, calls."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_int64, c_uint64, c_void_p
from typing import Any, Unpack

from knapper import dtypes, html, log
from knapper.arguments import Arguments, TensorInfo
from knapper.bound import Bound
from knapper.cancellation import Cancellation
from knapper.dtypes import DType
from knapper.errors import WrongAttribute, WrongType, WrongValue
from knapper.library import (
    ARTEFACT,
    CExplainOptions,
    CRunOptions,
    CTensorInfo,
    check,
    encode_path,
    library,
    take_string,
)
from knapper.loading import Verify, load_options, whole
from knapper.options import NoOptions, check_names
from knapper.results import Handle, Pending, Result, drop_event

Array = Any  # a NumPy array, a sequence of numbers, or an object with __dlpack__
_MISSING: Any = object()  # of an argument that has to be given


def _handle_of(module: Any) -> c_void_p:
    """Of the other module of a comparison."""
    if not isinstance(module, Module):
        raise WrongType(
            f"compare: {type(module).__name__} is no knapper.Module",
            where="compare",
            hint="give what knapper.compile or knapper.load returns",
        )
    return module._handle.value


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    threads: int = 0,
    verify: Verify = "lazy",
    spin_microseconds: int = -1,
    device: str | None = None,
    describe: bool = False,
    **unknown: Unpack[NoOptions],
) -> Module:
    """Loads a compiled artefact: a path (the file is mapped) or its bytes.

    threads: worker threads. 0: $KNAPPER_THREADS; if that is not set, one for each
        core that the process may use (affinity mask, the container's quota), at
        most $OMP_NUM_THREADS.
    verify: when the constants are compared with their hashes. "lazy": each before
        the first kernel that reads it; loading then reads no weights, and the run
        raises. True: all of them now. False: never; a damaged weight then gives
        wrong results. The other parts of a file are always checked.
    spin_microseconds: how long idle workers spin before they sleep; -1: default.
    device: "cpu" or "cuda", for an artefact with code for both. None: a GPU if
        there is one, else the CPU.
    describe: True: load even if the machine has no such device. The module can be
        printed, explained and saved, but not run.

    An artefact is native code: load only files that you trust as you would trust
    a program. Raises UserError for a file that is damaged or of another version,
    FileNotFoundError if there is no file.
    """
    check_names(
        unknown,
        "load",
        ("threads", "verify", "spin_microseconds", "device", "describe"),
        NoOptions,
    )
    lib = library()
    log.follow()
    handle = c_void_p()
    options = load_options(threads, verify, spin_microseconds, device, describe)
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        check(lib.knapper_load_memory(data, len(data), options, byref(handle)))
    elif isinstance(source, (str, os.PathLike)):
        path = encode_path(source, "source")
        if path.endswith(b".onnx") and _is_other(path):
            raise WrongValue(
                f"source: {os.fsdecode(path)!r} is a model, not an artefact",
                where="source",
                hint="knapper.compile(path) compiles and loads it",
            )
        check(lib.knapper_load(path, options, byref(handle)))
    else:
        raise WrongType(
            f"source: an artefact is a path or bytes, not {type(source).__name__}",
            where="source",
            hint="knapper.load('model.knap')",
        )
    return Module._adopt(handle)


def _is_other(path: bytes) -> bool:
    """Whether a file can be read and is no artefact."""
    try:
        with open(path, "rb") as file:
            return not file.read(len(ARTEFACT)) == ARTEFACT
    except OSError:
        return False


def _revive(data: bytes, threads: int, device: str) -> Module:
    """What unpickling calls."""
    return load(data, threads=threads, device=device)


class Module:
    """A compiled model. Any number of threads may call it at once.

    `knapper.compile` and `knapper.load` make it. Calls release the GIL. Pickling
    copies the whole artefact: if you can, send a path to other processes.
    """

    __slots__ = ("_lib", "_handle", "_facts", "_arguments", "__weakref__")
    _lib: ctypes.CDLL
    _handle: Handle
    _facts: dict[str, Any] | None
    _arguments: Arguments

    def __init__(self, *_: object, **__: object) -> None:
        raise WrongType(
            "a Module is not made by its class",
            where="Module",
            hint="knapper.compile or knapper.load",
        )

    @classmethod
    def _adopt(cls, handle: c_void_p) -> Module:
        return cls._wrap(handle, library().knapper_module_release)

    @classmethod
    def _borrow(cls, handle: int) -> Module:
        """A view of a module that the library keeps."""
        return cls._wrap(c_void_p(handle), lambda _: None)

    @classmethod
    def _wrap(cls, handle: c_void_p, release: Any) -> Module:
        self = object.__new__(cls)
        lib = library()
        self._lib = lib
        self._handle = Handle(handle, release)
        self._facts = None
        self._arguments = Arguments(
            self._signature(
                lib.knapper_module_num_inputs(handle), lib.knapper_module_input
            ),
            self._signature(
                lib.knapper_module_num_outputs(handle), lib.knapper_module_output
            ),
            lambda: not self._fact("addresses_host"),
        )
        return self

    def _signature(self, count: int, read: Any) -> tuple[TensorInfo, ...]:
        entries = []
        for index in range(count):
            raw = CTensorInfo()
            raw.size = ctypes.sizeof(CTensorInfo)
            check(read(self._handle.value, index, byref(raw)))
            shape = tuple(
                raw.shape[axis] if raw.shape[axis] >= 0 else raw.dim_text[axis].decode()
                for axis in range(raw.rank)
            )
            entries.append(TensorInfo(raw.name.decode(), DType(raw.dtype), shape))
        return tuple(entries)

    def __setattr__(self, name: str, value: object) -> None:
        if name in Module.__slots__:
            object.__setattr__(self, name, value)
            return
        hint = "give it to knapper.load or knapper.compile"
        if not hasattr(type(self), name):
            hint = "keep what is yours in an object of your own"
        raise WrongAttribute(
            f"a Module's {name!r} cannot be set", where=name, hint=hint
        )

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Names, dtypes and shapes of the inputs, in order."""
        return self._arguments.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Names, dtypes and shapes of the outputs, in order."""
        return self._arguments.outputs

    def _fact(self, name: str) -> Any:
        if self._facts is None:
            said = self.describe()
            kept = ("device", "addresses_host", "threads", "symbols")
            self._facts = {key: said[key] for key in kept}
        return self._facts[name]

    @property
    def device(self) -> str:
        """The device that runs the module: "cpu" or "cuda"."""
        return self._fact("device")

    @property
    def threads(self) -> int:
        """Threads of a run on the CPU, including the caller's."""
        return self._fact("threads")

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes, which calls decide, in order."""
        return tuple(s["name"] for s in self._fact("symbols") if not s["from_buffer"])

    @property
    def copied_inputs(self) -> dict[str, int]:
        """How often each input was copied before a run, by name. Arrays that are
        not contiguous and lists of numbers are copied. `explain` has it too."""
        return dict(self._arguments.copies)

    @property
    def in_place(self) -> dict[str, tuple[str, ...]]:
        """Outputs that may take exactly an input's memory, each with the names of
        these inputs: `m.run({"past": a, ...}, {"present": a})` updates `a`. If a
        run fails or is cancelled, `a` is partly written."""
        replace = self._lib.knapper_module_may_replace
        found = {}
        for o, output in enumerate(self.outputs):
            under = tuple(
                info.name
                for i, info in enumerate(self.inputs)
                if replace(self._handle.value, o, i)
            )
            if under:
                found[output.name] = under
        return found

    # ---- calls

    def __call__(self, /, *args: Array, **kwargs: Array) -> Result:
        """Runs the model: `m(a, b)`, `m(x=a, y=b)` or `m({"input.1": a})`.

        Arguments are C-contiguous NumPy arrays or host tensors with DLPack, read
        in place; other layouts and sequences of numbers are copied first
        (`copied_inputs` counts that). Sizes of symbolic dims follow from the
        shapes.

        Raises UserError for missing or unknown inputs and for wrong shapes and
        dtypes, before any kernel starts; DeviceError when memory runs out.
        """
        arguments = self._arguments
        values = arguments.bind(args, kwargs)
        prepared, keep = arguments.prepare(values)
        out = c_void_p()
        error = self._lib.knapper_run(
            self._handle.value, prepared.tensors, len(values), None, 0, byref(out)
        )
        if error is not None:
            check(error)
        del keep
        return Result(
            Handle(out, self._lib.knapper_result_release, self._handle),
            arguments.names,
            len(arguments.outputs),
        )

    def run(
        self,
        inputs: Mapping[str, Array] | Sequence[Array] = _MISSING,
        outputs: Mapping[str, Array] | Sequence[Array | None] | None = None,
        cancel: Cancellation | None = None,
        *,
        flat_outputs: bool = False,
        **unknown: Unpack[NoOptions],
    ) -> Result:
        """Runs the model into memory of the caller.

        outputs: writeable contiguous arrays of the outputs' shapes and dtypes, by
            name or by position. The run writes them in place. The module provides
            those that are left out or None. An output may be the array of an input
            that it may replace (`in_place`); the run updates it.
        cancel: ends the run from another thread, with a UserError. The caller's
            outputs are then partly written.
        flat_outputs: True: the arrays are memory without a shape, at least as large
            as the outputs, which are written to its beginning. For callers that
            know only a bound of an output's size. The result's arrays lie in that
            memory and have the outputs' shapes.

        Raises what calling the module raises. Also raises for an output array of
        another shape or dtype, or one that is too small, read-only or not
        contiguous, or that overlaps another output or (except as above) an input.
        """
        self._check_named("run", inputs, unknown, ("outputs", "cancel", "flat_outputs"))
        run: Callable[..., Any] = self._lib.knapper_run
        if cancel is not None:
            if not isinstance(cancel, Cancellation):
                raise WrongType(
                    f"cancel: a {type(cancel).__name__} is no Cancellation",
                    where="cancel",
                    hint="knapper.Cancellation(), whose cancel() ends the run",
                )
            run = self._run_with(ctypes.pointer(cancel._flag), 0)
        out, _, given = self._call(run, inputs, outputs, flat=flat_outputs)
        handle = Handle(out, self._lib.knapper_result_release, self._handle)
        return Result(handle, self._arguments.names, len(self.outputs), given)

    def _run_with(self, *options: Any) -> Callable[..., Any]:
        """knapper_run with these options."""
        chosen = CRunOptions(ctypes.sizeof(CRunOptions), *options)

        def run(*arguments: Any) -> Any:
            *given, out = arguments
            return self._lib.knapper_run_with(*given, byref(chosen), out)

        return run

    def _check(
        self, inputs: Any, outputs: Any, flat: bool, *in_stream: int
    ) -> tuple[tuple[int, ...], ...]:
        """The outputs' shapes, without computing anything. Raises what a run on
        these arrays would raise before its first kernel. A dim that data decides
        is -1."""
        run = self._run_with(None, 1, *in_stream)
        out, _, _ = self._call(run, inputs, outputs, cached=False, flat=flat)
        result = Result(
            Handle(out, self._lib.knapper_result_release, self._handle),
            self._arguments.names,
            len(self.outputs),
        )
        return tuple(result.tensor(i).shape for i in range(len(result)))

    def bind(
        self,
        inputs: Mapping[str, Array] | Sequence[Array] = _MISSING,
        outputs: Mapping[str, Array] | Sequence[Array | None] | None = None,
        *,
        flat_outputs: bool = False,
        stream: Any = None,
        **unknown: Unpack[NoOptions],
    ) -> Bound:
        """Prepares a call on these arrays once, for calls that take microseconds.
        outputs, flat_outputs: as for `run`; outputs that are left out are
        allocated here.

        stream: a CUDA stream (torch's, CuPy's, an object with __cuda_stream__, or
            the CUstream as an int; 0 is the default stream). Calls are queued in
            it and do not wait. All outputs must be given, in the GPU's memory.
            None: a call returns when the outputs are written.

        Raises what `run` raises, now. Raises UserError if the model computes sizes
        of its outputs from data, and if inputs are neither contiguous arrays nor
        host tensors with DLPack: nothing is copied.
        """
        self._check_named("bind", inputs, unknown, ("outputs", "flat_outputs", "stream"))
        return Bound(self, inputs, outputs, flat_outputs, stream)

    def start(
        self,
        inputs: Mapping[str, Array] | Sequence[Array] = _MISSING,
        outputs: Mapping[str, Array] | Sequence[Array | None] | None = None,
        *,
        flat_outputs: bool = False,
        **unknown: Unpack[NoOptions],
    ) -> Pending:
        """Starts a run and returns at once. `wait()` or `await` gives its result;
        the arrays must not change before. outputs, flat_outputs: as for `run`.
        Wrong names, counts and dtypes raise here; wrong shapes raise in `wait`."""
        self._check_named("start", inputs, unknown, ("outputs", "flat_outputs"))
        # Not the thread's own structs: the next call may change those.
        out, read, given = self._call(
            self._lib.knapper_run_async,
            inputs,
            outputs,
            cached=False,
            flat=flat_outputs,
        )
        held = (self._handle, read, given)
        return Pending(
            Handle(out, drop_event, held),
            self._arguments.names,
            len(self.outputs),
            held,
        )

    def _check_named(
        self, function: str, inputs: Any, unknown: Mapping[str, Any], own: Sequence[str]
    ) -> None:
        """Inputs are one argument of `run`, `bind` and `start`, not keywords."""
        named = [name for name in unknown if name in self._arguments.positions]
        if named:
            raise WrongType(
                f"{function}: {named[0]!r} is an input, {function} takes all of them as "
                "one argument",
                where=named[0],
                hint=f"{function}({{{named[0]!r}: array}}), or call the module: "
                f"m({named[0]}=array)",
            )
        if unknown:
            check_names(unknown, function, ("inputs", *own), NoOptions)
        if inputs is _MISSING:
            raise WrongType(
                f"{function}: no inputs were given",
                where="inputs",
                hint=f"[array] or {{name: array}}; the model takes {self._arguments.takes()}",
            )

    def _call(
        self,
        function: Any,
        inputs: Any,
        outputs: Any,
        cached: bool = True,
        flat: bool = False,
    ) -> tuple[c_void_p, object, object]:
        """What the function made, what it reads, and the caller's outputs."""
        arguments = self._arguments
        values = arguments.bind_collection(inputs)
        prepared, keep = arguments.prepare(values, cached)
        given, targets = arguments.targets(outputs, cached, flat)
        out = c_void_p()
        check(
            function(
                self._handle.value,
                prepared.tensors,
                len(values),
                targets,
                len(self.outputs) if targets is not None else 0,
                byref(out),
            )
        )
        return out, (prepared, keep, targets), given

    def profile(self, /, *args: Array, **kwargs: Array) -> dict[str, Any]:
        """Runs once and measures every launch: {"launches": [{"kernel",
        "origin", "schedule", "ns", "flops", "bytes"}], "total_ns"}. Arguments
        and errors are those of a call."""
        values = self._arguments.bind(args, kwargs)
        prepared, keep = self._arguments.prepare(values)
        text = c_void_p()
        check(
            self._lib.knapper_profile(
                self._handle.value, prepared.tensors, len(values), byref(text)
            )
        )
        del keep
        return json.loads(take_string(text))

    # ---- the module as a whole

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artefact, atomically. `knapper.load` reads it on any machine
        of the target's kind. Raises UserError for a path that cannot be written,
        DeviceError if writing fails."""
        check(self._lib.knapper_module_save(self._handle.value, encode_path(path)))

    def explain(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        inputs: Mapping[str, Array] | Sequence[Array] | None = None,
        runs: int = 0,
        compare: Module | None = None,
    ) -> html.Report:
        """Makes the report, one self-contained HTML page: graph, kernels, why each
        boundary was not fused, memory over time, and the inputs that calls from
        Python have copied. It is a str, and a notebook shows it as a page. With a
        path it is also written there.

        inputs: runs the module on these, by name or in the order of the signature.
            The page then has the kernels' times, their shares of the machine's
            peaks (measured once for each machine, in a second) and advice how to
            make them faster. `times` of the result has the same as data.
        runs: number of runs that are measured, up to 1000. 0: as many as fit one
            second, 3 to 50.
        compare: another module with these inputs (compiled with another option, for
            example). The runs of both are interleaved. `comparison` of the result
            has the times of both, kernel by kernel.

        Raises what a call raises, if there are inputs; WrongValue for `runs` or
        `compare` without inputs; OSError if the page cannot be written.
        """
        options = CExplainOptions(ctypes.sizeof(CExplainOptions))
        keep: Any = None
        if inputs is not None:
            values = self._arguments.bind_collection(inputs)
            prepared, keep = self._arguments.prepare(values, cached=False)
            options.profile = 1
            options.inputs = ctypes.cast(prepared.tensors, c_void_p)
            options.num_inputs = len(values)
            options.runs = whole(runs, "runs", "0 for a second of runs", most=1000)
            if compare is not None:
                options.other = _handle_of(compare)
        elif compare is not None or runs != 0:
            name = "runs" if compare is None else "compare"
            raise WrongValue(
                f"{name} is for measured runs, and there are no inputs",
                where=name,
                hint=f"explain(inputs=[...], {name}=...)",
            )
        page, data = c_void_p(), c_void_p()
        call = self._lib.knapper_explain_with
        check(call(self._handle.value, byref(options), byref(page), byref(data)))
        del keep
        text, about = take_string(page), json.loads(take_string(data))
        report = html.Report(html.with_copies(text, self.copied_inputs))
        report.times = about.get("profile")
        report.comparison = about.get("comparison")
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(report)
        return report

    def describe(self) -> dict[str, Any]:
        """The module as data: signature, kernels, launches, memory, phases."""
        text = ctypes.c_char_p()
        check(self._lib.knapper_module_describe(self._handle.value, byref(text)))
        return json.loads(text.value or b"{}")

    def peak_memory(self, /, **symbols: int) -> dict[str, int]:
        """Planned bytes at given sizes, before any run:
        `m.peak_memory(batch=8, sequence=128)` -> {"arena", "constants"}."""
        count = len(symbols)
        sizes = [
            whole(size, f"size {name!r}", "a number of elements, or rows")
            for name, size in symbols.items()
        ]
        names = (ctypes.c_char_p * max(1, count))(*(s.encode() for s in symbols))
        values = (c_int64 * max(1, count))(*sizes)
        arena, constants = c_uint64(), c_uint64()
        check(
            self._lib.knapper_module_peak_memory(
                self._handle.value, names, values, count, byref(arena), byref(constants)
            )
        )
        return {"arena": arena.value, "constants": constants.value}

    def __reduce__(self) -> tuple[Any, ...]:
        import tempfile  # slow to import

        with tempfile.TemporaryDirectory(prefix="knapper-") as folder:
            path = os.path.join(folder, "module.knap")
            self.save(path)
            with open(path, "rb") as file:
                data = file.read()
        return _revive, (data, self.threads, self.device)

    def __repr__(self) -> str:
        takes = ", ".join(map(str, self.inputs))
        gives = ", ".join(map(str, self.outputs))
        return f"Module({takes}) -> ({gives})"

    def _repr_html_(self) -> str:
        return html.of_module(self)
