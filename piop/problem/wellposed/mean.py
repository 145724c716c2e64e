"""The constant that elliptic equations leave free, and the mean they need to vanish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy
from sympy import Expr

from piop.errors import Issue, Place
from piop.expression.calculus import occurs_bare
from piop.forms.numeric import evaluate
from piop.forms.parts import Input
from piop.forms.terms import additive_terms, orders, split_terms
from piop.spec import distributions as laws
from piop.spec.names import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem

_GRID = 48  # points per axis of the mean of an explicit term
_TOLERANCE = 1e-8


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
                if not _mean_is_zero(self.problem, item):
                    _refuse_input(self.problem, self.name, item, self.issues)
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


def _refuse_input(problem: Problem, name: str, item: Input, issues: list[Issue]) -> None:
    path = f"inputs.{item.name}"
    message = f"{path}: its samples have a mean, and then the equation for {name} has no solution"
    hint = "Use a law without a mean."
    if isinstance(item.law, laws.GaussianRandomField):
        hint = "Set zero_mean: true."
    elif isinstance(item.law, laws.FourierSeries):
        hint = "Let wavenumber start at 1."
    refuse(issues, problem.spec.place(path), message, hint)


def _mean_is_zero(problem: Problem, item: Input) -> bool:
    """False only where samples certainly have a mean."""
    space = {c.name for c in problem.space}
    if not set(item.of) <= space:
        return True
    match item.law:
        case laws.GaussianRandomField(zero_mean=zero, mean=mean):
            return zero and mean == 0
        case laws.FourierSeries(wavenumber=(low, _)):
            return low > 0
        case laws.PiecewiseConstant() | laws.Uniform() | laws.LogUniform() | laws.Normal():
            return False
        case laws.Integer(low=low, high=high):
            return low == high == 0
        case laws.Constant(value=value):
            return value == 0
    return True


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
