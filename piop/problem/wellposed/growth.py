"""Backward heat: equations whose short waves grow without bound.

Derivation: put u = exp(λ t + i k·x) into the part that is linear with frozen coefficients. The
initial value problem is well posed (Petrovskii) only if Re λ(k) stays bounded above as |k| grows.
See Kreiss and Lorenz 1989, Initial-Boundary Value Problems and the Navier-Stokes Equations, ch. 2.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sympy import Expr

from piop.errors import Issue
from piop.forms.numeric import evaluate
from piop.forms.parts import Input
from piop.forms.terms import LinearTerm, orders, space_order, split_terms
from piop.spec import distributions as laws
from piop.spec.names import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem

_SIZES = (1e4, 1e7, 1e10)  # |k|, so large that only the highest orders count
_NOISE = 1e-6  # of an eigenvalue of a matrix; a single equation has none
_POINTS = 3


def check_growth(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse an evolution whose symbol grows with the wavenumber."""
    evolving = {problem.time_order[u] for u in problem.unknowns}
    if problem.time is None or len(evolving) != 1 or 0 in evolving:
        return  # algebraic unknowns such as a pressure are not decided here
    parts = [split_terms(problem.pde, r) for r in problem.residuals]
    if _decided_by_nonlinear(problem, parts):
        return
    terms = [p[0] for p in parts]
    for lookup in _settings(problem):
        rate = _growth(
            problem, terms, evolving.pop() if len(evolving) > 1 else max(evolving), lookup
        )
        if rate:
            message = (
                "equations: short waves grow without bound (the real part of the symbol grows with "
                "the wavenumber), so the problem is ill posed, like a heat equation run backward"
            )
            place = resolved.equations[0].place
            refuse(issues, place, message, "Check the sign of the highest derivatives.")
            return


def _decided_by_nonlinear(
    problem: Problem, parts: list[tuple[list[LinearTerm], list[Expr], list[Expr]]]
) -> bool:
    """Whether a nonlinear term is of the highest order: frozen coefficients say nothing then."""
    linear = max((space_order(problem.pde, t.order) for p in parts for t in p[0]), default=0)
    nonlinear = max(
        (
            space_order(problem.pde, o)
            for p in parts
            for t in p[1]
            for u in problem.channels
            for o in orders(problem.pde, t, u)
        ),
        default=0,
    )
    return nonlinear >= linear


def _settings(problem: Problem) -> list[dict[Expr, float]]:
    """Points of the domain times the extremes of each input's law."""
    random = np.random.default_rng(0)
    known = [i for i in problem.inputs if _range(i)]
    ranges = [_range(i) for i in known]
    settings = []
    for extremes in list(product(*ranges))[:16]:
        for _ in range(_POINTS):
            values: dict[Expr, float] = {
                c.symbol: c.low + c.length * random.random() for c in problem.coordinates
            }
            values.update({i.symbol: v for i, v in zip(known, extremes, strict=True)})
            settings.append(values)
    return settings


def _range(item: Input) -> tuple[float, ...]:
    match item.law:
        case (
            laws.Uniform(low, high)
            | laws.LogUniform(low, high)
            | laws.Integer(low, high)
            | laws.PiecewiseConstant(_, low, high)
        ):
            return (low, high)
        case laws.Constant(value):
            return (value,)
    return ()


def _growth(
    problem: Problem, terms: list[list[LinearTerm]], order: int, values: dict[Expr, float]
) -> bool:
    def lookup(atom: Expr) -> float:
        return values.get(atom, np.nan)

    numbers = [[float(evaluate(t.coefficient, lookup)) for t in row] for row in terms]
    highest = max(space_order(problem.pde, t.order) for row in terms for t in row)
    for row, coefficients in zip(terms, numbers, strict=True):
        for term, c in zip(row, coefficients, strict=True):
            if not np.isfinite(c):  # an input without a known range: its sign is not known
                if space_order(problem.pde, term.order) == highest or term.order[0]:
                    return False
                coefficients[row.index(term)] = 0.0
    for direction in _directions(len(problem.space)):
        rates = [_rate(problem, terms, numbers, order, size * direction) for size in _SIZES]
        if None in rates:
            return False
        (_, (second, _), (last, size)) = rates  # type: ignore[misc]
        noise = 0.0 if len(problem.channels) == 1 and order == 1 else _NOISE * size
        if last > noise and last > 2 * max(second, 0.0):
            return True
    return False


def _directions(dimensions: int) -> NDArray[np.float64]:
    random = np.random.default_rng(1).standard_normal((6, dimensions))
    found = np.concatenate([np.eye(dimensions), -np.eye(dimensions), random])
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _rate(
    problem: Problem,
    terms: list[list[LinearTerm]],
    numbers: list[list[float]],
    order: int,
    wave: NDArray[np.float64],
) -> tuple[float, float] | None:
    """(largest Re λ, largest |λ|) of the symbol at one wave vector; None where it is singular."""
    primary, count = len(problem.unknowns), len(problem.channels)
    blocks = np.zeros((order + 1, count, count), dtype=complex)
    for i, (row, values) in enumerate(zip(terms, numbers, strict=True)):
        for term, c in zip(row, values, strict=True):
            j = problem.channels.index(term.unknown)
            blocks[term.order[0], i, j] += c * np.prod((1j * wave) ** np.array(term.order[1:]))
    try:
        if count > primary:  # auxiliary unknowns are functions of the others
            inner = blocks[0, primary:, primary:]
            solved = np.linalg.solve(inner, blocks[0, primary:, :primary])
            blocks = blocks[:, :primary, :primary] - blocks[:, :primary, primary:] @ solved
        blocks = np.linalg.solve(blocks[order], blocks[:order])
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(blocks).all():
        return None
    companion = np.zeros((order * primary, order * primary), dtype=complex)
    companion[:-primary, primary:] = np.eye((order - 1) * primary)
    companion[-primary:] = -np.concatenate(list(blocks), axis=1)
    values_ = np.linalg.eigvals(companion)
    return float(values_.real.max()), float(np.abs(values_).max())
