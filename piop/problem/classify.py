"""The class of a problem in the words of the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from piop.forms.terms import highest_space_order, split_terms

if TYPE_CHECKING:
    from piop.problem.problem import Problem

_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Classification:
    """What kind of problem it is.

    Attributes:
        linear: Whether every equation is linear in all unknowns together.
        kind: ``parabolic``, ``hyperbolic``, ``dispersive``, ``elliptic`` or ``ordinary``, by the
            highest derivatives; nonlinear ones count like linear ones of their order. ``unknown``
            without equations.
        evolution: Whether there is time.
        order: Highest order in space.
        time_order: Highest order in time.
        dimension: Number of space coordinates.
        boundary: ``periodic``, ``bounded`` or ``partly periodic``.
        unknowns: Number of unknowns, auxiliary ones not counted.
        auxiliaries: Number of auxiliary unknowns.
    """

    linear: bool
    kind: str
    evolution: bool
    order: int
    time_order: int
    dimension: int
    boundary: str
    unknowns: int
    auxiliaries: int

    @property
    def label(self) -> str:
        """Such as ``nonlinear parabolic evolution, second order, periodic, 1-D``."""
        where = [self.boundary, f"{self.dimension}-D"]
        if self.kind == UNKNOWN:
            what = "evolution" if self.evolution else "steady"
            return ", ".join([what, "known from data alone", *where])
        system = f" system of {self.unknowns}" if self.unknowns > 1 else ""
        what = "evolution" if self.evolution else "problem"
        linear = "linear" if self.linear else "nonlinear"
        order = f"{_ORDINALS[min(self.order, 8)]} order"
        parts = [f"{linear} {self.kind} {what}{system}", order, *where]
        if self.auxiliaries:
            plural = "s" if self.auxiliaries > 1 else ""
            parts.append(f"{self.auxiliaries} auxiliary elliptic unknown{plural}")
        return ", ".join(parts)


def classify(problem: Problem) -> Classification:
    """Classify a problem by its highest derivatives, linearity and boundary.

    >>> from piop.problem import Problem
    >>> classify(Problem.from_file("burgers")).label
    'nonlinear parabolic evolution, second order, periodic, 1-D'
    """
    nonlinear = any(split_terms(problem.pde, residual)[1] for residual in problem.residuals)
    equations = problem.residuals[: len(problem.unknowns)] if problem.time else problem.residuals
    order = highest_space_order(problem.pde, equations, problem.channels)
    time_order = max(problem.time_order.values(), default=0)
    periodic = [c.periodic for c in problem.space]
    boundary = "periodic" if all(periodic) else "partly periodic" if any(periodic) else "bounded"
    return Classification(
        not nonlinear,
        _kind(order, time_order, problem.time is not None) if problem.residuals else UNKNOWN,
        problem.time is not None,
        order,
        time_order,
        len(problem.space),
        boundary,
        len(problem.unknowns),
        len(problem.auxiliaries),
    )


def _kind(order: int, time_order: int, evolution: bool) -> str:
    if order == 0:
        return "ordinary"
    if not evolution:
        return "elliptic" if order % 2 == 0 else "hyperbolic"
    if time_order == 1:
        return "hyperbolic" if order == 1 else "dispersive" if order % 2 else "parabolic"
    return "hyperbolic" if order <= time_order else "dispersive"
