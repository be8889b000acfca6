"""Whether a compiled function does what eager does, and what rounding explains.

A difference counts where eager's own result does not move as far when every
operator's result is moved by some units in the last place, and is nearer to
float64 than ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from random_functions.functions import Function

TOLERANCES = {torch.float32: (1.3e-5, 1.5e-5), torch.float64: (1e-7, 1e-7), torch.float16: (5e-3, 5e-3), torch.bfloat16: (2e-2, 2e-2)}
# Sums and products of many elements: their operands move too.
SUMS = (
    "sum", "mean", "prod", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution", "var", "std", "cumsum", "cumprod",
    "softmax", "log_softmax", "layer_norm", "group_norm", "norm", "logsumexp", "avg_pool", "attention", "upsample", "cdist",
    "mkldnn", "loss", "index_add", "scatter_add", "scatter_reduce", "logcumsumexp", "linear", "conv", "vector_norm", "euclidean",
)  # fmt: skip
# Those that give what they write the dtype of what they write to.
CONVERT = (
    "_to_copy", "copy_", "index_put_", "index_put", "select_scatter", "slice_scatter", "diagonal_scatter",
    "as_strided_scatter",
)  # fmt: skip


class Noise(TorchDispatchMode):
    """Moves the results of operators. `undefined`: floats that an integer cannot
    hold were converted."""

    def __init__(self, seed: int, units: float):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.units, self.undefined = units, False

    def moved(self, value: Any, eps: float | None = None) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not self.units or not value.numel():
            return value
        size = self.units * (eps or torch.finfo(value.dtype).eps)
        drawn = (torch.rand(value.shape, generator=self.generator, dtype=torch.float64) - 0.5) * 2 * size
        return (value.double() * (1 + drawn)).to(value.dtype)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        converts = name in CONVERT or kwargs.get("dtype") is not None
        if converts and not self.undefined:
            self.undefined = lossy(args, kwargs)
        writes = func._schema.is_mutable
        if not writes and any(part in name for part in SUMS):
            args = pytree.tree_map(self.moved, args)
        made = func(*args, **kwargs)
        if func._schema.is_mutable:
            target = args[0]
            if isinstance(target, torch.Tensor) and target.is_floating_point() and name != "copy_" and target.numel():
                if not any(s == 0 and n > 1 for s, n in zip(target.stride(), target.shape)):
                    target.copy_(self.moved(target))
            return made
        if any(a.alias_info is not None for a in func._schema.arguments) or name in ("detach", "lift_fresh", "alias"):
            return made
        return pytree.tree_map(self.moved, made)


class Readers(Noise):
    """Each reader of a result of 16 bits sees it moved by another amount: some may read
    what is not rounded yet."""

    def __init__(self, seed: int, units: float):
        super().__init__(seed, units)
        self.rounded: dict[int, tuple[torch.Tensor, float]] = {}  # the tensors live as long as their ids

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aliases = any(a.alias_info is not None for a in func._schema.arguments)
        read = [self.rounded[id(t)] for t in pytree.tree_leaves(args) if id(t) in self.rounded]
        if not aliases:
            args = pytree.tree_map(lambda t: self.moved(t, self.rounded[id(t)][1]) if id(t) in self.rounded else t, args)
        made = func(*args, **(kwargs or {}))
        carries = aliases or func is torch.ops.aten._to_copy.default
        for t in pytree.tree_leaves(made):
            if not isinstance(t, torch.Tensor) or not t.is_floating_point():
                continue
            if carries and read:
                self.rounded[id(t)] = (t, read[0][1])
            elif not aliases and t.dtype in (torch.float16, torch.bfloat16):
                self.rounded[id(t)] = (t, torch.finfo(t.dtype).eps)
        return made


class FirstOfEquals(TorchDispatchMode):
    """`topk`, which promises no order of equal elements, takes the first of them."""

    used = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.topk.default or not args[0].dim():
            return func(*args, **(kwargs or {}))
        self.used = True
        x, count, dim, largest = [*args, -1, True][:4] if len(args) < 4 else args[:4]
        values, at = torch.sort(x, dim=dim, descending=largest, stable=True)
        return values.narrow(dim, 0, count), at.narrow(dim, 0, count)


def lossy(args: Any, kwargs: Any) -> bool:
    """Whether floats become integers that cannot hold them."""
    floats = [a for a in pytree.tree_leaves(args) if isinstance(a, torch.Tensor) and a.is_floating_point()]
    dtype = kwargs.get("dtype") or (args[0].dtype if len(args) > 1 and isinstance(args[0], torch.Tensor) else None)
    if not floats or dtype is None or dtype.is_floating_point or dtype == torch.bool or dtype.is_complex:
        return False
    most = torch.iinfo(dtype)
    wide = [t.detach().double() for t in floats]
    return not all(bool((w.isfinite() & (w > most.min) & (w < most.max)).all()) for w in wide)


@dataclasses.dataclass
class Called:
    """What a call gave: results, inputs behind it, gradients."""

    results: list[torch.Tensor]
    inputs: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    aliases: list[tuple[int, int]]

    def leaves(self) -> list[tuple[str, torch.Tensor | None]]:
        rows = [(f"result {i}", t) for i, t in enumerate(self.results)]
        rows += [(f"x{i} behind the call", t) for i, t in enumerate(self.inputs)]
        return rows + [(f"gradient of x{i}", t) for i, t in enumerate(self.gradients)]


def call(fn: Any, function: Function, binding: int) -> Called:
    inputs = function.arguments(binding)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if function.inference:
            with torch.inference_mode():
                results = list(fn(*inputs))
        else:
            with torch.set_grad_enabled(function.grad):
                results = list(fn(*inputs))
        gradients: list[torch.Tensor | None] = []
        if function.grad:
            wanted = [r for r in results if r.requires_grad]
            leaves = [t for t in inputs if t.requires_grad and t.is_leaf]
            if wanted and leaves:
                drawn = torch.Generator().manual_seed(5)
                against = [torch.randn(r.shape, generator=drawn).to(r.dtype) for r in wanted]
                gradients = list(torch.autograd.grad(wanted, leaves, against, allow_unused=True))
    aliases = [
        (i, j)
        for i, r in enumerate(results)
        for j, t in enumerate(inputs)
        if r.numel() and t.numel() and r.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    ]
    plain = [[None if t is None else t.detach().clone() for t in part] for part in (results, inputs, gradients)]
    return Called(plain[0], plain[1], plain[2], aliases)  # type: ignore[arg-type]


def fits(mine: torch.Tensor, other: torch.Tensor, bound: torch.Tensor | None, free: torch.Tensor | None) -> torch.Tensor:
    """Which elements of two tensors of one dtype and shape are equal, as `apart` has it."""
    if mine.is_floating_point():
        a, b = mine.double(), other.double()
        relative, absolute = TOLERANCES[mine.dtype]
        limit = absolute + relative * b.abs()
        if bound is not None:
            limit = limit + bound
        good = ((a - b).abs() <= limit) & b.isfinite() | (a == b) | (a.isnan() & b.isnan())
    else:
        good = mine == other
    return good if free is None else good | free


def apart(mine: torch.Tensor | None, other: torch.Tensor | None, bound: torch.Tensor | None = None, free: torch.Tensor | None = None) -> str:
    """Why two tensors are not equal; "" where they are. `bound`: what each element
    may be off further; `free`: elements that may be anything."""
    if mine is None or other is None:
        zero = (mine is None or not mine.any()) and (other is None or not other.any())
        return "" if zero else f"{None if mine is None else 'a tensor'} for {None if other is None else 'a tensor'}"
    if mine.dtype != other.dtype or mine.shape != other.shape:
        return f"{mine.dtype} {list(mine.shape)} for {other.dtype} {list(other.shape)}"
    if not mine.numel():
        return ""
    good = fits(mine, other, bound, free)
    if bool(good.all()):
        return ""
    at = (~good).nonzero()[0].tolist()
    return f"{int((~good).sum())} of {good.numel()} elements, at {at} {mine[tuple(at)].item()} for {other[tuple(at)].item()}"


@contextlib.contextmanager
def other_kernels() -> Iterator[None]:
    """Torch's own formulas in the place of its fused kernels."""
    with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
        yield


