"""Names that are declared and never used, and names that are used where nothing is declared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sympy import Symbol

from piop.errors import Issue
from piop.expression.parse import did_you_mean
from piop.spec.laws import History
from piop.spec.names import declarations, refuse
from piop.spec.resolve import Resolved
from piop.spec.tree import Place, Scalar

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_usage(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse what would be read and then ignored."""
    spec = problem.spec
    if not resolved.failed:
        _unused(problem, resolved, issues)
    declared = [name for _, name, _ in declarations(spec)]
    for name in spec.units:
        _known(name, declared, spec.place(f"units.{name}"), "units", issues)
    constants = [n for n, v in spec.parameters.items() if isinstance(v, Scalar)]
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


def _felt(problem: Problem, text: Scalar, issues: list[Issue]) -> None:
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
        history = item is not None and isinstance(item.law, History)
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
