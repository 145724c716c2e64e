"""Even grids on which smooth inputs are evaluated, whatever their sensors."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from piop.datasets import AnyDataset
from piop.fields import FunctionSamples, InputFunction, grid_axis, shared_points, tensor_grid
from piop.models.core.base import Inputs
from piop.problem import Input, Problem
from piop.problem.time_windows import State
from piop.sampling.distributions import input_axes, input_sampler
from piop.spec.model import SensorPlacement

NEGLECTED_BY_HARMONICS = 1e-6
"""Fraction of an input's variance that the harmonics of a network may leave out.

What is left out stays in hard initial data and never decays, so its root is a floor of the
error; at 1e-4 that floor is 0.01.
"""
NEGLECTED_BY_TOKENS = 1e-4
"""Fraction of the variance that attention's tokens may leave out: their number costs time."""
LARGEST_WAVENUMBER = {1: 24, 2: 8, 3: 4, 4: 2}
"""Largest wave number of those harmonics, by the number of coordinates: they cost time."""
SENSORS_PER_WAVE = {1: 4, 2: 3, 3: 3, 4: 3}
"""Sensors per axis and shortest harmonic: they determine the harmonic fit of a network."""
FEWEST_SENSORS = {1: 16, 2: 12, 3: 8, 4: 6}
"""Sensors per axis at least."""

POINTS_PER_WAVE = 3
"""Points per axis and shortest wave of the state at the start of a time window, as many as keep
products of two waves from being taken for a third."""

UNEVEN = 1e-5
"""Fraction of an axis by which sensors may miss an even grid, as after storing float32."""

Axes = tuple[Tensor, ...]


def highest_wavenumber(
    problem: Problem, item: Input, unseen: float = NEGLECTED_BY_HARMONICS
) -> int:
    """Find the wave number below which all but a fraction of an input's variance lies.

    Args:
        problem: The problem.
        item: One of its inputs.
        unseen: The fraction of the variance that may lie above.

    Returns:
        Whole periods (half waves between walls) over an axis, at most ``LARGEST_WAVENUMBER`` but
        for the state at the start of a time window; 0 where the distribution has no spectrum, and
        for what networks take as numbers.
    """
    if isinstance(item.distribution, State):
        return item.distribution.waves
    sampler = input_sampler(problem, item)
    prior, axes = sampler.spectrum(), sampler.axes
    if prior is None or item.name in problem.vectors:
        return 0
    turns = [
        basis.frequency * axis.length / ((2 if axis.periodic else 1) * torch.pi)
        for basis, axis in zip(prior.bases, axes, strict=True)
    ]
    radius = torch.stack(torch.meshgrid(*turns, indexing="ij")).square().sum(0).sqrt().flatten()
    share = (prior.variance * prior.mean_square).flatten()
    order = radius.argsort()
    within = share[order].cumsum(0) / share.sum()
    enough = int((within < 1 - unseen).sum().clamp(max=len(order) - 1))
    found = math.ceil(float(radius[order][enough]) - 1e-9)
    return max(1, min(found, LARGEST_WAVENUMBER[len(axes)]))


def bulk_wavenumber(problem: Problem, item: Input) -> int:
    """Find the wave number that is enough for the tokens of attention."""
    if isinstance(item.distribution, State):
        return item.distribution.bulk
    return highest_wavenumber(problem, item, NEGLECTED_BY_TOKENS)


def input_grids(problem: Problem) -> dict[str, Axes]:
    """Lay an even grid, fine enough, for each visible input whose distribution has a spectrum.

    Returns:
        Input → positions along each of its axes.
    """
    found = {}
    for item in problem.visible_inputs:
        wave = highest_wavenumber(problem, item)
        if wave and item.smooth:
            d = len(item.of)
            count = max(SENSORS_PER_WAVE[d] * wave, FEWEST_SENSORS[d])
            if isinstance(item.distribution, State):
                count = max(count, POINTS_PER_WAVE * item.distribution.waves)
            axes = input_axes(problem, item)
            found[item.name] = tuple(grid_axis(a.low, a.high, count, a.periodic) for a in axes)
    return found


def evaluate_on_grids(
    grids: Mapping[str, Axes], functions: Mapping[str, InputFunction], seen: Inputs
) -> dict[str, FunctionSamples]:
    """Put values on the grids in place of sensors.

    Args:
        grids: As :func:`input_grids` returns them.
        functions: The functions themselves, or their interpolants.
        seen: Values at the sensors; kept for inputs without a grid.
    """
    found = dict(seen)
    for name, axes in grids.items():
        like = seen[name].values
        ticks = [axis.to(like) for axis in axes]
        values = functions[name].on_grid(ticks).flatten(1)[..., None].to(like)
        found[name] = FunctionSamples(shared_points(tensor_grid(ticks), values.shape[0]), values)
    return found


def gridded_inputs(
    problem: Problem, physics: bool = True, data: AnyDataset | None = None
) -> tuple[str, ...]:
    """Find the visible inputs whose sensors lie on even grids, the same for every function.

    Args:
        problem: The problem.
        physics: Whether functions of the distribution are observed: on :func:`input_grids`, else
            where the spec places sensors.
        data: A data set that is observed as well, or alone.
    """
    laid = input_grids(problem) if physics else {}
    functions = [i for i in problem.visible_inputs if i.of and i.name not in problem.vectors]

    def even(item: Input) -> bool:
        placed = item.place is SensorPlacement.GRID or not physics
        return placed and (data is None or _all_even(data, item.name))

    return tuple(item.name for item in functions if item.name in laid or even(item))


def _all_even(data: AnyDataset, name: str) -> bool:
    """Tell whether the sensors of an input are one even grid, the same in all of the data."""
    first = data.take(torch.arange(1)).inputs[name].points
    chunks = data.sensor_chunks(name)
    return all(torch.equal(first, s.points[:1]) and is_even_grid(s) for s in chunks)


def is_even_grid(samples: FunctionSamples) -> bool:
    """Tell whether sensors fill a grid with equal steps along each axis, the same for all samples.

    Example:
        >>> line = torch.linspace(0, 1, 5).reshape(1, 5, 1)
        >>> is_even_grid(FunctionSamples(line, line)), is_even_grid(FunctionSamples(line**2, line))
        (True, False)
    """
    points = samples.points.double()
    if samples.mask is not None and not bool(samples.mask.all()):
        return False
    spread = (points.amax((0, 1)) - points.amin((0, 1))).clamp(min=1e-300)
    if bool(((points - points[:1]).abs() > UNEVEN * spread).any()):
        return False
    first, lines = points[0], []
    for column, size in zip(first.T, spread, strict=True):
        ordered = column.sort().values
        new = torch.cat([ordered.new_ones(1, dtype=torch.bool), ordered.diff() > UNEVEN * size])
        ticks = ordered[new]
        steps = ticks.diff()
        if len(steps) and bool(((steps - steps.mean()).abs() > UNEVEN * size).any()):
            return False
        lines.append(len(ticks))
    cells = (first - first.amin(0)) / spread * (torch.tensor(lines, device=first.device) - 1)
    return math.prod(lines) == len(first) == len(cells.round().long().unique(dim=0))