def distance(was: torch.Tensor, now: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How far elements moved, and which of them to or from infinity or NaN."""
    a, b = was.double(), now.double()
    off = (a - b).abs()
    odd = off.isnan() | off.isinf()
    return torch.where(odd, 0.0, off), odd & ~((a == b) | (a.isnan() & b.isnan()))


def readers_spread(function: Function, binding: int, other: Called) -> list[torch.Tensor | None]:
    """How far elements move where readers see a value of 16 bits rounded or not."""
    spread = [None if t is None else torch.zeros(t.shape, dtype=torch.float64) for _, t in other.leaves()]
    fn = function.build()
    for seed in range(12):
        with Readers(seed, 1.0):
            moved = call(fn, function, binding)
        for i, ((_, was), (_, now)) in enumerate(zip(other.leaves(), moved.leaves())):
            if was is not None and now is not None and was.shape == now.shape:
                spread[i] = torch.maximum(spread[i], distance(was, now)[0])
    return spread


def explained(function: Function, binding: int, mine: Called, other: Called) -> str:
    """What is left of the differences when rounding has explained what it can; "" if
    nothing, "undefined" where an operator's result is anybody's."""
    fn = function.build()
    with FirstOfEquals() as first:
        told = differences(mine, call(fn, function, binding))
    if first.used and not told:
        return ""
    spread = [None if t is None else torch.zeros(t.shape, dtype=torch.float64) for _, t in other.leaves()]
    free = [None if t is None else torch.zeros(t.shape, dtype=torch.bool) for _, t in other.leaves()]
    for units, runs, formula in ((0.0, 1, False), (0.0, 1, True), (2.0, 12, False), (8.0, 24, False)):
        for seed in range(runs):
            try:
                # Torch's kernels of attention disagree on infinities and NaN; on finite numbers neither moves the bound.
                # So do its GELUs: oneDNN's gives NaN for infinity.
                with other_kernels() if formula else contextlib.nullcontext(), Noise(seed, units) as noise:
                    moved = call(fn, function, binding)
            except Exception:
                return "undefined"  # its sizes hang on the numbers
            if noise.undefined:
                return "undefined"
            for i, ((_, was), (_, now)) in enumerate(zip(other.leaves(), moved.leaves())):
                if was is None or now is None or was.shape != now.shape:
                    continue
                off, odd = distance(was, now)
                free[i] = free[i] | odd
                if formula:
                    continue
                if not was.is_floating_point():
                    free[i] = free[i] | (was != now)
                spread[i] = torch.maximum(spread[i], off)
        bounds = [None if s is None else 4 * s for s in spread]
        told = differences(mine, other, bounds, free)
        if not told:
            return ""
    return "" if as_exact(function, binding, mine, other, bounds, free) else told


def as_exact(function: Function, binding: int, mine: Called, other: Called, bounds: Any = None, free: Any = None) -> bool:
    """Whether each element that differs from eager's is as near to float64 as eager's
    is or as rounding moves it, and all of them together in the mean of squares. What
    is not finite in eager or in float64 is near to nothing."""
    wide = function.in_float64()
    try:
        exact = call(wide.build(), wide, binding)
        readers = readers_spread(function, binding, other)
    except Exception:
        return False  # an operator that float64 has not, or sizes that hang on the numbers
    count = len(other.leaves())
    bounds, free = bounds or [None] * count, free or [None] * count
    if mine.aliases != other.aliases or not len(mine.leaves()) == count == len(exact.leaves()):
        return False
    rows = zip(mine.leaves(), other.leaves(), exact.leaves(), readers, bounds, free)
    for (_, a), (_, b), (_, c), room, bound, f in rows:
        if not apart(a, b, None, f):
            continue
        if a is None or b is None or c is None or not (a.is_floating_point() and b.dtype == a.dtype):
            return False
        if not a.shape == b.shape == c.shape:
            return False
        judged = ~fits(a, b, None, f)
        ours, theirs = ((t.double() - c)[judged].abs() for t in (a, b))
        room = torch.maximum(theirs, room[judged])
        if bound is not None:
            room = torch.maximum(room, bound[judged])
        if not bool((theirs.isfinite() & (ours <= room)).all()) or ours.square().mean() > theirs.square().mean():
            return False
    return True


def differences(mine: Called, other: Called, spread: Any = None, free: Any = None) -> str:
    count = len(other.leaves())
    spread, free = spread or [None] * count, free or [None] * count
    if len(mine.leaves()) != count:
        return f"{len(mine.leaves())} results for {count}"
    for (name, a), (_, b), s, f in zip(mine.leaves(), other.leaves(), spread, free):
        told = apart(a, b, s, f)
        if told:
            return f"{name}: {told}"
    if mine.aliases != other.aliases:
        return f"memory shared with inputs: {mine.aliases} for {other.aliases}"
    return ""
