"""`grid_sample` of images and volumes: what torch has no decomposition for, in terms
of operators that have rows.

A grid gives each result a position among the elements of each dim. The result is a
sum over the corners around it, each a product of the dims' weights; its gradients
visit the same corners.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from knapper.torch.formulas import _wide

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


class _Position(NamedTuple):
    place: Tensor  # among the elements of a dim
    slope: Tensor  # its derivative by the grid's coordinate


def _clamped(at: _Position, size: int) -> _Position:
    """Torch's derivative is 0 at the edges too."""
    inside = (at.place > 0) & (at.place < size - 1)
    return _Position(at.place.clamp(0, size - 1), torch.where(inside, at.slope, 0.0))


def _reflected(at: _Position, size: int, align: bool) -> _Position:
    low, high = (0, 2 * (size - 1)) if align else (-1, 2 * size - 1)
    if low == high:
        return _Position(torch.zeros_like(at.place), torch.zeros_like(at.slope))
    least, span = low / 2, (high - low) / 2
    place = at.place - least
    slope = torch.where(place < 0, -at.slope, at.slope)
    place = place.abs()
    rest = torch.fmod(place, span)
    even = torch.remainder(torch.floor(place / span), 2) == 0
    return _Position(
        torch.where(even, rest + least, span - rest + least), torch.where(even, slope, -slope)
    )


def _padded(at: _Position, size: int, padding: int, align: bool) -> _Position:
    if padding == _ZEROS:
        return at
    if padding == _REFLECTION:
        at = _reflected(at, size, align)
    return _clamped(at, size)


def _position(coordinate: Tensor, size: int, align: bool) -> _Position:
    """Of -1..1 among `size` elements."""
    if align:
        place, slope = (coordinate + 1) / 2 * (size - 1), (size - 1) / 2
    else:
        place, slope = ((coordinate + 1) * size - 1) / 2, size / 2
    return _Position(place, torch.ones_like(place) * slope)


class _Corner(NamedTuple):
    """One of a dim's elements that a position reads."""

    place: Tensor
    weight: Tensor
    slope: Tensor  # of the weight, by the grid's coordinate


def _cubic_weights(t: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Of four elements, of which the second lies at most `t` before the position; and
    their derivatives by `t`. Torch's constant is -0.75."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    def near_slope(x: Tensor) -> Tensor:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far_slope(x: Tensor) -> Tensor:
        return (3 * a * x - 10 * a) * x + 8 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    slopes = [far_slope(t + 1), near_slope(t), -near_slope(1 - t), -far_slope(2 - t)]
    return weights, slopes


def _corners(coordinate: Tensor, size: int, mode: int, padding: int, align: bool) -> list[_Corner]:
    """Along one dim."""
    at = _position(coordinate, size, align)
    if mode == _BICUBIC:
        floor = torch.floor(at.place)
        weights, slopes = _cubic_weights(at.place - floor)
        places = [_padded(_Position(floor + k, at.slope), size, padding, align) for k in range(-1, 3)]
        return [_Corner(p.place, w, s * at.slope) for p, w, s in zip(places, weights, slopes)]
    at = _padded(at, size, padding, align)
    if mode == _NEAREST:
        return [_Corner(torch.round(at.place), torch.ones_like(at.place), torch.zeros_like(at.place))]
    floor = torch.floor(at.place)
    part = at.place - floor
    return [_Corner(floor, floor + 1 - at.place, -at.slope), _Corner(floor + 1, part, at.slope)]


class _Sampled(NamedTuple):
    """What all corners read: corners in dim 1, results in dim 2."""

    at: Tensor  # the element, of the image flattened
    inside: Tensor  # else it reads zero
    weights: Tensor
    slopes: list[Tensor]  # of the weights, by each coordinate of the grid


def _product(parts: Sequence[Tensor]) -> Tensor:
    result = parts[0]
    for part in parts[1:]:
        result = result * part
    return result


def _sampled(
    sizes: Sequence[int], grid: Tensor, mode: int, padding: int, align: bool, slopes: bool
) -> _Sampled:
    rank, wide = len(sizes), _wide(grid)
    along = [
        _corners(wide[..., rank - 1 - i], size, mode, padding, align) for i, size in enumerate(sizes)
    ]
    places, held, weights = [], [], []
    by: list[list[Tensor]] = [[] for _ in sizes]
    for corner in itertools.product(*along):
        index, inside = None, None
        for part, size in zip(corner, sizes):
            within = (part.place >= 0) & (part.place < size)
            inside = within if inside is None else inside & within
            whole = torch.where(within, part.place, 0.0).long()
            index = whole if index is None else index * size + whole
        assert index is not None and inside is not None
        places.append(index)
        held.append(inside)
        weights.append(_product([part.weight for part in corner]))
        for i in range(rank if slopes else 0):
            parts = [part.slope if j == i else part.weight for j, part in enumerate(corner)]
            by[rank - 1 - i].append(_product(parts))

    def joined(parts: list[Tensor]) -> Tensor:
        return torch.stack([part.reshape(part.shape[0], -1) for part in parts], 1)

    return _Sampled(
        joined(places), joined(held), joined(weights), [joined(parts) for parts in by if parts]
    )


def _read(flat: Tensor, sampled: _Sampled) -> Tensor:
    """[images, channels, corners, results]."""
    n, c = flat.shape[:2]
    corners, results = sampled.at.shape[1:]
    at = sampled.at.reshape(n, 1, -1).expand(n, c, -1)
    found = flat.gather(2, at).reshape(n, c, corners, results)
    return torch.where(sampled.inside.unsqueeze(1), found, 0.0)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    n, c = input.shape[:2]
    sampled = _sampled(
        input.shape[2:], grid, interpolation_mode, padding_mode, align_corners, False
    )
    found = _read(_wide(input).reshape(n, c, -1), sampled)
    result = (found * sampled.weights.unsqueeze(1)).sum(2)
    return result.reshape(n, c, *grid.shape[1:-1]).to(input.dtype)


def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    n, c = input.shape[:2]
    sampled = _sampled(
        input.shape[2:], grid, interpolation_mode, padding_mode, align_corners, output_mask[1]
    )
    grad = _wide(grad_output).reshape(n, c, 1, -1)
    of_input = of_grid = None
    if output_mask[0]:
        share = torch.where(
            sampled.inside.unsqueeze(1), grad * sampled.weights.unsqueeze(1), 0.0
        ).reshape(n, c, -1)
        at = sampled.at.reshape(n, 1, -1).expand(share.shape)
        kept = torch.zeros_like(_wide(input)).reshape(n, c, -1)
        of_input = kept.scatter_add(2, at, share).reshape(input.shape).to(input.dtype)
    if output_mask[1] and interpolation_mode == _NEAREST:
        of_grid = torch.zeros_like(grid)
    elif output_mask[1]:
        along = (_read(_wide(input).reshape(n, c, -1), sampled) * grad).sum(1)
        parts = [(along * slopes).sum(1) for slopes in sampled.slopes]
        of_grid = torch.stack(parts, -1).reshape(grid.shape).to(grid.dtype)
    return of_input, of_grid


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    aten = torch.ops.aten
    return {
        aten.grid_sampler_3d.default: grid_sampler,
        aten.grid_sampler_2d_backward.default: grid_sampler_backward,
        aten.grid_sampler_3d_backward.default: grid_sampler_backward,
    }
