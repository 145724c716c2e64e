"""Values of expressions at a few points, for a few draws of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray
from sympy import Expr

from piop.expression.functions import evaluate
from piop.spec.distributions import Integer

if TYPE_CHECKING:
    from piop.problem.problem import Problem

Array = NDArray[np.float64]

POINTS = 7
ALONG = 64
"""Points along an axis that tell the size of an expression."""
NEGLIGIBLE = 2.5e-7
"""Difference, relative to the size of the expression, that a reference solution of the usual
tolerance, four times this, does not show: of a jump J over the ends of a period, J/π·√(2/N) lies
beyond N/2 modes."""


@final
class RandomPoints:
    """Random points of the domain, at which inputs have random values.

    An input has the same value wherever it occurs, so that what it does not matter to is zero.

    Args:
        problem: Its inputs of known bounds have values within them, all others normal ones.
    """

    def __init__(self, problem: Problem) -> None:
        self.random = np.random.default_rng(0)
        self.values: dict[Expr, Array] = {
            c.symbol: c.low + c.length * self.random.random(POINTS) for c in problem.coordinates
        }
        for item in problem.inputs:
            if item.distribution is not None and (ends := item.distribution.extremes):
                if isinstance(item.distribution, Integer):
                    drawn = self.random.integers(int(ends[0]), int(ends[-1]) + 1, POINTS)
                    self.values[item.symbol] = drawn.astype(float)
                    continue
                drawn = self.random.random(POINTS)
                self.values[item.symbol] = ends[0] + (ends[-1] - ends[0]) * drawn

    def evaluate(self, expression: Expr, fixed: Mapping[Expr, Array]) -> Array:
        """Return values of an expression at the points ``[..., POINTS]``.

        Args:
            expression: Of coordinates and inputs.
            fixed: Values ``[..., POINTS or 1]`` that take the place of those of the points.
        """

        def lookup(atom: Expr) -> Array:
            if atom in fixed:
                return fixed[atom]
            if atom not in self.values:
                self.values[atom] = self.random.standard_normal(POINTS)
            return self.values[atom]

        shape = np.broadcast_shapes((POINTS,), *(values.shape for values in fixed.values()))
        return np.broadcast_to(np.asarray(evaluate(expression, lookup), dtype=float), shape)
