"""Input distributions that fit their coordinates and are smooth enough for the equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from sympy import Derivative, Expr

from piop.errors import Issue
from piop.expression import write
from piop.forms.pde import Input
from piop.problem.inputs import history_of
from piop.spec import distributions
from piop.spec.formulas import Resolved
from piop.spec.model import issue_at

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_distributions(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Refuse those of wrong dimension or infinite variance, and aperiodic ones on periodic axes."""
    for item in problem.inputs:
        match item.distribution:
            case distributions.GaussianRandomField() as distribution:
                key = "alpha" if distribution.matern is None else "matern"
                yield from _fit(problem, item, key, distribution.covariance)
                for axis, condition in distribution.boundary.items():
                    path = f"inputs.{item.name}.boundary.{axis}"
                    if axis not in item.of:
                        yield problem.spec.issue(path, f"'{axis}' is not in 'of'")
                    elif problem.coordinate(axis).periodic and condition != "periodic":
                        message = f"{condition} samples are not periodic in {axis}"
                        hint = "Leave it out, or write periodic."
                        yield problem.spec.issue(path, f"{message}, but the problem is", hint)
            case distributions.PiecewiseConstant() as distribution:
                yield from _fit(problem, item, "cells", distribution.per_axis)
            case distributions.History(until=until):
                yield from _history(problem, item, until)


def _fit(
    problem: Problem, item: Input, key: str, check: Callable[[int], object]
) -> Iterator[Issue]:
    """Let a distribution check the number of coordinates itself; its text starts with the key."""
    try:
        check(len(item.of))
    except ValueError as error:
        message = str(error).removeprefix(f"{key}: ")
        yield problem.spec.issue(f"inputs.{item.name}.{key}", message)


def _history(problem: Problem, item: Input, until: float) -> Iterator[Issue]:
    issue, path, time = problem.spec.issue, f"inputs.{item.name}", problem.time
    if time is None:
        yield issue(f"{path}.law", "a steady problem has no history")
    elif not time.low < until < time.high:
        message = f"{until:g} is not inside the time interval ({time.low:g}, {time.high:g})"
        yield issue(f"{path}.until", message)
    space = tuple(c.name for c in problem.space)
    if item.of != space:
        message = f"a history is observed at points of space, so it is of [{', '.join(space)}]"
        yield issue(f"{path}.of", message, "Its times are those of 'until', 'times'.")
    if item.hidden:
        yield issue(f"{path}.hidden", "a history is there to be seen")
    if history_of(problem) is not item:
        yield issue(f"{path}.law", "there is one history at most")
    if any(e.has(item.symbol) for e in expressions(problem)):
        message = "equations and conditions hold the solution itself, not its history"
        yield issue(f"{path}.law", message)


def expressions(problem: Problem) -> Iterator[Expr]:
    """Every expression of equations, conditions and inputs."""
    yield from problem.residuals
    yield from chain.from_iterable(problem.initial.values())
    for condition in chain.from_iterable(problem.boundary.values()):
        yield from condition.values
    yield from (i.expression for i in problem.inputs if i.expression is not None)


def check_rough(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Refuse ``dot(grad(a), grad(u))`` with a rough a; ``div(a*grad(u))`` has a meaning."""
    rough = [i for i in problem.inputs if not i.smooth and i.of]
    unknowns = [problem.function(n) for n in problem.channels]
    equations = [*resolved.equations, *resolved.auxiliary.values()]
    for raw, equation in zip(problem.pde.residuals_raw, equations, strict=True):
        for derivative in sorted(raw.atoms(Derivative), key=str):
            inputs = [i.name for i in rough if derivative.has(i.symbol)]
            if inputs and not derivative.has(*unknowns):
                message = (
                    f"equations: '{write(derivative)}' is the derivative of {inputs[0]}, which is "
                    "not smooth, so the strong form has no meaning"
                )
                hint = f"Write div({inputs[0]}*grad(u)), or say 'smooth: true' if it is."
                yield issue_at(equation.place, message, hint)
                break
