"""Known functions of the coordinates and inputs, such as those that hard constraints add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy as sp
import torch
from torch import Tensor

from piop.fields import InputFunction
from piop.forms.lift import lift_expression
from piop.lowering import compile_expressions
from piop.problem import Problem
from piop.problem.constraints import Constraints
from piop.residual import GridLift
from piop.residual.required_derivatives import InputDerivatives

Functions = Mapping[str, InputFunction]
"""The functions of a batch, by the names of the inputs."""


class KnownField:
    """Expressions of the coordinates and inputs, evaluated at points without gradient.

    Args:
        problem: Whose coordinates and inputs they use.
        expressions: K of them, free of unknowns.

    Attributes:
        expressions: The expressions.
        names: The inputs that occur in them.
    """

    def __init__(self, problem: Problem, expressions: Sequence[sp.Expr]) -> None:
        self.expressions = tuple(sp.sympify(e) for e in expressions)
        self._inputs = problem.inputs
        self._symbols = tuple(c.symbol for c in problem.coordinates)
        self._derivatives = InputDerivatives(self.expressions, self._inputs, self._symbols)
        atoms = [*self._symbols, *self._derivatives.atoms]
        self._values = compile_expressions(self.expressions, atoms)
        used = {name for name, _ in self._derivatives.entries}
        self.names = tuple(item.name for item in problem.inputs if item.name in used)

    @torch.no_grad()
    def __call__(self, functions: Functions, queries: Tensor) -> Tensor:
        """Evaluate at ``queries [B or 1, N, D]``: ``[B, N, K]``."""
        inputs = self._derivatives.at(functions, queries)
        found = self._values([*queries.unbind(-1), *inputs])
        shape = torch.broadcast_shapes(queries.shape[:-1], *(v.shape for v in found))
        return torch.stack([v.to(queries).expand(shape) for v in found], -1)

    @torch.no_grad()
    def on_grid(self, functions: Functions, axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on the tensor grid of ``axes``.

        Returns:
            ``[B, n_1, …, n_D, K]``, with 1 in place of n along the axes on which nothing depends.
        """
        lift = GridLift(self.expressions, self._inputs, self._symbols, axes)
        return lift(functions, axes[0])[0]


def hard_constraint_lift(
    problem: Problem, constraints: Constraints, mean: Sequence[float]
) -> KnownField | None:
    """Return the functions that are added to a network to meet initial data and boundary values.

    Args:
        problem: The problem.
        constraints: The hard constraints are met.
        mean: Constant of each channel without hard initial data, its units.

    Returns:
        For each channel what :func:`piop.forms.lift.lift_expression` writes; None where nothing
        is added.
    """
    if not any((*constraints.lift_orders, *constraints.hard_faces)):
        return None
    expressions = [
        lift_expression(problem.pde, channel, order, faces, 0.0 if order else constant)
        for channel, order, faces, constant in zip(
            problem.channels, constraints.lift_orders, constraints.hard_faces, mean, strict=True
        )
    ]
    return KnownField(problem, [e for e in expressions if e is not None])
