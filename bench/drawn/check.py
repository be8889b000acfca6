"""Whether outputs are right: against float64, by the error that torch's own dtype makes."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch

from drawn.sweep_case import Built, Net

# What a result may be off whatever torch's error is: some roundings to the dtype, as a share of
# the norm and of the largest value.
FLOOR = {torch.float32: 3e-6, torch.bfloat16: 6e-3, torch.float16: 8e-4}
TIMES = 2.0  # torch's error, by norm
TIMES_LARGEST = 4.0  # torch's largest error
# Errors above those limits by less than this are drawn again: they count where most draws have them.
DOUBTFUL = 3.0
DRAWS = 5
# The errors of so few elements are above any multiple of torch's by chance, where torch's happen to be small or the
# elements to cancel: those of so many draws are judged together.
FEW = 32
POOLED = 20
NOT_FINITE = "not finite where torch is"


@dataclasses.dataclass
class Verdict:
    """error, torch_error: norm of the difference to float64 over float64's norm. `doubtful`: an
    error that chance may make, of a few roundings more than torch's. `few`: ours, eager's and
    float64's result of fewer than FEW elements."""

    right: bool
    error: float = 0.0
    torch_error: float = 0.0
    why: str = ""
    doubtful: bool = False
    few: tuple[torch.Tensor, ...] | None = dataclasses.field(default=None, repr=False)


def _exactly(built: Built, inputs: list[torch.Tensor]) -> Any:
    module = copy.deepcopy(built.module).to(inputs[0].device)
    if isinstance(module, Net):
        module.exactly = True
    return module


def exact(built: Built, inputs: list[torch.Tensor]) -> Any:
    module = _exactly(built, inputs).double()
    with torch.no_grad():
        return module(*[i.double() if i.is_floating_point() else i for i in inputs])


def decide(first: Verdict, again: Callable[[int], Verdict]) -> Verdict:
    """The verdict; where it is doubtful what most of DRAWS say, and of few elements what POOLED say together. `again(n)`
    judges draw n."""
    return dataclasses.replace(_decide(first, again), few=None)


def _decide(first: Verdict, again: Callable[[int], Verdict]) -> Verdict:
    if first.right or not first.doubtful:
        return first
    if first.few is not None:
        return _pooled(first, again)
    verdicts = [first]
    for n in range(1, DRAWS):
        verdicts.append(again(n))
        if not verdicts[-1].right and not verdicts[-1].doubtful:
            return verdicts[-1]
    wrong = [v for v in verdicts if not v.right]
    if 2 * len(wrong) > DRAWS:
        return first
    return next(v for v in verdicts if v.right)


def _pooled(first: Verdict, again: Callable[[int], Verdict]) -> Verdict:
    results = [first.few]
    for n in range(1, POOLED):
        verdict = again(n)
        if verdict.few is None:  # not finite, or of another shape
            return verdict
        results.append(verdict.few)
    got, eager, wanted = (torch.cat(same) for same in zip(*results))
    verdict = _judge_values(got, eager, wanted)
    if verdict.right:
        verdict = _judge_each(verdict, got, eager, wanted)
    return verdict if verdict.right else dataclasses.replace(verdict, why=f"{verdict.why}, of {POOLED} draws")


def _judge_each(verdict: Verdict, got: Any, eager: Any, wanted: Any) -> Verdict:
    """Norms say nothing of small results among large ones, and little of one wrong draw. Results are rounded by their own
    size, sums in float32 by that of what they sum; what cancels has torch's largest error of any draw."""
    dtype = eager.dtype if eager.dtype in FLOOR else torch.float32
    taken = torch.isfinite(eager) & torch.isfinite(wanted) & torch.isfinite(got)
    got, eager, wanted = got[taken].double(), eager[taken].double(), wanted[taken]
    if not wanted.numel():
        return verdict
    off = (got - wanted).abs()
    may = TIMES_LARGEST * torch.maximum((eager - wanted).abs().max(), FLOOR[dtype] * wanted.abs())
    may = torch.maximum(may, FLOOR[torch.float32] * wanted.abs().max())
    if bool((off <= may).all()):
        return verdict
    at = int((off - may).argmax())
    why = f"{float(got[at]):.4g}, not {float(wanted[at]):.4g}"
    return Verdict(False, verdict.error, verdict.torch_error, why)


