"""Collocation points in the domain, at its start, on its faces and where the residual is large."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from piop.domain import FixedDomain
from piop.fields import grid_axis, tensor_grid
from piop.sampling.random import Draws

if TYPE_CHECKING:
    from piop.problem import Coordinate, Problem


Ends = tuple[float, float]
"""The low and the high end of an axis."""

_SOBOL_BITS = 30
_WORD = 0xFFFFFFFF
_MORE = 1.1
_FEW = 8
"""Candidates beyond those that are inside on average: a factor, and so many."""


def unit_points(draws: Draws, stream: str, count: int, dimension: int, method: str) -> Tensor:
    """Place points in (0, 1)^dimension.

    Args:
        draws: Where the randomness comes from.
        stream: Its name.
        count: N, points per sample.
        dimension: D.
        method: ``uniform``, ``latin_hypercube`` or ``sobol``.

    Returns:
        ``[B, N, D]`` float64.

    Raises:
        ValueError: If the method is unknown or the count is not positive.
    """
    if count < 1:
        raise ValueError(f"count: {count} is not positive")
    if method not in DESIGNS:
        raise ValueError(f"{method!r} is not a way to place points; one of {', '.join(DESIGNS)}")
    return DESIGNS[method](draws, stream, count, dimension)


def _latin_hypercube(draws: Draws, stream: str, count: int, dimension: int) -> Tensor:
    """One point in each of ``count`` equal slices of every axis (McKay, Beckman & Conover 1979)."""
    slices = draws.permutation(f"{stream}/order", count, dimension)
    within = draws.uniform(f"{stream}/within", dimension, count)
    return ((slices + within) / count).transpose(1, 2)


def _sobol(draws: Draws, stream: str, count: int, dimension: int) -> Tensor:
    """Sobol points, each sample and axis with its own nested uniform scramble.

    Source: Sobol 1967; Owen 1995; the scramble by hashing is Burley 2020, "Practical hash-based
    Owen scrambling", JCGT 9(4), Sec. 3.
    """
    engine = torch.quasirandom.SobolEngine(max(1, dimension), scramble=False)
    plain = engine.draw(count, dtype=torch.float64)[:, :dimension] * 2**_SOBOL_BITS
    digits = plain.long().to(draws.index.device) << (32 - _SOBOL_BITS)
    seeds = draws.integers(f"{stream}/scramble", 0, _WORD, 1, dimension)
    scrambled = _reverse(_hash_upwards(_reverse(digits)[None], seeds))
    return (scrambled.double() + draws.uniform(f"{stream}/within", count, dimension)) / 2.0**32


def _hash_upwards(x: Tensor, seed: Tensor) -> Tensor:
    """Hash so that every bit depends on lower ones only (Laine & Karras 2011, as Burley)."""
    x = (x + seed) & _WORD
    for constant in (0x6C50B47C, 0xB82F1E52, 0xC7AFE638, 0x8D22F6E6):
        x = x ^ ((x * constant) & _WORD)
    return x


def _reverse(x: Tensor) -> Tensor:
    """Reverse the order of 32 bits."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        x = ((x >> shift) & mask) | ((x & mask) << shift)
    return ((x >> 16) | (x << 16)) & _WORD


DESIGNS = {
    "uniform": Draws.uniform,
    "latin_hypercube": _latin_hypercube,
    "sobol": _sobol,
}


def scale_to_box(unit: Tensor, ends: Sequence[Ends]) -> Tensor:
    """Map ``[..., D]`` from the unit cube to a box."""
    low, high = (unit.new_tensor([end[side] for end in ends]) for side in (0, 1))
    return low + (high - low) * unit


def box_points(draws: Draws, stream: str, ends: Sequence[Ends], count: int, method: str) -> Tensor:
    """Place points ``[B, N, D]`` in a box, as :func:`unit_points` does in the unit cube."""
    return scale_to_box(unit_points(draws, stream, count, len(ends), method), ends)


