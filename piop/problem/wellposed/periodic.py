"""Periodic checks: continuity across the period, undetermined constants, solvability."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
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
from piop.problem.wellposed.random_points import ALONG, NEGLIGIBLE, RandomPoints
from piop.spec.formulas import Resolved
from piop.spec.model import issue_at

if TYPE_CHECKING:
    from piop.problem.problem import Problem


_TOLERANCE = 1e-8


def check_periodicity(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Compare the two ends of each periodic axis at a few points.

    Unknowns and inputs count as periodic, so what is found is an explicit coordinate such as the
    initial condition ``x``. Expressions with jumps of their own (``where``, ``sign``) are let pass,
    and jumps far below the tolerance of a reference solution, which are notes.
    """
    for axis, what, place, jump in _jumps(problem, resolved):
        if not jump.negligible:
            hint = f"Make it periodic, or give {axis.name} other conditions."
            yield issue_at(place, f"{what}: not periodic in {axis.name}: {jump}", hint)


def note_jumps(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Mention the jumps over the ends of periodic axes that are let pass."""
    for axis, what, place, jump in _jumps(problem, resolved):
        if jump.negligible:
            message = f"{what}: taken as periodic in {axis.name}, though it is {jump}"
            yield issue_at(place, message, "That is far below the tolerance of a reference.")


@dataclass(frozen=True)
class _Jump:
    """Values of an expression that differ at the two ends of an axis.

    Attributes:
        axis: Which.
        low: Value at its low end.
        high: Value at its high end.
        negligible: Whether a reference solution does not show it.
    """

    axis: Coordinate
    low: float
    high: float
    negligible: bool

    def __str__(self) -> str:
        digits = 4
        while digits < 17 and f"{self.low:.{digits}g}" == f"{self.high:.{digits}g}":
            digits += 1
        low, high = f"{self.low:.{digits}g}", f"{self.high:.{digits}g}"
        return f"{low} at {self.axis.low:.4g} but {high} at {self.axis.high:.4g}"


def _jumps(problem: Problem, resolved: Resolved) -> Iterator[tuple[Coordinate, str, Place, _Jump]]:
    for axis in (c for c in problem.space if c.periodic):
        for what, expr, place in _expressions(problem, resolved):
            jump = _jump(problem, expr, axis)
            if jump is not None:
                yield axis, what, place, jump


def _expressions(problem: Problem, resolved: Resolved) -> Iterator[tuple[str, Expr, Place]]:
    for (name, order), (expr, place) in resolved.initial.items():
        yield f"initial.{'dt(' * order}{name}{')' * order}", expr, place
    for equation in resolved.equations:
        yield "equations", equation.residual, equation.place
    for name, equation in resolved.auxiliary.items():
        yield f"auxiliary.{name}", equation.residual, equation.place
    for name, expr in resolved.inputs.items():
        yield f"inputs.{name}", expr, problem.spec.place(f"inputs.{name}.expression")
    for face, condition in problem.pde.face_conditions:
        yield from ((f"boundary.{face}", value, condition.place) for value in condition.values)


def _jump(problem: Problem, expr: Expr, axis: Coordinate) -> _Jump | None:
    """The values at both ends where they differ, else None."""
    if axis.symbol not in expr.free_symbols or expr.has(*JUMPS):
        return None
    spots = RandomPoints(problem)

    def at(positions: np.ndarray) -> np.ndarray:
        return spots.evaluate(expr, {axis.symbol: positions})

    low, high = at(np.array([axis.low])), at(np.array([axis.high]))
    along = at(axis.low + axis.length * np.linspace(0, 1, ALONG)[:, None])
    with np.errstate(all="ignore"):  # not finite: cannot be told
        gap = np.abs(high - low)
        differs = gap > _TOLERANCE * (1 + np.abs(low) + np.abs(high))
        size = np.sqrt(np.mean(along**2, axis=0))
    if not differs.any():
        return None
    first = int(np.argmax(differs))
    negligible = bool((gap <= NEGLIGIBLE * size).all())
    return _Jump(axis, float(low[first]) + 0.0, float(high[first]) + 0.0, negligible)


_GRID = 48  # points per axis of the mean of an explicit term


def check_gauge(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """A mean is given exactly where the equations and conditions leave a constant free."""
    spec = problem.spec
    own = problem.residuals[len(resolved.equations) :]
    for auxiliary, residual in zip(problem.pde.auxiliaries, own, strict=True):
        free = _leaves_constant(problem, auxiliary.name, (residual,))
        path = f"auxiliary.{auxiliary.name}"
        if free and not auxiliary.gauged:
            message = f"the equation leaves a constant in {auxiliary.name} free"
            yield spec.issue(path, message, "Add 'mean: 0'.")
        elif auxiliary.gauged and not free:
            message = f"the equation fixes the mean of {auxiliary.name} already"
            yield spec.issue(f"{path}.mean", message, "Leave 'mean' out.")
    for name in problem.unknowns:
        elliptic = problem.pde.time_order[name] == 0
        free = elliptic and _leaves_constant(problem, name, problem.residuals)
        if free and name not in problem.pde.gauge:
            message = f"unknowns: equations and conditions leave a constant in {name} free"
            place = next(u.place for u in spec.unknowns if u.text == name)
            yield issue_at(place, message, f"Add 'gauge: {{{name}: {{mean: 0}}}}'.")
        elif name in problem.pde.gauge and not free:
            message = f"the mean of {name} is fixed already"
            yield spec.issue(f"gauge.{name}", message, "Leave the gauge out.")


def _leaves_constant(problem: Problem, name: str, residuals: tuple[Expr, ...]) -> bool:
    function = problem.function(name)
    if any(c.fixes_constant(name, function) for _, c in problem.pde.face_conditions):
        return False
    involved = [r for r in residuals if r.has(function)]
    return bool(involved) and not any(occurs_bare(r, function) for r in involved)


def check_solvable(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """On a periodic box, what drives an equation with a free constant must have no mean."""
    if not problem.pde.periodic:
        return
    spec = problem.spec
    own = zip(problem.pde.auxiliaries, problem.residuals[len(resolved.equations) :], strict=True)
    driven = [(auxiliary.name, residual) for auxiliary, residual in own if auxiliary.gauged]
    if len(problem.unknowns) == 1 and problem.unknowns[0] in problem.pde.gauge:
        driven.append((problem.unknowns[0], problem.residuals[0]))
    for name, residual in driven:
        rest = [t for t in additive_terms(residual) if not t.has(problem.function(name))]
        section = "auxiliary" if name in spec.auxiliary else "gauge"
        place = spec.place(f"{section}.{name}")
        yield from _Driver(problem, resolved, name).check(sympy.Add(*rest), place)


@dataclass(frozen=True)
class _Driver:
    """Follows what drives the equation for ``name`` back to data whose mean is known."""

    problem: Problem
    resolved: Resolved
    name: str

    def check(
        self, driver: Expr, place: Place, seen: frozenset[str] = frozenset()
    ) -> Iterator[Issue]:
        """Refuse a driver with a mean; unknowns in it are followed to their data and sources."""
        linear, nonlinear, free = split_terms(self.problem.pde, driver)
        followed = [t for t in linear if t.unknown not in seen and not any(t.order)]
        followed = [t for t in followed if t.coefficient.is_number]
        explicit = yield from self._without_inputs(free)
        for term in followed:  # a mean of the data may be taken away, as by a background of -1
            if (found := self.resolved.initial.get((term.unknown, 0))) is not None:
                data = yield from self._without_inputs(additive_terms(found[0]))
                explicit += [term.coefficient * part for part in data]
        mean = 0.0 if nonlinear else _mean(self.problem, sympy.Add(*explicit))
        if mean:
            message = (
                f"{self.name} is driven by something whose mean is {abs(mean):.4g}; "
                "on a periodic box it must be 0"
            )
            yield issue_at(place, message, "Subtract the mean.")
        for term in followed:
            yield from self._follow(term.unknown, seen | {term.unknown})

    def _without_inputs(self, terms: Iterable[Expr]) -> Generator[Issue, None, list[Expr]]:
        """Refuse inputs with a mean; return the terms that hold none."""
        explicit = []
        for term in terms:
            found = [i for i in self.problem.inputs if term.has(i.symbol)]
            if not found:
                explicit.append(term)
            for item in found:
                own, over = item.distribution, {c.name for c in self.problem.space}
                if own is not None and not own.mean_is_zero and {*item.of} <= over:
                    message = (
                        "its samples have a mean, and then the equation for "
                        f"{self.name} has no solution"
                    )
                    yield self.problem.spec.issue(f"inputs.{item.name}", message, own.without_mean)
        return explicit

    def _follow(self, unknown: str, seen: frozenset[str]) -> Iterator[Issue]:
        """Check what the evolution of an unknown adds without unknowns."""
        pde = self.problem.pde
        for residual, equation in zip(pde.residuals, self.resolved.equations, strict=False):
            if any(o[0] for o in orders(pde, residual, unknown)):
                free = split_terms(pde, residual)[2]
                yield from self.check(sympy.Add(*free), equation.place, seen)


def _mean(problem: Problem, expr: Expr) -> float:
    """Mean over the periodic box at the middle of the time interval, relative to the size."""
    axes = [c.low + c.length * (np.arange(_GRID) + 0.37) / _GRID for c in problem.space]
    mesh: dict[Expr, np.ndarray] = dict(
        zip([c.symbol for c in problem.space], np.meshgrid(*axes, indexing="ij"), strict=True)
    )
    middle = problem.time.low + 0.37 * problem.time.length if problem.time else 0.0

    values = np.asarray(evaluate(expr, lambda atom: mesh.get(atom, middle)), dtype=float)
    mean = float(values.mean())
    certain = np.isfinite(mean) and abs(mean) > _TOLERANCE * float(np.abs(values).max())
    return mean if certain else 0.0
