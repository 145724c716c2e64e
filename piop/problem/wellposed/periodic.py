"""Periodic checks: continuity across the period, undetermined constants, solvability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy
from sympy import Expr

from piop.domain import Coordinate
from piop.errors import Issue, Place
from piop.expression.functions import JUMPS, evaluate
from piop.expression.vector_calculus import occurs_bare
from piop.forms.terms import additive_terms, orders, split_terms
from piop.spec.reader import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem


_POINTS = 7
_TOLERANCE = 1e-8


def check_periodicity(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Compare the two ends of each periodic axis at a few points.

    Unknowns and inputs count as periodic, so what is found is an explicit coordinate such as the
    initial condition ``x``. Expressions with jumps of their own (``where``, ``sign``) are let pass.
    """
    axes = [c for c in problem.space if c.periodic]
    for axis in axes:
        for what, expr, place in _expressions(problem, resolved):
            jump = _jump(problem, expr, axis)
            if jump is not None:
                low, high = jump
                message = (
                    f"{what}: not periodic in {axis.name}: {low:.4g} at {axis.low:.4g} "
                    f"but {high:.4g} at {axis.high:.4g}"
                )
                refuse(
                    issues,
                    place,
                    message,
                    f"Make it periodic, or give {axis.name} other conditions.",
                )


def _expressions(problem: Problem, resolved: Resolved) -> Iterator[tuple[str, Expr, Place]]:
    for (name, order), (expr, place) in resolved.initial.items():
        yield f"initial.{'dt(' * order}{name}{')' * order}", expr, place
    for equation in resolved.equations:
        yield "equations", equation.left - equation.right, equation.place
    for name, equation in resolved.auxiliary.items():
        yield f"auxiliary.{name}", equation.left - equation.right, equation.place
    for name, expr in resolved.inputs.items():
        yield f"inputs.{name}", expr, problem.spec.place(f"inputs.{name}.expression")
    for face, conditions in problem.boundary.items():
        for condition in conditions:
            for value in condition.values:
                yield f"boundary.{face}", value, condition.place


def _jump(problem: Problem, expr: Expr, axis: Coordinate) -> tuple[float, float] | None:
    """The values at both ends where they differ, else None."""
    if axis.symbol not in expr.free_symbols or expr.has(*JUMPS):
        return None
    random = np.random.default_rng(0)
    points: dict[Expr, np.ndarray] = {
        c.symbol: c.low + c.length * random.random(_POINTS) for c in problem.coordinates
    }
    others: dict[Expr, np.ndarray] = {}

    def at(end: float) -> np.ndarray:
        def lookup(atom: Expr) -> np.ndarray:
            if atom == axis.symbol:
                return np.full(_POINTS, end)
            if atom in points:
                return points[atom]
            return others.setdefault(atom, random.standard_normal(_POINTS))

        return np.broadcast_to(np.asarray(evaluate(expr, lookup), dtype=float), (_POINTS,))

    low, high = at(axis.low), at(axis.high)
    with np.errstate(all="ignore"):  # not finite: cannot be told
        differs = np.abs(high - low) > _TOLERANCE * (1 + np.abs(low) + np.abs(high))
    if not differs.any():
        return None
    first = int(np.argmax(differs))
    return float(low[first]) + 0.0, float(high[first]) + 0.0


_GRID = 48  # points per axis of the mean of an explicit term


