"""Noise on inputs: its size, its levels, and that it depends on seed, step and sample alone."""

import pytest
import torch

from piop.datasets import Dataset
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.sampling import Draws
from piop.training.batches.batch import Batch, BatchSetting, Observations
from piop.training.batches.noise import NoisySource, add_noise, noise_levels
from piop.training.config import BudgetConfig, MachineConfig, PointsConfig, TrainingConfig
from piop.training.loss.statistics import noise_scales

TEXT = """
name: noisy
space: {x: [0, 1]}
unknowns: [a]
inputs: {u: {of: [x], law: data, noise: [0, 0.5]}}
equations: data
"""


def data(samples=6, own_places=False):
    random = torch.Generator().manual_seed(0)
    values = torch.randn(samples, 5, 1, generator=random).double() * torch.arange(5)[:, None]
    points = torch.linspace(0, 1, 5).double()[None, :, None].expand(samples, -1, -1).clone()
    if own_places:
        points[0, 2] += 0.01
    x = torch.linspace(0, 1, 4).double()
    return Dataset({"u": FunctionSamples(points, values)}, {"x": x}, {"a": torch.ones(samples, 4)})


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(TEXT)


def test_the_scale_is_the_deviation_at_each_sensor_over_the_samples(problem):
    found = torch.tensor(noise_scales(problem, data())["u"])
    torch.testing.assert_close(found, data().inputs["u"].values[..., 0].std(0).float(), rtol=1e-5,
                               atol=1e-12)  # fmt: skip
    assert found[0] == 0  # where nothing varies there is no noise, as on a wall


def test_where_places_differ_it_is_that_of_all_sensors(problem):
    (found,) = noise_scales(problem, data(own_places=True))["u"]
    assert found == pytest.approx(float(data().inputs["u"].values.std()), rel=1e-5)


def test_chunks_of_a_file_give_the_scales_of_the_whole(problem):
    class Chunked(Dataset):
        def chunks(self):
            yield from (self.take(part) for part in torch.arange(len(self)).split(4))

    own = data()
    parts = Chunked(own.inputs, own.axes, own.values)
    assert noise_scales(problem, parts) == noise_scales(problem, own)


def test_inputs_without_noise_have_no_scale(problem):
    plain = Problem.from_yaml(TEXT.replace(", noise: [0, 0.5]", ""))
    assert noise_levels(plain) == ()
    assert noise_scales(plain, data()) == {}
    assert noise_levels(problem) == (0.0, 0.5)
    silent = Problem.from_yaml(TEXT.replace("[0, 0.5]", "0"))
    assert noise_scales(silent, data()) == {}


def test_noise_is_normal_of_the_level_times_the_scale():
    values = torch.zeros(4000, 3, 1).double()
    seen = {"u": FunctionSamples(torch.zeros(4000, 3, 1).double(), values)}
    level = torch.tensor([0.1, 0.2]).double().repeat(2000)
    found = add_noise(seen, {"u": [0.0, 1.0, 5.0]}, level, Draws(0, 1, torch.arange(4000)))
    noise = found["u"].values[..., 0]
    assert (noise[:, 0] == 0).all()
    expected = torch.tensor([[0.1, 0.5], [0.2, 1.0]]).double()
    spread = torch.stack([noise[k::2, 1:].std(0) for k in range(2)])
    torch.testing.assert_close(spread, expected, rtol=0.06, atol=0)  # 2000 values: 1.6 %
    assert abs(torch.corrcoef(noise[:, 1:].T)[0, 1]) < 0.06
    assert seen["u"].values is values


def test_noise_is_new_at_every_step_and_the_same_on_any_process(problem):
    def draw(step, share):
        points = torch.zeros(4, 3, 1)
        seen = {"u": FunctionSamples(points, torch.zeros(4, 3, 1))}
        empty = torch.zeros(4, 1, 1)
        return Batch(observations=Observations(seen, empty, None, empty, empty[..., 0], empty))

    class Second:
        def part(self, count):
            return range(4, 8)

    def noise(functions, step, processes=None):
        config = TrainingConfig(
            BudgetConfig(steps=1),
            PointsConfig(data_functions=functions),
            machine=MachineConfig(seed=7),
        )
        shared = (processes,) if processes else ()
        setting = BatchSetting(problem, None, {}, config, torch.empty(0), *shared)
        source = NoisySource(draw, setting, (0.0, 1.0), {"u": [1.0]})
        return source(step, 0.0).observations.inputs["u"].values

    first, again, other = noise(4, 0), noise(4, 0), noise(4, 1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    levels = torch.stack([noise(4, step).abs().amax((1, 2)) > 0 for step in range(60)])
    assert 0.35 < levels.double().mean() < 0.65  # each of the two levels is as likely
    both = [noise(8, step, Second()) for step in range(3)]
    assert not any(torch.equal(a, noise(4, k)) for k, a in enumerate(both))
