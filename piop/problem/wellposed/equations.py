"""As many equations and initial conditions as unknowns ask for, and every declared name used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sympy import Derivative, Expr, Symbol

from piop.errors import Issue, Place
from piop.expression.parse import did_you_mean
from piop.spec.distributions import History
from piop.spec.names import declarations
from piop.spec.reader import refuse
from piop.spec.resolve import Resolved
from piop.spec.tree import ScalarNode

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
    problem: Problem, name: str, residual: Expr, resolved: Resolved, issues: list[Issue]
) -> None:
    function = problem.function(name)
    place = problem.spec.place(f"auxiliary.{name}")
    derivatives = [d for d in residual.atoms(Derivative) if d.has(function)]
    if not residual.has(function):
        refuse(issues, place, f"auxiliary.{name}: its equation does not contain it")
    elif not derivatives or max(d.derivative_count for d in derivatives) % 2:
        message = (
            f"auxiliary.{name}: the equation is not elliptic in {name} (no highest even derivative)"
        )
        refuse(issues, place, message, "Declare it under unknowns, or write such as -lap(psi) = w.")
    time = problem.time
    if time is not None and (
        any(time.symbol in d.variables for d in derivatives)
        or any(_time_derivative(r, function, time.symbol) for r in problem.residuals)
    ):
        message = f"auxiliary.{name}: an auxiliary unknown has no time derivative"
        refuse(issues, place, message, "Declare it under unknowns.")


def _time_derivative(residual: Expr, function: Expr, time: Symbol) -> bool:
    return any(d.expr == function and time in d.variables for d in residual.atoms(Derivative))


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


def check_usage(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse what would be read and then ignored."""
    spec = problem.spec
    if not resolved.failed:
        _unused(problem, resolved, issues)
    declared = [name for _, name, _ in declarations(spec)]
    for name in spec.units:
        _known(name, declared, spec.place(f"units.{name}"), "units", issues)
    constants = [n for n in spec.parameters if n not in spec.random_parameters]
    for text in spec.infer:
        _known(text.text, constants, text.place, "infer", issues, "a constant parameter")
        if text.text in constants and not resolved.failed:
            _felt(problem, text, issues)
    unknowns = [u.text for u in spec.unknowns]
    for name in spec.gauge:
        _known(name, unknowns, spec.place(f"gauge.{name}"), "gauge", issues, "an unknown")
    if spec.learn is not None:
        for name in spec.learn.source:
            _known(
                name,
                [*unknowns, *spec.auxiliary],
                spec.place("learn.from"),
                "learn.from",
                issues,
                "an unknown",
            )
        for name in spec.learn.target:
            inputs = [i.name for i in problem.inputs]
            _known(name, inputs, spec.place("learn.to"), "learn.to", issues, "an input")


def _felt(problem: Problem, text: ScalarNode, issues: list[Issue]) -> None:
    """Refuse to infer what no solution depends on."""
    initial = [e for data in problem.initial.values() for e in data]
    faces = [e for found in problem.boundary.values() for c in found for e in c.values]
    stated = [i.expression for i in problem.inputs if i.expression is not None]
    symbol = Symbol(text.text, real=True)
    if not any(e.has(symbol) for e in (*problem.residuals, *initial, *faces, *stated)):
        message = f"infer: no equation and no condition depends on '{text.text}'"
        refuse(issues, text.place, message, "No data can tell its value.")


def _known(
    name: str,
    known: Iterable[str],
    place: Place,
    where: str,
    issues: list[Issue],
    what: str = "declared",
) -> None:
    known = list(known)
    if name not in known:
        hint = did_you_mean(name, known)
        refuse(issues, place, f"{where}: '{name}' is not {what}", hint)


def _unused(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    spec = problem.spec
    for section, name, place in declarations(spec):
        item = spec.inputs.get(name)
        history = item is not None and isinstance(item.distribution, History)
        if (
            section in ("parameters", "inputs", "definitions")
            and name not in resolved.names.used
            and not history
        ):
            refuse(
                issues,
                place,
                f"{section}: '{name}' is declared but never used",
                "Use it or leave it out.",
            )


OF_EQUATIONS = ("parameters", "definitions", "auxiliary", "gauge", "initial", "infer", "learn")
"""Sections that say something of equations."""


def check_data(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse what only equations could use; axes may still be periodic."""
    del resolved
    spec = problem.spec
    for section in OF_EQUATIONS:
        if getattr(spec, section):
            message = f"{section}: without equations (equations: data) nothing takes it"
            refuse(issues, spec.place(section), message, "Leave it out.")
    for face, conditions in problem.boundary.items():
        if conditions:
            message = f"boundary.{face}: without equations only 'periodic' means something"
            refuse(issues, conditions[0].place, message, "Leave it out.")
