"""Unknowns in a file, and histories of the solution that are cut from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import (
    SLACK,
    broadcast,
    check_axis,
    check_domain,
    check_finite,
    flattened_points,
    name_axes,
    numbers,
)
from piop.datasets.dataset import Dataset
from piop.datasets.lazy_arrays import SAMPLE, RawFile, Variable
from piop.errors import DataError
from piop.fields import FunctionSamples, tensor_grid
from piop.problem.inputs import history_of, observed_times, query_coordinates

if TYPE_CHECKING:
    from piop.problem import Coordinate, Input, Problem


def read_unknown(
    raw: RawFile, problem: Problem, name: str
) -> tuple[dict[str, Tensor], Tensor | None, Tensor]:
    """Read an unknown.

    Returns:
        On a grid its axes, None and its values ``[n, T, *grid]``; else no axes, its points
        ``[n, P, D]`` and values ``[n, P]``.

    Raises:
        DataError: As :func:`piop.datasets.read_dataset`.
    """
    names = [c.name for c in problem.coordinates]
    value = raw.need(name, f"an unknown of the spec, a function of {', '.join(names)}")
    where = {c: raw.need(c, f"a coordinate of '{name}'") for c in names}
    value, where = name_axes(raw, name, value, where)
    if all(v.dimensions == (c,) for c, v in where.items()):
        return _grid(raw, problem, name, value, where)
    points, flat = flattened_points(raw, name, value, where)
    check_finite(raw.path, name, flat)
    for i, coordinate in enumerate(problem.coordinates):
        points[..., i] = check_domain(raw.path, name, coordinate, points[..., i])
    return {}, torch.from_numpy(points), torch.from_numpy(flat)


def _grid(
    raw: RawFile, problem: Problem, name: str, value: Variable, where: dict[str, Variable]
) -> tuple[dict[str, Tensor], None, Tensor]:
    axes = {
        c.name: torch.from_numpy(
            check_axis(raw.path, c, numbers(raw.path, c.name, where[c.name].values))
        )
        for c in problem.coordinates
    }
    broadcast(raw, name, value, where)  # refuses dimensions that do not belong
    array, dimensions = numbers(raw.path, name, value.values), list(value.dimensions or ())
    if SAMPLE not in dimensions:
        array, dimensions = array[None], [SAMPLE, *dimensions]
    array = np.ascontiguousarray(array.transpose([dimensions.index(d) for d in (SAMPLE, *where)]))
    check_finite(raw.path, name, array)
    return axes, None, torch.from_numpy(array)


def read_history(raw: RawFile, problem: Problem, item: Input) -> FunctionSamples:
    """Read a history: one sensor at each point of the grid of the solution.

    Returns:
        Points ``[B, M, d]`` and values ``[B, M, c]``: of each time the unknowns, times slowest.

    Raises:
        DataError: If the solution is not on a grid, or not given at one of the times.
    """
    time, *others = problem.coordinates  # a history is of a solution in time
    times = observed_times(problem, item)
    parts, mesh = [], torch.empty(0)
    for name in problem.unknowns:
        axes, points, values = read_unknown(raw, problem, name)
        if points is not None:
            message = f"'{name}' is scattered, and the history '{item.name}' is cut from a grid"
            raise DataError(f"{raw.path}: {message}")
        rows = [_row(raw.path, item, times, time, axes[time.name], t) for t in times]
        parts.append(values[:, rows].flatten(2))  # [B, times, M]
        mesh = tensor_grid([axes[c.name] for c in others])
    values = torch.stack(parts, 2).flatten(1, 2).mT.contiguous()
    return FunctionSamples(mesh.expand(len(values), -1, -1), values)


def _row(
    path: str, item: Input, times: Sequence[float], time: Coordinate, ticks: Tensor, t: float
) -> int:
    gap, row = (ticks - t).abs().min(0)
    if float(gap) > SLACK * time.length:
        wanted = ", ".join(f"{s:g}" for s in times)
        raise DataError(
            f"{path}: the history '{item.name}' is the solution at {time.name} = {wanted}, and the "
            f"file has none at {t:g}; it has {len(ticks)} times from {float(ticks[0]):g} to "
            f"{float(ticks[-1]):g}"
        )
    return int(row)


def without_history(
    path: str, problem: Problem, axes: dict[str, Tensor], values: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Keep the values that an operator with a history predicts: from the end of the history on.

    Args:
        path: The file, for the message.
        problem: Whose unknowns they are.
        axes: Positions along each coordinate.
        values: Channel → ``[n, T, *grid]``.

    Raises:
        DataError: If no time comes after the history.
    """
    if history_of(problem) is None or problem.time is None:
        return axes, values
    name, low = problem.time.name, query_coordinates(problem)[0].low
    first = int((axes[name] < low - SLACK * problem.time.length).sum())
    if len(axes[name]) - first < 2:
        end = float(axes[name][-1])
        message = f"the times end at {end:g}, and the history reaches to {low:g}"
        raise DataError(f"{path}: {message}: nothing is predicted")
    return {**axes, name: axes[name][first:]}, {n: v[:, first:] for n, v in values.items()}


def with_history(problem: Problem, dataset: Dataset) -> Dataset:
    """Prepend the history to the values, the inverse of :func:`without_history`.

    Auxiliary unknowns have no history and are left out.
    """
    item = history_of(problem)
    if item is None or problem.time is None:
        return dataset
    name, values = problem.time.name, {}
    observed = dataset.inputs[item.name].values  # [n, M, times · unknowns]
    past = observed.mT.unflatten(1, (-1, len(problem.unknowns)))[:, :-1]
    for i, unknown in enumerate(problem.unknowns):
        rest = dataset.values[unknown]
        before = past[:, :, i].reshape(len(rest), past.shape[1], *rest.shape[2:])
        values[unknown] = torch.cat([before.to(rest), rest], 1)
    times = torch.tensor(observed_times(problem, item)[:-1], dtype=torch.float64)
    axes = {**dataset.axes, name: torch.cat([times, dataset.axes[name].double()])}
    return replace(dataset, axes=axes, values=values)
