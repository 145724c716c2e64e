"""Tests of what a network is evaluated on: its sensors and its queries."""

from __future__ import annotations

import warnings
from unittest import SkipTest

import sympy
import torch
from torch import Tensor

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
    has_free_sensors,
    has_own_signature,
    only_for,
)
from piop.testing.samples import (
    axes_for,
    max_difference,
    points_for,
    pointwise_queries,
    queries_for,
    samples_for,
)


class SensorTests(CaseTests):
    """Sensors may come in any order, number and mask; samples of a batch are independent."""

    @only_for(lambda case: bool(case.signature.functions))
    def test_order_of_sensors_does_not_matter(self, case: Case) -> None:
        """Sensors are a set, unless the class sets ``unordered = False``."""
        model, inputs, points = case.prepare()
        if not model.unordered:
            raise SkipTest("unordered = False")
        shuffled = dict(inputs)
        generator = torch.Generator().manual_seed(3)
        for entry in case.signature.functions:
            points_of, values = inputs[entry.name].points, inputs[entry.name].values
            order = torch.randperm(points_of.shape[1], generator=generator)
            shuffled[entry.name] = FunctionSamples(points_of[:, order], values[:, order])
        before = points.evaluate(model, inputs)
        assert max_difference(points.evaluate(model, shuffled), before) < FIT_ROUNDING

    @only_for(lambda case: bool(case.signature.inputs))
    def test_samples_of_a_batch_are_independent(self, case: Case) -> None:
        """The output for a sample is the same in any batch."""
        model, inputs, points = case.prepare(3)
        together = points.evaluate(model, inputs)
        for i in range(3):
            alone = {name: samples.take(slice(i, i + 1)) for name, samples in inputs.items()}
            found = points.of_sample(i).evaluate(model, alone)
            assert max_difference(found, together[[i]]) < FIT_ROUNDING

    def test_every_input_matters(self, case: Case) -> None:
        """Other values of an input give another output."""
        model, inputs, points = case.prepare()
        others = samples_for(case.signature, seed=9)
        before = points.evaluate(model, inputs)
        for name, samples in inputs.items():
            other = FunctionSamples(samples.points, others[name].values)
            found = points.evaluate(model, {**inputs, name: other})
            assert max_difference(found, before) > LEAST_CHANGE, name

    @only_for(has_free_sensors)
    def test_masked_sensors_are_ignored(self, case: Case) -> None:
        """Samples of different sizes in one batch, NaN behind the mask, equal each sample alone."""
        model, signature = case.build(), case.signature
        points, counts = points_for(model), (40, 23)
        alone = [samples_for(signature, 1, count, seed=i) for i, count in enumerate(counts)]
        padded = {
            entry.name: _padded([one[entry.name] for one in alone], 45)
            if entry.of and not entry.gridded
            else _stacked([samples_for(signature, 1, 40, i)[entry.name] for i in range(2)])
            for entry in signature.inputs
        }
        together = points.evaluate(model, padded)
        for i, one in enumerate(alone):
            gridded = [e.name for e in signature.inputs if e.gridded]
            one |= {name: padded[name].take(slice(i, i + 1)) for name in gridded}
            found = points.of_sample(i).evaluate(model, one)
            assert max_difference(found, together[[i]]) < FIT_ROUNDING

    @only_for(lambda case: bool(case.signature.functions))
    def test_any_number_of_sensors_is_accepted(self, case: Case) -> None:
        """One, few, many; on grids two along each axis at least."""
        model = case.build()
        points = points_for(model)
        for count in (1, 3, 300):
            out = points.evaluate(model, samples_for(case.signature, sensors=count))
            assert out.isfinite().all(), f"{count} sensors"


def _padded(samples: list[FunctionSamples], count: int) -> FunctionSamples:
    """Pad to ``count`` sensors with NaN behind a mask."""

    def filled(tensor: Tensor) -> Tensor:
        return torch.nn.functional.pad(tensor, (0, 0, 0, count - tensor.shape[1]), value=torch.nan)

    alike = _stacked([FunctionSamples(filled(s.points), filled(s.values)) for s in samples])
    mask = torch.stack([torch.arange(count) < s.points.shape[1] for s in samples])
    return FunctionSamples(alike.points, alike.values, mask)


def _stacked(samples: list[FunctionSamples]) -> FunctionSamples:
    points, values = [s.points for s in samples], [s.values for s in samples]
    return FunctionSamples(torch.cat(points), torch.cat(values))


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
            step = (axis.high - axis.low) * torch.eye(
                len(signature.coordinates), dtype=torch.float64
            )[i]
            moved = model(inputs, queries + step)
            assert max_difference(moved, before) < FIT_ROUNDING, axis.name
            shifted = dict(inputs)
            for entry in signature.functions:
                if not entry.gridded:
                    samples, columns = inputs[entry.name], [signature.axis(n) for n in entry.of]
                    there = samples.points + step[columns]
                    shifted[entry.name] = FunctionSamples(there, samples.values)
            moved = model(shifted, queries)
            assert max_difference(moved, before) < FIT_ROUNDING, f"sensors: {axis.name}"


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