def collocation(problem: Problem, draws: Draws, count: int, method: str = "uniform") -> Tensor:
    """Place points in the domain, in time and space.

    Args:
        problem: Its coordinates give the box, and its shape what of it to fill; where samples have
            shapes of their own, a typical one.
        draws: A different point set for each sample, except on a grid.
        count: N, points per sample; on a grid at most that many, equally many along every axis.
        method: ``uniform``, ``latin_hypercube`` (in boxes alone), ``sobol`` or ``grid``.

    Returns:
        ``[B, N, D]`` float64, coordinates in the order of the problem.

    Raises:
        ValueError: If the method is unknown or the count not positive; of a shape also if the
            method is for boxes, or no point of the grid inside.
    """
    return _Design(draws, "collocation", method).fill(problem, count, {})


def initial_points(problem: Problem, draws: Draws, count: int, method: str = "uniform") -> Tensor:
    """Place points in space at the initial time: ``[B, N, D]`` float64.

    Raises:
        ValueError: If the problem has no time.
    """
    time = problem.time
    if time is None:
        raise ValueError("a steady problem has no initial points")
    return _Design(draws, "initial", method).fill(problem, count, {time.name: (time.low, time.low)})


def boundary_points(
    problem: Problem, draws: Draws, count: int, face: str, method: str = "uniform"
) -> Tensor:
    """Place points on a face such as ``x.min``: ``[B, N, D]`` float64.

    On the face of a shape they are spread over its length.

    Raises:
        ValueError: If there is no such face.
    """
    domain, design = problem.domain, _Design(draws, f"boundary/{face}", method)
    if face not in domain.faces:
        raise ValueError(f"{face!r} is not a face; one of {', '.join(domain.faces)}")
    if domain.is_box:
        axis, at = domain.across(face)
        return design.fill_box(problem.coordinates, count, {axis.name: (at, at)})
    along = replace(problem.space[0], low=0.0, high=1.0)  # a fraction of the length
    axes = (*((problem.time,) if problem.time else ()), along)
    points = design.fill_box(axes, count, {})
    return torch.cat([points[..., :-1], on_face(domain.fixed, face, points[..., -1:])], -1)


@dataclass(frozen=True)
class _Design:
    """A way to place points, with the stream of its random numbers."""

    draws: Draws
    stream: str
    method: str

    def fill(self, problem: Problem, count: int, fixed: Mapping[str, Ends]) -> Tensor:
        """Place points in the domain, between other ends along some axes."""
        axes, domain = problem.coordinates, problem.domain.typical
        if domain.is_box:
            return self.fill_box(axes, count, fixed)
        if self.method == "grid":
            free = sum(axis.name not in fixed for axis in axes)
            return grid_inside(domain, lambda n: self.fill_box(axes, n**free, fixed), count)
        if self.method == "latin_hypercube":
            raise ValueError(f"{self.method!r} divides a box, which a shape does not fill")
        bounds = zip(problem.space, domain.bounds, strict=True)
        around = {axis.name: ends for axis, ends in bounds} | dict(fixed)
        return first_inside(domain, lambda n: self.fill_box(axes, n, around), count)

    def fill_box(self, axes: Sequence[Coordinate], count: int, fixed: Mapping[str, Ends]) -> Tensor:
        """Place points in a box whose ends along some axes are replaced, equal ends by a value."""
        replaced = {axis: fixed.get(axis.name, (axis.low, axis.high)) for axis in axes}
        free = {axis: ends for axis, ends in replaced.items() if ends[0] < ends[1]}
        if self.method == "grid":
            points = _grid(free, count).to(self.draws.index.device)
            points = points.expand(self.draws.batch, -1, -1)
        else:
            points = box_points(self.draws, self.stream, [*free.values()], count, self.method)
        columns = dict(zip(free, points.unbind(-1), strict=True))
        for axis in replaced.keys() - free.keys():
            columns[axis] = points.new_full(points.shape[:2], replaced[axis][0])
        return torch.stack([columns[axis] for axis in axes], -1)


def _grid(ends: Mapping[Coordinate, Ends], count: int) -> Tensor:
    """Lay a tensor grid of at most ``count`` points between the ends of axes: ``[N, D']``."""
    if count < 1:
        raise ValueError(f"count: {count} is not positive")
    if not ends:
        return torch.zeros(1, 0, dtype=torch.float64)
    each = max(1, math.floor(count ** (1 / len(ends)) + 1e-9))
    return tensor_grid(
        [grid_axis(*e, each, a.periodic and e == (a.low, a.high)) for a, e in ends.items()]
    )


