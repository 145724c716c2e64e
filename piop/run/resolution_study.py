"""Errors over the resolution of the sensors and of the queries.

An operator between functions should give the same values whatever points its input is sampled at.
The first test, other grids, is that of Chen & Wu 2024 (PiT, ICML), sec. 4.3; the second, a random
part of the sensors with predictions on the whole grid, that of Li, Meidani & Barati Farimani 2023
(OFormer, https://openreview.net/forum?id=EPPqt3uERT), Table 14.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from piop.arguments import sequence
from piop.errors import DataError, UsageError, excerpt
from piop.fields import FunctionSamples
from piop.metrics import summarise
from piop.problem import Input, Problem
from piop.run.evaluation import comparable_samples, errors_of, predict_held_out
from piop.run.held_out import Grid, HeldOut, HeldOutSource, observed_at, sequence_of_counts
from piop.sampling import Draws
from piop.spec.model import SensorPlacement

if TYPE_CHECKING:
    from piop.training.build import Model


Sensors = str | Iterable[str | int]
Grids = str | Iterable[str | int | Iterable[int]]
T = TypeVar("T")


@dataclass(frozen=True)
class SensorCount:
    """A number of sensors of an input, as a count or a fraction.

    Attributes:
        label: The text from which it was read.
        fraction: Fraction of the sensors there are, in (0, 1]; None for a count.
        count: The number; None for a fraction.
    """

    label: str
    fraction: float | None = None
    count: int | None = None

    def of(self, total: int) -> int:
        """Return the number out of a total; a fraction is rounded, to at least one."""
        return self.count or max(1, round((self.fraction or 0.0) * total))


def read_sensor_counts(given: str | Iterable[str | int]) -> tuple[SensorCount, ...]:
    """Read numbers of sensors.

    Args:
        given: ``"25%,50%,40"``, or its parts; a number without ``%`` is a count.

    Raises:
        UsageError: For a part that is no number, is out of range, or is given twice.
    """
    return tuple(_read_each("sensors", given, _sensor_count, lambda choice: choice.label))


def _sensor_count(text: str) -> SensorCount:
    if re.fullmatch(r"\d{1,15}", text) and int(text):
        (count,) = sequence_of_counts("sensors", int(text))
        return SensorCount(str(count), count=count)
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*%", text):
        percent = float(text[:-1])
        if 0 < percent <= 100:
            return SensorCount(f"{percent:g}%", fraction=percent / 100)
    message = "is neither a percentage above 0% and up to 100% nor a count from 1 on"
    raise UsageError(f"sensors: {excerpt(text)} {message}; give such as 25%,50%,100% or 40")


def read_grids(given: str | Iterable[str | int | Iterable[int]], axes: list[str]) -> list[Grid]:
    """Read the grids of an evaluation.

    Args:
        given: ``"64,128"`` or its parts: points along every axis of space, or one count for each
            (``"64x32"``, ``(64, 32)``).
        axes: Names of the axes of space.

    Returns:
        Points along each axis.

    Raises:
        UsageError: For a part that is no grid, or is given twice.
    """
    return _read_each("grid", given, lambda text: _grid(text, axes), grid_label)


def _grid(text: str, axes: list[str]) -> Grid:
    if not axes:
        raise UsageError("grid: an ordinary differential equation has no axes of space")
    counts = [part.strip() for part in re.split(r"[x×*]", text)]
    if not all(re.fullmatch(r"\d{1,15}", c) and int(c) > 1 for c in counts):
        example = grid_label((64,) * len(axes))
        raise UsageError(
            f"grid: {excerpt(text)} is not a grid: give points per axis of space, 2 or more, such "
            f"as {example}"
        )
    if len(counts) not in (1, len(axes)):
        raise UsageError(
            f"grid: {text!r} has {len(counts)} counts; the axes of space are {', '.join(axes)}: "
            "give one count for each, or one for all"
        )
    grid = tuple(int(c) for c in counts) * (len(axes) if len(counts) == 1 else 1)
    return sequence_of_counts("grid", grid)


def grid_label(grid: Sequence[int]) -> str:
    """Write a grid as ``64`` or ``64x32``."""
    return "x".join(map(str, grid))


def _read_each(
    what: str, given: str | Iterable[object], read: Callable[[str], T], label: Callable[[T], str]
) -> list[T]:
    """Read the parts of a list, which must differ in their labels."""
    found: dict[str, T] = {}
    example = '"25%,50%" or [40]' if what == "sensors" else '"64,128" or [64]'
    for part in given.split(",") if isinstance(given, str) else sequence(what, given, example):
        one = read(grid_label(part) if isinstance(part, tuple | list) else str(part).strip())
        if label(one) in found:
            raise UsageError(f"{what}: {label(one)} is given twice")
        found[label(one)] = one
    if not found:
        raise UsageError(f"{what}: none is given")
    return list(found.values())


def keep_sensors(
    samples: FunctionSamples, choice: SensorCount, draws: Draws, lane: str
) -> FunctionSamples:
    """Keep random sensors of each sample, in their order.

    The same draws keep the sensors of a smaller choice within those of a larger one.

    Args:
        samples: Sensors ``[B, M, …]``; masked ones do not count.
        choice: The number to keep of each sample's own.
        draws: Random draws of B samples.
        lane: Name of the random stream.

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
    # the chosen sensors come first, in their order
    order = (~chosen).int().argsort(dim=1, stable=True)[:, :most]
    mask = chosen.gather(1, order)
    return FunctionSamples(
        _rows(samples.points, order), _rows(samples.values, order), None if mask.all() else mask
    )


