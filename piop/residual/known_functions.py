"""Known symbolic functions, such as initial data, that are added to a network's output."""

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
from piop.forms.pde import Input
from piop.forms.stream_plan import Index, StreamPlan
from piop.lowering import compile_expressions
from piop.residual.base import DerivedFunctions, Lift
from piop.residual.required_inputs import InputDerivatives, along_axes
from piop.residual.stream_tensor import carries_streams


@final
class KnownField:
    """Expressions of the coordinates and inputs, evaluated without gradient.

    Args:
        expressions: K of them, free of unknowns; None stands for zero.
        inputs: The inputs of the problem.
        coordinates: Symbols of the D coordinates.
        derived: Functions that the expressions may contain beside the inputs.

    Attributes:
        expressions: The expressions.
        derived: See above; None where the expressions contain none of them.
        input_derivatives: The inputs, and derivatives of inputs, that they contain.
        names: The names of the inputs of the problem that are needed.
    """

    def __init__(
        self,
        expressions: Sequence[Expr | None],
        inputs: Sequence[Input],
        coordinates: Sequence[sympy.Symbol],
        derived: DerivedFunctions | None = None,
    ) -> None:
        self.expressions = _expressions(expressions)
        every = [*inputs, *(derived.inputs if derived else ())]
        self.input_derivatives = InputDerivatives(self.expressions, every, coordinates)
        used = {name for name, _ in self.input_derivatives.entries}
        needed = derived is not None and any(item.name in used for item in derived.inputs)
        self.derived = derived if needed else None
        used |= {*self.derived.needs} if self.derived else set()
        self.names = tuple(item.name for item in inputs if item.name in used)
        atoms = [*coordinates, *self.input_derivatives.atoms]
        self._values = compile_expressions(self.expressions, atoms)

    @torch.no_grad()
    def values(self, functions: Mapping[str, InputFunction], queries: Tensor) -> list[Tensor]:
        """Evaluate at ``queries [B or 1, N, D]``, each giving ``[B, N]``."""
        functions = self._all_functions(functions, queries.device)
        inputs = self.input_derivatives.at(functions, queries)
        found = self._values([*queries.detach().unbind(-1), *inputs])
        shape = torch.broadcast_shapes(queries.shape[:-1], *(v.shape for v in found))
        return [v.to(queries).expand(shape) for v in found]

    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate at ``queries [B or 1, N, D]``: ``[B, N, K]``."""
        return torch.stack(self.values(functions, queries), -1)

    @torch.no_grad()
    def on_grid(self, functions: Mapping[str, InputFunction], axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on the tensor grid of ``axes``.

        Returns:
            ``[B, n_1, …, n_D, K]``, with 1 in place of n along the axes on which nothing depends.
        """
        functions = self._all_functions(functions, axes[0].device)
        inputs = self.input_derivatives.on_grid(functions, axes)
        found = self._values([*along_axes(axes), *inputs])
        shape = torch.broadcast_shapes(*(v.shape for v in found), (1,) * (len(axes) + 1))
        return torch.stack([v.to(axes[0]).expand(shape) for v in found], -1)

    def _all_functions(
        self, functions: Mapping[str, InputFunction], device: torch.device
    ) -> Mapping[str, InputFunction]:
        """Add the derived functions to those given."""
        return (
            functions if self.derived is None else {**functions, **self.derived(functions, device)}
        )


