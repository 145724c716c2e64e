"""How the error depends on where inputs are seen and where solutions are asked for.

An operator between functions should give the same answer whatever points they are written on. The
first test, other grids, is that of Chen & Wu 2024 (PiT, ICML), sec. 4.3; the second, a random part
of the sensors with answers on the whole grid, that of Li, Meidani & Barati Farimani 2023 (OFormer,
https://openreview.net/forum?id=EPPqt3uERT), Table 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from piop.datasets import Dataset, Queries
from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples, grid_axis
from piop.metrics import summarise
from piop.problem import Input, Problem
from piop.run.evaluation import (
    GRID_LIMITS,
    HeldOut,
    ends_only,
    errors_of,
    has_size,
    held_out_draws,
    hold_out_data,
    hold_out_law,
    predict_held_out,
    seen_elsewhere,
)
from piop.run.prediction import save_grid
from piop.run.resolution import (
    Grid,
    SensorChoice,
    grid_label,
    read_grids,
    read_sensor_choices,
    thin,
)
from piop.spec.model import AT_POINTS

if TYPE_CHECKING:
    from piop.training.setup import Model

ALL = SensorChoice("100%", share=1.0)

Sensors = str | Iterable[str | int]
Grids = str | Iterable[str | int | Iterable[int]]


def study(
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
        sensors: As :func:`piop.run.resolution.read_sensor_choices` takes them; by default all.
        grids: As :func:`piop.run.resolution.read_grids` takes them; by default that of an
            evaluation, or that of the data.

    Returns:
        What ``discretisation.json`` holds, but for what the run adds.

    Raises:
        UsageError: For choices that cannot be read, or that there are none of.
        NotSupportedError: If no reference solver covers the problem.
        SolverError: If the reference fails.
    """
    choices = (ALL,) if sensors is None else read_sensor_choices(sensors)
    if sensors is not None and not _thinnable(problem):
        raise UsageError(f"sensors: {problem.name} has no input function that sensors could see")
    wanted = None if grids is None else read_grids(grids, [c.name for c in problem.space])
    cells: list[dict[str, Any]] = []
    estimates: dict[str, float | None] = {}
    counts: dict[str, dict[str, int]] = {}
    for held_out in _each_grid(problem, source, seed, wanted, ends_only(model)):
        label = _label(problem, held_out)
        estimate = held_out.error_estimate
        estimates[label] = None if estimate is None else float(estimate.max())
        kept = has_size(problem, held_out)
        if not bool(kept.any()):
            raise DataError(f"grid {label}: all solutions are zero, to which no error is relative")
        for choice in choices:
            seen = replace(held_out, inputs=_see(problem, held_out, choice, seed))
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
            yield hold_out_law(problem, source, seed, queries)
        return
    held_out = hold_out_data(problem, source, end)
    yield from [_thinned(problem, held_out, grid) for grid in grids or [None]]  # refused at once


def lay_grid(problem: Problem, usual: Queries, grid: Grid) -> Queries:
    """Lay a grid over space; times stay as they are."""
    axes = dict(usual.axes or {})
    for axis, count in zip(problem.space, grid, strict=True):
        axes[axis.name] = grid_axis(axis.low, axis.high, count, axis.periodic)
    return Queries(axes=axes)


def _thinned(problem: Problem, held_out: HeldOut, grid: Grid | None) -> HeldOut:
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


def _see(
    problem: Problem, held_out: HeldOut, choice: SensorChoice, seed: int
) -> dict[str, FunctionSamples]:
    """See the input functions of held-out samples through fewer sensors, or through more."""
    draws = held_out_draws(seed, len(held_out.accepted))
    found = dict(held_out.inputs)
    for item in _thinnable(problem):
        own = held_out.inputs[item.name]
        more_there = bool(held_out.functions) and item.place != AT_POINTS
        if choice.count and more_there and choice.count > own.points.shape[1]:
            more = {item.name: (_shape(item, choice.count), item.place)}
            found |= seen_elsewhere(problem, held_out.functions, draws, more)
        else:
            found[item.name] = thin(own, choice, draws, item.name)
    return found


def _thinnable(problem: Problem) -> list[Input]:
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
