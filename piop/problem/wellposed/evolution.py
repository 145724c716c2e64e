"""Ill-posed evolutions: short waves that grow without bound, fluxes that are not hyperbolic.

Growth: put u = exp(λ t + i k·x) into the part that is linear with frozen coefficients. The initial
value problem is well posed (Petrovskii) only if Re λ(k) stays bounded above as |k| grows. See
Kreiss and Lorenz 1989, Initial-Boundary Value Problems and the Navier-Stokes Equations, ch. 2.

Conservation laws: flux form where shocks form, and waves in every direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sympy import Derivative, Expr, Symbol

from piop.errors import Issue
from piop.expression import write
from piop.expression.functions import evaluate
from piop.forms.differentiate import gradient
from piop.forms.pde import PDE
from piop.forms.terms import LinearTerm, highest_space_order, read_terms, space_order, split_terms
from piop.spec.formulas import Resolved
from piop.spec.model import issue_at

if TYPE_CHECKING:
    from piop.problem.problem import Problem


_SIZES = (1e4, 1e7, 1e10)  # |k|, so large that only the highest orders count
_NOISE = 1e-6  # of an eigenvalue of a matrix; a single equation has none
_POINTS = 3

_Frozen = tuple[int, LinearTerm, float]
"""Number of the equation, a linear term of it, and its coefficient at one point."""


def check_growth(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Refuse an evolution whose symbol grows with the wavenumber."""
    evolving = {problem.pde.time_order[u] for u in problem.unknowns}
    if problem.time is None or len(evolving) != 1 or 0 in evolving:
        return  # algebraic unknowns such as a pressure are not decided here
    parts = [split_terms(problem.pde, r) for r in problem.residuals]
    if _decided_by_nonlinear(problem, parts):
        return
    terms = [(row, term) for row, part in enumerate(parts) for term in part[0]]
    for values in _settings(problem):
        if _growth(problem, terms, max(evolving), values):
            drawn = [
                f"{item.name} = {values[item.symbol]:.3g}"
                for item in problem.inputs
                if item.symbol in values and any(t.coefficient.has(item.symbol) for _, t in terms)
            ]
            where = f" where {' and '.join(drawn)}" if drawn else ""
            message = (
                f"equations: short waves grow without bound{where} (the real part of the symbol "
                "grows with the wavenumber), so the problem is ill posed, like a heat equation run "
                "backward"
            )
            hint = "Check the sign of the highest derivatives"
            hint += ", and which values are drawn." if drawn else "."
            yield issue_at(resolved.equations[0].place, message, hint)
            return


def _decided_by_nonlinear(
    problem: Problem, parts: list[tuple[list[LinearTerm], list[Expr], list[Expr]]]
) -> bool:
    """Whether a nonlinear term is of the highest order: frozen coefficients say nothing then."""
    pde = problem.pde
    linear = max((space_order(pde, t.order) for p in parts for t in p[0]), default=0)
    return highest_space_order(pde, [t for p in parts for t in p[1]], pde.channels) >= linear


def _settings(problem: Problem) -> list[dict[Expr, float]]:
    """Points of the domain times the ends of the values that each input's distribution draws."""
    random = np.random.default_rng(0)
    drawn = [(i.symbol, i.distribution.reach) for i in problem.inputs if i.distribution]
    known = {symbol: ends for symbol, ends in drawn if ends}
    settings = []
    for ends in islice(product(*known.values()), 16):
        for _ in range(_POINTS):
            values: dict[Expr, float] = {
                c.symbol: c.low + c.length * random.random() for c in problem.coordinates
            }
            settings.append(values | dict(zip(known, ends, strict=True)))
    return settings


def _growth(
    problem: Problem, terms: list[tuple[int, LinearTerm]], order: int, values: dict[Expr, float]
) -> bool:
    highest = max(space_order(problem.pde, term.order) for _, term in terms)
    known: list[_Frozen] = []
    for row, term in terms:
        number = float(evaluate(term.coefficient, lambda atom: values.get(atom, np.nan)))
        if np.isfinite(number):
            known.append((row, term, number))
        elif space_order(problem.pde, term.order) == highest or term.order[0]:
            return False  # an input without a known range: its sign is not known
    for direction in _directions(len(problem.space)):
        rates = [_rate(problem, known, order, size * direction) for size in _SIZES]
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
    return np.unique(found / np.linalg.norm(found, axis=1, keepdims=True), axis=0)


