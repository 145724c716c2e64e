"""Streams of known symbolic functions, such as initial data, so that they add to a network's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import factorial
from typing import Any, final

import numpy as np
import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.fields import InputFunction
from piop.forms.partitions import Index
from piop.forms.streams import StreamPlan
from piop.lowering import compile_expressions
from piop.residual.inputs import InputTerm, evaluate_terms, input_terms, term_atoms
from piop.residual.streams import Stream


@final
class Lift:
    """The streams of one known function per channel.

    Args:
        plan: The streams.
        expressions: For each channel an expression in coordinates and inputs; None stands for zero.
        inputs: The input functions of the problem.

    Attributes:
        terms: The inputs and derivatives of inputs that the streams need, as
            ``Residual.input_terms``.

    Example:
        Hard initial data, u = u0 + (t − t0)·net::

            lift = residual.compile_lift([problem.initial["u"][0]])
            rows = lift(functions, queries)
            field = lambda q: lift.attach(rows, q) + (q[..., :1] - t0) * net(inputs, q)
            residual(field, queries, residual.evaluate_inputs(functions, queries))
    """

    def __init__(
        self, plan: StreamPlan, expressions: Sequence[Expr | None], inputs: Sequence[Any]
    ) -> None:
        if len(expressions) != len(plan.channels):
            raise ValueError(f"{len(expressions)} functions for channels {plan.channels}")
        self.plan, self.inputs = plan, tuple(inputs)
        known = [sympy.S.Zero if e is None else sympy.sympify(e) for e in expressions]
        sums = [((i, sympy.S.One),) for i in plan.explicit] + [s.terms for s in plan.collapsed]
        self._pivots, self._inverse = _pivots(plan)
        if self._pivots is None:
            sums += [((i, sympy.S.One),) for i in plan.top]
        rows = [_apply(terms, e, plan) for terms in sums for e in known]
        self.terms: tuple[InputTerm, ...] = input_terms([*rows, *known], plan.coordinates)
        atoms = [*plan.coordinates, *term_atoms(self.terms, self.inputs, plan.coordinates)]
        self._rows = compile_expressions(rows, atoms)
        self._values = compile_expressions(known, atoms)

    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate all streams, without gradient.

        Args:
            functions: By name.
            queries: ``[B or 1, N, D]``.

        Returns:
            ``[S, B, N, C]``; where no coefficient of a collapsed stream is a number the top
            derivatives follow as further rows, for nested reverse mode.
        """
        rows = self._evaluate(self._rows, functions, queries)
        return rows.unflatten(0, (-1, len(self.plan.channels))).movedim(1, -1)

    def value(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate the functions alone: ``[B, N, C]``."""
        return self._evaluate(self._values, functions, queries).movedim(0, -1)

    def attach(self, rows: Tensor, queries: Any) -> Any:
        """Make rows part of a computation on queries.

        Args:
            rows: ``[S, B, N, C]`` as calling the lift gives them.
            queries: What the field was called with: a stream, or a tensor.

        Returns:
            A stream; for a tensor its values ``[B, N, C]``, with the same derivatives under nested
            reverse mode, by a Taylor polynomial about the queries.
        """
        count = self.plan.count
        if isinstance(queries, Stream):
            return queries.like(rows[:count])
        if not (torch.is_grad_enabled() and queries.requires_grad):
            return rows[0]
        explicit, collapsed = rows[: len(self.plan.explicit)], rows[len(self.plan.explicit) : count]
        if self._pivots is None:
            pairs = [*zip(self.plan.explicit, explicit, strict=True)]
            pairs += zip(self.plan.top, rows[count:], strict=True)
        else:
            inverse = torch.tensor(self._inverse, dtype=rows.dtype, device=rows.device)
            top = torch.einsum("tk,k...->t...", inverse, collapsed)
            pairs = [*zip(self.plan.explicit, explicit, strict=True)]
            pairs += zip(self._pivots, top, strict=True)
        step = queries - queries.detach()
        return sum(row * _monomial(step, index) for index, row in pairs)

    def _evaluate(
        self, compiled: Any, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> Tensor:
        terms = evaluate_terms(self.terms, functions, queries, self.inputs, self.plan.coordinates)
        with torch.no_grad():
            found = compiled([*queries.detach().unbind(-1), *terms])
            places = torch.broadcast_shapes(queries.shape[:-1], *(v.shape for v in found))
            return torch.stack([v.expand(places) for v in found])


def _pivots(plan: StreamPlan) -> tuple[tuple[Index, ...] | None, list[list[float]]]:
    """Find top derivatives that can carry the collapsed sums, which are all that is ever needed.

    Returns:
        Multi-indices whose coefficients are numbers, and the matrix that turns the sums into those
        derivatives (the other top derivatives being zero); None if they do not span the sums.
    """
    maps = [dict(s.terms) for s in plan.collapsed]
    usable = [i for i in plan.top if all(m.get(i, sympy.S.Zero).is_number for m in maps)]
    matrix = [[float(m.get(i, 0)) for i in usable] for m in maps]
    if not maps:
        return (), []
    if np.linalg.matrix_rank(np.array(matrix).reshape(len(maps), -1)) < len(maps):
        return None, []
    return tuple(usable), np.linalg.pinv(np.array(matrix)).tolist()


def _apply(terms: Sequence[tuple[Index, Expr]], expression: Expr, plan: StreamPlan) -> Expr:
    total = sympy.S.Zero
    for index, coefficient in terms:
        counts = [(s, n) for s, n in zip(plan.coordinates, index, strict=True) if n]
        total += coefficient * (sympy.diff(expression, *counts) if counts else expression)
    return total


def _monomial(step: Tensor, index: Index) -> Tensor | float:
    """Give Π step_i^n_i / n_i! as ``[B, N, 1]``."""
    out: Any = 1.0
    for i, n in enumerate(index):
        out = out * step[..., i : i + 1] ** n / factorial(n) if n else out
    return out