def check_gauge(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """A mean is given exactly where the equations and conditions leave a constant free."""
    spec = problem.spec
    own = problem.residuals[len(resolved.equations) :]
    for auxiliary, residual in zip(problem.auxiliaries, own, strict=True):
        free = _leaves_constant(problem, auxiliary.name, (residual,))
        path = f"auxiliary.{auxiliary.name}"
        if free and not auxiliary.gauged:
            message = f"{path}: the equation leaves a constant in {auxiliary.name} free"
            refuse(issues, spec.place(path), message, "Add 'mean: 0'.")
        elif auxiliary.gauged and not free:
            message = f"{path}.mean: the equation fixes the mean of {auxiliary.name} already"
            refuse(issues, spec.place(f"{path}.mean"), message, "Leave 'mean' out.")
    for name in problem.unknowns:
        elliptic = problem.time_order[name] == 0
        free = elliptic and _leaves_constant(problem, name, problem.residuals)
        if free and name not in problem.gauge:
            message = f"unknowns: equations and conditions leave a constant in {name} free"
            place = next(u.place for u in spec.unknowns if u.text == name)
            refuse(issues, place, message, f"Add 'gauge: {{{name}: {{mean: 0}}}}'.")
        elif name in problem.gauge and not free:
            message = f"gauge.{name}: the mean of {name} is fixed already"
            refuse(issues, spec.place(f"gauge.{name}"), message, "Leave the gauge out.")


def _leaves_constant(problem: Problem, name: str, residuals: tuple[Expr, ...]) -> bool:
    function = problem.function(name)
    given = [c for conditions in problem.boundary.values() for c in conditions]
    if any(c.fixes_constant(name, function) for c in given):
        return False
    involved = [r for r in residuals if r.has(function)]
    return bool(involved) and not any(occurs_bare(r, function) for r in involved)


def check_solvable(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """On a periodic box, what drives an equation with a free constant must have no mean."""
    if not problem.periodic:
        return
    spec = problem.spec
    driven = [
        (a.name, r)
        for a, r in zip(
            problem.auxiliaries, problem.residuals[len(resolved.equations) :], strict=True
        )
        if a.gauged
    ]
    if len(problem.unknowns) == 1 and problem.unknowns[0] in problem.gauge:
        driven.append((problem.unknowns[0], problem.residuals[0]))
    for name, residual in driven:
        rest = [t for t in additive_terms(residual) if not t.has(problem.function(name))]
        section = "auxiliary" if name in spec.auxiliary else "gauge"
        place = spec.place(f"{section}.{name}")
        _Driver(problem, resolved, issues, name).check(sympy.Add(*rest), place)


@dataclass(frozen=True)
class _Driver:
    """Follows what drives the equation for ``name`` back to data whose mean is known."""

    problem: Problem
    resolved: Resolved
    issues: list[Issue]
    name: str

    def check(self, driver: Expr, place: Place, seen: frozenset[str] = frozenset()) -> None:
        """Refuse a driver with a mean; unknowns in it are followed to their data and sources."""
        linear, nonlinear, free = split_terms(self.problem.pde, driver)
        explicit = []
        for term in free:
            found = [i for i in self.problem.inputs if term.has(i.symbol)]
            if not found:
                explicit.append(term)
            for item in found:
                own = item.distribution
                over = set(item.of) <= {c.name for c in self.problem.space}
                if own is not None and over and not own.mean_is_zero:
                    path = f"inputs.{item.name}"
                    message = (
                        f"{path}: its samples have a mean, and then the equation for {self.name} "
                        "has no solution"
                    )
                    place = self.problem.spec.place(path)
                    refuse(self.issues, place, message, own.without_mean)
        mean = 0.0 if nonlinear else _mean(self.problem, sympy.Add(*explicit))
        if mean:
            message = (
                f"{self.name} is driven by something whose mean is {abs(mean):.4g}; "
                "on a periodic box it must be 0"
            )
            refuse(self.issues, place, message, "Subtract the mean.")
        for term in linear:
            if term.unknown not in seen and not any(term.order) and term.coefficient.is_number:
                self._follow(term.unknown, seen | {term.unknown})

    def _follow(self, unknown: str, seen: frozenset[str]) -> None:
        """Initial data of an unknown, and what its evolution adds without unknowns."""
        found = self.resolved.initial.get((unknown, 0))
        if found is not None:
            self.check(found[0], found[1], seen)
        for residual, equation in zip(
            self.problem.residuals, self.resolved.equations, strict=False
        ):
            if any(o[0] for o in orders(self.problem.pde, residual, unknown)):
                free = split_terms(self.problem.pde, residual)[2]
                self.check(sympy.Add(*free), equation.place, seen)


def _mean(problem: Problem, expr: Expr) -> float:
    """Mean over the periodic box at the middle of the time interval, relative to the size."""
    axes = [c.low + c.length * (np.arange(_GRID) + 0.37) / _GRID for c in problem.space]
    mesh: dict[Expr, np.ndarray] = dict(
        zip([c.symbol for c in problem.space], np.meshgrid(*axes, indexing="ij"), strict=True)
    )
    middle = problem.time.low + 0.37 * problem.time.length if problem.time else 0.0

    def lookup(atom: Expr) -> np.ndarray | float:
        return mesh.get(atom, middle)

    values = np.asarray(evaluate(expr, lookup), dtype=float)
    mean = float(values.mean())
    return (
        mean if np.isfinite(mean) and abs(mean) > _TOLERANCE * float(np.abs(values).max()) else 0.0
    )
