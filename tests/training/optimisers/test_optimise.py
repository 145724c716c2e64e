import math
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from piop.errors import UsageError
from piop.training.config import BudgetConfig, OptimiserConfig, TrainingConfig
from piop.training.loop.phases import Stochastic, TrainingTask
from piop.training.operator import Inferred
from piop.training.optimisers.build import (
    WeightAverage,
    build_lbfgs,
    build_optimiser,
    clip_gradients,
    learning_rate_factor,
)


def test_the_schedule_rises_then_falls_by_half_a_cosine():
    config = OptimiserConfig(warmup=0.1, final=0.2)
    assert learning_rate_factor(0.05, 1, config) == pytest.approx(0.5)
    assert learning_rate_factor(0.1, 1, config) == pytest.approx(1.0)
    assert learning_rate_factor(0.55, 1, config) == pytest.approx(0.6)
    assert learning_rate_factor(1.0, 1, config) == pytest.approx(0.2)


def test_step_sizes_of_long_trainings_fall_with_the_root_of_the_step():
    config = OptimiserConfig(warmup=0.1, final=0.2, decay_after=100)
    assert learning_rate_factor(0.05, 900, config) == pytest.approx(0.5)  # the warm-up is as it is
    assert learning_rate_factor(0.1, 100, config) == pytest.approx(1.0)
    assert learning_rate_factor(0.1, 900, config) == pytest.approx(1 / 3)
    assert learning_rate_factor(0.55, 400, config) == pytest.approx(0.3)
    never = replace(config, decay_after=0)
    assert learning_rate_factor(0.55, 400, never) == pytest.approx(0.6)
    assert TrainingConfig.from_json(_of_an_older_run()).optimiser.decay_after == 0


def _of_an_older_run():
    stored = TrainingConfig(BudgetConfig(steps=5)).to_json()
    del stored["optimiser"]["decay_after"]
    return stored


def test_without_warmup_the_schedule_starts_at_the_peak():
    assert learning_rate_factor(0.0, 1, OptimiserConfig(warmup=0.0)) == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "rate"), [("soap", 0.05), ("muon", 0.1), ("adamw", 0.05)])
def test_optimisers_bring_a_quadratic_down(name, rate):
    weight = nn.Parameter(torch.tensor([[3.0, -2.0], [1.0, 4.0]]))
    optimiser = build_optimiser([weight], OptimiserConfig(optimiser=name, learning_rate=rate))
    for _ in range(300):
        optimiser.zero_grad()
        (weight**2).sum().backward()
        optimiser.step()
    assert weight.abs().max() < 0.1


@pytest.mark.parametrize("name", ["soap", "muon", "adamw"])
def test_weights_decay_by_the_step_size_and_inferred_parameters_do_not(name):
    """Of a loss that does not depend on them, since steps along no gradient are none."""
    module = nn.ModuleDict({"net": nn.Linear(3, 2), "inferred": Inferred({"nu": 0.1})})
    module["inferred"].theta.data.fill_(0.5)
    before = module["net"].weight.detach().clone()

    def gradients(batch):
        for parameter in module.parameters():
            parameter.grad = torch.zeros_like(parameter)
        return {}, {}

    config = OptimiserConfig(
        optimiser=name, learning_rate=0.1, weight_decay=0.2, warmup=0.5, decay_after=0
    )
    weightings = Mock(prepare=lambda batch, *_: batch)
    phase = Stochastic(TrainingTask(module, gradients, lambda *_: None, config, weightings))
    phase.step(0, 0.25)
    phase.step(1, 0.5)
    expected = before * (1 - 0.05 * 0.2) * (1 - 0.1 * 0.2)
    torch.testing.assert_close(module["net"].weight.detach(), expected)
    assert module["inferred"].theta.tolist() == [0.5]


def test_soap_refuses_complex_weights_and_says_what_to_do():
    weight = nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(UsageError, match="pairs of real numbers"):
        build_optimiser([weight], OptimiserConfig(optimiser="soap"))


def test_lbfgs_solves_a_quadratic_to_round_off():
    weight = nn.Parameter(torch.tensor([3.0, -2.0], dtype=torch.float64))
    optimiser = build_lbfgs([weight])

    def closure():
        optimiser.zero_grad()
        loss = (weight**2 * torch.tensor([1.0, 100.0])).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimiser.step(closure)
    assert weight.abs().max() < 1e-8


def test_gradients_are_clipped_to_the_limit_and_zero_means_none():
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    assert clip_gradients([weight], 0.0) == pytest.approx(5.0)
    assert torch.equal(weight.grad, torch.tensor([3.0, 4.0]))
    clip_gradients([weight], 1.0)
    assert weight.grad.norm() == pytest.approx(1.0, abs=1e-5)


def test_the_mean_of_the_weights_follows_its_formula():
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 1.0)
    average = WeightAverage(module, decay=0.5)
    nn.init.constant_(module.weight, 3.0)
    average.update()  # decay min(0.5, 2/11)
    assert average.weights()["weight"].item() == pytest.approx(2 / 11 * 1 + 9 / 11 * 3)


def test_without_decay_the_present_weights_predict():
    module = nn.Linear(1, 1, bias=False)
    average = WeightAverage(module, decay=0.0)
    nn.init.constant_(module.weight, math.e)
    average.update()
    assert average.weights()["weight"].item() == pytest.approx(math.e)


def test_the_mean_goes_on_after_its_state_is_restored():
    module = nn.Linear(2, 2)
    first = WeightAverage(module, decay=0.9)
    first.update()
    nn.init.zeros_(module.weight)
    second = WeightAverage(module, decay=0.9)
    second.load_state_dict(first.state_dict())
    first.update()
    second.update()
    assert torch.equal(first.weights()["weight"], second.weights()["weight"])
