"""The grid on which a network is trained, and interpolation from it to other grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from piop.datasets import AnyDataset
from piop.errors import UsageError
from piop.fields import grid_axis
from piop.models import AxisSignature, Backbone
from piop.models.core.interpolation import interpolation_weights
from piop.problem import Coordinate, Problem
from piop.problem.inputs import query_coordinates
from piop.training.config import PointsConfig

EVEN = 1e-6
"""Fraction of an axis by which positions may miss an even axis, as after storing float32."""


@dataclass(frozen=True)
class GridLayout:
    """A grid to evaluate on, and what takes its values to the grid that is wanted.

    Attributes:
        axes: Where the network is evaluated: positions along each coordinate.
        matrices: For each coordinate ``[wanted, evaluated]``; None where they are the same.
    """

    axes: tuple[Tensor, ...]
    matrices: tuple[Tensor | None, ...]

    def spread(self, values: Tensor) -> Tensor:
        """Take values ``[B, *evaluated, C]`` to ``[B, *wanted, C]``."""
        for axis, matrix in enumerate(self.matrices):
            if matrix is not None:
                moved = torch.matmul(values.movedim(axis + 1, -1), matrix.mT)
                values = moved.movedim(-1, axis + 1)
        return values

    def to(self, like: Tensor) -> GridLayout:
        """Move to the device and precision of a tensor."""
        matrices = tuple(None if m is None else m.to(like) for m in self.matrices)
        return GridLayout(tuple(axis.to(like) for axis in self.axes), matrices)


def lay_out(backbone: Backbone, trained: Sequence[Tensor], wanted: Sequence[Tensor]) -> GridLayout:
    """Choose where to evaluate a network so that its values at a tensor grid are known.

    Args:
        backbone: The network.
        trained: Positions along each coordinate of the grid it was trained on, float64.
        wanted: Positions along each coordinate, float64, in any order.
    """
    axes, matrices = [], []
    for i, (own, ticks) in enumerate(zip(trained, wanted, strict=True)):
        axis = backbone.signature.coordinates[i]
        fixed = i == backbone.signature.time and backbone.fixed_times() is not None
        even = not fixed and is_even(ticks, axis)
        laid = _refined(ticks, len(own), axis) if even else own
        same = len(laid) == len(ticks) and bool(((laid - ticks).abs() <= _slack(axis)).all())
        axes.append(laid)
        matrices.append(None if same else interpolation_weights(laid, ticks, axis))
    return GridLayout(tuple(axes), tuple(matrices))


def _refined(ticks: Tensor, least: int, axis: AxisSignature) -> Tensor:
    """Divide the cells of an even axis until it has so many points; the ticks stay among them."""
    closed = 0 if axis.periodic else 1
    factor = ceil((least - closed) / (len(ticks) - closed))
    if factor <= 1:
        return ticks
    cells = factor * (len(ticks) - closed)
    steps = torch.arange(cells + closed, dtype=torch.float64, device=ticks.device)
    return axis.low + (axis.high - axis.low) / cells * steps


def _slack(axis: AxisSignature | Coordinate) -> float:
    return EVEN * (axis.high - axis.low)


def is_even(ticks: Tensor, axis: AxisSignature | Coordinate) -> bool:
    """Tell whether positions divide an axis evenly: both its ends, or one of a periodic axis."""
    if len(ticks) < 2:
        return False
    even = grid_axis(axis.low, axis.high, len(ticks), axis.periodic).to(ticks.device)
    return bool(((ticks.double() - even).abs() <= _slack(axis)).all())


MOST_POINTS = {0: 1, 1: 256, 2: 32, 3: 16}
"""Points per space axis, at most, by the number of space axes, unless a config says otherwise."""
TIMES = {0: 33, 1: 33, 2: 17, 3: 9}
"""Times, by the same."""


def training_grid(
    problem: Problem, backbone: Backbone, config: PointsConfig, data: Sequence[int] = ()
) -> tuple[Tensor, ...]:
    """Lay the grid that a network learns on.

    Args:
        problem: The problem.
        backbone: The network; a rollout has its own times, and some know the final time alone.
        config: Points and times.
        data: Points along each coordinate of the data, where these alone are learnt from.

    Returns:
        Positions along each coordinate, float64.
    """
    counts = tuple(data) or grid_counts(problem, config)
    fixed, ticks = backbone.fixed_times(), []
    for coordinate, count in zip(query_coordinates(problem), counts, strict=True):
        if coordinate in problem.space:
            low, high = coordinate.low, coordinate.high
            ticks.append(grid_axis(low, high, max(count, 1), coordinate.periodic))
        elif fixed is not None:
            ticks.append(torch.tensor(fixed, dtype=torch.float64))
        else:
            ticks.append(grid_axis(coordinate.low, coordinate.high, max(count, 2), False))
    return tuple(ticks)


def grid_counts(problem: Problem, config: PointsConfig) -> tuple[int, ...]:
    """Count the points along each coordinate: those of the config, else ``save`` with a limit."""
    d = len(problem.space)
    counts = [config.grid or min(saved, MOST_POINTS[d]) for saved in problem.save]
    if problem.time is not None:
        counts[0] = config.times or TIMES[d]
    return tuple(counts)


def data_indices(problem: Problem, data: AnyDataset, config: PointsConfig) -> tuple[Tensor, ...]:
    """Choose which positions along each axis of a data set to learn from.

    Times are thinned to those nearest to as many even ones as the grid has; of space all are taken
    unless the config says how many, and then the smallest even subset with at least as many.

    Args:
        problem: The problem.
        data: On a grid.
        config: Points and times.

    Returns:
        Indices along each coordinate.
    """
    found = []
    for coordinate in problem.coordinates:
        ticks = data.axes[coordinate.name].double()
        if coordinate is not problem.time:
            found.append(_thinned(len(ticks), config.grid, coordinate.periodic))
        else:
            most = config.times or TIMES[len(problem.space)]
            even = torch.linspace(float(ticks[0]), float(ticks[-1]), most, dtype=torch.float64)
            nearest = (ticks - even[:, None]).abs().argmin(1).unique()
            found.append(torch.arange(len(ticks)) if len(ticks) <= most else nearest)
    return tuple(found)


def data_counts(problem: Problem, data: AnyDataset, config: PointsConfig) -> tuple[int, ...]:
    """Count the points along each axis of the grid to learn a data set on.

    They are those of the data where these divide an axis evenly, so that nothing is interpolated.
    """
    usual, found = grid_counts(problem, config), []
    chosen = data_indices(problem, data, config)
    for coordinate, index, count in zip(query_coordinates(problem), chosen, usual, strict=True):
        even = is_even(data.axes[coordinate.name].double()[index], coordinate)
        found.append(len(index) if even else max(len(index), count))
    return tuple(found)


def _thinned(count: int, most: int, periodic: bool) -> Tensor:
    cells = count if periodic else count - 1
    wanted = most if periodic else most - 1
    strides = [s for s in range(1, cells + 1) if cells % s == 0 and cells // s >= wanted]
    return torch.arange(0, count, max(strides) if most and strides else 1)


def data_at_end(problem: Problem, data: AnyDataset) -> AnyDataset:
    """Keep the values of a data set at the final time, for networks that predict it alone.

    Raises:
        UsageError: If it has none there, or, where it is scattered, values at other times.
    """
    time = problem.time
    if time is None:
        return data
    if data.scattered:
        times = [p.points[..., 0].flatten() for p in data.chunks() if p.points is not None]
        ticks, said = torch.cat(times), "are scattered over other times, such as"
    else:
        ticks, said = data.axes[time.name][-1:], "end at"
    away = (ticks.double() - time.high).abs() > 1e-6 * time.length
    if bool(away.any()):
        at = float(ticks[away][0])
        raise UsageError(
            f"the data {said} {time.name} = {at:g}, and this backbone answers at the end of the "
            f"time axis, {time.name} = {time.high:g}, alone; shorten the time of the spec to that "
            f"of the data, or take a backbone that answers at any time"
        )
    return data if data.scattered else data.last_along(time.name)
