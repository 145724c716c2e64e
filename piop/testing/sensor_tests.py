"""Tests of the sensors: any order, number and mask; samples of a batch are independent."""

from __future__ import annotations

from unittest import SkipTest

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.testing.cases import (
    FIT_ROUNDING,
    LEAST_CHANGE,
    Case,
    CaseTests,
    has_free_sensors,
    only_for,
)
from piop.testing.samples import max_difference, points_for, samples_for


class SensorTests(CaseTests):
    """Sensors may come in any order, number and mask; samples of a batch are independent."""

    @only_for(lambda case: bool(case.signature.functions))
    def test_order_of_sensors_does_not_matter(self, case: Case) -> None:
        """Sensors are a set, unless the class sets ``unordered = False``."""
        model, inputs = case.build(), samples_for(case.signature)
        if not model.unordered:
            raise SkipTest("unordered = False")
        points, shuffled = points_for(model), dict(inputs)
        generator = torch.Generator().manual_seed(3)
        for entry in case.signature.functions:
            samples = inputs[entry.name]
            order = torch.randperm(samples.points.shape[1], generator=generator)
            shuffled[entry.name] = FunctionSamples(
                samples.points[:, order], samples.values[:, order]
            )
        before = points.evaluate(model, inputs)
        assert max_difference(points.evaluate(model, shuffled), before) < FIT_ROUNDING

    @only_for(lambda case: bool(case.signature.inputs))
    def test_samples_of_a_batch_are_independent(self, case: Case) -> None:
        """The output for a sample is the same in any batch."""
        model, inputs = case.build(), samples_for(case.signature, 3)
        points = points_for(model, 3)
        together = points.evaluate(model, inputs)
        for i in range(3):
            alone = {name: _sample(samples, i) for name, samples in inputs.items()}
            found = points.of_sample(i).evaluate(model, alone)
            assert max_difference(found, together[[i]]) < FIT_ROUNDING

    def test_every_input_matters(self, case: Case) -> None:
        """Other values of an input give another output."""
        model, inputs = case.build(), samples_for(case.signature)
        points, others = points_for(model), samples_for(case.signature, seed=9)
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
            one |= {name: _sample(padded[name], i) for name in gridded}
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

    mask = torch.stack([torch.arange(count) < s.points.shape[1] for s in samples])
    points, values = (torch.cat([filled(t) for t in parts]) for parts in _parts(samples))
    return FunctionSamples(points, values, mask)


def _stacked(samples: list[FunctionSamples]) -> FunctionSamples:
    points, values = (torch.cat(list(parts)) for parts in _parts(samples))
    return FunctionSamples(points, values)


def _parts(samples: list[FunctionSamples]) -> tuple[list[Tensor], list[Tensor]]:
    return [s.points for s in samples], [s.values for s in samples]


def _sample(samples: FunctionSamples, i: int) -> FunctionSamples:
    return FunctionSamples(samples.points[[i]], samples.values[[i]])
