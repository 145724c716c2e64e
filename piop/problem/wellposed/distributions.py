"""Input distributions that fit their coordinates and are smooth enough for the equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sympy import Derivative, Expr

from piop.errors import Issue
from piop.expression import write
from piop.forms.pde import Input
from piop.problem.inputs import history_of
from piop.spec import distributions
from piop.spec.reader import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_distributions(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse those of wrong dimension or infinite variance, and aperiodic ones on periodic axes."""
    del resolved
    for item in problem.inputs:
        match item.distribution:
            case distributions.GaussianRandomField() as distribution:
                _fit(problem, item, "alpha", distribution.covariance, issues)
                _axes(problem, item, distribution, issues)
            case distributions.PiecewiseConstant() as distribution:
                _fit(problem, item, "cells", distribution.per_axis, issues)
            case distributions.History(until=until):
                _history(problem, item, until, issues)


def _fit(
    problem: Problem, item: Input, key: str, check: Callable[[int], object], issues: list[Issue]
) -> None:
    """Let a distribution check the number of coordinates itself; its text starts with the key."""
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
    problem: Problem,
    item: Input,
    distribution: distributions.GaussianRandomField,
    issues: list[Issue],
) -> None:
    for axis, condition in distribution.boundary.items():
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
        message = f"a history is observed at points of space, so it is of [{', '.join(space)}]"
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


def check_rough(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse ``dot(grad(a), grad(u))`` with a rough a; ``div(a*grad(u))`` has a meaning."""
    rough = [i for i in problem.inputs if not i.smooth and i.of]
    unknowns = [problem.function(n) for n in problem.channels]
    for raw, equation in zip(
        problem.residuals_raw, [*resolved.equations, *resolved.auxiliary.values()], strict=True
    ):
        for derivative in sorted(raw.atoms(Derivative), key=str):
            inputs = [i.name for i in rough if derivative.has(i.symbol)]
            if inputs and not any(derivative.has(u) for u in unknowns):
                message = (
                    f"equations: '{write(derivative)}' is the derivative of {inputs[0]}, which is "
                    "not smooth, so the strong form has no meaning"
                )
                hint = f"Write div({inputs[0]}*grad(u)), or say 'smooth: true' if it is."
                refuse(issues, equation.place, message, hint)
                break
