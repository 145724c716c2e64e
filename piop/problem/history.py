"""What an operator with a memory sees: the solution itself, up to a time.

The past is one function of space with a value for each time that is seen and each unknown, times
varying slowest. The answer begins where the past ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from piop.problem.parts import Coordinate, Input
from piop.spec.laws import History

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def history_of(problem: Problem) -> Input | None:
    """The input that is the past of the solution, if there is one."""
    return next((i for i in problem.inputs if isinstance(i.law, History)), None)


def seen_times(problem: Problem, item: Input) -> tuple[float, ...]:
    """Times of a past: even ones after the start, the last at its end."""
    assert isinstance(item.law, History) and problem.time is not None  # noqa: S101 - checked
    low, span, count = problem.time.low, item.law.until - problem.time.low, item.law.times
    return (*(low + span * k / count for k in range(1, count)), item.law.until)


def channels_of(problem: Problem, item: Input) -> int:
    """c, how many values a sensor of an input gives."""
    if not isinstance(item.law, History):
        return 1
    return item.law.times * len(problem.unknowns)


def asked_coordinates(problem: Problem) -> tuple[Coordinate, ...]:
    """Coordinates of an operator's queries: all, the time from the end of the past on."""
    past = history_of(problem)
    if past is None or problem.time is None:
        return problem.coordinates
    assert isinstance(past.law, History)  # noqa: S101 - as found
    return (replace(problem.time, low=past.law.until), *problem.space)
