"""Inputs of a problem: distributions, sensors, and the history of the solution."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from piop.domain import Coordinate
from piop.errors import Issue
from piop.expression.functions import JUMPS
from piop.forms.pde import Input
from piop.spec.formulas import Resolved
from piop.spec.model import InputSpec, SensorPlacement, SensorSpec, Spec
from piop.spec.reader import refuse

if TYPE_CHECKING:
    from piop.problem.problem import Problem


_SENSORS = {0: 1, 1: 64, 2: 256, 3: 512}  # by number of coordinates


def read_inputs(
    spec: Spec, resolved: Resolved, points: int | None, issues: list[Issue]
) -> tuple[Input, ...]:
    """The inputs of a problem: parameters given by a distribution first, then those of ``inputs:``.

    Args:
        spec: As written.
        resolved: Its formulas.
        points: How many points solutions on a shape are at, where that is given.
        issues: Takes what is wrong.
    """
    found, drawn = [], {n: InputSpec((), value) for n, value in spec.random_parameters.items()}
    everything = {**drawn, **spec.inputs}
    for name in spec.sensors:
        reason = "is hidden, so it has no sensors" if name in everything else "is not an input"
        if name not in everything or everything[name].hidden:
            refuse(issues, spec.place(f"sensors.{name}"), f"sensors: '{name}' {reason}")
    for name, item in everything.items():
        value: Any = resolved.names.values.get(name)
        if value is None:
            continue  # refused already
        of, drawing = tuple(t.text for t in item.of), item.distribution
        expression, smooth = resolved.inputs.get(name), item.smooth
        if smooth is None:
            jumps = expression is not None and expression.has(*JUMPS)
            smooth = not (jumps or (drawing is not None and drawing.derivatives == 0))
        around = not resolved.names.angles.keys().isdisjoint(of)
        sensors = _sensors(spec, name, len(of), points, issues, around)
        found.append(
            Input(name, of, drawing, expression, item.hidden, smooth, *sensors, value.expr)
        )
    return tuple(found)


def _sensors(
    spec: Spec, name: str, dimension: int, points: int | None, issues: list[Issue], around: bool
) -> tuple[tuple[int, ...], SensorPlacement]:
    usual = SensorSpec(place=SensorPlacement.GRID if around else SensorPlacement.UNIFORM)
    sensor, path = spec.sensors.get(name, usual), f"sensors.{name}"
    place = spec.place(f"{path}.count")
    if dimension == 0:
        if sensor.count not in (None, (1,)):
            refuse(issues, place, f"{path}: a number has one sensor")
        return (1,), sensor.place
    if around and sensor.place is not SensorPlacement.GRID:
        message = "an input of an angle is observed at even angles"
        issues.append(spec.issue(path, message, "Write 'place: grid'."))
    if sensor.place is SensorPlacement.POINTS:
        if points is None:
            message = "only solutions on a shape, at 'save: {points: N}', have points"
            hint = "Write 'place: grid', or say how many points there are."
            refuse(issues, spec.place(f"{path}.place"), f"{path}: {message}", hint)
        elif sensor.count is not None:
            message = f"{path}: there are as many as the solution has points, {points}"
            refuse(issues, place, message, "Leave 'count' out.")
        return (points or 1,), sensor.place
    count = sensor.count or (_SENSORS[min(dimension, 3)],)
    if len(count) == 1:
        shape = sensor.place.shape(count[0], dimension)
        if math.prod(shape) != count[0]:
            hint = f"Write {math.prod(shape)}, or the counts per axis as a list."
            message = f"{path}: {count[0]} points make no grid of {dimension} equal sides"
            refuse(issues, place, message, hint)
        return shape, sensor.place
    if len(count) != dimension:
        refuse(issues, place, f"{path}: {len(count)} counts for {dimension} coordinates")
    return count, sensor.place


def history_of(problem: Problem) -> Input | None:
    """The input that is the past of the solution, if there is one."""
    return next((i for i in problem.inputs if i.history is not None), None)


def observed_times(problem: Problem, item: Input) -> tuple[float, ...]:
    """Times of a past: even ones after the start, the last at its end; none of other inputs."""
    past = item.history
    if past is None or problem.time is None:
        return ()
    low, span = problem.time.low, past.until - problem.time.low
    return (*(low + span * k / past.times for k in range(1, past.times)), past.until)


def channels_of(problem: Problem, item: Input) -> int:
    """c, how many values a sensor of an input gives."""
    return 1 if item.history is None else item.history.times * len(problem.unknowns)


def query_coordinates(problem: Problem) -> tuple[Coordinate, ...]:
    """Coordinates of an operator's queries: all, the time from the end of the past on."""
    ends = [item.history.until for item in problem.inputs if item.history is not None]
    if not ends or problem.time is None:
        return problem.coordinates
    return (replace(problem.time, low=ends[0]), *problem.space)
