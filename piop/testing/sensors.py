"""What a network makes of sensors and of the functions of a batch."""

from __future__ import annotations

from unittest import SkipTest

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.testing.cases import Case
from piop.testing.samples import answer, distance, places_for, samples_for
from piop.testing.suite import FITTED, MOVES, Suite, only_for, takes_any_sensors


class SensorClaims(Suite):
    """What a network makes of sensors and of the functions of a batch."""

    @only_for(lambda case: bool(case.signature.functions))
    def test_order_of_sensors_does_not_matter(self, case: Case) -> None:
        """Sensors are a set, unless the class says ``unordered = False``."""
        model, inputs = case.build(), samples_for(case.signature)
        if not model.unordered:
            raise SkipTest("unordered = False")
        places, shuffled = places_for(model), dict(inputs)
        generator = torch.Generator().manual_seed(3)
        for entry in case.signature.functions:
            points, values = inputs[entry.name].points, inputs[entry.name].values
            order = torch.randperm(points.shape[1], generator=generator)
            shuffled[entry.name] = FunctionSamples(points[:, order], values[:, order])
        assert distance(answer(model, shuffled, places), answer(model, inputs, places)) < FITTED

    @only_for(lambda case: bool(case.signature.inputs))
    def test_functions_of_a_batch_do_not_meet(self, case: Case) -> None:
        """A function's answer is the same whoever is beside it."""
        model, inputs = case.build(), samples_for(case.signature, 3)
        places = places_for(model, 3)
        together = answer(model, inputs, places)
        for i in range(3):
            alone = {n: FunctionSamples(s.points[[i]], s.values[[i]]) for n, s in inputs.items()}
            own = places[[i]] if isinstance(places, Tensor) else places
            assert distance(answer(model, alone, own), together[[i]]) < FITTED

    def test_every_input_matters(self, case: Case) -> None:
        """Other values of an input give another answer."""
        model, inputs = case.build(), samples_for(case.signature)
        places, others = places_for(model), samples_for(case.signature, seed=9)
        before = answer(model, inputs, places)
        for name, samples in inputs.items():
            other = FunctionSamples(samples.points, others[name].values)
            assert distance(answer(model, {**inputs, name: other}, places), before) > MOVES, name

    @only_for(takes_any_sensors)
    def test_masked_sensors_are_as_good_as_absent(self, case: Case) -> None:
        """Each sample's own number of sensors: NaN behind the mask, and the sample by itself."""
        model, signature = case.build(), case.signature
        places, counts = places_for(model), (40, 23)
        alone = [samples_for(signature, 1, count, seed=i) for i, count in enumerate(counts)]
        padded = {
            entry.name: _padded([one[entry.name] for one in alone], 45)
            if entry.of and not entry.gridded
            else _stacked([samples_for(signature, 1, 40, i)[entry.name] for i in range(2)])
            for entry in signature.inputs
        }
        together = answer(model, padded, places)
        for i, one in enumerate(alone):
            gridded = [e.name for e in signature.inputs if e.gridded]
            one |= {name: _row(padded[name], i) for name in gridded}
            own = places[[i]] if isinstance(places, Tensor) else places
            assert distance(answer(model, one, own), together[[i]]) < FITTED

    @only_for(lambda case: bool(case.signature.functions))
    def test_any_number_of_sensors_will_do(self, case: Case) -> None:
        """One, few, many; on grids two along each axis at least."""
        model = case.build()
        places = places_for(model)
        for count in (1, 3, 300):
            out = answer(model, samples_for(case.signature, sensors=count), places)
            assert out.isfinite().all(), f"{count} sensors"


def _padded(samples: list[FunctionSamples], count: int) -> FunctionSamples:
    """Fill up to as many sensors with NaN behind a mask."""

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


def _row(samples: FunctionSamples, i: int) -> FunctionSamples:
    return FunctionSamples(samples.points[[i]], samples.values[[i]])