def _rows(values: Tensor, order: Tensor) -> Tensor:
    values = values.expand(len(order), -1, -1)
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))


ALL_SENSORS = SensorCount("100%", fraction=1.0)


def study_discretisation(
    problem: Problem,
    model: Model,
    source: HeldOutSource,
    draw: Callable[[int], Draws],
    sensors: Sensors | None = None,
    grids: Grids | None = None,
) -> dict[str, Any]:
    """Compute the errors of an operator for each number of sensors on each grid.

    Args:
        problem: The problem.
        model: The operator.
        source: The held-out inputs.
        draw: Number of samples → draws of the sensors that are kept.
        sensors: As :func:`piop.run.resolution_study.read_sensor_counts` takes them; by default all.
        grids: As :func:`piop.run.resolution_study.read_grids` takes them; by default that of an
            evaluation, or that of the data.

    Returns:
        The content of ``discretisation.json``, except what the run adds.

    Raises:
        UsageError: For numbers or grids that cannot be read, or that the data do not have.
        NotSupportedError: If no reference solver covers the problem.
        SolverError: If the reference fails.
    """
    choices = (ALL_SENSORS,) if sensors is None else read_sensor_counts(sensors)
    if sensors is not None and not _countable(problem):
        raise UsageError(f"sensors: {problem.name} has no input function with sensors")
    wanted = None if grids is None else read_grids(grids, [c.name for c in problem.space])
    cells: list[dict[str, Any]] = []
    samples = 0
    warnings: list[str] = []
    estimates: dict[str, float | None] = {}
    counts: dict[str, dict[str, int]] = {}
    for held_out in [source.held_out()] if wanted is None else source.on_grids(wanted):
        label, samples = _label(problem, held_out), len(held_out.accepted)
        estimate = held_out.error_estimate
        estimates[label] = None if estimate is None else float(estimate.max())
        for choice in choices:
            observed = replace(held_out, inputs=_observed(problem, held_out, choice, draw(samples)))
            counts[choice.label] = {n: s.points.shape[1] for n, s in observed.inputs.items()}
            judged = {n: held_out.truth[n] for n in problem.unknowns if n in held_out.truth}
            prediction = predict_held_out(problem, model, observed)
            kept, left_out = comparable_samples(problem, held_out, prediction)
            if not bool(kept.any()):
                raise DataError(f"grid {label}: {'; '.join(left_out)}")
            warnings += [f"grid {label}, sensors {choice.label}: {text}" for text in left_out]
            errors = errors_of(prediction, judged)[kept]
            cells.append({"sensors": choice.label, "grid": label, **summarise(errors).to_dict()})
    return {
        "samples": samples,
        "sensors": counts,
        "grids": list(estimates),
        "relative_l2": cells,
        "reference_error_estimate": estimates,
        "warnings": warnings,
    }


def _observed(
    problem: Problem, held_out: HeldOut, choice: SensorCount, draws: Draws
) -> dict[str, FunctionSamples]:
    """Evaluate the input functions of held-out samples at fewer sensors, or at more."""
    found = dict(held_out.inputs)
    for item in _countable(problem):
        own = held_out.inputs[item.name]
        more_there = bool(held_out.functions) and item.place is not SensorPlacement.POINTS
        if choice.count and more_there and choice.count > own.points.shape[1]:
            more = {item.name: (_shape(item, choice.count), item.place)}
            found |= observed_at(problem, held_out.functions, draws, more)
        else:
            found[item.name] = keep_sensors(own, choice, draws, item.name)
    return found


def _countable(problem: Problem) -> list[Input]:
    """Return the inputs whose number of sensors may differ."""
    return [i for i in problem.visible_inputs if i.of and i.name not in problem.vectors]


def _shape(item: Input, count: int) -> tuple[int, ...]:
    """Distribute a number of sensors over the axes of a grid.

    Raises:
        UsageError: If it is no square or cube.
    """
    shape = item.place.shape(count, len(item.of))
    if math.prod(shape) != count:
        near = sorted({max(2, shape[0] + k) ** len(shape) for k in (-1, 0, 1)})
        raise UsageError(
            f"sensors: {item.name!r} has its sensors on a grid over {', '.join(item.of)}, which "
            f"{count} sensors do not fill evenly; give such as {', '.join(map(str, near))}"
        )
    return shape


def _label(problem: Problem, held_out: HeldOut) -> str:
    axes = held_out.queries.axes
    if axes is None:
        return f"{held_out.queries.shape[0]} points"
    return grid_label(tuple(len(axes[c.name]) for c in problem.space))
