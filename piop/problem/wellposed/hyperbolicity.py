"""Conservation laws: flux form where shocks form, and waves in every direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sympy import Derivative, Expr

from piop.errors import Issue
from piop.expression import write
from piop.forms.differentiate import partial
from piop.forms.numeric import evaluate
from piop.forms.pde import PDE
from piop.forms.terms import orders, read_terms, space_order
from piop.spec.names import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem


_STATES = 64
_CONDITION = 1e6  # of the eigenvectors; a defective matrix gives about 1e8
_REAL = 1e-6  # imaginary part of an eigenvalue, relative; a defective one is off by about 1e-8


def check_flux(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse products that are no divergence, and fluxes that are not hyperbolic."""
    if not _first_order(problem):
        return
    in_flux_form = True
    for raw, equation in zip(problem.residuals_raw, resolved.equations, strict=False):
        if product := _nonlinear_product(problem.pde, raw):
            in_flux_form = False
            message = (
                f"equations: '{product}' is not in flux form, and without viscosity shocks form, "
                "across which it has no meaning"
            )
            refuse(issues, equation.place, message, "Write d(u**2/2, x) in place of u*dx(u).")
    if in_flux_form and len(problem.unknowns) > 1:
        _check_hyperbolic(problem, resolved, issues)


def _first_order(problem: Problem) -> bool:
    """First order in time for all unknowns, first order in space, and nothing higher anywhere."""
    if problem.time is None or set(problem.time_order.values()) != {1}:
        return False
    found = [
        space_order(problem.pde, o)
        for r in problem.residuals[: len(problem.unknowns)]
        for u in problem.unknowns
        for o in orders(problem.pde, r, u)
    ]
    return max(found, default=0) == 1


def _nonlinear_product(pde: PDE, raw: Expr) -> str:
    """The first term with an unknown times a derivative of one in space, or an empty text."""
    space = {c.symbol for c in pde.space}
    for term in read_terms(raw, [pde.function(u) for u in pde.unknowns]):
        steep = [d for d in term.derivatives if space.intersection(d.variables)]
        bare = [value for value in term.values if not value.has(Derivative)]
        if steep and bare:
            return write(term.expression)
    return ""


def _check_hyperbolic(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Some state must have a flux Jacobian with real eigenvalues and a full set of eigenvectors."""
    assert problem.time is not None  # noqa: S101 - first order in time
    rows = problem.residuals[: len(problem.unknowns)]
    functions = [problem.function(u) for u in problem.unknowns]
    mass = _jacobian(rows, [Derivative(f, problem.time.symbol) for f in functions])
    for axis in problem.space:
        steep = _jacobian(rows, [Derivative(f, axis.symbol) for f in functions])
        fluxes = _numbers(problem, mass), _numbers(problem, steep)
        kinds = [_kind(m, s) for m, s in zip(*fluxes, strict=True)]
        if kinds and all(k for k in kinds if k is not None) and any(kinds):
            worst = (
                "real eigenvalues"
                if "complex" in kinds and "defective" not in kinds
                else ("a full set of eigenvectors")
            )
            message = (
                f"equations: the flux Jacobian along {axis.name} does not have {worst} at any of "
                f"{_STATES} states, so the system is not hyperbolic"
            )
            refuse(
                issues,
                resolved.equations[0].place,
                message,
                "Check the fluxes; is a pressure missing?",
            )
            return


def _jacobian(rows: tuple[Expr, ...], columns: list[Expr]) -> list[list[Expr]]:
    return [[partial(row, column) for column in columns] for row in rows]


def _numbers(problem: Problem, matrix: list[list[Expr]]) -> NDArray[np.float64]:
    """``[states, n, n]`` at random positive states, points and inputs."""
    random = np.random.default_rng(2)
    values: dict[str, NDArray[np.float64]] = {}

    def lookup(atom: Expr) -> NDArray[np.float64]:
        return values.setdefault(str(atom), 0.2 + 2 * random.random(_STATES))

    for name in (*problem.unknowns, *(i.name for i in problem.inputs)):  # the same for each matrix
        lookup(problem.function(name))
    for coordinate in problem.coordinates:
        values[coordinate.name] = coordinate.low + coordinate.length * random.random(_STATES)
    size = len(matrix)
    result = np.empty((_STATES, size, size))
    for i, row in enumerate(matrix):
        for j, entry in enumerate(row):
            result[:, i, j] = evaluate(entry, lookup)
    return result


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
