"""What becomes of every option: one table each.

An option is honoured, or accepted because it can change neither results nor
speed here; or it is a hint of memory or speed, which is passed over with a
warning; or refused with what to do instead. The page
docs/coming-from-onnxruntime.md lists them.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from knapper.ort.refusals import Refusal


class GraphOptimizationLevel(enum.IntEnum):
    """Which rewrites of the graph are done; `DISABLED` says what each leaves out."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """ORT_SEQUENTIAL is what is done: every kernel runs on all threads, one after
    another."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """DEFAULT is what is done: the compiler orders kernels so that little memory is
    live."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_BEYOND_BASIC = "find-composites", "merge-numbers", "merge-dots"
_BASIC = "simplify", "fold-simplified", "simplify-again", "fold-constants-again"
# The compiler's passes that a level leaves out. The choice of layouts stays at
# every level: code for convolutions needs it. So does fusion into kernels.
DISABLED: dict[GraphOptimizationLevel, tuple[str, ...]] = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: (*_BASIC, *_BEYOND_BASIC, "fold-conv"),
    GraphOptimizationLevel.ORT_ENABLE_BASIC: _BEYOND_BASIC,
    GraphOptimizationLevel.ORT_ENABLE_EXTENDED: (),
    GraphOptimizationLevel.ORT_ENABLE_LAYOUT: (),
    GraphOptimizationLevel.ORT_ENABLE_ALL: (),
}


@dataclass(frozen=True)
class Setting:
    """An attribute of an options object."""

    default: Any
    kind: type
    allows: Callable[[Any], bool] | None = None  # None: every value
    instead: str = ""  # what to do where a value is not allowed
    hint: bool = True  # values that are not allowed touch memory or speed alone


SESSION: dict[str, Setting] = {
    "intra_op_num_threads": Setting(
        0, int, lambda n: n >= 0, "one thread a core, as for 0"
    ),
    "inter_op_num_threads": Setting(0, int),
    "graph_optimization_level": Setting(
        GraphOptimizationLevel.ORT_ENABLE_ALL, GraphOptimizationLevel
    ),
    "execution_mode": Setting(
        ExecutionMode.ORT_SEQUENTIAL,
        ExecutionMode,
        lambda mode: mode == ExecutionMode.ORT_SEQUENTIAL,
        "every kernel runs on all of intra_op_num_threads, one after another",
    ),
    "execution_order": Setting(
        ExecutionOrder.DEFAULT,
        ExecutionOrder,
        lambda order: order == ExecutionOrder.DEFAULT,
        "kernels are ordered for little memory when compiled",
    ),
    "enable_profiling": Setting(False, bool),
    "profile_file_prefix": Setting("onnxruntime_profile_", str),
    "log_severity_level": Setting(-1, int),
    "log_verbosity_level": Setting(0, int),
    "logid": Setting("", str),
    "enable_cpu_mem_arena": Setting(
        True, bool, bool, "memory is given back when the session goes"
    ),
    "enable_mem_reuse": Setting(
        True, bool, bool, "memory is planned when the model is compiled"
    ),
    "enable_mem_pattern": Setting(True, bool),
    "use_deterministic_compute": Setting(False, bool),
    "use_per_session_threads": Setting(
        True, bool, bool, "share one session among callers: it is safe in threads"
    ),
    "optimized_model_filepath": Setting(
        "",
        str,
        lambda path: not path,
        "the file will hold the compiled model, which InferenceSession reads and "
        "other tools do not; write it with session.module.save('model.knap')",
    ),
}

RUN: dict[str, Setting] = {
    "log_severity_level": Setting(-1, int),
    "log_verbosity_level": Setting(0, int),
    "logid": Setting("", str),
    "terminate": Setting(False, bool),
    "only_execute_path_to_fetches": Setting(
        False,
        bool,
        lambda value: not value,
        "a compiled model computes all its outputs; make a model that has only "
        "those you need (onnx.utils.extract_model)",
    ),
}


@dataclass(frozen=True)
class Entry:
    """A configuration entry: the values that are taken, and what to do where
    another is given."""

    takes: tuple[str, ...]
    instead: str = "leave it out: it has no effect here"
    hint: bool = True


