"""Errors over the resolution of the sensors and of the queries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from piop.datasets import Dataset, Queries
from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples, grid_axis
from piop.metrics import summarise
from piop.problem import Input, Problem
from piop.run.arguments import save_grid
from piop.run.evaluation import (
    GRID_LIMITS,
    HeldOut,
    ends_only,
    errors_of,
    held_out_draws,
    held_out_from_data,
    held_out_from_distribution,
    nonzero_solutions,
    observed_at,
    predict_held_out,
)
from piop.sampling import Draws
from piop.spec.model import AT_POINTS

if TYPE_CHECKING:
    from piop.training.setup import Model


Grid = tuple[int, ...]


@dataclass(frozen=True)
class SensorCount:
    """How many of an input's sensors are seen.

    Attributes:
        label: As it was written.
        share: Of the sensors that there are, in (0, 1]; None for a count.
        count: How many; None for a share.
    """

    label: str
    share: float | None = None
    count: int | None = None

    def of(self, total: int) -> int:
        """How many out of so many: a share is rounded, to one at least."""
        return self.count or max(1, round((self.share or 0.0) * total))


def read_sensor_counts(given: str | Iterable[str | int]) -> tuple[SensorCount, ...]:
    """Read how many sensors to see.

    Args:
        given: ``"25%,50%,40"``, or its parts; a number without ``%`` is a count.

    Raises:
        UsageError: For a part that is neither, is out of range, or is given twice.
    """
    found = tuple(map(_sensor_count, _parts("sensors", given)))
    _require_different("sensors", [choice.label for choice in found])
    return found


def _sensor_count(text: str) -> SensorCount:
    if re.fullmatch(r"\d+", text) and int(text):
        return SensorCount(str(int(text)), count=int(text))
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*%", text):
        percent = float(text[:-1])
        if 0 < percent <= 100:
            return SensorCount(f"{percent:g}%", share=percent / 100)
    raise UsageError(
        f"sensors: {text!r} is neither a percentage above 0% and up to 100% nor a count from 1 on; "
        "give such as 25%,50%,100% or 40"
    )


def read_grids(given: str | Iterable[str | int | Iterable[int]], axes: list[str]) -> list[Grid]:
    """Read the grids to judge on.

    Args:
        given: ``"64,128"`` or its parts: points along every axis of space, or one count for each
            (``"64x32"``, ``(64, 32)``).
        axes: Names of the axes of space.

    Returns:
        Points along each axis.

    Raises:
        UsageError: For a part that is no such grid, or is given twice.
    """
    found = [_grid(text, axes) for text in _parts("grid", given)]
    _require_different("grid", [grid_label(grid) for grid in found])
    return found


def _grid(text: str, axes: list[str]) -> Grid:
    counts = [part.strip() for part in re.split(r"[x×*]", text)]
    if not all(re.fullmatch(r"\d+", c) and int(c) > 1 for c in counts):
        example = "x".join(["64"] * len(axes)) if len(axes) > 1 else "64"
        raise UsageError(
            f"grid: {text!r} is no grid: give points per axis of space, 2 or more, such as "
            f"{example}"
        )
    if len(counts) not in (1, len(axes)):
        raise UsageError(
            f"grid: {text!r} has {len(counts)} counts; the axes of space are {', '.join(axes)}: "
            "give one count for each, or one for all"
        )
    return tuple(int(c) for c in counts) * (len(axes) if len(counts) == 1 else 1)


def grid_label(grid: Grid) -> str:
    """Write a grid as ``64`` or ``64x32``."""
    return "x".join(map(str, grid))


def _parts(what: str, given: str | Iterable[object]) -> list[str]:
    if isinstance(given, str):
        given = given.split(",")
    parts = [
        "x".join(map(str, part)) if isinstance(part, tuple | list) else str(part).strip()
        for part in given
    ]
    if not parts:
        raise UsageError(f"{what}: none is given")
    return parts


def _require_different(what: str, labels: list[str]) -> None:
    for i, label in enumerate(labels):
        if label in labels[:i]:
            raise UsageError(f"{what}: {label} is given twice")


def keep_sensors(
    samples: FunctionSamples, choice: SensorCount, draws: Draws, lane: str
) -> FunctionSamples:
    """Keep a random part of the sensors of each sample, in their order.

    The same draws keep the sensors of a smaller choice within those of a larger one.

    Args:
        samples: Sensors ``[B, M, …]``; those that are masked are none.
        choice: How many to keep of each sample's own.
        draws: The randomness, B samples.
        lane: Its name.

    Returns:
        At most M sensors, masked where samples have fewer than others.

    Raises:
        UsageError: If a sample has fewer sensors than are to be kept.
    """
    batch, total = samples.values.shape[:2]
    real = samples.mask if samples.mask is not None else torch.ones(batch, total, dtype=torch.bool)
    numbers = real.sum(1).tolist()
    if choice.count is not None and choice.count > min(numbers):
        raise UsageError(
            f"sensors: there are {min(numbers)} of {lane!r}, which is fewer than {choice.count}; "
            "give at most so many, or a percentage"
        )
    kept = torch.tensor([choice.of(n) for n in numbers])
    keys = draws.uniform(f"thin/{lane}", total).masked_fill(~real, math.inf)
    rank = keys.argsort(dim=1, stable=True).argsort(1)
    chosen = rank < kept[:, None]
    most = int(kept.max())
    # those chosen come first, in the order in which they were
    order = (~chosen).int().argsort(dim=1, stable=True)[:, :most]
    mask = chosen.gather(1, order)
    return FunctionSamples(
        _rows(samples.points, order), _rows(samples.values, order), None if mask.all() else mask
    )


def _rows(values: Tensor, order: Tensor) -> Tensor:
    values = values.expand(len(order), -1, -1)
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))


ALL_SENSORS = SensorCount("100%", share=1.0)

Sensors = str | Iterable[str | int]
Grids = str | Iterable[str | int | Iterable[int]]


def study_discretisation(
    problem: Problem,
    model: Model,
    source: Dataset | int,
    seed: int,
    sensors: Sensors | None = None,
    grids: Grids | None = None,
) -> dict[str, Any]:
    """Judge an operator for each choice of sensors on each grid.

    Args:
        problem: The problem.
        model: The operator.
        source: Data that were held out; or how many inputs to draw from the law and to solve for.
        seed: Of the held-out inputs and of which sensors are kept.
        sensors: As :func:`piop.run.discretisation.read_sensor_counts` takes them; by default all.
        grids: As :func:`piop.run.discretisation.read_grids` takes them; by default that of an
            evaluation, or that of the data.

    Returns:
        What ``discretisation.json`` holds, but for what the run adds.

    Raises:
        UsageError: For choices that cannot be read, or that there are none of.
        NotSupportedError: If no reference solver covers the problem.
        SolverError: If the reference fails.
    """
    choices = (ALL_SENSORS,) if sensors is None else read_sensor_counts(sensors)
    if sensors is not None and not _countable(problem):
        raise UsageError(f"sensors: {problem.name} has no input function that sensors could see")
    wanted = None if grids is None else read_grids(grids, [c.name for c in problem.space])
    cells: list[dict[str, Any]] = []
    estimates: dict[str, float | None] = {}
    counts: dict[str, dict[str, int]] = {}
    for held_out in _each_grid(problem, source, seed, wanted, ends_only(model)):
        label = _label(problem, held_out)
        estimate = held_out.error_estimate
        estimates[label] = None if estimate is None else float(estimate.max())
        kept = nonzero_solutions(problem, held_out)
        if not bool(kept.any()):
            raise DataError(f"grid {label}: all solutions are zero, to which no error is relative")
        for choice in choices:
            seen = replace(held_out, inputs=_observed(problem, held_out, choice, seed))
            counts[choice.label] = {n: _most(s) for n, s in seen.inputs.items()}
            judged = {n: held_out.truth[n] for n in problem.unknowns if n in held_out.truth}
            errors = errors_of(predict_held_out(problem, model, seen), judged)[kept]
            cells.append({"sensors": choice.label, "grid": label, **summarise(errors).to_dict()})
    return {
        "samples": source if isinstance(source, int) else len(source),
        "sensors": counts,
        "grids": list(estimates),
        "relative_l2": cells,
        "reference_error_estimate": estimates,
    }


def _each_grid(
    problem: Problem,
    source: Dataset | int,
    seed: int,
    grids: Sequence[Grid] | None,
    end: bool,
) -> Iterable[HeldOut]:
    """Give the same inputs with their solutions on one grid after another."""
    if isinstance(source, int):
        usual = save_grid(problem, GRID_LIMITS[len(problem.space)], end)
        for grid in grids or [None]:
            queries = usual if grid is None else lay_grid(problem, usual, grid)
            yield held_out_from_distribution(problem, source, seed, queries)
        return
    held_out = held_out_from_data(problem, source, end)
    yield from [_coarsened(problem, held_out, grid) for grid in grids or [None]]  # refused at once


def lay_grid(problem: Problem, usual: Queries, grid: Grid) -> Queries:
    """Lay a grid over space; times stay as they are."""
    axes = dict(usual.axes or {})
    for axis, count in zip(problem.space, grid, strict=True):
        axes[axis.name] = grid_axis(axis.low, axis.high, count, axis.periodic)
    return Queries(axes=axes)


def _coarsened(problem: Problem, held_out: HeldOut, grid: Grid | None) -> HeldOut:
    """Keep every k-th point of the data's own grid.

    Raises:
        UsageError: If the data have no such grid.
    """
    if grid is None:
        return held_out
    if held_out.queries.axes is None:
        raise UsageError("grid: the data lie at scattered points; leave --grid out")
    axes, truth = dict(held_out.queries.axes), dict(held_out.truth)
    for place, coordinate in enumerate(problem.coordinates):
        if coordinate not in problem.space:
            continue
        count, own = grid[problem.space.index(coordinate)], axes[coordinate.name]
        there = grids_within(len(own), coordinate.periodic)
        if count not in there:
            raise UsageError(
                f"grid: the data have {len(own)} points along {coordinate.name}, from which "
                f"{count} cannot be taken evenly; there are {', '.join(map(str, there))}"
            )
        index = torch.arange(0, len(own), there[count])
        axes[coordinate.name] = own[index]
        truth = {name: value.index_select(place + 1, index) for name, value in truth.items()}
    return replace(held_out, queries=Queries(axes=axes), truth=truth)


def grids_within(count: int, periodic: bool) -> dict[int, int]:
    """List the even grids of at least two points within one of ``count``: points → stride.

    Without a period both ends stay.
    """
    steps = count if periodic else count - 1
    found = {steps // k + (not periodic): k for k in range(1, max(steps, 1) + 1) if steps % k == 0}
    return {points: k for points, k in found.items() if points > 1}


def _observed(
    problem: Problem, held_out: HeldOut, choice: SensorCount, seed: int
) -> dict[str, FunctionSamples]:
    """See the input functions of held-out samples through fewer sensors, or through more."""
    draws = held_out_draws(seed, len(held_out.accepted))
    found = dict(held_out.inputs)
    for item in _countable(problem):
        own = held_out.inputs[item.name]
        more_there = bool(held_out.functions) and item.place != AT_POINTS
        if choice.count and more_there and choice.count > own.points.shape[1]:
            more = {item.name: (_shape(item, choice.count), item.place)}
            found |= observed_at(problem, held_out.functions, draws, more)
        else:
            found[item.name] = keep_sensors(own, choice, draws, item.name)
    return found


def _countable(problem: Problem) -> list[Input]:
    """Inputs that may be seen through fewer sensors, or more."""
    return [i for i in problem.visible_inputs if i.of and i.name not in problem.vectors]


def _shape(item: Input, count: int) -> tuple[int, ...]:
    """Share a number of sensors over the axes of a grid.

    Raises:
        UsageError: If it is no square, or cube.
    """
    if item.place != "grid" or len(item.of) == 1:
        return (count,)
    each = round(count ** (1 / len(item.of)))
    if each ** len(item.of) != count:
        near = sorted({max(2, each + k) ** len(item.of) for k in (-1, 0, 1)})
        raise UsageError(
            f"sensors: {item.name!r} is seen on a grid over {', '.join(item.of)}, which {count} "
            f"sensors do not fill evenly; give such as {', '.join(map(str, near))}"
        )
    return (each,) * len(item.of)


def _label(problem: Problem, held_out: HeldOut) -> str:
    axes = held_out.queries.axes
    if axes is None:
        return f"{held_out.queries.shape[0]} points"
    counts = tuple(len(axes[c.name]) for c in problem.space)
    return grid_label(counts)


def _most(samples: FunctionSamples) -> int:
    """The sensors of the sample that has most."""
    return samples.points.shape[1]
