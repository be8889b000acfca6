"""What differs between versions of torch. Nothing else looks at one."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from knapper.torch import triton_kernels
from knapper.torch.description import DTYPES, NARROW

# The versions that the tests have run on.
OLDEST, NEWEST = (2, 11), (2, 13)


def check() -> None:
    """Warns of a torch that is older or newer than those tried."""
    numbers = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not OLDEST <= numbers <= NEWEST:
        warnings.warn(
            f"knapper.torch was tried with torch {_text(OLDEST)} to {_text(NEWEST)}, "
            f"this is {torch.__version__}",
            stacklevel=3,
        )


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


@contextlib.contextmanager
def autograd_cache(
    made: type, compilers: dict[str, Callable[..., Any]], wanted: bool
) -> Iterator[dict[str, Any]]:
    """Compilers for AOTAutograd, whose traces it keeps on disk within this context
    if `wanted`. made: what the compilers return, an OutputCode. The backward is
    traced with the forward then, so that one entry has both."""
    config: Any = torch._functorch.config
    names = {
        "bundled_autograd_cache": True,
        "force_non_lazy_backward_lowering": True,
    }
    if not wanted or not all(hasattr(config, name) for name in names):
        yield dict(compilers)
        return
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler

    with config.patch(names):
        yield {
            name: SerializableAOTDispatchCompiler(made, compiler)
            for name, compiler in compilers.items()
        }


def saves(metadata: Any) -> int | None:
    """How many results of a forward, tokens of effects among them, come before those
    that the backward reads; None where it is not known. Tells torch that no backward
    writes into these: `retain_graph=True` may follow whenever."""
    if hasattr(metadata, "bw_donated_idxs"):
        metadata.bw_donated_idxs = []
    forward = getattr(metadata, "num_forward", None)
    return None if forward is None else forward + tokens(metadata)


def tokens(metadata: Any) -> int:
    """Results of a forward that keep effects in order, before all others. torch counts
    no result with them."""
    return len(getattr(metadata, "tokens", ()))


@functools.cache
def saturating() -> list[str]:
    """Names of the floats of eight bits to which this torch's conversions saturate."""
    with unset_fake_temporarily():
        large = torch.tensor(torch.inf)
        return [DTYPES[t] for t in NARROW if bool(large.to(t).float().isfinite())]


def recompile_reason() -> str:
    """The first guard that failed, within a backend that Dynamo calls again; "" where
    this torch does not say."""
    from torch._dynamo import utils

    context = getattr(utils, "get_metrics_context", lambda: None)()
    return str(getattr(context, "_metrics", {}).get("recompile_reason") or "")


def told(target: Any, given: Mapping[str, Any]) -> str:
    """What a node calls, for messages: of a user's Triton kernel its name too."""
    if not str(target).startswith("triton_kernel_wrapper"):
        return str(target)
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    try:
        kernel = kernel_side_table.get_kernel(given["kernel_idx"])
    except (AssertionError, KeyError):
        return "a Triton kernel"
    return f"the Triton kernel {triton_kernels.name_of(kernel)!r}"


class ComplexTensors:
    """torch's tensors of two planes."""

    def __init__(self, kind: Any, lookup: Callable[..., Any]) -> None:
        self._kind, self._lookup = kind, lookup

    def joined(self, re: torch.Tensor, im: torch.Tensor) -> Any:
        return self._kind(re, im)

    def is_complex(self, value: Any) -> bool:
        return isinstance(value, self._kind)

    def parts(self, value: Any) -> list[Any]:
        return [value.re, value.im] if self.is_complex(value) else [value]

    def apply(self, overload: Any, args: Any, kwargs: Any) -> Any:
        """NotImplementedError where nothing is known of the operator."""
        function = self._lookup(overload, *args, **kwargs)
        if function is None:  # in terms of others
            function = torch._decomp.decomposition_table.get(overload)
        if function is None:
            raise NotImplementedError(str(overload))
        return function(*args, **kwargs)


def complex_tensors() -> ComplexTensors | None:
    """None where this torch has none."""
    try:
        from torch._subclasses.complex_tensor._core import ComplexTensor
        from torch._subclasses.complex_tensor._ops.common import lookup_complex
    except ImportError:
        return None
    return ComplexTensors(ComplexTensor, lookup_complex)