_SWITCH = "0", "1"
SESSION_CONFIG: dict[str, Entry] = {
    "session.intra_op.allow_spinning": Entry(_SWITCH),  # honoured
    "session.inter_op.allow_spinning": Entry(_SWITCH),  # there are no such threads
    "session.load_model_format": Entry(("ONNX",), "give the ONNX file", hint=False),
    "session.disable_prepacking": Entry(
        ("0",), "weights are laid out when the model is compiled"
    ),
    # Numbers below 1.2e-38 are computed as IEEE 754 and ONNX say, which is also what
    # ONNX Runtime does by default; those who set this do it for speed.
    "session.set_denormal_as_zero": Entry(
        ("0",), "numbers below 1.2e-38 keep their values, as by default"
    ),
    "session.use_env_allocators": Entry(("0",)),
    "session.use_ort_model_bytes_directly": Entry(("0",)),
    "session.use_ort_model_bytes_for_initializers": Entry(("0",)),
    "session.use_device_allocator_for_initializers": Entry(_SWITCH),  # they are mapped
    "session.use_memory_mapped_ort_model": Entry(_SWITCH),  # what is done
    "session.force_spinning_stop": Entry(("0",)),
    "session.intra_op_thread_affinities": Entry(
        ("",), "threads follow the process's affinity (taskset)"
    ),
    "session.dynamic_block_base": Entry(("0",)),
    "session.qdqisint8allowed": Entry(_SWITCH),  # int8 products either way
    "session.disable_quant_qdq": Entry(("0",)),
    "session.enable_quant_qdq_cleanup": Entry(("0",)),
    "session.disable_double_qdq_remover": Entry(("0",)),
    "session.x64quantprecision": Entry(_SWITCH),  # sums of int8 never saturate here
    "session.disable_aot_function_inlining": Entry(_SWITCH),  # always inlined
    "session.save_model_format": Entry(
        ("ONNX",), "optimized_model_filepath gets the compiled model"
    ),
    "session.optimized_model_external_initializers_file_name": Entry(
        ("",), "the compiled model is one file"
    ),
    "session.optimized_model_external_initializers_min_size_in_bytes": Entry(
        ("",), "the compiled model is one file"
    ),
    "session.disable_cpu_ep_fallback": Entry(
        ("0",), "leave it out: the CPU is where models run", hint=False
    ),
    "session.strict_shape_type_inference": Entry(_SWITCH),  # it is always strict
}
RUN_CONFIG: dict[str, Entry] = {
    "disable_synchronize_execution_providers": Entry(_SWITCH),  # nothing to wait for
    "memory.enable_memory_arena_shrinkage": Entry(
        ("",), "memory of runs is given back when the session goes"
    ),
    "gpu_graph_id": Entry(("", "-1")),
}
# Families of keys that touch memory or speed alone.
_HINTS = "optimization.", "mlas.", "memory.", "session.resource_"


def check(
    table: dict[str, Setting], owner: str, name: str, value: Any
) -> tuple[Any, Refusal | None]:
    """The value as it is kept, and what is to say of it where it is not honoured.

    Raises AttributeError for an unknown name, TypeError for a value of another
    type, ValueError for a number that an enumeration does not have.
    """
    setting = table.get(name)
    if setting is None:
        raise AttributeError(
            f"{owner!r} object has no attribute {name!r}; it has {', '.join(table)}"
        )
    if setting.kind is int and isinstance(value, enum.IntEnum | bool):
        value = int(value)
    if setting.kind is str and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if issubclass(setting.kind, enum.IntEnum) and type(value) is int:
        value = setting.kind(value)
    if not isinstance(value, setting.kind):
        raise TypeError(
            f"{owner}.{name} takes {setting.kind.__name__}, not {value!r}"
        )
    if setting.allows is None or setting.allows(value):
        return value, None
    return value, Refusal(f"{owner}.{name} = {value!r}", setting.instead, setting.hint)


def check_entry(
    table: dict[str, Entry], owner: str, key: str, value: str
) -> Refusal | None:
    """What is to say of an entry that is not honoured. Raises TypeError for what
    is no text."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"{owner} entries are text, not {key!r}: {value!r}")
    what = f"{owner} entry {key!r} = {value!r}"
    entry = table.get(key)
    if entry is None:
        if key.startswith(_HINTS):
            return Refusal(what, "leave it out: it has no effect here", hint=True)
        return Refusal(what, f"leave it out; keys that are known: {', '.join(table)}")
    if value in entry.takes:
        return None
    return Refusal(what, entry.instead, entry.hint)
