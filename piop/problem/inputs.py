"""Inputs of a problem: distributions, sensors, and the history of the solution."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Expr, Symbol

from piop.domain import Coordinate
from piop.errors import Issue
from piop.expression.functions import JUMPS
from piop.forms.pde import Input
from piop.spec import distributions
from piop.spec.model import SensorPlacement, SensorSpec, Spec
from piop.spec.reader import refuse
from piop.spec.resolve import Resolved

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
        points: How many points solutions on a shape are at, where that is said.
        issues: Takes what is wrong.
    """
    for name in spec.sensors:
        if name not in spec.inputs and name not in spec.random_parameters:
            refuse(issues, spec.place(f"sensors.{name}"), f"sensors: '{name}' is not an input")
        elif name in spec.inputs and spec.inputs[name].hidden:
            message = f"sensors: '{name}' is hidden, so it has no sensors"
            refuse(issues, spec.place(f"sensors.{name}"), message)
    found = []
    for name, value in spec.random_parameters.items():
        symbol = Symbol(name, real=True)
        found.append(
            Input(name, (), value, None, False, True, (1,), SensorPlacement.UNIFORM, symbol)
        )
    for name, item in spec.inputs.items():
        if name not in resolved.names.values:
            continue  # refused already
        of = tuple(t.text for t in item.of)
        expression = resolved.inputs.get(name)
        smooth = _smooth(item.distribution, expression) if item.smooth is None else item.smooth
        angle = resolved.names.angle_of(spec, name)
        shape, place = _sensors(spec, name, len(of), points, issues, around=angle is not None)
        symbol = resolved.names.values[name].expr  # type: ignore[union-attr]
        found.append(
            Input(
                name, of, item.distribution, expression, item.hidden, smooth, shape, place, symbol
            )
        )
    return tuple(found)


def _smooth(distribution: distributions.Distribution | None, expression: Expr | None) -> bool:
    if isinstance(distribution, distributions.PiecewiseConstant):
        return False
    return expression is None or not expression.has(*JUMPS)


def _sensors(
    spec: Spec, name: str, dimension: int, points: int | None, issues: list[Issue], around: bool
) -> tuple[tuple[int, ...], SensorPlacement]:
    usual = SensorSpec(place=SensorPlacement.GRID if around else SensorPlacement.UNIFORM)
    sensor = spec.sensors.get(name, usual)
    place = spec.place(f"sensors.{name}.count")
    if dimension == 0:
        if sensor.count not in (None, (1,)):
            refuse(issues, place, f"sensors.{name}: a number has one sensor")
        return (1,), sensor.place
    if around and sensor.place is not SensorPlacement.GRID:
        message = f"sensors.{name}: an input of an angle is observed at even angles"
        refuse(issues, spec.place(f"sensors.{name}"), message, "Write 'place: grid'.")
    if sensor.place is SensorPlacement.POINTS:
        return (_points(spec, name, points, sensor, issues),), sensor.place
    count = sensor.count or (_SENSORS[min(dimension, 3)],)
    if len(count) == 1:
        shape = sensor.place.shape(count[0], dimension)
        if math.prod(shape) != count[0]:
            hint = f"Write {math.prod(shape)}, or the counts per axis as a list."
            message = f"sensors.{name}: {count[0]} points make no grid of {dimension} equal sides"
            refuse(issues, place, message, hint)
        return shape, sensor.place
    if len(count) != dimension:
        refuse(issues, place, f"sensors.{name}: {len(count)} counts for {dimension} coordinates")
    return count, sensor.place


def _points(
    spec: Spec, name: str, points: int | None, sensor: SensorSpec, issues: list[Issue]
) -> int:
    """How many sensors there are at the points of the solution."""
    if points is None:
        message = (
            f"sensors.{name}: only solutions on a shape, at 'save: {{points: N}}', have points"
        )
        hint = "Write 'place: grid', or say how many points there are."
        refuse(issues, spec.place(f"sensors.{name}.place"), message, hint)
    elif sensor.count is not None:
        message = f"sensors.{name}: there are as many as the solution has points, {points}"
        refuse(issues, spec.place(f"sensors.{name}.count"), message, "Leave 'count' out.")
    return points or 1


def history_of(problem: Problem) -> Input | None:
    """The input that is the past of the solution, if there is one."""
    return next((i for i in problem.inputs if i.history is not None), None)


def seen_times(problem: Problem, item: Input) -> tuple[float, ...]:
    """Times of a past: even ones after the start, the last at its end; none of other inputs."""
    past = item.history
    if past is None or problem.time is None:
        return ()
    low, span = problem.time.low, past.until - problem.time.low
    return (*(low + span * k / past.times for k in range(1, past.times)), past.until)


def channels_of(problem: Problem, item: Input) -> int:
    """c, how many values a sensor of an input gives."""
    return 1 if item.history is None else item.history.times * len(problem.unknowns)


def asked_coordinates(problem: Problem) -> tuple[Coordinate, ...]:
    """Coordinates of an operator's queries: all, the time from the end of the past on."""
    ends = [item.history.until for item in problem.inputs if item.history is not None]
    if not ends or problem.time is None:
        return problem.coordinates
    return (replace(problem.time, low=ends[0]), *problem.space)