def judge(got: Any, eager: Any, wanted: Any, built: Built, inputs: list[torch.Tensor]) -> Verdict:
    """got, eager: outputs in the dtype; wanted: in float64. All on one device."""
    if tuple(got.shape) != tuple(wanted.shape):
        return Verdict(False, why=f"shape {tuple(got.shape)}, not {tuple(wanted.shape)}")
    if not got.numel():
        return Verdict(True)
    if built.picks is not None:
        return _judge_places(got, eager, inputs[0], built.picks)
    if not wanted.is_floating_point():
        same = torch.equal(got.to(wanted.dtype), wanted)
        return Verdict(same, why="" if same else "integers differ")
    if isinstance(built.module, Net) and built.module.operator.exact:
        # Rows that torch rounds to are no error of its dtype, which would excuse wrong rows of ours.
        with torch.no_grad():
            eager = _exactly(built, inputs).to(eager.dtype)(*inputs)
    verdict = _judge_values(got, eager, wanted)
    if verdict.right or math.isfinite(verdict.error):
        if got.numel() < FEW and not built.jumps:
            few = got.flatten(), eager.flatten(), wanted.flatten()
            return dataclasses.replace(verdict, doubtful=not verdict.right, few=few)
    # Whichever expert is taken: most draws agree, or the result is wrong.
    return dataclasses.replace(verdict, doubtful=verdict.doubtful or built.jumps)


def _judge_places(got: Any, eager: Any, source: Any, axis: int) -> Verdict:
    got = got.to(torch.int64)
    if got.min() < 0 or got.max() >= source.shape[axis]:
        return Verdict(False, why="a place out of range")
    taken = source.gather(axis, got.unsqueeze(axis))
    best = source.gather(axis, eager.unsqueeze(axis))
    wrong = int((taken != best).sum())
    return Verdict(not wrong, why=f"{wrong} places of other values" if wrong else "")


def _judge_values(got: Any, eager: Any, wanted: Any) -> Verdict:
    dtype = eager.dtype if eager.dtype in FLOOR else torch.float32
    # Where torch's own result overflows, or the exact one in this dtype or nearly, what is right
    # cannot be said.
    room = torch.finfo(dtype).max * (1 - 4 * torch.finfo(dtype).eps)
    finite = torch.isfinite(eager) & (wanted.abs() <= room)
    zero = torch.zeros((), dtype=torch.float64, device=wanted.device)
    own = torch.where(finite, got.double(), zero)
    if not bool(torch.isfinite(own).all()):
        return Verdict(False, float("inf"), why=NOT_FINITE)
    theirs = torch.where(finite, eager.double(), zero)
    wanted = torch.where(finite, wanted, zero)
    norm, largest = float(wanted.norm()) or 1.0, float(wanted.abs().max()) or 1.0
    off, off_torch = own - wanted, theirs - wanted
    error, torch_error = float(off.norm()) / norm, float(off_torch.norm()) / norm
    most, torch_most = float(off.abs().max()) / largest, float(off_torch.abs().max()) / largest
    floor = FLOOR[dtype]
    if error > max(TIMES * torch_error, floor):
        chance = error <= DOUBTFUL * max(TIMES * torch_error, floor)
        return Verdict(False, error, torch_error, f"error {error:.2e}, torch's {torch_error:.2e}", chance)
    if most > max(TIMES_LARGEST * torch_most, 4 * floor):
        chance = most <= DOUBTFUL * max(TIMES_LARGEST * torch_most, 4 * floor)
        return Verdict(False, error, torch_error, f"largest error {most:.2e}, torch's {torch_most:.2e}", chance)
    return Verdict(True, error, torch_error)
