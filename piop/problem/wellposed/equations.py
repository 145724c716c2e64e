"""As many equations and initial conditions as unknowns ask for, and every declared name used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sympy import Derivative, Expr, Symbol

from piop.errors import Issue, did_you_mean
from piop.forms.terms import name_of, outermost_atoms
from piop.problem.wellposed.distributions import expressions
from piop.spec.formulas import Resolved
from piop.spec.model import issue_at
from piop.spec.names import declarations

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_equations(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """One equation per unknown, every unknown in some equation, auxiliary ones elliptic."""
    spec = problem.spec
    equations, unknowns = len(resolved.equations), len(problem.unknowns)
    if equations != unknowns:
        message = f"{_count(equations, 'equation')} for {_count(unknowns, 'unknown')}"
        names = ", ".join(problem.unknowns)
        hint = f"The unknowns are {names}; vector equations count once per component."
        yield spec.issue("equations", message, hint)
    present = [{name_of(a) for a in outermost_atoms(r)} for r in problem.residuals]
    for text in spec.unknowns:
        if not any(text.text in names for names in present):
            yield issue_at(text.place, f"unknowns: '{text.text}' is in no equation")
    for names, equation in zip(present, resolved.equations, strict=False):
        if names.isdisjoint(problem.channels):
            yield issue_at(equation.place, "equations: this one contains no unknown")
    for auxiliary, residual in zip(
        problem.pde.auxiliaries, problem.residuals[equations:], strict=True
    ):
        yield from _check_auxiliary(problem, auxiliary.name, residual)


def _check_auxiliary(problem: Problem, name: str, residual: Expr) -> Iterator[Issue]:
    function, path = problem.function(name), f"auxiliary.{name}"
    derivatives = [d for d in residual.atoms(Derivative) if d.has(function)]
    if not residual.has(function):
        yield problem.spec.issue(path, "its equation does not contain it")
    elif not derivatives or max(d.derivative_count for d in derivatives) % 2:
        message = f"the equation is not elliptic in {name} (no highest even derivative)"
        hint = "Declare it under unknowns, or write such as -lap(psi) = w."
        yield problem.spec.issue(path, message, hint)
    time = problem.time
    everywhere = {d for r in problem.residuals for d in r.atoms(Derivative)}
    if time is not None and (
        any(time.symbol in d.variables for d in derivatives)
        or any(d.expr == function and time.symbol in d.variables for d in everywhere)
    ):
        message = "an auxiliary unknown has no time derivative"
        yield problem.spec.issue(path, message, "Declare it under unknowns.")


def check_initial(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Initial conditions of order 0 … n − 1 for order n in time, and no others."""
    spec = problem.spec
    for name in problem.unknowns:
        order = problem.pde.time_order[name]
        given = {n for k, n in resolved.initial if k == name}
        reason = f"{name} is of order {order} in time"
        for missing in sorted(set(range(order)) - given):
            place = spec.place("initial" if spec.initial else "equations")
            key = problem.derivative_text(name, missing)
            yield issue_at(place, f"initial: '{key}' is missing; {reason}")
        for extra in sorted(given - set(range(order))):
            key = problem.derivative_text(name, extra)
            why = "the problem is steady" if problem.time is None else reason
            message = f"initial: '{key}' is one condition too many; {why}"
            yield issue_at(resolved.initial[name, extra][1], message)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def check_usage(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Refuse what would be read and then ignored."""
    spec = problem.spec
    if not resolved.failed:
        yield from _unused(problem, resolved)
    declared = [name for _, name, _ in declarations(spec)]
    constants = [n for n in spec.parameters if n not in spec.random_parameters]
    unknowns = [u.text for u in spec.unknowns]
    inferred = {text.text: text.place for text in spec.infer}
    source, target = (spec.learn.source, spec.learn.target) if spec.learn else ((), ())
    named: list[tuple[str, Iterable[str], list[str], str]] = [
        ("units", spec.units, declared, "declared"),
        ("infer", inferred, constants, "a constant parameter"),
        ("gauge", spec.gauge, unknowns, "an unknown"),
        ("learn.from", source, [*unknowns, *spec.auxiliary], "an unknown"),
        ("learn.to", target, [i.name for i in problem.inputs], "an input"),
    ]
    for section, names, known, what in named:
        for name in names:
            if name not in known:
                place = inferred.get(name) if names is inferred else None
                message = f"{section}: '{name}' is not {what}"
                hint = did_you_mean(name, known)
                yield issue_at(place or spec.place(f"{section}.{name}"), message, hint)
    for name, place in inferred.items() if not resolved.failed else ():
        symbol = Symbol(name, real=True)
        if name in constants and not any(e.has(symbol) for e in expressions(problem)):
            message = f"infer: no equation and no condition depends on '{name}'"
            yield issue_at(place, message, "No data can tell its value.")


def _unused(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    past = {i.name for i in problem.inputs if i.history is not None}
    for section, name, place in declarations(problem.spec):
        own = section in ("parameters", "inputs", "definitions") and name not in past
        if own and name not in resolved.names.used:
            message = f"{section}: '{name}' is declared but never used"
            yield issue_at(place, message, "Use it or leave it out.")


def note_observed_twice(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Mention inputs that matter through other inputs alone, where the network observes both."""
    inputs = {item.name: item for item in problem.inputs}
    stated = [e for e in expressions(problem) if e not in resolved.inputs.values()]
    for item in problem.visible_inputs:
        if any(e.has(item.symbol) for e in stated):
            continue
        through = [
            name
            for name in resolved.inputs
            if not inputs[name].hidden and item.name in _behind(problem, name)
        ]
        if through:
            message = (
                f"inputs.{item.name}: the equations depend on it through {', '.join(through)} "
                "alone, and the network observes both"
            )
            hint = f"Write 'hidden: true' if it is only there to draw {through[0]}."
            yield issue_at(problem.spec.place(f"inputs.{item.name}"), message, hint)


def _behind(problem: Problem, name: str) -> set[str]:
    """Return the inputs that the expression of an input depends on, through others too."""
    found: set[str] = set()
    own = next(i.expression for i in problem.inputs if i.name == name)
    for item in problem.inputs:
        if own is not None and own.has(item.symbol):
            found |= {item.name, *_behind(problem, item.name)}
    return found


OF_EQUATIONS = ("parameters", "definitions", "auxiliary", "gauge", "initial", "infer", "learn")
"""Sections that say something of equations."""


def check_data(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Refuse what only equations could use; axes may still be periodic."""
    for section in OF_EQUATIONS:
        if getattr(problem.spec, section):
            message = "without equations (equations: data) nothing takes it"
            yield problem.spec.issue(section, message, "Leave it out.")
    for face, conditions in problem.boundary.items():
        if conditions:
            message = f"boundary.{face}: without equations only 'periodic' means something"
            yield issue_at(conditions[0].place, message, "Leave it out.")
