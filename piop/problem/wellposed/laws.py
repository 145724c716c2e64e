"""Laws that do not fit the coordinates of their input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from piop.errors import Issue
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
            case laws.FourierSeries():
                _series(problem, item, issues)
            case laws.GaussianRandomField():
                _field(problem, item, item.law, issues)
            case laws.PiecewiseConstant(cells=cells) if len(cells) != len(item.of):
                message = f"{len(cells)} numbers of cells for {len(item.of)} coordinates"
                _refuse(problem, item, "cells", message, issues)
            case laws.History(until=until):
                _history(problem, item, until, issues)


def _refuse(
    problem: Problem, item: Input, key: str, message: str, issues: list[Issue], hint: str = ""
) -> None:
    path = f"inputs.{item.name}.{key}" if key else f"inputs.{item.name}"
    refuse(issues, problem.spec.place(path), f"{path}: {message}", hint)


def _series(problem: Problem, item: Input, issues: list[Issue]) -> None:
    if len(item.of) != 1:
        message = f"fourier_series is of one coordinate, not {len(item.of)}"
        _refuse(problem, item, "of", message, issues, "Use gaussian_random_field.")


def _field(
    problem: Problem, item: Input, law: laws.GaussianRandomField, issues: list[Issue]
) -> None:
    for axis, condition in law.boundary.items():
        key = f"boundary.{axis}"
        if axis not in item.of:
            _refuse(problem, item, key, f"'{axis}' is not in 'of'", issues)
        elif problem.coordinate(axis).periodic and condition != "periodic":
            message = f"{condition} samples are not periodic in {axis}, but the problem is"
            _refuse(problem, item, key, message, issues, "Leave it out, or write periodic.")
    if law.matern is not None or law.alpha is None or law.tau is None:
        return
    if law.alpha <= len(item.of) / 2 and law.modes is None:
        message = f"{law.alpha:g} is at most d/2 = {len(item.of) / 2:g}, so the field has infinite variance"
        _refuse(problem, item, "alpha", message, issues, "Raise alpha, or bound it by 'modes'.")
    dirichlet = any(c == "dirichlet" for c in law.boundary.values())
    if law.tau == 0 and not law.zero_mean and not dirichlet:
        message = "0 leaves the constant mode without a finite variance"
        _refuse(problem, item, "tau", message, issues, "Set zero_mean: true, or tau above 0.")


def _history(problem: Problem, item: Input, until: float, issues: list[Issue]) -> None:
    time = problem.time
    if time is None:
        _refuse(problem, item, "law", "a steady problem has no history", issues)
    elif not time.low < until < time.high:
        message = f"{until:g} is not inside the time interval ({time.low:g}, {time.high:g})"
        _refuse(problem, item, "until", message, issues)