@final
class PointwiseLift(Lift):
    """The streams of one known function per channel.

    Args:
        plan: The streams.
        expressions: For each channel an expression in coordinates and inputs; None stands for zero.
        inputs: The inputs of the problem.
        derived: Functions that the expressions may contain beside the inputs.

    Attributes:
        known: The streams of all channels.

    Example:
        Hard initial data, u = u0 + (t − t0)·net::

            lift = residual.compile_lift([problem.initial["u"][0]])
            streams = lift(functions, queries)
            field = lambda q: lift.attach(streams, q) + (q[..., :1] - t0) * net(inputs, q)
            residual(field, queries, residual.evaluate_inputs(functions, queries))
    """

    def __init__(
        self,
        plan: StreamPlan,
        expressions: Sequence[Expr | None],
        inputs: Sequence[Input],
        derived: DerivedFunctions | None = None,
    ) -> None:
        if len(expressions) != len(plan.channels):
            raise ValueError(f"{len(expressions)} functions for channels {plan.channels}")
        self.plan = plan
        known = _expressions(expressions)
        sums = [*plan.sums]
        self._pivots, self._inverse = _pivots(plan)
        if self._pivots is None:
            sums += [((i, sympy.S.One),) for i in plan.top]
        streams = [_apply(terms, e, plan) for terms in sums for e in known]
        self.known = KnownField(streams, inputs, plan.coordinates, derived)

    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate all streams, without gradient.

        Args:
            functions: By name.
            queries: ``[B or 1, N, D]``.

        Returns:
            ``[S, B, N, C]``; where no coefficient of a collapsed stream is a number the top
            derivatives follow as further streams, for nested reverse mode.
        """
        streams = torch.stack(self.known.values(functions, queries))
        return streams.unflatten(0, (-1, len(self.plan.channels))).movedim(1, -1)

    def attach(self, streams: Tensor, queries: Any) -> Any:
        """Make streams part of a computation on queries.

        Args:
            streams: ``[S, B, N, C]`` as calling the lift returns them.
            queries: The argument of the field: a tensor, or one that carries streams.

        Returns:
            A tensor that carries the streams; for a plain tensor of queries the values
            ``[B, N, C]``, with the same derivatives under nested reverse mode, by a Taylor
            polynomial about the queries.
        """
        count = self.plan.count
        if carries_streams(queries):
            return queries.like(streams[:count])
        if not (torch.is_grad_enabled() and queries.requires_grad):
            return streams[0]
        first = len(self.plan.explicit)
        explicit, collapsed = streams[:first], streams[first:count]
        pairs = [*zip(self.plan.explicit, explicit, strict=True)]
        if self._pivots is None:
            pairs += zip(self.plan.top, streams[count:], strict=True)
        else:
            inverse = torch.tensor(self._inverse, dtype=streams.dtype, device=streams.device)
            top = torch.einsum("tk,k...->t...", inverse, collapsed)
            pairs += zip(self._pivots, top, strict=True)
        step = queries - queries.detach()
        return sum(stream * _monomial(step, index) for index, stream in pairs)


@final
class GridLift(Lift):
    """Values on a grid of one known function per channel.

    Args:
        known: One expression per channel.
        axes: The grid.
    """

    def __init__(self, known: KnownField, axes: Sequence[Tensor]) -> None:
        self.known, self.axes = known, tuple(axes)

    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate on the grid.

        Args:
            functions: By name.
            queries: A tensor of the device and precision wanted; the grid is that of the lift.

        Returns:
            ``[1, B, n_1, …, n_D, C]``, with 1 in place of n along the axes on which nothing
            depends.
        """
        return self.known.on_grid(functions, [axis.to(queries) for axis in self.axes])[None]

    def attach(self, streams: Tensor, queries: Any) -> Tensor:
        """Return the values."""
        return streams[0]


@final
class ValueLift(Lift):
    """Values of one known function per channel, for a residual that differentiates values.

    Args:
        known: One expression per channel.
    """

    def __init__(self, known: KnownField) -> None:
        self.known = known

    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate at ``queries [B or 1, N, D]``: ``[1, B, N, C]``."""
        return self.known(functions, queries)[None]

    def attach(self, streams: Tensor, queries: Any) -> Tensor:
        """Return the values."""
        return streams[0]


def _expressions(expressions: Sequence[Expr | None]) -> tuple[Expr, ...]:
    return tuple(sympy.S.Zero if e is None else sympy.sympify(e) for e in expressions)


def _pivots(plan: StreamPlan) -> tuple[tuple[Index, ...] | None, list[list[float]]]:
    """Find top derivatives that determine the collapsed sums, which are all that is ever needed.

    Returns:
        Multi-indices whose coefficients are numbers, and the matrix that turns the sums into those
        derivatives (the other top derivatives being zero); None if they do not span the sums.
    """
    maps = list(map(dict, plan.collapsed))
    usable = [i for i in plan.top if all(m.get(i, sympy.S.Zero).is_number for m in maps)]
    matrix = [[float(m.get(i, 0)) for i in usable] for m in maps]
    if not maps:
        return (), []
    if len(usable) < len(maps) or np.linalg.matrix_rank(matrix) < len(maps):
        return None, []
    return tuple(usable), np.linalg.pinv(np.array(matrix)).tolist()


def _apply(terms: Sequence[tuple[Index, Expr]], expression: Expr, plan: StreamPlan) -> Expr:
    total = sympy.S.Zero
    for index, coefficient in terms:
        counts = [(s, n) for s, n in zip(plan.coordinates, index, strict=True) if n]
        total += coefficient * (sympy.diff(expression, *counts) if counts else expression)
    return total


def _monomial(step: Tensor, index: Index) -> Tensor | float:
    """Return Π step_i^n_i / n_i! as ``[B, N, 1]``."""
    out: Any = 1.0
    for i, n in enumerate(index):
        out = out * step[..., i : i + 1] ** n / factorial(n) if n else out
    return out
