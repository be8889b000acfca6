"""What becomes of every option: one table each.

An option is honoured, or accepted because it can change neither results nor
speed here, or refused with what to do instead. The page
docs/coming-from-onnxruntime.md lists them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from knapper.ort.errors import refuse


class GraphOptimizationLevel(enum.IntEnum):
    """Which rewrites of the graph are done; `DISABLED` says what each leaves out."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Only ORT_SEQUENTIAL: every kernel runs on all threads, one after another."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Only DEFAULT: the compiler orders kernels so that little memory is live."""

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


SESSION: dict[str, Setting] = {
    "intra_op_num_threads": Setting(
        0, int, lambda n: n >= 0, "give a count, or 0 for one thread a core"
    ),
    "inter_op_num_threads": Setting(
        0, int, lambda n: n >= 0, "give a count; only intra_op_num_threads has effect"
    ),
    "graph_optimization_level": Setting(
        GraphOptimizationLevel.ORT_ENABLE_ALL, GraphOptimizationLevel
    ),
    "execution_mode": Setting(
        ExecutionMode.ORT_SEQUENTIAL,
        ExecutionMode,
        lambda mode: mode == ExecutionMode.ORT_SEQUENTIAL,
        "leave ORT_SEQUENTIAL: every kernel runs on all of intra_op_num_threads",
    ),
    "execution_order": Setting(
        ExecutionOrder.DEFAULT,
        ExecutionOrder,
        lambda order: order == ExecutionOrder.DEFAULT,
        "leave DEFAULT: kernels are ordered for little memory when compiled",
    ),
    "enable_profiling": Setting(False, bool),
    "profile_file_prefix": Setting("knapper_profile_", str),
    "log_severity_level": Setting(-1, int),
    "log_verbosity_level": Setting(0, int),
    "logid": Setting("", str),
    "enable_cpu_mem_arena": Setting(
        True, bool, bool, "leave True; memory is given back when the session goes"
    ),
    "enable_mem_reuse": Setting(
        True, bool, bool, "leave True: memory is planned when the model is compiled"
    ),
    "enable_mem_pattern": Setting(True, bool),
    "use_deterministic_compute": Setting(False, bool),
    "use_per_session_threads": Setting(
        True, bool, bool, "leave True and share one session: it is safe in threads"
    ),
    "optimized_model_filepath": Setting(
        "",
        str,
        lambda path: not path,
        "write the compiled model with session.module.save('model.knap'); "
        "InferenceSession('model.knap') reads it",
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
        "a compiled model computes all its outputs: make a model that has only "
        "those you need (onnx.utils.extract_model)",
    ),
}

# Configuration entries: the values that are accepted; every other key is refused.
SESSION_CONFIG: dict[str, tuple[str, ...]] = {
    "session.intra_op.allow_spinning": ("0", "1"),  # honoured
    "session.inter_op.allow_spinning": ("0", "1"),  # there are no such threads
    "session.load_model_format": ("ONNX",),
    "session.disable_prepacking": ("0",),
    "session.set_denormal_as_zero": ("0",),
    "session.use_env_allocators": ("0",),
    "session.use_ort_model_bytes_directly": ("0",),
    "session.use_ort_model_bytes_for_initializers": ("0",),
    "session.use_device_allocator_for_initializers": ("0", "1"),  # weights are mapped
    "session.force_spinning_stop": ("0",),
    "session.disable_cpu_ep_fallback": ("0",),
    "session.strict_shape_type_inference": ("0", "1"),  # it is always strict
}
RUN_CONFIG: dict[str, tuple[str, ...]] = {
    "disable_synchronize_execution_providers": ("0", "1"),  # nothing to wait for
}


def check(table: dict[str, Setting], owner: str, name: str, value: Any) -> Any:
    """The value as it is kept.

    Raises AttributeError for an unknown name, TypeError for a value of another
    type, NotImplemented for one that is not honoured.
    """
    setting = table.get(name)
    if setting is None:
        raise AttributeError(
            f"{owner!r} object has no attribute {name!r}; it has {', '.join(table)}"
        )
    if setting.kind is int and isinstance(value, enum.IntEnum | bool):
        value = int(value)
    if not isinstance(value, setting.kind):
        raise TypeError(
            f"{owner}.{name} takes {setting.kind.__name__}, not {value!r}"
        )
    if setting.allows is not None and not setting.allows(value):
        raise refuse(f"{owner}.{name} = {value!r}", setting.instead)
    return value


def check_entry(table: dict[str, tuple[str, ...]], owner: str, key: str, value: str) -> None:
    """Raises TypeError for what is no text and NotImplemented for an entry that
    is not honoured."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"{owner} entries are text, not {key!r}: {value!r}")
    if value in table.get(key, ()):
        return
    known = "; ".join(f"{k}: {' or '.join(map(repr, v))}" for k, v in table.items())
    raise refuse(
        f"{owner} entry {key!r} = {value!r}",
        f"leave it out; entries that are taken: {known}",
    )
