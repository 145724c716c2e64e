"""Steady equations on shapes in weak form, derived from their symbols.

Every residual is sorted as R = S + Σ_a ∂_a Q_a, with second derivatives inside the fluxes Q alone.
Times a test function v, integrated over the shape and by parts (P. G. Ciarlet, The Finite Element
Method for Elliptic Problems, 1978, sec. 1.2), it says

    ∫ (S v − Σ_a Q_a ∂_a v) dx + ∮ H v ds = 0,

where H is the flux Q·n through the boundary as the condition there gives it. Prescribed values take
the place of their equation: v vanishes on those faces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
from sympy import Derivative, Expr, Symbol

from piop.errors import NotSupportedError
from piop.geometry import Segment
from piop.problem.differentiate import differentiate, partial
from piop.problem.divergence import jumps
from piop.problem.parts import BoundaryCondition
from piop.problem.problem import Problem
from piop.problem.terms import additive_terms

Slope = tuple[int, int, int, int, Expr]


@dataclass(frozen=True)
class Integrand:
    """What is integrated: Σ expression · D_k v_i, with D_0 v = v, D_1 v = ∂v/∂x, D_2 v = ∂v/∂y.

    Attributes:
        terms: (equation i, k, expression); of coordinates, inputs, scalars, the unknowns and their
            first derivatives, and on the boundary of the outward normal.
        slopes: (equation i, k, unknown j, l, ∂expression/∂(D_l u_j)), zeros left out.
    """

    terms: tuple[tuple[int, int, Expr], ...]
    slopes: tuple[Slope, ...]


@dataclass(frozen=True)
class WeakForm:
    """A steady problem on a shape in weak form; equation i is tested with unknown i's functions.

    Attributes:
        atoms: Per unknown: itself and its derivatives along both axes.
        volume: Over the shape.
        faces: Face → what is integrated over it; nothing where all values are prescribed.
        values: Face → unknown's index → its prescribed value.
        linear: Whether the unknowns enter linearly.
        shared: Whether slopes are the same for all inputs, so that one matrix serves all samples.
        jumps: What jumps in the integrals over the shape: rough inputs, ``where`` and ``sign``.
        kinked: Whether something jumps in the fluxes, so that slopes of the solution do.
        gauge: Unknown's index → its mean over the shape, where nothing else fixes the constant.
    """

    atoms: tuple[tuple[Any, Any, Any], ...]
    volume: Integrand
    faces: Mapping[str, Integrand]
    values: Mapping[str, Mapping[int, Expr]]
    linear: bool
    shared: bool
    jumps: tuple[Expr, ...]
    kinked: bool
    gauge: Mapping[int, float]


def weak_form(problem: Problem) -> WeakForm:
    """Derive it.

    Raises:
        NotSupportedError: If the problem has another form, with the term or face that stands out.
    """
    _require_covered(problem)
    unknowns = [problem.function(n) for n in problem.channels]
    x, y = (c.symbol for c in problem.space)
    atoms = tuple((u, Derivative(u, x), Derivative(u, y)) for u in unknowns)
    sorter = _Sorter(problem, unknowns)
    sorted_terms = [sorter.sort(r) for r in problem.residuals_raw]
    volume = []
    for i, (source, fluxes) in enumerate(sorted_terms):
        volume += [(i, 0, source), *((i, k + 1, -q) for k, q in enumerate(fluxes))]
        own = [_slope(q, atoms[i][k]) for q in fluxes for k in (1, 2)]
        if not any(own):
            name = problem.channels[i]
            raise NotSupportedError(
                f"{name} has no second derivatives in equation {i + 1}, which is taken as its own"
            )
    values = {face: _prescribed(problem, found) for face, found in problem.boundary.items()}
    natural = {
        face: _Face(problem, face, atoms).through([q for _, q in sorted_terms], given)
        for face, given in values.items()
    }
    integrands = [_integrand(volume, atoms), *(_integrand(n, atoms) for n in natural.values())]
    slopes = [s[-1] for integrand in integrands for s in integrand.slopes]
    known = [i.symbol for i in problem.inputs]
    means = {**problem.gauge, **{a.name: a.mean for a in problem.auxiliaries if a.gauged}}
    return WeakForm(
        atoms,
        integrands[0],
        dict(zip(natural, integrands[1:], strict=True)),
        values,
        linear=not any(s.has(*unknowns) for s in slopes),
        shared=not any(s.has(*unknowns, *known) for s in slopes),
        jumps=tuple(dict.fromkeys(j for _, _, e in volume for j in _jumping(problem, e))),
        kinked=any(_jumping(problem, e) for _, k, e in volume if k),
        gauge={problem.channels.index(n): m for n, m in means.items()},
    )


def _require_covered(problem: Problem) -> None:
    reasons = []
    if problem.shape is None:
        reasons.append("it covers shapes in the plane (domain)")
    if problem.time is not None:
        reasons.append("it covers steady problems")
    if not problem.residuals or not problem.channels:
        reasons.append("there are no equations")
    if periodic := [c.name for c in problem.space if c.periodic]:
        reasons.append(f"{', '.join(periodic)} is periodic, and it wraps no shapes")
    kinds = {c.kind for found in problem.boundary.values() for c in found}
    if whole := kinds & {"outflow", "wall"}:
        reasons.append(f"the conditions {', '.join(sorted(whole))} are for conservation laws")
    if reasons:
        raise NotSupportedError(", ".join(reasons))


def _prescribed(problem: Problem, found: Sequence[BoundaryCondition]) -> dict[int, Expr]:
    return {problem.channels.index(c.unknown): c.values[0] for c in found if c.kind == "dirichlet"}


def _integrand(
    terms: Sequence[tuple[int, int, Expr]], atoms: Sequence[tuple[Any, ...]]
) -> Integrand:
    kept = tuple(t for t in terms if not t[2].is_zero)
    found = [
        (i, k, j, m, _slope(e, atom))
        for i, k, e in kept
        for j, group in enumerate(atoms)
        for m, atom in enumerate(group)
    ]
    return Integrand(kept, tuple(s for s in found if not s[-1].is_zero))


def _slope(expression: Expr, atom: Any) -> Expr:
    try:
        return partial(expression, atom)
    except ArithmeticError as error:
        raise NotSupportedError(f"{expression} has no slope in {atom} ({error})") from None


def _jumping(problem: Problem, expression: Expr) -> list[Expr]:
    """Rough inputs in an expression, and its jumps that hold no unknowns."""
    rough = [i.symbol for i in problem.inputs if i.of and expression.has(i.symbol)]
    own = [*rough, *expression.atoms(sympy.Piecewise, sympy.sign)]
    unknowns = [problem.function(n) for n in problem.channels]
    return [e for e in own if jumps(problem, e) and not e.has(*unknowns)]


def _expanded(expression: Expr) -> Expr:
    return sympy.Add(*additive_terms(expression))


class _Sorter:
    """Sorts the terms of a residual into a source and fluxes."""

    def __init__(self, problem: Problem, unknowns: Sequence[Any]) -> None:
        self.problem, self.unknowns = problem, unknowns
        self.axes = [c.symbol for c in problem.space]

    def sort(self, residual: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """Give S and Q_a."""
        source: Expr = sympy.S.Zero
        fluxes: list[Expr] = [sympy.S.Zero for _ in self.axes]
        for term in additive_terms(residual):
            if self.order(term) < 2:
                source += self.carried_out(term)
                continue
            factor, outer, inner = self.take_apart(term)
            axis = self.axes.index(outer)
            for part in additive_terms(inner):
                if self.order(part) < 1:
                    source += factor * self.carried_out(Derivative(part, outer, evaluate=False))
                    continue
                fluxes[axis] += factor * part
                source -= part * self.along(factor, outer, term)
        return source, tuple(fluxes)

    def order(self, expression: Any) -> int:
        """Highest derivative of an unknown, were all of them carried out."""
        if expression in self.unknowns:
            return 0
        if isinstance(expression, Derivative):
            inner = self.order(expression.expr)
            return inner if inner < 0 else inner + int(expression.derivative_count)  # type: ignore[arg-type]
        return max((self.order(a) for a in expression.args), default=-1)

    def take_apart(self, term: Expr) -> tuple[Expr, Symbol, Expr]:
        """Give factor, axis and expression of a term factor · ∂(expression)."""
        holders = [f for f in sympy.Mul.make_args(term) if self.order(f) > 1]
        if len(holders) != 1 or not isinstance(holders[0], Derivative):
            raise NotSupportedError(f"{term} is not linear in second derivatives")
        if self.order(holders[0]) > 2:
            raise NotSupportedError(f"{term} is of an order above two")
        *inner, outer = holders[0].variables
        held: Any = holders[0].expr
        within = self.carried_out(Derivative(held, *inner, evaluate=False)) if inner else held
        return term / holders[0], outer, self.carried_out(within)  # type: ignore[return-value]

    def carried_out(self, expression: Expr) -> Expr:
        """Carry out derivatives; jumps have none."""
        for derivative in expression.atoms(Derivative):
            held: Any = derivative.expr
            if held not in self.unknowns and jumps(self.problem, held):
                raise NotSupportedError(f"{derivative} differentiates a jump")
        return differentiate(expression)

    def along(self, factor: Expr, axis: Symbol, term: Expr) -> Expr:
        """The slope of what stands before a second derivative."""
        if not any(factor.has(s) for s in (*self.axes, *self.unknowns, *self.inputs)):
            return sympy.S.Zero
        if self.order(factor) > 0 or jumps(self.problem, factor):
            raise NotSupportedError(
                f"the coefficient of {term} stands outside the derivative; write it as a flux, "
                "div(a*grad(u))"
            )
        return differentiate(Derivative(factor, axis, evaluate=False))

    @property
    def inputs(self) -> list[Expr]:
        """Input functions."""
        return [i.symbol for i in self.problem.inputs if i.of]


class _Face:
    """What the conditions of one face say of the fluxes through it."""

    def __init__(self, problem: Problem, face: str, atoms: Sequence[tuple[Any, ...]]) -> None:
        self.problem, self.face, self.atoms = problem, face, atoms
        self.slopes = [d for group in atoms for d in group[1:]]
        names = [f"n{c.name}" for c in problem.space]
        self.normal: list[Any] = [Symbol(n, real=True) for n in names]
        self.known = self._straight()

    def _straight(self) -> dict[Any, Any]:
        """The normal where it is along one axis on the whole face."""
        assert self.problem.shape is not None  # noqa: S101 - required before
        pieces = [c for c in self.problem.shape.curves if c.face == self.face]
        if not all(isinstance(c, Segment) for c in pieces):
            return {}
        along = np.array([c.direction(0.0) for c in pieces])
        whole = np.round(along)
        if np.abs(along - whole).max() > 1e-12 or np.ptp(whole, axis=0).any():
            return {}
        x, y = (int(v) for v in whole[0])
        return dict(zip(self.normal, (sympy.Integer(y), sympy.Integer(-x)), strict=True))

    def through(
        self, fluxes: Sequence[tuple[Expr, ...]], given: Mapping[int, Expr]
    ) -> list[tuple[int, int, Expr]]:
        """Give the flux of each equation whose unknown is not prescribed: (equation, 0, H)."""
        conditions = [c for c in self.problem.boundary[self.face] if c.kind != "dirichlet"]
        return [
            (i, 0, self._flux(i, q, conditions)) for i, q in enumerate(fluxes) if i not in given
        ]

    def _flux(self, i: int, q: Sequence[Expr], conditions: Sequence[BoundaryCondition]) -> Expr:
        outward = self._here(sympy.Add(*(a * n for a, n in zip(q, self.normal, strict=True))))
        name = self.problem.channels[i]
        for condition in sorted(conditions, key=lambda c: c.unknown != name):
            if condition.unknown in ("", name):
                found = self._without_slopes(outward, self._here(self._residual(condition)))
                if found is not None:
                    return found
        raise NotSupportedError(
            f"on {self.face} no condition gives the flux {outward} of equation {i + 1}; write it "
            "as an equation there, with the normal nx, ny"
        )

    def _here(self, expression: Expr) -> Expr:
        here: Any = expression.xreplace(self.known)
        return _expanded(here)

    def _residual(self, condition: BoundaryCondition) -> Expr:
        if condition.kind == "general":
            return differentiate(condition.values[0])
        u, *slopes = self.atoms[self.problem.channels.index(condition.unknown)]
        outward = sympy.Add(*(d * n for d, n in zip(slopes, self.normal, strict=True)))
        if condition.kind == "robin":
            alpha, beta, g = condition.values
            return alpha * u + beta * outward - g
        return outward - condition.values[0]

    def _without_slopes(self, outward: Expr, condition: Expr) -> Expr | None:
        """Subtract that multiple of a condition which leaves no derivative of an unknown."""
        ratios: list[Expr] = [sympy.S.One, sympy.S.NegativeOne]
        for atom in self.slopes:
            below = _slope(condition, atom)
            if not below.is_zero:
                ratios.append(_slope(outward, atom) / below)
        for ratio in ratios:
            left = _expanded(outward - ratio * condition)
            if not ratio.is_zero and not left.has(*self.slopes):
                return left
        return outward if not outward.has(*self.slopes) and outward.is_zero else None
