"""From a problem to its residual: plan the streams once, then evaluate over any field.

A *field* is a callable on queries ``[B, N, D]`` that gives values ``[B, N, C]``. It is run on a
:class:`~piop.residual.streams.Stream` of queries, which passes through ordinary torch code. Queries
``[1, N, D]`` are shared by all functions of a batch: a field that knows B functions answers
``[B, N, C]`` and does once whatever depends on the queries alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

import piop.residual.rules  # noqa: F401  fills the table of rules
from piop.fields import InputFunction
from piop.forms.partitions import Index
from piop.forms.streams import StreamPlan, plan_streams, split_coefficient
from piop.lowering import compile_expressions
from piop.problem import Problem
from piop.residual.attention import Kernel
from piop.residual.inputs import (
    InputTerm,
    evaluate_terms,
    input_terms,
    term_atoms,
    unknown_atoms,
    unknown_place,
)
from piop.residual.lift import Lift
from piop.residual.reverse import nested_derivatives
from piop.residual.streams import NoRuleError, Stream, StreamLayout

Field = Callable[[Any], Any]


@dataclass(frozen=True)
class ResidualValues:
    """A residual at points.

    Attributes:
        values: ``[B, N, E]``, left side minus right side of every equation.
        derivatives: ``[B, N]`` by (channel, multi-index over the coordinates): what was computed on
            the way, the value itself under the zero index; terms of collapsed sums are not there.
    """

    values: Tensor
    derivatives: dict[tuple[str, Index], Tensor] = field(default_factory=dict)


def compile_residual(
    problem: Problem, extra: Sequence[Index] = (), kernel: Kernel | None = None
) -> Residual:
    """Compile the residuals of a problem.

    Args:
        problem: Its coordinates, channels, residuals, inputs and parameters to infer are read.
        extra: Multi-indices wanted in ``ResidualValues.derivatives`` beside those of the equations.
        kernel: What sums up attention, as :func:`choose_kernel` gives it.

    Returns:
        A :class:`Residual`.

    Raises:
        NotSupportedError: If a derivative is of order five or more.
    """
    plan = plan_streams(problem.pde, extra)
    return Residual(plan, tuple(problem.residuals), problem.inputs, kernel, tuple(problem.infer))


@final
class Residual:
    """The compiled residual of a problem: a function of a field, queries and input values.

    Args:
        plan: The streams.
        residuals: The equations, left side minus right side.
        inputs: The input functions of the problem (``name`` and ``of`` are read).
        kernel: What sums up attention; None for plain torch operations.
        trained: Names of the parameters that are given with every call, and may carry a gradient.

    Attributes:
        plan: The streams.
        trained: As given.
        input_terms: Pairs (name, multi-index over the input's own coordinates) of the inputs, and
            derivatives of inputs, that the equations hold.
        fallback: Why nested reverse mode is used in place of streams; None while streams work.
    """

    def __init__(
        self,
        plan: StreamPlan,
        residuals: Sequence[Expr],
        inputs: Sequence[Any],
        kernel: Kernel | None = None,
        trained: Sequence[str] = (),
    ) -> None:
        self.plan = plan
        self.inputs = tuple(inputs)
        self.trained = tuple(trained)
        parameters = [sympy.Symbol(name, real=True) for name in trained]
        self.input_terms: tuple[InputTerm, ...] = input_terms(
            residuals, [*plan.coordinates, *parameters], plan.channels
        )
        self.fallback: str | None = None
        self._residuals = tuple(residuals)
        self._layout = StreamLayout.of(plan, kernel)
        atoms = [*plan.coordinates, *term_atoms(self.input_terms, self.inputs, plan.coordinates)]
        self._coefficients = compile_expressions(plan.coefficients, atoms)
        atoms += parameters
        self._seed_table, self._seed_slots = _seeds(plan)
        self._wanted = _wanted(plan.remainders, plan)
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
        self._combine = compile_expressions(totals, [*atoms, *self._wanted, *sums.values()])
        self._wanted_reverse = _wanted(self._residuals, plan)
        self._combine_reverse = compile_expressions(
            self._residuals, [*atoms, *self._wanted_reverse]
        )

    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """Evaluate what the equations need of the input functions.

        Args:
            functions: By name, hidden ones included.
            queries: ``[B or 1, N, D]``.

        Returns:
            ``[B, N]`` for each of ``input_terms``, in the dtype of the queries, without gradient.
        """
        return evaluate_terms(
            self.input_terms, functions, queries, self.inputs, self.plan.coordinates
        )

    def __call__(
        self,
        field: Field,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Evaluate the residual of a field.

        Args:
            field: Callable on queries; it receives a stream and returns a stream ``[B, N, C]``.
            queries: ``[B or 1, N, D]``, in physical units.
            input_values: As :meth:`evaluate_inputs` gives them.
            parameters: Value ``[]`` of each of ``trained``, through which gradients flow.

        Returns:
            The residuals and the derivatives found on the way; differentiable by reverse mode.

        Warns:
            RuntimeWarning: Once, if the field uses an operation that streams cannot pass through;
                nested reverse mode is used from then on.
        """
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
        """Evaluate by nested reverse mode: slow, obvious, and valid for any torch code."""
        indices = [_place(atom, self.plan) for atom in self._wanted_reverse]
        zero = (0,) * len(self.plan.coordinates)
        indices += [(c, zero) for c in range(len(self.plan.channels))]
        if len(queries) == 1:  # a shared leaf would add up the slopes of all functions
            with torch.no_grad():
                queries = queries.expand(len(field(queries)), -1, -1)
        found = nested_derivatives(field, queries, indices)
        needed = [found[place] for place in indices[: len(self._wanted_reverse)]]
        totals = self._combine_reverse([*queries.unbind(-1), *input_values, *parameters, *needed])
        return ResidualValues(_stacked(totals, queries, input_values), self._named(found))

    def stream(self, queries: Tensor, input_values: Sequence[Tensor] = ()) -> Stream:
        """Seed the streams: the coordinates, their unit derivatives, and the coefficients.

        Args:
            queries: ``[B or 1, N, D]``.
            input_values: As :meth:`evaluate_inputs` gives them. Where a coefficient of a collapsed
                stream differs between functions, shared queries are shared no longer.
        """
        found = ()
        if self.plan.coefficients:
            found = self._coefficients([*queries.unbind(-1), *input_values])
            places = torch.broadcast_shapes(queries.shape[:-1], *(w.shape for w in found))
            queries = queries.expand(*places, -1)
        table = queries.new_tensor(self._seed_table)[1:, None, None]
        rows = torch.cat([queries[None], table.expand(-1, *queries.shape)])
        if not self.plan.coefficients:
            return Stream(rows, self._layout)
        weights = torch.stack([w.expand(queries.shape[:-1]) for w in found])
        for weight, entries in zip(weights, self._seed_slots, strict=True):
            rows = rows + queries.new_tensor(entries)[:, None, None] * weight[..., None]
        return Stream(rows, self._layout, weights[..., None].expand(-1, *queries.shape))

    def compile_lift(self, expressions: Sequence[Expr | None]) -> Lift:
        """Compile known functions, one per channel, to their streams; see :class:`Lift`."""
        return Lift(self.plan, expressions, self.inputs)

    def lift(
        self,
        expressions: Sequence[Expr | None],
        functions: Mapping[str, InputFunction],
        queries: Tensor,
    ) -> Tensor:
        """Give the streams ``[S, B, N, C]`` of known functions once; see :meth:`compile_lift`."""
        return self.compile_lift(expressions)(functions, queries)

    def _by_streams(
        self,
        field: Field,
        queries: Tensor,
        input_values: Sequence[Tensor],
        parameters: Sequence[Tensor],
    ) -> ResidualValues:
        out = field(self.stream(queries, input_values))
        if not isinstance(out, Stream):
            raise NoRuleError("a field that turns streams into plain tensors")
        batch = len(out) if len(queries) == 1 else len(queries)
        if out.shape != (batch, queries.shape[1], len(self.plan.channels)):
            raise ValueError(
                f"the field gave values of shape {tuple(out.shape)}; expected "
                f"{(batch, queries.shape[1], len(self.plan.channels))}"
            )
        rows = [row.unbind(-1) for row in out.data.unbind(0)]
        row_of = {index: row for row, index in enumerate(self.plan.explicit)}
        places = (_place(atom, self.plan) for atom in self._wanted)
        needed = [rows[row_of[index]][channel] for channel, index in places]
        sums = [rows[len(row_of) + stream][channel] for channel, stream in self._sums]
        totals = self._combine([*queries.unbind(-1), *input_values, *parameters, *needed, *sums])
        for stream, functional in enumerate(self.plan.collapsed):
            if len(functional.terms) == 1 and functional.terms[0][1] == 1:
                row_of[functional.terms[0][0]] = len(self.plan.explicit) + stream
        channels = range(len(self.plan.channels))
        found = {(c, index): rows[row][c] for index, row in row_of.items() for c in channels}
        return ResidualValues(_stacked(totals, out, input_values), self._named(found))

    def _named(self, found: dict[tuple[int, Index], Tensor]) -> dict[tuple[str, Index], Tensor]:
        return {(self.plan.channels[c], index): v for (c, index), v in found.items()}


def _place(atom: Expr, plan: StreamPlan) -> tuple[int, Index]:
    return unknown_place(atom, plan.coordinates, plan.channels)


def _wanted(expressions: Sequence[Expr], plan: StreamPlan) -> tuple[Expr, ...]:
    return unknown_atoms(expressions, plan.coordinates, plan.channels)


def _seeds(plan: StreamPlan) -> tuple[list[list[float]], list[list[list[float]]]]:
    """Differentiate the coordinates: rows ``[S, D]`` of numbers, and the like per coefficient."""
    slots = {c: i for i, c in enumerate(plan.coefficients)}
    tables = [
        [[0.0] * len(plan.coordinates) for _ in range(plan.count)] for _ in range(1 + len(slots))
    ]
    sums = [((i, sympy.S.One),) for i in plan.explicit] + [s.terms for s in plan.collapsed]
    for row, terms in enumerate(sums):
        for index, coefficient in terms:
            if sum(index) == 1:
                factor, slot = split_coefficient(coefficient)
                table = tables[0] if slot is None else tables[1 + slots[slot]]
                table[row][index.index(1)] = factor
    return tables[0], tables[1:]


def _stacked(totals: Sequence[Tensor], points: Any, input_values: Sequence[Tensor]) -> Tensor:
    """Stack the equations ``[B, N, E]``, B being the largest batch among values and inputs."""
    known = (v.shape for v in (*input_values, *totals))
    places = torch.broadcast_shapes(points.shape[:-1], *known)
    return torch.stack([t.expand(places) for t in totals], -1)
