"""Laws that do not fit the coordinates of their input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sympy import Expr

from piop.errors import Issue
from piop.problem.history import history_of
from piop.problem.parts import Input
from piop.spec import laws
from piop.spec.names import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_laws(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse laws of the wrong dimension, of infinite variance, or not periodic where space is."""
    del resolved
    for item in problem.inputs:
        match item.law:
            case laws.GaussianRandomField() as law:
                _fit(problem, item, "alpha", law.covariance, issues)
                _axes(problem, item, law, issues)
            case laws.PiecewiseConstant() as law:
                _fit(problem, item, "cells", law.per_axis, issues)
            case laws.History(until=until):
                _history(problem, item, until, issues)


def _fit(
    problem: Problem, item: Input, key: str, check: Callable[[int], object], issues: list[Issue]
) -> None:
    """Let a law check the number of coordinates itself; its text starts with the key."""
    try:
        check(len(item.of))
    except ValueError as error:
        _refuse(problem, item, key, str(error).removeprefix(f"{key}: "), issues)


def _refuse(
    problem: Problem, item: Input, key: str, message: str, issues: list[Issue], hint: str = ""
) -> None:
    path = f"inputs.{item.name}.{key}" if key else f"inputs.{item.name}"
    refuse(issues, problem.spec.place(path), f"{path}: {message}", hint)


def _axes(
    problem: Problem, item: Input, law: laws.GaussianRandomField, issues: list[Issue]
) -> None:
    for axis, condition in law.boundary.items():
        key = f"boundary.{axis}"
        if axis not in item.of:
            _refuse(problem, item, key, f"'{axis}' is not in 'of'", issues)
        elif problem.coordinate(axis).periodic and condition != "periodic":
            message = f"{condition} samples are not periodic in {axis}, but the problem is"
            _refuse(problem, item, key, message, issues, "Leave it out, or write periodic.")


def _history(problem: Problem, item: Input, until: float, issues: list[Issue]) -> None:
    time = problem.time
    if time is None:
        _refuse(problem, item, "law", "a steady problem has no history", issues)
    elif not time.low < until < time.high:
        message = f"{until:g} is not inside the time interval ({time.low:g}, {time.high:g})"
        _refuse(problem, item, "until", message, issues)
    space = tuple(c.name for c in problem.space)
    if item.of != space:
        message = f"a history is seen at points of space, so it is of [{', '.join(space)}]"
        _refuse(problem, item, "of", message, issues, "Its times are those of 'until', 'times'.")
    if item.hidden:
        _refuse(problem, item, "hidden", "a history is there to be seen", issues)
    if history_of(problem) is not item:
        _refuse(problem, item, "law", "there is one history at most", issues)
    if any(e.has(item.symbol) for e in _everything(problem)):
        message = "equations and conditions hold the solution itself, not its history"
        _refuse(problem, item, "law", message, issues)


def _everything(problem: Problem) -> Iterator[Expr]:
    yield from problem.residuals
    for data in problem.initial.values():
        yield from data
    for conditions in problem.boundary.values():
        for condition in conditions:
            yield from condition.values
    yield from (i.expression for i in problem.inputs if i.expression is not None)
