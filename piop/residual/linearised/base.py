"""One step of Newton's method for the values of a field on a lattice.

An approximation u with residual r(u) of its equations and b(u) of its conditions has to first order
the error e of Newton's method: J e = r inside and J e = b where a condition holds, J the derivative
of both at u. It measures a residual by what it does to the solution. See ``docs/math.md``, 21.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sympy as sp
import torch
from sympy import Expr
from torch import Tensor

from piop.lowering import compile_expressions
from piop.residual.base import DerivedFunctions, ResidualValues
from piop.residual.lattice import Lattice, LatticeResidual
from piop.residual.linearised.axis_nodes import AxisNodes, IntervalNodes, PeriodicNodes

if TYPE_CHECKING:
    from piop.problem import Problem

BOUND = 3.0
"""Largest error, in sizes of its unknown: far from the solution Newton's method overshoots."""


class LinearisedResidual(LatticeResidual):
    """Residuals of equations and conditions on the faces of a box, as the error that they cause.

    Args:
        problem: The problem.
        lattice: Points of each function.
        sizes: Typical size of each unknown, its own units.
        unit: What an error counts in when it is a term of a loss.
        derived: Functions that lifts may contain beside the inputs.

    Attributes:
        expressions: Equations, then the conditions of the faces.
        slopes: Number of an expression, channel and multi-index of its partial derivatives, in the
            order in which they are evaluated after the expressions.
        same: Whether these depend on the coordinates alone: equations and conditions are linear,
            and their coefficients no inputs.
        shape: Points of the lattice along each coordinate.
        nodes: Those along each axis of space.
        steps_per_solution: Steps of a training for which the error is solved for once: more than
            one where solving takes far longer than evaluating a network.
    """

    holds_walls = True
    steps_per_solution = 1

    def __init__(
        self,
        problem: Problem,
        lattice: Lattice,
        sizes: Sequence[float],
        unit: float,
        derived: DerivedFunctions | None = None,
    ) -> None:
        conditions = problem.pde.face_conditions
        self.expressions = [
            *problem.residuals,
            *(problem.pde.condition_residual(face, condition) for face, condition in conditions),
        ]
        super().__init__(problem, lattice, self.expressions, derived)
        self.shape = lattice.points if problem.time is None else (lattice.times, *lattice.points)
        self._channels, self._unit = len(problem.channels), unit
        self._sizes = list(sizes)
        slopes = partial_derivatives(self.expressions, self.atoms[-len(self.wanted) :])
        given = self.atoms[len(problem.coordinates) :]
        self.same = not any(slope.has(*given) for slope in slopes.values())
        self.slopes = [(number, *self.wanted[which]) for number, which in slopes]
        self._combine = compile_expressions([*self.expressions, *slopes.values()], self.atoms)
        self.nodes: list[AxisNodes] = [
            (PeriodicNodes if axis.periodic else IntervalNodes)(axis, count)
            for axis, count in zip(problem.space, lattice.points, strict=True)
        ]

    def __call__(
        self,
        field: Any,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Find the error of a field to first order.

        Args:
            field: Callable on queries; it receives a plain tensor.
            queries: ``[B, N, D]`` as :meth:`place` returns them.
            input_values: As :meth:`evaluate_inputs` returns them.
            parameters: None.

        Returns:
            e/unit ``[B, N, C]``; no derivatives. Its gradient is that of the field's values less
            the corrected ones, which are held fixed.

        Raises:
            UsageError: For other input values.
        """
        values = field(queries)
        return ResidualValues(self.misfit(values, self.corrected(values, queries, input_values)))

    @torch.no_grad()
    def corrected(self, values: Tensor, queries: Tensor, input_values: Sequence[Tensor]) -> Tensor:
        """Subtract from the values of a field their error to first order.

        Args:
            values: ``[B, N, C]``.
            queries: ``[B, N, D]`` as :meth:`place` returns them.
            input_values: As :meth:`evaluate_inputs` returns them.

        Returns:
            ``[B, N, C]``, without gradient.

        Raises:
            UsageError: For other input values.
        """
        self.require(input_values)
        now = values.detach()
        return now - self.error(now.double(), queries, input_values).to(now)

    def misfit(self, values: Tensor, corrected: Tensor) -> Tensor:
        """Compare values ``[B, N, C]`` with corrected ones, as the residual does."""
        return (values - corrected) / self._unit

    @abstractmethod
    def error(self, values: Tensor, queries: Tensor, input_values: Sequence[Tensor]) -> Tensor:
        """Solve J e = r for the errors of values.

        Args:
            values: ``[B, N, C]`` float64.
            queries: ``[B, N, D]`` as :meth:`place` returns them.
            input_values: As :meth:`evaluate_inputs` returns them.

        Returns:
            e ``[B, N, C]`` float64, no larger than :data:`BOUND` sizes of its unknown.
        """

    @abstractmethod
    def interpolation_weights(self, queries: Tensor, places: Sequence[Tensor]) -> list[Tensor]:
        """Return the weights by which values on a lattice are interpolated, axis by axis.

        Args:
            queries: Of one function ``[N, D]`` as :meth:`place` returns them.
            places: Positions along each axis, time first, ``[m_i]`` float64.

        Returns:
            ``[m_i, n_i]`` float64 each.
        """

    @abstractmethod
    def fractions(self, queries: Tensor) -> Tensor:
        """Return the fraction of the domain that each point stands for, in integrals ``[B, N]``.

        Args:
            queries: ``[B, N, D]`` as :meth:`place` returns them.
        """

    def limit(self, error: Tensor) -> Tensor:
        """Bound errors ``[…, C]`` by :data:`BOUND` sizes of their unknowns."""
        bound = error.new_tensor(self._sizes) * BOUND
        return torch.maximum(torch.minimum(error, bound), -bound)


def partial_derivatives(
    expressions: Sequence[Expr], atoms: Sequence[Expr]
) -> dict[tuple[int, int], Expr]:
    """Differentiate expressions with respect to atoms: numbers of both → what is not zero."""
    names = [sp.Dummy(real=True) for _ in atoms]
    there, back = dict(zip(atoms, names, strict=True)), dict(zip(names, atoms, strict=True))
    found: dict[tuple[int, int], Expr] = {}
    for number, expression in enumerate(expressions):
        plain: Any = expression.xreplace(there)
        for which, name in enumerate(names):
            slope: Any = sp.diff(plain, name)
            if slope != 0:
                found[number, which] = slope.xreplace(back)
    return found
