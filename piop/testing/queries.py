"""What a network makes of queries, and its derivatives along them."""

from __future__ import annotations

import warnings
from unittest import SkipTest

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.testing.cases import OWN, Case
from piop.testing.graph import residual_for
from piop.testing.samples import answer, axes_for, distance, places_for, queries_for, samples_for
from piop.testing.suite import EXACT, FITTED, MOVES, Suite, answers_points, only_for


class QueryClaims(Suite):
    """What a network makes of queries, and its derivatives along them."""

    def test_shared_queries_are_those_of_every_function(self, case: Case) -> None:
        """``[1, N, D]`` stands for the same queries for all."""
        model, inputs = case.build(), samples_for(case.signature, 3)
        if not model.scattered:
            raise SkipTest("scattered = False")
        shared = queries_for(case.signature, 1)
        out = model(inputs, shared)
        assert out.shape[0] == (3 if case.signature.inputs else out.shape[0])
        assert distance(out, model(inputs, shared.expand(3, -1, -1))) < EXACT

    @only_for(answers_points)
    def test_queries_do_not_meet(self, case: Case) -> None:
        """Moving one query moves its own answer and no other."""
        model, inputs = case.build(), samples_for(case.signature)
        queries, others = places_for(model), places_for(model, seed=8)
        assert isinstance(queries, Tensor) and isinstance(others, Tensor)
        before = answer(model, inputs, queries)
        for k in (0, 3, 6):
            moved = queries.clone()
            moved[:, k] = others[:, k]
            change = (answer(model, inputs, moved) - before).detach().abs()
            assert change[:, k].amax() > MOVES, "an answer follows its query"
            change[:, k] = 0
            assert change.max() < EXACT, "field = 'point': an answer depends on its query alone"

    @only_for(answers_points)
    def test_a_grid_is_answered_as_its_points_are(self, case: Case) -> None:
        """``on_grid`` is ``forward`` on the mesh, the first coordinate outermost."""
        model, inputs = case.build(), samples_for(case.signature)
        axes = axes_for(model, 3)
        mesh = torch.cartesian_prod(*axes).reshape(1, -1, len(axes))
        sizes = [len(axis) for axis in axes]
        out = model.on_grid(inputs, axes)
        assert list(out.shape[1:]) == [*sizes, case.signature.channels]
        assert distance(out.flatten(1, -2), model(inputs, mesh)) < EXACT

    @only_for(answers_points)
    def test_streams_agree_with_reverse_mode(self, case: Case) -> None:
        """Every operation has a stream rule, and derivatives are those of nested reverse mode."""
        model, inputs = case.build(), samples_for(case.signature, sensors=9)
        residual = residual_for(case.signature, 4 if case.leading and case.name == OWN else 2)
        queries = queries_for(case.signature, count=3)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            fast = residual(lambda q: model(inputs, q), queries).values
        assert residual.fallback is None
        slowly = residual.reverse(lambda q: model(inputs, q), queries).values
        assert distance(fast, slowly) < FITTED * (1 + float(slowly.detach().abs().max()))

    @only_for(answers_points)
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
            assert distance(model(inputs, queries + step), before) < FITTED, axis.name
            shifted = dict(inputs)
            for entry in signature.functions:
                if axis.name in entry.of and not entry.gridded:
                    shifted[entry.name] = _shifted(inputs[entry.name], entry.of, axis.name, length)
            assert distance(model(shifted, queries), before) < FITTED, f"sensors: {axis.name}"


def _shifted(
    samples: FunctionSamples, of: tuple[str, ...], name: str, length: float
) -> FunctionSamples:
    step = torch.zeros(len(of), dtype=torch.float64)
    step[of.index(name)] = length
    return FunctionSamples(samples.points + step, samples.values)
