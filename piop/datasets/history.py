"""The past of a solution, cut from the trajectory that a file holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.datasets.arrays import RawFile
from piop.datasets.axes import SLACK
from piop.datasets.dataset import Dataset
from piop.datasets.layout import read_unknown
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.problem.inputs import asked_coordinates, history_of, seen_times

if TYPE_CHECKING:
    from piop.problem import Input, Problem


def read_history(raw: RawFile, problem: Problem, item: Input) -> FunctionSamples:
    """Read a history: one sensor at each point of the grid of the solution.

    Returns:
        Points ``[B, M, d]`` and values ``[B, M, c]``: of each time the unknowns, times slowest.

    Raises:
        DataError: If the solution is not on a grid, or not given at one of the times.
    """
    assert problem.time is not None  # noqa: S101 - checked with the spec
    parts, mesh = [], torch.empty(0)
    for name in problem.unknowns:
        axes, points, values = read_unknown(raw, problem, name)
        if points is not None:
            message = f"'{name}' is scattered, and the history '{item.name}' is cut from a grid"
            raise DataError(f"{raw.path}: {message}")
        ticks = axes[problem.time.name]
        rows = [_row(raw.path, problem, item, ticks, t) for t in seen_times(problem, item)]
        parts.append(values[:, rows].flatten(2))  # [B, times, M]
        space = [axes[c.name] for c in problem.space]
        mesh = torch.stack(torch.meshgrid(*space, indexing="ij"), -1).flatten(0, -2)
    values = torch.stack(parts, 2).flatten(1, 2).mT.contiguous()
    return FunctionSamples(mesh.expand(len(values), -1, -1), values)


def _row(path: str, problem: Problem, item: Input, ticks: Tensor, t: float) -> int:
    assert problem.time is not None  # noqa: S101 - the caller checked
    gap, row = (ticks - t).abs().min(0)
    if float(gap) > SLACK * problem.time.length:
        name, times = problem.time.name, ", ".join(f"{s:g}" for s in seen_times(problem, item))
        raise DataError(
            f"{path}: the history '{item.name}' is the solution at {name} = {times}, and the file "
            f"has none at {t:g}; it has {len(ticks)} times from {float(ticks[0]):g} to "
            f"{float(ticks[-1]):g}"
        )
    return int(row)


def without_history(
    path: str, problem: Problem, axes: dict[str, Tensor], values: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Keep what an operator with a memory is asked for: the values from the end of the past on.

    Args:
        path: The file, for the message.
        problem: Whose unknowns they are.
        axes: Positions along each coordinate.
        values: Channel → ``[n, T, *grid]``.

    Raises:
        DataError: If no time comes after the past.
    """
    if history_of(problem) is None or problem.time is None:
        return axes, values
    name, low = problem.time.name, asked_coordinates(problem)[0].low
    first = int((axes[name] < low - SLACK * problem.time.length).sum())
    if len(axes[name]) - first < 2:
        end = float(axes[name][-1])
        message = f"the times end at {end:g}, and the past reaches to {low:g}: nothing is predicted"
        raise DataError(f"{path}: {message}")
    return {**axes, name: axes[name][first:]}, {n: v[:, first:] for n, v in values.items()}


def with_history(problem: Problem, dataset: Dataset) -> Dataset:
    """Put what was cut off before the values again; auxiliary unknowns have no past and are left.

    The opposite of :func:`past_of` and :func:`after_past`.
    """
    item = history_of(problem)
    if item is None or problem.time is None:
        return dataset
    name, values = problem.time.name, {}
    seen = dataset.inputs[item.name].values  # [n, M, times · unknowns]
    past = seen.mT.unflatten(1, (-1, len(problem.unknowns)))[:, :-1]
    for i, unknown in enumerate(problem.unknowns):
        rest = dataset.values[unknown]
        before = past[:, :, i].reshape(len(rest), past.shape[1], *rest.shape[2:])
        values[unknown] = torch.cat([before.to(rest), rest], 1)
    times = torch.tensor(seen_times(problem, item)[:-1], dtype=torch.float64)
    axes = {**dataset.axes, name: torch.cat([times, dataset.axes[name].double()])}
    return replace(dataset, axes=axes, values=values)
