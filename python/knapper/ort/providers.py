"""Execution providers: the CPU, and CUDA where there is an NVIDIA GPU."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import knapper
from knapper.errors import Error
from knapper.ort.refusals import Refusal

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
# Asked for by name these are CUDA too: the code is ours, not the provider's.
_AS_CUDA = "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"

Options = dict[str, dict[str, str]]  # by provider, in order


@functools.cache
def available() -> tuple[str, ...]:
    """The providers of this machine, the quickest first."""
    try:
        found = any(device["device"] == "cuda" for device in knapper.devices())
    except Error:
        found = False
    return (CUDA, CPU) if found else (CPU,)


def normalized(providers: Any, options: Any) -> Options:
    """Providers and their options as ONNX Runtime takes them; the CPU alone for None.

    Raises ValueError for other forms; warns, in its words, of providers that there
    are not. The CPU always ends the list.
    """
    if providers is None:
        if options and any(options):
            raise ValueError("'provider_options' need 'providers'.")
        return {CPU: {}}
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if options is not None:
        if isinstance(options, str) or not isinstance(options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(options) != len(providers):
            raise ValueError(
                "'providers' and 'provider_options' should be the same length if "
                "both are given."
            )
        if not all(isinstance(p, str) for p in providers):
            raise ValueError(
                "Only string values for 'providers' are supported if "
                "'provider_options' is given."
            )
        if not all(isinstance(o, dict) for o in options):
            raise ValueError("'provider_options' values must be dicts.")
        providers = list(zip(providers, options))
    wanted: Options = {}
    for entry in providers:
        pair = (entry, {}) if isinstance(entry, str) else entry
        if not (
            isinstance(pair, tuple)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], dict)
        ):
            raise ValueError(
                "'providers' values must be either strings or (string, dict) tuples."
            )
        name, settings = pair
        if name in _AS_CUDA and CUDA in available():
            name = CUDA
        if name not in available():
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{', '.join(available())}'",
                stacklevel=3,
            )
        elif name not in wanted:
            wanted[name] = {str(key): str(value) for key, value in settings.items()}
    # ONNX Runtime adds the CPU at the end, too.
    return {n: o for n, o in wanted.items() if n != CPU} | {CPU: wanted.get(CPU, {})}


def gpu_wanted(wanted: Options, providers: Any) -> bool:
    """Whether CUDA comes before the CPU."""
    return CUDA in wanted and next(_names(providers), CPU) != CPU


def _names(providers: Any) -> Any:
    for entry in providers or ():
        name = entry if isinstance(entry, str) else entry[0]
        if name in (CPU, CUDA, *_AS_CUDA):
            yield name


def refusals(wanted: Options) -> list[Refusal]:
    """What is to say of the options: all of them are hints."""
    return [
        Refusal(
            f"{name} option {key!r} = {value!r}",
            "leave it out: it has no effect here",
            hint=True,
        )
        for name, settings in wanted.items()
        for key, value in settings.items()
        if (key, value) not in (("use_arena", "1"), ("device_id", "0"))
    ]
