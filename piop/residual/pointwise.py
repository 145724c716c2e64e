"""Residuals at points: plan the streams of a problem once, then evaluate them over any field.

A *field* is a callable on queries ``[B, N, D]`` that returns values ``[B, N, C]``. It is evaluated
on a :class:`~piop.residual.stream_tensor.StreamTensor` of queries, which passes through ordinary
torch code. Queries ``[1, N, D]`` are shared by all functions of a batch: a field of B functions
returns ``[B, N, C]`` and computes once whatever depends on the queries alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import sympy
import torch
from sympy import Expr
from torch import Tensor

import piop.residual.rules  # noqa: F401  fills the table of rules
from piop.fields import InputFunction
from piop.forms.pde import Input
from piop.forms.stream_plan import (
    Index,
    StreamPlan,
    plan_expressions,
    plan_streams,
    split_coefficient,
)
from piop.forms.terms import unknown_derivatives
from piop.lowering import compile_expressions
from piop.residual.attention.kernel import Kernel
from piop.residual.base import DerivedFunctions, Residual, ResidualValues
from piop.residual.known_functions import PointwiseLift
from piop.residual.required_inputs import InputDerivatives
from piop.residual.reverse import nested_derivatives
from piop.residual.stream_tensor import NoRuleError, StreamLayout, StreamTensor, carries_streams

if TYPE_CHECKING:
    from piop.problem import Problem

Field = Callable[[Any], Any]


def compile_residual(
    problem: Problem,
    extra: Sequence[Index] = (),
    kernel: Kernel | None = None,
    derived: DerivedFunctions | None = None,
) -> PointwiseResidual:
    """Compile the residuals of a problem.

    Args:
        problem: The problem.
        extra: Multi-indices wanted in ``ResidualValues.derivatives`` beside those of the equations.
        kernel: Computes attention of streams, as :func:`choose_kernel` returns it.
        derived: Functions that lifts may contain beside the inputs.

    Raises:
        NotSupportedError: If a derivative is of order five or more.
    """
    plan = plan_streams(problem.pde, extra)
    return PointwiseResidual(
        plan, tuple(problem.residuals), problem.inputs, kernel, tuple(problem.infer), derived
    )


def join_points(places: Sequence[Tensor], batch_axis: int = 0) -> Tensor:
    """Join tensors ``[…, B or 1, N_i, *]`` along their points, the axis after that of functions."""
    batch = max(tensor.shape[batch_axis] for tensor in places)
    leading = (-1,) * batch_axis
    return torch.cat([t.expand(*leading, batch, -1, -1) for t in places], batch_axis + 1)


def evaluate_once(
    field: Field, residuals: Sequence[Residual], places: Sequence[Tensor]
) -> list[Field] | None:
    """Evaluate a field once, at the points of several residuals together.

    Args:
        field: The field, for the points of all of them, one after the other.
        residuals: They read it.
        places: The queries ``[B or 1, N_i, D]`` of each.

    Returns:
        For each the field that answers at its own queries; None where they need streams of their
        own, or streams cannot pass through the field.
    """
    first = residuals[0]
    if not isinstance(first, PointwiseResidual):
        return None
    if not all(first.shares_streams(other) for other in residuals):
        return None
    try:
        found = first.streams_of(field, join_points(places))
    except (NoRuleError, TypeError, AttributeError):
        return None  # each of them says why, and falls back
    return [*map(_Evaluated, found.split([queries.shape[1] for queries in places], 2))]


@final
class ChannelSlopes:
    """The derivatives of all channels of a field along one coordinate.

    Args:
        coordinates: Symbols of the D coordinates.
        channels: Names of the C channels.
        along: The coordinate.
    """

    def __init__(
        self, coordinates: Sequence[sympy.Symbol], channels: Sequence[str], along: sympy.Symbol
    ) -> None:
        unknowns: list[Any] = [sympy.Function(n, real=True)(*coordinates) for n in channels]
        slopes = [sympy.Derivative(unknown, along) for unknown in unknowns]
        plan = plan_expressions(slopes, coordinates, channels)
        self._residual = PointwiseResidual(plan, slopes, ())

    def __call__(self, field: Field, queries: Tensor) -> Tensor:
        """Evaluate at ``queries [B or 1, N, D]``: ``[B, N, C]``."""
        return self._residual(field, queries).values


@dataclass(frozen=True)
class _Evaluated:
    """A field at one set of queries, where its streams ``[S, B, N, C]`` are known."""

    streams: Tensor

    def __call__(self, queries: Any) -> Any:
        """Return its streams there, or its value at plain queries."""
        return queries.like(self.streams) if carries_streams(queries) else self.streams[0]


@final
class PointwiseResidual(Residual):
    """The compiled residual of equations over a field that is evaluated at any points.

    Args:
        plan: The streams.
        residuals: The equations, left side minus right side.
        inputs: The inputs of the problem.
        kernel: Computes attention of streams; None for plain torch operations.
        trained: Names of the parameters that are given with every call, and may carry a gradient.
        derived: Functions that lifts may contain beside the inputs.

    Attributes:
        plan: The streams.
        inputs: The inputs of the problem.
        input_derivatives: The inputs, and derivatives of inputs, that the equations contain.
        fallback: Why nested reverse mode is used in place of streams; None while streams work.
    """

    grid, anywhere = None, True

    def __init__(
        self,
        plan: StreamPlan,
        residuals: Sequence[Expr],
        inputs: Sequence[Input],
        kernel: Kernel | None = None,
        trained: Sequence[str] = (),
        derived: DerivedFunctions | None = None,
    ) -> None:
        self.derived = derived
        self.plan, self.inputs, self.trained = plan, tuple(inputs), tuple(trained)
        self.streams = plan.count
        parameters = [sympy.Symbol(name, real=True) for name in trained]
        self.input_derivatives = InputDerivatives(
            residuals, inputs, plan.coordinates, [*parameters, *plan.channels]
        )
        self.fallback: str | None = None
        self._kernel, self._layout = kernel, StreamLayout.of(plan, kernel)
        atoms = [*plan.coordinates, *self.input_derivatives.atoms]
        self._coefficients = compile_expressions(plan.coefficients, atoms)
        atoms = [*atoms, *parameters]
        self._seeds = _seeds(plan)
        sums = {
            (share.channel, share.stream): sympy.Dummy(real=True)
            for shares in plan.shares
            for share in shares
        }
        totals = [
            remainder + sympy.Add(*(s.coefficient * sums[s.channel, s.stream] for s in shares))
            for remainder, shares in zip(plan.remainders, plan.shares, strict=True)
        ]
        self._sums = tuple(sums)
        explicit = unknown_derivatives(plan.remainders, plan.coordinates, plan.channels)
        self._explicit = tuple(explicit.values())
        self._combine = compile_expressions(totals, [*atoms, *explicit, *sums.values()])
        every = unknown_derivatives(residuals, plan.coordinates, plan.channels)
        self._every = tuple(every.values())
        self._combine_reverse = compile_expressions(tuple(residuals), [*atoms, *every])

    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return the points that ``draw`` returns."""
        return draw()

    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """Evaluate the inputs, and their derivatives, that the equations contain: ``[B, N]``."""
        return self.input_derivatives.at(functions, queries)

    def __call__(
        self,
        field: Field,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Evaluate the residual of a field.

        Args:
            field: Callable on queries; it receives a tensor that carries streams and returns one,
                ``[B, N, C]``, or plain tensors, where the equations contain no derivative.
            queries: ``[B or 1, N, D]``, in physical units.
            input_values: As :meth:`evaluate_inputs` returns them.
            parameters: Value ``[]`` of each of ``trained``, through which gradients flow.

        Returns:
            The residuals and the derivatives found on the way; differentiable by reverse mode.

        Raises:
            UsageError: For other input values, such as a dict of them by name.

        Warns:
            RuntimeWarning: Once, if the field uses an operation that streams cannot pass through;
                nested reverse mode is used from then on.
        """
        self.input_derivatives.require(input_values)
        if self.fallback is None:
            try:
                return self._by_streams(field, queries, input_values, parameters)
            except (NoRuleError, TypeError, AttributeError) as reason:
                out = self.reverse(field, queries, input_values, parameters)
                self.fallback = str(reason)
                warnings.warn(
                    f"no Taylor rule for {reason}: the residual falls back to nested reverse mode, "
                    f"which is slower",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return out
        return self.reverse(field, queries, input_values, parameters)

    def reverse(
        self,
        field: Field,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Evaluate by nested reverse mode: slow, obvious, and valid for any torch code.

        Values and slopes that the streams have are among the derivatives even where the equations
        do not contain them, since weights of a loss depend on them.
        """
        channels = range(len(self.plan.channels))
        slopes = ((c, index) for index in self.plan.explicit if sum(index) < 2 for c in channels)
        if len(queries) == 1:  # a shared leaf would add up the slopes of all functions
            with torch.no_grad():
                queries = queries.expand(len(field(queries)), -1, -1)
        found = nested_derivatives(field, queries, [*self._every, *slopes])
        needed = [found[key] for key in self._every]
        totals = self._combine_reverse([*queries.unbind(-1), *input_values, *parameters, *needed])
        return ResidualValues(_stacked(totals, queries, input_values), self._named(found))

    def stream(self, queries: Tensor, input_values: Sequence[Tensor] = ()) -> StreamTensor:
        """Seed the streams: the coordinates, their unit derivatives, and the coefficients.

        Args:
            queries: ``[B or 1, N, D]``.
            input_values: As :meth:`evaluate_inputs` returns them. Where a coefficient of a
                collapsed stream differs between functions, shared queries are shared no longer.
        """
        coefficients, found = None, ()
        if self.plan.coefficients:
            found = self._coefficients([*queries.unbind(-1), *input_values])
            shape = torch.broadcast_shapes(queries.shape[:-1], *(w.shape for w in found))
            queries = queries.expand(*shape, -1)
            found = torch.stack([w.expand(shape) for w in found])
            coefficients = found[..., None].expand(-1, *queries.shape)
        numbers, *slots = self._seeds
        table = queries.new_tensor(numbers)[1:, None, None]
        data = torch.cat([queries[None], table.expand(-1, *queries.shape)])
        for weight, entries in zip(found, slots, strict=True):
            data = data + queries.new_tensor(entries)[:, None, None] * weight[..., None]
        return StreamTensor(data, self._layout, coefficients)

    def streams_of(
        self, field: Field, queries: Tensor, input_values: Sequence[Tensor] = ()
    ) -> Tensor:
        """Evaluate the streams of a field; one that needs its value alone has plain queries.

        Args:
            field: As of :meth:`__call__`.
            queries: ``[B or 1, N, D]``.
            input_values: As :meth:`evaluate_inputs` returns them.

        Returns:
            ``[S, B, N, C]``.

        Raises:
            NoRuleError: If streams cannot pass through the field.
        """
        if self.plan.count == 1:
            found = field(queries)[None]
        else:
            out = field(self.stream(queries, input_values))
            if not carries_streams(out):
                raise NoRuleError("a field that turns streams into plain tensors")
            found = out.data
        _, *shape = found.shape
        batch = shape[0] if queries.shape[0] == 1 else queries.shape[0]
        if shape != (expected := [batch, queries.shape[1], len(self.plan.channels)]):
            raise ValueError(
                f"the field returned values of shape {tuple(shape)}; expected {tuple(expected)}"
            )
        return found

    def shares_streams(self, other: Residual) -> bool:
        """Whether a field that is evaluated on the streams of one serves the other as well."""
        if not isinstance(other, PointwiseResidual) or self.fallback or other.fallback:
            return False
        constant = not self.plan.coefficients
        return constant and self.plan.sums == other.plan.sums and self._kernel == other._kernel

    def compile_lift(self, expressions: Sequence[Expr | None]) -> PointwiseLift:
        """Compile known functions, one expression per channel, to their streams."""
        return PointwiseLift(self.plan, expressions, self.inputs, self.derived)

    def _by_streams(
        self,
        field: Field,
        queries: Tensor,
        input_values: Sequence[Tensor],
        parameters: Sequence[Tensor],
    ) -> ResidualValues:
        out = self.streams_of(field, queries, input_values)
        streams = [stream.unbind(-1) for stream in out.unbind(0)]
        stream_of = {index: stream for stream, index in enumerate(self.plan.explicit)}
        first = len(stream_of)  # of the collapsed streams
        needed = [streams[stream_of[index]][channel] for channel, index in self._explicit]
        sums = [streams[first + stream][channel] for channel, stream in self._sums]
        totals = self._combine([*queries.unbind(-1), *input_values, *parameters, *needed, *sums])
        for stream, ((index, coefficient), *others) in enumerate(self.plan.collapsed, start=first):
            if coefficient == 1 and not others:
                stream_of[index] = stream
        channels = range(len(self.plan.channels))
        found = {(c, index): streams[s][c] for index, s in stream_of.items() for c in channels}
        return ResidualValues(_stacked(totals, out[0], input_values), self._named(found))

    def _named(self, found: dict[tuple[int, Index], Tensor]) -> dict[tuple[str, Index], Tensor]:
        return {(self.plan.channels[c], index): v for (c, index), v in found.items()}


def _seeds(plan: StreamPlan) -> list[list[list[float]]]:
    """Differentiate the coordinates: ``[S, D]`` numbers, and the like per coefficient."""
    slots = {c: i for i, c in enumerate((None, *plan.coefficients))}
    tables = np.zeros((len(slots), plan.count, len(plan.coordinates)))
    for stream, terms in enumerate(plan.sums):
        for index, coefficient in terms:
            if sum(index) == 1:
                factor, rest = split_coefficient(coefficient)
                tables[slots[rest], stream, index.index(1)] = factor
    return tables.tolist()


def _stacked(totals: Sequence[Tensor], points: Any, input_values: Sequence[Tensor]) -> Tensor:
    """Stack the equations ``[B, N, E]``, B being the largest batch among values and inputs."""
    known = (v.shape for v in (*input_values, *totals))
    shape = torch.broadcast_shapes(points.shape[:-1], *known)
    return torch.stack([t.expand(shape) for t in totals], -1)