def inside(domain: FixedDomain, points: Tensor) -> Tensor:
    """Tell which points ``[..., D]``, space last, lie inside ``[...]``."""
    found = torch.from_numpy(domain.contains(_in_space(domain, points)))
    return found.reshape(points.shape[:-1]).to(points.device)


def first_inside(domain: FixedDomain, place: Callable[[int], Tensor], count: int) -> Tensor:
    """Keep of a sequence of candidates the first that lie inside.

    Args:
        domain: A region of the plane.
        place: Gives the first n candidates of the sequence of each sample ``[B, n, D]``.
        count: N, how many to keep.

    Returns:
        ``[B, N, D]``: the same of a sample whatever else is in the batch.
    """
    many = math.ceil(count / domain.filled * _MORE) + _FEW if count > 0 else count
    while True:
        points = place(many)
        held = inside(domain, points)
        if int(held.sum(1).min()) >= count:
            break
        many *= 2
    kept = held.int().argsort(dim=1, descending=True, stable=True)[:, :count]
    return torch.take_along_dim(points, kept[..., None], 1)


def grid_inside(domain: FixedDomain, grid: Callable[[int], Tensor], count: int) -> Tensor:
    """Keep the points of the finest grid of the whole box of which few enough lie inside.

    Args:
        domain: A region of the plane.
        grid: Gives a grid with so many points along each axis, the same for all samples
            ``[B, n, D]``.
        count: N, how many to keep at most.

    Returns:
        ``[B, N', D]``.

    Raises:
        ValueError: If no grid has a point inside and few enough.
    """
    if count < 1:
        raise ValueError(f"count: {count} is not positive")
    best, each = None, 1
    while True:
        points = grid(each)
        edge = torch.from_numpy(domain.touches(_in_space(domain, points[0])))
        kept = points[:, inside(domain, points[0]) & ~edge.to(points.device)]
        if kept.shape[1] > count:
            break
        best = kept if kept.shape[1] else best
        each += 1
    if best is None:
        raise ValueError(f"count: {count} points of a grid are too few for the shape")
    return best


def on_face(domain: FixedDomain, face: str, fractions: Tensor) -> Tensor:
    """Return points of a face ``[..., 2]`` at fractions of its length ``[..., 1]``."""
    found = domain.points_on(face, fractions.double().cpu().numpy().reshape(-1, 1))
    return torch.from_numpy(found).reshape(*fractions.shape[:-1], 2).to(fractions.device)


def _in_space(domain: FixedDomain, points: Tensor) -> np.ndarray:
    """Return the last columns of points ``[..., D]`` as ``[N, d]``."""
    dimension = len(domain.axes)
    return points[..., -dimension:].double().cpu().numpy().reshape(-1, dimension)


def residual_density(sizes: Tensor, power: float, floor: float) -> Tensor:
    """Give each candidate its probability, ~ |r|^k / mean |r|^k + c.

    Args:
        sizes: |r| at the candidates ``[B, K]``, dimensionless.
        power: k.
        floor: c, which keeps places alive where the residual vanishes.

    Returns:
        ``[B, K]`` float64 with sum one for each sample; all the same where nothing differs.

    Source: Wu, Zhu, Tan, Kartha & Lu 2023, eq. 2 (10.1016/j.cma.2022.115671, 2207.10289).
    """
    weights = sizes.double() ** power
    mean = weights.mean(-1, keepdim=True)
    density = (weights / mean).nan_to_num(nan=1.0) + floor
    return density / density.sum(-1, keepdim=True)


def choose_by_density(draws: Draws, stream: str, density: Tensor, count: int) -> Tensor:
    """Draw candidates one after the other without replacement, with these probabilities.

    The ``count`` largest of log p + Gumbel noise are distributed as such draws.

    Args:
        draws: Where the randomness comes from.
        stream: Its name.
        density: ``[B, K]``, positive or zero.
        count: N, at most K.

    Returns:
        Numbers of candidates, int64 ``[B, N]``, in the order in which they would be drawn.

    Source: Vieira 2014; Kool, van Hoof & Welling 2019 (1903.06059), the Gumbel-top-k trick.
    """
    noise = -(-draws.uniform(stream, density.shape[-1]).log()).log()
    return (density.double().log() + noise).topk(count, dim=-1).indices
