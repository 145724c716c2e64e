"""The class of a problem in the words of the field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from piop.forms.terms import highest_space_order, split_terms

if TYPE_CHECKING:
    from piop.problem.problem import Problem

_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def is_linear(problem: Problem) -> bool:
    """Whether every equation is linear in all unknowns together."""
    return not any(split_terms(problem.pde, residual)[1] for residual in problem.residuals)


def classify(problem: Problem) -> str:
    """Classify a problem by its highest derivatives, linearity and boundary.

    Nonlinear terms count like linear ones of their order. Without equations, no more is known than
    the coordinates.

    >>> from piop.problem import Problem
    >>> classify(Problem.from_file("burgers"))
    'nonlinear parabolic evolution, second order, periodic, 1-D'
    """
    periodic = [c.periodic for c in problem.space]
    boundary = "periodic" if all(periodic) else "partly periodic" if any(periodic) else "bounded"
    where = [boundary, f"{len(problem.space)}-D"]
    evolution, unknowns = problem.time is not None, len(problem.unknowns)
    if not problem.residuals:
        return ", ".join(["evolution" if evolution else "steady", "known from data alone", *where])
    linear = "linear" if is_linear(problem) else "nonlinear"
    if not problem.space:
        order = _ORDINALS[min(max(problem.pde.time_order.values()), 8)]
        what = "ordinary differential equation"
        what = f"{linear} {what}" if unknowns == 1 else f"{linear} system of {unknowns} {what}s"
        return f"{what}, {order} order"
    equations = problem.residuals[:unknowns] if evolution else problem.residuals
    order = highest_space_order(problem.pde, equations, problem.channels)
    kind = _kind(order, max(problem.pde.time_order.values(), default=0), evolution)
    system = f" system of {unknowns}" if unknowns > 1 else ""
    what = f"{linear} {kind} {'evolution' if evolution else 'problem'}{system}"
    parts = [what, f"{_ORDINALS[min(order, 8)]} order", *where]
    if count := len(problem.pde.auxiliaries):
        parts.append(f"{count} auxiliary elliptic unknown{'s' if count > 1 else ''}")
    return ", ".join(parts)


def _kind(order: int, time_order: int, evolution: bool) -> str:
    """Parabolic, hyperbolic, dispersive, elliptic or ordinary, by the highest derivatives."""
    if order == 0:
        return "ordinary"
    if not evolution:
        return "elliptic" if order % 2 == 0 else "hyperbolic"
    if time_order == 1:
        return "hyperbolic" if order == 1 else "dispersive" if order % 2 else "parabolic"
    return "hyperbolic" if order <= time_order else "dispersive"