def _rate(
    problem: Problem, terms: list[_Frozen], order: int, wave: NDArray[np.float64]
) -> tuple[float, float] | None:
    """(largest Re λ, largest |λ|) of the symbol at one wave vector; None where it is singular."""
    primary, count = len(problem.unknowns), len(problem.channels)
    blocks = np.zeros((order + 1, count, count), dtype=complex)
    with np.errstate(all="ignore"):  # what is not finite is seen below
        for i, term, c in terms:
            j = problem.channels.index(term.unknown)
            blocks[term.order[0], i, j] += c * np.prod((1j * wave) ** np.array(term.order[1:]))
    if not np.isfinite(blocks).all():
        return None
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


_STATES = 64
_CONDITION = 1e6  # of the eigenvectors; a defective matrix gives about 1e8
_REAL = 1e-6  # imaginary part of an eigenvalue, relative; a defective one is off by about 1e-8


def check_flux(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Refuse products that are no divergence, and fluxes that are not hyperbolic."""
    if not _first_order(problem):
        return
    in_flux_form = True
    for raw, equation in zip(problem.pde.residuals_raw, resolved.equations, strict=False):
        if product := _nonlinear_product(problem.pde, raw):
            in_flux_form = False
            message = (
                f"equations: '{product}' is not in flux form, and without viscosity shocks form, "
                "across which it has no meaning"
            )
            yield issue_at(equation.place, message, "Write d(u**2/2, x) in place of u*dx(u).")
    if in_flux_form and len(problem.unknowns) > 1 and problem.time is not None:
        yield from _check_hyperbolic(problem, problem.time.symbol, resolved)


def _first_order(problem: Problem) -> bool:
    """First order in time for all unknowns, first order in space, and nothing higher anywhere."""
    if problem.time is None or set(problem.pde.time_order.values()) != {1}:
        return False
    rows = problem.residuals[: len(problem.unknowns)]
    return highest_space_order(problem.pde, rows, problem.unknowns) == 1


def _nonlinear_product(pde: PDE, raw: Expr) -> str:
    """The first term with an unknown times a derivative of one in space, or an empty text."""
    space = {c.symbol for c in pde.space}
    for term in read_terms(raw, [pde.function(u) for u in pde.unknowns]):
        steep = [d for d in term.derivatives if space.intersection(d.variables)]
        bare = [value for value in term.values if not value.has(Derivative)]
        if steep and bare:
            return write(term.expression)
    return ""


def _check_hyperbolic(problem: Problem, time: Symbol, resolved: Resolved) -> Iterator[Issue]:
    """Some state must have a flux Jacobian with real eigenvalues and a full set of eigenvectors."""
    rows = problem.residuals[: len(problem.unknowns)]
    functions = [problem.function(u) for u in problem.unknowns]
    mass = [gradient(row, [Derivative(f, time) for f in functions]) for row in rows]
    for axis in problem.space:
        slopes = [Derivative(f, axis.symbol) for f in functions]
        steep = [gradient(row, slopes) for row in rows]
        fluxes = _numbers(problem, mass), _numbers(problem, steep)
        kinds = [_kind(m, s) for m, s in zip(*fluxes, strict=True)]
        if all(k for k in kinds if k is not None) and any(kinds):
            only_complex = "complex" in kinds and "defective" not in kinds
            lacks = "real eigenvalues" if only_complex else "a full set of eigenvectors"
            message = (
                f"equations: the flux Jacobian along {axis.name} does not have {lacks} at any of "
                f"{_STATES} states, so the system is not hyperbolic"
            )
            hint = "Check the fluxes; is a pressure missing?"
            yield issue_at(resolved.equations[0].place, message, hint)
            return


def _numbers(problem: Problem, matrix: Sequence[Sequence[Expr]]) -> NDArray[np.float64]:
    """``[states, n, n]`` at random positive states, points and inputs."""
    random = np.random.default_rng(2)
    values: dict[str, NDArray[np.float64]] = {}

    def lookup(atom: Expr) -> NDArray[np.float64]:
        return values.setdefault(str(atom), 0.2 + 2 * random.random(_STATES))

    for name in (*problem.unknowns, *(i.name for i in problem.inputs)):  # the same for each matrix
        lookup(problem.function(name))
    for coordinate in problem.coordinates:
        values[coordinate.name] = coordinate.low + coordinate.length * random.random(_STATES)
    rows = [[np.broadcast_to(evaluate(e, lookup), _STATES) for e in row] for row in matrix]
    return np.moveaxis(np.array(rows, dtype=float), -1, 0)


def _kind(mass: NDArray[np.float64], steep: NDArray[np.float64]) -> str | None:
    """Empty for a hyperbolic state, else what is wrong; None where it cannot be said."""
    try:
        matrix = np.linalg.solve(mass, steep)
        values, vectors = np.linalg.eig(matrix)
    except np.linalg.LinAlgError:
        return None
    size = np.abs(values).max()
    if (np.abs(np.imag(values)) > _REAL * size).any():
        return "complex"
    return "defective" if np.linalg.cond(vectors) > _CONDITION else ""
