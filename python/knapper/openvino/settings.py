"""What becomes of every property and device; docs/coming-from-openvino.md lists them."""

from __future__ import annotations

from typing import Any

from knapper.hints import Refusal, Refusals
from knapper.openvino.ports import OpenVINOError


def _error(what: str, instead: str, where: str) -> OpenVINOError:
    return OpenVINOError(f"{what}\n  try: {instead}", where, instead)


RULES = Refusals("knapper.openvino", "OpenVINO", "KNAPPER_OPENVINO_STRICT", _error)
check, hint = RULES.check, RULES.hint
is_strict, set_strict = RULES.is_strict, RULES.set_strict

HONOURED = "CACHE_DIR", "INFERENCE_NUM_THREADS", "INFERENCE_PRECISION_HINT"
_PRECISIONS = {"F32": None, "DYNAMIC": None, "UNDEFINED": None, "BF16": "bf16", "F16": "f16"}
# Values that are what is done anyway.
ACCEPTED = {
    "PERFORMANCE_HINT": ("LATENCY", "UNDEFINED"),
    "EXECUTION_MODE_HINT": ("ACCURACY", "PERFORMANCE"),
    "NUM_STREAMS": ("1",),
    "PERFORMANCE_HINT_NUM_REQUESTS": ("0", "1"),
    "PERF_COUNT": ("NO", "FALSE"),
    "LOG_LEVEL": ("LOG_NONE", "NO"),
    "ENABLE_MMAP": ("YES", "TRUE"),
    "COMPILATION_NUM_THREADS": ("0",),
    "ALLOW_AUTO_BATCHING": ("NO", "FALSE"),
}
# Other values of those above, and all of these, touch memory or speed alone, or ask
# for results that are less exact than those that are given.
HINTS = {
    "PERFORMANCE_HINT": "a call uses all threads, which is LATENCY",
    "NUM_STREAMS": "a call uses all threads; call the model from threads of yours",
    "PERF_COUNT": "compiled.module.profile(x) measures every kernel",
    "LOG_LEVEL": "messages go to Python's logger 'knapper'",
    "AFFINITY": "threads follow the process's affinity (taskset)",
    "ENABLE_CPU_PINNING": "threads follow the process's affinity (taskset)",
    "CPU_DENORMALS_OPTIMIZATION": "numbers below 1.2e-38 keep their values",
} | dict.fromkeys(
    [
        "ALLOW_AUTO_BATCHING", "AUTO_BATCH_TIMEOUT", "CACHE_MODE",
        "COMPILATION_NUM_THREADS", "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE", "ENABLE_CPU_RESERVATION",
        "ENABLE_HYPER_THREADING", "ENABLE_MMAP", "EXECUTION_MODE_HINT",
        "KEY_CACHE_PRECISION", "KV_CACHE_PRECISION", "MODEL_DISTRIBUTION_POLICY",
        "MODEL_PRIORITY", "PERFORMANCE_HINT_NUM_REQUESTS", "SCHEDULING_CORE_TYPE",
        "VALUE_CACHE_PRECISION",
    ],
    "leave it out: it has no effect here",
)  # fmt: skip


def options(config: dict[Any, Any]) -> tuple[dict[str, Any], dict[str, Any], list[Refusal]]:
    """Arguments of knapper.compile, the properties as they are kept, and what is to
    say of those that are not honoured."""
    arguments: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    said: list[Refusal] = []
    for key, value in config.items():
        name = str(key)
        text = str(getattr(value, "name", value)).upper().rsplit(".", 1)[-1]
        kept[name] = value
        what = f"property {name} = {value!r}"
        if name == "INFERENCE_NUM_THREADS" and text.isdigit():
            arguments["threads"] = int(text)
        elif name == "INFERENCE_PRECISION_HINT" and text in _PRECISIONS:
            arguments["dtype"] = _PRECISIONS[text]
        elif name == "CACHE_DIR":
            arguments["cache_dir"] = str(value) or None
        elif text in ACCEPTED.get(name, ()):
            continue
        elif name in HINTS:
            said.append(Refusal(what, HINTS[name], hint=True))
        else:
            known = ", ".join(sorted({*ACCEPTED, *HONOURED, *HINTS}))
            said.append(Refusal(what, f"leave it out; properties that are known: {known}"))
    return arguments, kept, said


def device(name: str) -> list[Refusal]:
    """What is to say of a device: several, with the CPU among them, are a hint."""
    kind, _, parts = str(name).partition(":")
    devices = [part.partition("(")[0].partition(".")[0] for part in parts.split(",")]
    if name in ("CPU", "AUTO") or (
        kind in ("AUTO", "MULTI", "HETERO", "BATCH") and devices == ["CPU"]
    ):
        return []
    among = kind in ("AUTO", "MULTI", "HETERO") and "CPU" in devices
    instead = "the CPU is what runs" if among else "'CPU'"
    return [Refusal(f"device {name!r}", instead, hint=among)]
