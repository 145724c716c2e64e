"""Tests of the queries: they are independent, periodic, and derivatives along them are right."""

from __future__ import annotations

import warnings
from unittest import SkipTest

import sympy
import torch

from piop.fields import FunctionSamples
from piop.forms.stream_plan import plan_expressions
from piop.models.core.base import Signature
from piop.residual import PointwiseResidual
from piop.testing.cases import (
    FIT_ROUNDING,
    LEAST_CHANGE,
    ROUNDING,
    Case,
    CaseTests,
    evaluates_pointwise,
    has_own_signature,
    only_for,
)
from piop.testing.samples import (
    axes_for,
    max_difference,
    pointwise_queries,
    queries_for,
    samples_for,
)


class QueryTests(CaseTests):
    """Queries are independent and periodic, and derivatives along them are right."""

    def test_shared_queries_stand_for_those_of_every_sample(self, case: Case) -> None:
        """``[1, N, D]`` stands for the same queries for all."""
        model, inputs = case.build(), samples_for(case.signature, 3)
        if not model.scattered:
            raise SkipTest("scattered = False")
        shared = queries_for(case.signature, 1)
        out = model(inputs, shared)
        assert out.shape[0] == (3 if case.signature.inputs else out.shape[0])
        assert max_difference(out, model(inputs, shared.expand(3, -1, -1))) < ROUNDING

    @only_for(evaluates_pointwise)
    def test_queries_are_independent(self, case: Case) -> None:
        """Moving one query changes the output there and nowhere else."""
        model, inputs = case.build(), samples_for(case.signature)
        queries, others = pointwise_queries(model), pointwise_queries(model, seed=8)
        before = model(inputs, queries)
        for k in (0, 3, 6):
            moved = queries.clone()
            moved[:, k] = others[:, k]
            change = (model(inputs, moved) - before).detach().abs()
            assert change[:, k].amax() > LEAST_CHANGE, "the output depends on its query"
            change[:, k] = 0
            assert change.max() < ROUNDING, "a pointwise output depends on its query alone"

    @only_for(evaluates_pointwise)
    def test_on_grid_equals_forward_on_the_mesh(self, case: Case) -> None:
        """``on_grid`` is ``forward`` on the mesh, the first coordinate outermost."""
        model, inputs = case.build(), samples_for(case.signature)
        axes = axes_for(model, 3)
        mesh = torch.cartesian_prod(*axes).reshape(1, -1, len(axes))
        sizes = [len(axis) for axis in axes]
        out = model.on_grid(inputs, axes)
        assert list(out.shape[1:]) == [*sizes, case.signature.channels]
        assert max_difference(out.flatten(1, -2), model(inputs, mesh)) < ROUNDING

    @only_for(evaluates_pointwise)
    def test_streams_agree_with_reverse_mode(self, case: Case) -> None:
        """Every operation has a stream rule, and derivatives are those of nested reverse mode."""
        model, inputs = case.build(), samples_for(case.signature, sensors=9)
        order = 4 if case.leading and has_own_signature(case) else 2
        residual = residual_for(case.signature, order)
        queries = queries_for(case.signature, count=3)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            fast = residual(lambda q: model(inputs, q), queries).values
        assert residual.fallback is None
        reverse = residual.reverse(lambda q: model(inputs, q), queries).values
        largest = 1 + float(reverse.detach().abs().max())
        assert max_difference(fast, reverse) < FIT_ROUNDING * largest

    @only_for(evaluates_pointwise)
    def test_periodic_axes_are_periodic(self, case: Case) -> None:
        """Queries and sensors a period away are the same, unless ``periodic = False``."""
        model, inputs, signature = case.build(), samples_for(case.signature), case.signature
        if not model.periodic:
            raise SkipTest("periodic = False")
        queries = queries_for(signature)
        before = model(inputs, queries)
        for i, axis in enumerate(signature.coordinates):
            if not axis.periodic:
                continue
            length = axis.high - axis.low
            step = length * torch.eye(len(signature.coordinates), dtype=torch.float64)[i]
            moved = model(inputs, queries + step)
            assert max_difference(moved, before) < FIT_ROUNDING, axis.name
            shifted = dict(inputs)
            for entry in signature.functions:
                if axis.name in entry.of and not entry.gridded:
                    shifted[entry.name] = _shifted(inputs[entry.name], entry.of, axis.name, length)
            moved = model(shifted, queries)
            assert max_difference(moved, before) < FIT_ROUNDING, f"sensors: {axis.name}"


def _shifted(
    samples: FunctionSamples, of: tuple[str, ...], name: str, length: float
) -> FunctionSamples:
    step = torch.zeros(len(of), dtype=torch.float64)
    step[of.index(name)] = length
    return FunctionSamples(samples.points + step, samples.values)


def residual_for(signature: Signature, order: int = 2) -> PointwiseResidual:
    """Compile equations that take derivatives of every channel along every coordinate.

    Each channel has first derivatives, a product with the next channel, mixed and second
    derivatives, each times lengths of the axes to their orders, so that all weigh alike.

    Args:
        signature: The shapes; names of coordinates are not used.
        order: Order of one more derivative, along the last axis.
    """
    symbols = [sympy.Symbol(f"x_{i}", real=True) for i in range(len(signature.coordinates))]
    lengths = [axis.high - axis.low for axis in signature.coordinates]
    channels = [f"u_{c}" for c in range(signature.channels)]
    functions = [sympy.Function(name, real=True)(*symbols) for name in channels]
    residuals = []
    for c, u in enumerate(functions):
        slopes = [size * sympy.Derivative(u, s) for s, size in zip(symbols, lengths, strict=True)]
        total = sum(slopes) + functions[(c + 1) % len(functions)] * slopes[-1]
        for s, size in zip(symbols, lengths, strict=True):
            total += size**2 * sympy.Derivative(u, s, 2) / 2
        mixed = lengths[0] * lengths[-1] * sympy.Derivative(u, symbols[0], symbols[-1])
        top = lengths[-1] ** order * sympy.Derivative(u, symbols[-1], order)
        residuals.append(total + mixed + top)
    return PointwiseResidual(plan_expressions(residuals, symbols, channels), residuals, ())
