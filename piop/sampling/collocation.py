"""Collocation points in the domain, at its start, on its faces and where the residual is large."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.fields import grid_axis
from piop.sampling.random import Draws
from piop.sampling.region_points import first_inside, grid_inside, on_face

if TYPE_CHECKING:
    from piop.problem import Coordinate, Problem


_SOBOL_BITS = 30
_WORD = 0xFFFFFFFF


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


def _uniform(draws: Draws, stream: str, count: int, dimension: int) -> Tensor:
    return draws.uniform(stream, count, dimension)


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
    "uniform": _uniform,
    "latin_hypercube": _latin_hypercube,
    "sobol": _sobol,
}


def scale_to_box(unit: Tensor, low: list[float], high: list[float]) -> Tensor:
    """Map ``[..., D]`` from the unit cube to a box."""
    start, end = (torch.tensor(v, dtype=unit.dtype, device=unit.device) for v in (low, high))
    return start + (end - start) * unit


def collocation(
    problem: Problem,
    draws: Draws,
    count: int,
    method: str = "uniform",
    t_range: tuple[float, float] | None = None,
) -> Tensor:
    """Place points in the domain, in time and space.

    Args:
        problem: Its coordinates give the box, and its shape what of it to fill; where samples have
            shapes of their own, a typical one.
        draws: A different point set for each sample, except on a grid.
        count: N, points per sample; on a grid at most that many, equally many along every axis.
        method: ``uniform``, ``latin_hypercube`` (in boxes alone), ``sobol`` or ``grid``.
        t_range: Part of the time axis to use; by default all of it.

    Returns:
        ``[B, N, D]`` float64, coordinates in the order of the problem.

    Raises:
        ValueError: If the method is unknown, the count not positive, or ``t_range`` not inside the
            time axis; of a shape also if the method is for boxes, or no point of the grid inside.
    """
    fixed = {}
    if t_range is not None:
        _check_range(problem, t_range)
        fixed = {problem.coordinates[0].name: t_range}
    return _place(problem, draws, "collocation", count, method, fixed)


def initial_points(problem: Problem, draws: Draws, count: int, method: str = "uniform") -> Tensor:
    """Place points in space at the initial time: ``[B, N, D]`` float64.

    Raises:
        ValueError: If the problem has no time.
    """
    time = problem.time
    if time is None:
        raise ValueError("a steady problem has no initial points")
    fixed = {time.name: (time.low, time.low)}
    return _place(problem, draws, "initial", count, method, fixed)


def boundary_points(
    problem: Problem, draws: Draws, count: int, face: str, method: str = "uniform"
) -> Tensor:
    """Place points on a face such as ``x.min``: ``[B, N, D]`` float64.

    On the face of a shape they are spread over its length.

    Raises:
        ValueError: If there is no such face.
    """
    stream = f"boundary/{face}"
    domain = problem.domain
    if face not in domain.faces:
        raise ValueError(f"{face!r} is not a face; one of {', '.join(domain.faces)}")
    if domain.is_box:
        axis, at = domain.across(face)
        return _in_box(problem.coordinates, draws, stream, count, method, {axis.name: (at, at)})
    along = replace(problem.space[0], low=0.0, high=1.0)  # a fraction of the length
    axes = (*((problem.time,) if problem.time else ()), along)
    points = _in_box(axes, draws, stream, count, method, {})
    return torch.cat([points[..., :-1], on_face(domain.fixed, face, points[..., -1:])], -1)


def _check_range(problem: Problem, t_range: tuple[float, float]) -> None:
    time, (start, end) = problem.time, t_range
    if time is None:
        raise ValueError("t_range: a steady problem has no time")
    if not time.low <= start <= end <= time.high:
        raise ValueError(f"t_range: [{start:g}, {end:g}] is not in [{time.low:g}, {time.high:g}]")


def _place(
    problem: Problem,
    draws: Draws,
    stream: str,
    count: int,
    method: str,
    fixed: dict[str, tuple[float, float]],
) -> Tensor:
    """Place points in the domain, between other ends along some axes."""
    axes = problem.coordinates
    domain = problem.domain.typical
    if domain.is_box:
        return _in_box(axes, draws, stream, count, method, fixed)
    if method == "grid":
        free = sum(c.name not in fixed or fixed[c.name][0] < fixed[c.name][1] for c in axes)

        def grid(each: int) -> Tensor:
            return _in_box(axes, draws, stream, each**free, method, fixed)

        return grid_inside(domain, grid, count)
    if method == "latin_hypercube":
        raise ValueError(f"{method!r} divides a box, which a shape does not fill")
    bounds = zip(problem.space, domain.bounds, strict=True)
    around = {axis.name: ends for axis, ends in bounds} | fixed
    return first_inside(domain, lambda n: _in_box(axes, draws, stream, n, method, around), count)


def _in_box(
    axes: tuple[Coordinate, ...],
    draws: Draws,
    stream: str,
    count: int,
    method: str,
    fixed: dict[str, tuple[float, float]],
) -> Tensor:
    """Place points in a box whose ends along some axes are replaced, equal ends taking no part."""
    ends = [fixed.get(axis.name, (axis.low, axis.high)) for axis in axes]
    free = [i for i, (low, high) in enumerate(ends) if low < high]
    if method == "grid":
        points = _grid([axes[i] for i in free], [ends[i] for i in free], count)
        points = points.to(draws.index.device).expand(draws.batch, -1, -1)
    else:
        unit = unit_points(draws, stream, count, len(free), method)
        points = scale_to_box(unit, [ends[i][0] for i in free], [ends[i][1] for i in free])
    placed = points.new_empty(*points.shape[:2], len(axes))
    for i, (low, _) in enumerate(ends):
        placed[..., i] = points[..., free.index(i)] if i in free else low
    return placed


def _grid(axes: list[Coordinate], ends: list[tuple[float, float]], count: int) -> Tensor:
    """Lay a tensor grid of at most ``count`` points: ``[1, N, D']``."""
    if count < 1:
        raise ValueError(f"count: {count} is not positive")
    if not axes:
        return torch.zeros(1, 1, 0, dtype=torch.float64)
    each = max(1, math.floor(count ** (1 / len(axes)) + 1e-9))
    whole = [a.periodic and e == (a.low, a.high) for a, e in zip(axes, ends, strict=True)]
    ticks = [grid_axis(*e, each, p) for e, p in zip(ends, whole, strict=True)]
    return torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).flatten(0, -2)[None]


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
