"""The contract of backbones: tests of the interface, the sensors, the queries and the weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise

import torch

from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models.core.base import Backbone
from piop.models.registry import refusal
from piop.testing.cases import ROUNDING, SIGNATURES, Case, has_own_signature, only_for
from piop.testing.evaluation_tests import QueryTests, SensorTests
from piop.testing.samples import (
    EvaluationPoints,
    max_difference,
    points_for,
    queries_for,
    samples_for,
)
from piop.testing.weight_tests import WeightTests

SINGLE_PRECISION = 1e-3
"""Tolerance for outputs in single precision."""


class BackboneContract(SensorTests, QueryTests, WeightTests):
    """Tests that a backbone inherits by stating its presets.

    Every preset runs on its own signature; the first of each class also on the shapes of
    ``piop.testing.SIGNATURES`` that it does not refuse, on three of them where it has a ``source``.
    All run with the values of ``Preset.small``, in float64, as they predict. What a network does
    not promise it states by its attributes: ``field``, ``end_only``, ``scattered``,
    ``unordered``, ``periodic`` and :meth:`Backbone.unused_parameters`.

    Attributes:
        presets: Name → preset, as an entry point of ``piop.backbones`` gives them.

    Example:
        >>> from piop.models.deeponet import PRESETS
        >>> class TestDeepONet(BackboneContract):
        ...     presets = PRESETS
    """

    @only_for(has_own_signature)
    def test_own_signature_is_served_and_refusals_give_a_reason(self, case: Case) -> None:
        """The preset's own signature is served; a refusal is a clause, and the rest is built."""
        reason = refusal(case.preset, case.signature)
        assert reason is None, f"refuses its own signature: {reason}"
        for name, signature in SIGNATURES.items():
            reason = refusal(case.preset, signature, case.config)
            if reason is None:
                Case(name, case.preset, signature).build()
            else:
                assert reason.strip(), f"{name}: say why, not {reason!r}"
                assert not reason.endswith("."), f"{name}: a clause, not a sentence: {reason!r}"

    @only_for(has_own_signature)
    def test_its_config_is_a_frozen_dataclass(self, case: Case) -> None:
        """Sizes are stated once and do not change."""
        config = case.preset.config
        assert dataclasses.is_dataclass(config), f"{type(config).__name__} is no dataclass"
        for name, value in vars(config).items():
            with suppress(dataclasses.FrozenInstanceError):
                setattr(config, name, value)
                raise AssertionError(f"{type(config).__name__} is not frozen")
        assert case.build().config == case.config, "a network keeps its config as .config"

    def test_output_has_every_channel_for_any_b_m_n(self, case: Case) -> None:
        """``[B, N, C]``, of order one, in the dtype given and in single precision the same."""
        model, channels = case.build(), case.signature.channels
        for batch, sensors, count in ((1, 17, 5), (3, 40, 8)):
            inputs = samples_for(case.signature, batch, sensors)
            points = points_for(model, batch, count)
            out = points.evaluate(model, inputs)
            samples = batch if case.signature.inputs else out.shape[0]
            assert out.shape == (samples, points.count, channels)
            assert out.dtype == torch.float64
            if model.scattered:
                scattered = model(inputs, queries_for(case.signature, batch, count))
                assert scattered.shape == (batch, count, channels)
        assert 1e-4 < out.std() < 10, f"standard deviation {float(out.std()):.1g}, not of order one"
        rounded = {name: s.to(torch.float32) for name, s in inputs.items()}
        single = points.in_single_precision().evaluate(model.float(), rounded).double()
        largest = 1 + float(out.detach().abs().max())
        assert max_difference(single, out) < SINGLE_PRECISION * largest

    @only_for(lambda case: bool(case.signature.inputs))
    def test_inputs_that_do_not_fit_are_refused(self, case: Case) -> None:
        """Errors name the input whose channels or columns differ from the signature."""
        (model, inputs, points), entry = case.prepare(), case.signature.inputs[0]
        good = inputs[entry.name]
        without = {name: samples for name, samples in inputs.items() if name != entry.name}
        _refuses(model, without, points, f"'{entry.name}' is missing")
        wide = FunctionSamples(good.points, torch.cat([good.values, good.values], -1))
        _refuses(model, {**inputs, entry.name: wide}, points, "channels")
        column = torch.zeros_like(good.values[..., :1])
        deep = FunctionSamples(torch.cat([good.points, column], -1), good.values)
        _refuses(model, {**inputs, entry.name: deep}, points, "coordinates")
        _refuses(model, inputs, points.with_extra_coordinate(), "columns")

    def test_evaluation_is_deterministic(self, case: Case) -> None:
        """Prediction draws no random numbers, no dropout above all."""
        model, inputs, points = case.prepare()
        assert torch.equal(points.evaluate(model, inputs), points.evaluate(model, inputs))

    def test_context_length_grows_at_most_with_the_sensors(self, case: Case) -> None:
        """``context_length`` never falls with more sensors, and grows by no more than they do."""
        model, functions = case.build(), len(case.signature.functions)
        few, many = (
            model.context_length({e.name: count if e.of else 1 for e in case.signature.inputs})
            for count in (10, 1000)
        )
        assert 0 <= many - few <= 990 * functions

    @only_for(lambda case: case.preset.build.field.rollout)
    def test_rollout_times_increase_to_the_end_of_the_axis(self, case: Case) -> None:
        """Times increase, lie within the time axis, and end where it ends."""
        assert case.signature.time is not None
        axis = case.signature.coordinates[case.signature.time]
        times = case.build().fixed_times()
        assert times is not None, "a rollout has fixed times"
        assert all(a < b for a, b in pairwise(times)), times
        assert times[0] >= axis.low
        assert abs(times[-1] - axis.high) < ROUNDING * abs(axis.high)


def _refuses(
    model: Backbone,
    inputs: Mapping[str, FunctionSamples],
    points: EvaluationPoints,
    message: str,
) -> None:
    try:
        points.evaluate(model, inputs)
    except DataError as error:
        assert message in str(error), f"{error} does not say {message!r}"
    else:
        raise AssertionError(f"accepted what does not fit: {message!r}")
