"""What jumps where a periodic axis closes: initial data, sources, data on other faces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from sympy import Expr

from piop.domain import Coordinate
from piop.errors import Issue, Place
from piop.expression.functions import JUMPS
from piop.forms.numeric import evaluate
from piop.spec.names import refuse
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
