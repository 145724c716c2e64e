"""As many equations as unknowns, as many initial conditions as the order in time asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Derivative

from piop.errors import Issue
from piop.spec.names import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_equations(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """One equation per unknown, every unknown in some equation, auxiliary ones elliptic."""
    spec = problem.spec
    equations, unknowns = len(resolved.equations), len(problem.unknowns)
    if equations != unknowns:
        message = f"{_count(equations, 'equation')} for {_count(unknowns, 'unknown')}"
        names = ", ".join(problem.unknowns)
        hint = f"The unknowns are {names}; vector equations count once per component."
        refuse(issues, spec.place("equations"), f"equations: {message}", hint)
    for text in spec.unknowns:
        function = problem.function(text.text)
        if not any(residual.has(function) for residual in problem.residuals):
            refuse(issues, text.place, f"unknowns: '{text.text}' is in no equation")
    for residual, equation in zip(problem.residuals, resolved.equations, strict=False):
        if not any(residual.has(problem.function(name)) for name in problem.channels):
            refuse(issues, equation.place, "equations: this one contains no unknown")
    for auxiliary, residual in zip(problem.auxiliaries, problem.residuals[equations:], strict=True):
        _check_auxiliary(problem, auxiliary.name, residual, resolved, issues)


def _check_auxiliary(
    problem: Problem, name: str, residual: object, resolved: Resolved, issues: list[Issue]
) -> None:
    function = problem.function(name)
    place = problem.spec.place(f"auxiliary.{name}")
    derivatives = [d for d in residual.atoms(Derivative) if d.has(function)]  # type: ignore[attr-defined]
    if not residual.has(function):  # type: ignore[attr-defined]
        refuse(issues, place, f"auxiliary.{name}: its equation does not contain it")
    elif not derivatives or max(d.derivative_count for d in derivatives) % 2:
        message = (
            f"auxiliary.{name}: the equation is not elliptic in {name} (no highest even derivative)"
        )
        refuse(issues, place, message, "Declare it under unknowns, or write such as -lap(psi) = w.")
    times = [d for d in derivatives if problem.time and problem.time.symbol in d.variables]
    other = [
        r for r in problem.residuals if problem.time and _time_derivative(r, function, problem)
    ]
    if times or other:
        message = f"auxiliary.{name}: an auxiliary unknown has no time derivative"
        refuse(issues, place, message, "Declare it under unknowns.")


def _time_derivative(residual: object, function: object, problem: Problem) -> bool:
    assert problem.time is not None  # noqa: S101 - the caller asked
    return any(
        d.expr == function and problem.time.symbol in d.variables
        for d in residual.atoms(Derivative)  # type: ignore[attr-defined]
    )


def check_initial(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Initial conditions of order 0 … n − 1 for order n in time, and no others."""
    spec = problem.spec
    for name in problem.unknowns:
        order = problem.time_order[name]
        given = {n for k, n in resolved.initial if k == name}
        for missing in sorted(set(range(order)) - given):
            key = _key(problem, name, missing)
            message = f"initial: '{key}' is missing; {name} is of order {order} in time"
            refuse(
                issues, spec.place("initial") if spec.initial else spec.place("equations"), message
            )
        for extra in sorted(given - set(range(order))):
            place = resolved.initial[name, extra][1]
            key = _key(problem, name, extra)
            reason = (
                "the problem is steady"
                if problem.time is None
                else f"{name} is of order {order} in time"
            )
            refuse(issues, place, f"initial: '{key}' is one condition too many; {reason}")


def _key(problem: Problem, name: str, order: int) -> str:
    time = problem.time.name if problem.time else "t"
    return f"d{time * order}({name})" if order else name


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
