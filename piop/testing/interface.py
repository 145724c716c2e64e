"""What a network takes and gives."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models.core.base import Backbone
from piop.models.registry import refusal
from piop.testing.cases import SIGNATURES, Case
from piop.testing.samples import answer, distance, places_for, queries_for, samples_for
from piop.testing.suite import EXACT, Suite, of_its_own, only_for

SINGLE = 1e-3
"""Of answers in single precision."""


class InterfaceClaims(Suite):
    """What a network takes and gives."""

    @only_for(of_its_own)
    def test_it_serves_its_own_problem_and_says_why_it_refuses_others(self, case: Case) -> None:
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

    @only_for(of_its_own)
    def test_its_config_is_a_frozen_dataclass(self, case: Case) -> None:
        """Sizes are stated once and do not change."""
        config = case.preset.config
        assert dataclasses.is_dataclass(config), f"{type(config).__name__} is no dataclass"
        assert type(config).__dataclass_params__.frozen, f"{type(config).__name__} is not frozen"  # type: ignore[attr-defined]
        assert case.build().config == case.config, "a network keeps its config as .config"

    def test_answers_have_every_channel_for_any_b_m_n(self, case: Case) -> None:
        """``[B, N, C]``, of order one, in the dtype given and in single precision the same."""
        model, channels = case.build(), case.signature.channels
        for batch, sensors, count in ((1, 17, 5), (3, 40, 8)):
            inputs = samples_for(case.signature, batch, sensors)
            places = places_for(model, batch, count)
            out = answer(model, inputs, places)
            points = count if isinstance(places, Tensor) else _product(places)
            rows = batch if case.signature.inputs else out.shape[0]
            assert out.shape == (rows, points, channels)
            assert out.dtype == torch.float64
            if model.scattered:
                assert model(inputs, queries_for(case.signature, batch, count)).shape == (
                    batch,
                    count,
                    channels,
                )
        assert 1e-4 < out.std() < 10, f"answers spread {float(out.std()):.1g}: of order one, please"
        fewer = {name: s.to(torch.float32) for name, s in inputs.items()}
        single = answer(model.float(), fewer, _single(places)).double()
        assert distance(single, out) < SINGLE * (1 + float(out.detach().abs().max()))

    @only_for(lambda case: bool(case.signature.inputs))
    def test_inputs_that_do_not_fit_are_refused(self, case: Case) -> None:
        """Names, channels and columns that differ from the signature are told by name."""
        model, entry = case.build(), case.signature.inputs[0]
        inputs, places = samples_for(case.signature), places_for(model)
        good = inputs[entry.name]
        without = {name: samples for name, samples in inputs.items() if name != entry.name}
        _refuses(model, without, places, f"'{entry.name}' is missing")
        wide = FunctionSamples(good.points, torch.cat([good.values, good.values], -1))
        _refuses(model, {**inputs, entry.name: wide}, places, "channels")
        column = torch.zeros_like(good.values[..., :1])
        deep = FunctionSamples(torch.cat([good.points, column], -1), good.values)
        _refuses(model, {**inputs, entry.name: deep}, places, "coordinates")
        more = (
            torch.cat([places, places[..., :1]], -1)
            if isinstance(places, Tensor)
            else [*places, places[0]]
        )
        _refuses(model, inputs, more, "columns")

    def test_the_same_again_is_the_same(self, case: Case) -> None:
        """Nothing is drawn while predicting, no dropout above all."""
        model, inputs = case.build(), samples_for(case.signature)
        places = places_for(model)
        assert torch.equal(answer(model, inputs, places), answer(model, inputs, places))

    def test_what_a_query_meets_is_at_most_what_is_there(self, case: Case) -> None:
        """``context_length`` never falls with more sensors, and grows by no more than them."""
        model, functions = case.build(), len(case.signature.functions)
        few, many = (
            model.context_length({e.name: count if e.of else 1 for e in case.signature.inputs})
            for count in (10, 1000)
        )
        assert 0 <= many - few <= 990 * functions

    @only_for(lambda case: case.preset.build.field.rollout)
    def test_it_marches_through_its_time(self, case: Case) -> None:
        """Steps go forward, inside the time axis, and end where it ends."""
        assert case.signature.time is not None
        axis = case.signature.coordinates[case.signature.time]
        times = case.build().fixed_times() or ()
        assert all(a < b for a, b in pairwise(times)), times
        assert times[0] >= axis.low
        assert abs(times[-1] - axis.high) < EXACT * abs(axis.high)


def _product(axes: list[Tensor]) -> int:
    count = 1
    for axis in axes:
        count *= len(axis)
    return count


def _single(places: Any) -> Any:
    return places.float() if isinstance(places, Tensor) else [axis.float() for axis in places]


def _refuses(model: Backbone, inputs: Any, places: Any, message: str) -> None:
    try:
        answer(model, inputs, places)
    except DataError as error:
        assert message in str(error), f"{error} does not say {message!r}"
    else:
        raise AssertionError(f"took what does not fit: {message!r}")
