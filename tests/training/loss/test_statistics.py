import math

import pytest
import torch

from piop.datasets import Dataset
from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.residual import compile_residual
from piop.sampling import Draws, collocation, sample_inputs
from piop.training.loss.statistics import (
    FunctionSize,
    Moments,
    Statistics,
    data_statistics,
    distribution_statistics,
    time_derivative,
)


def statistics_of(problem, seed=0):
    return distribution_statistics(problem, compile_residual(problem), seed)


def test_sizes_of_a_series_are_those_of_theory(heat):
    found = statistics_of(heat)
    theory = math.sqrt(2 * (1 / 3) / 2)  # two sines, amplitudes uniform on [-1, 1]
    assert found.channel_scale[0] == pytest.approx(theory, rel=0.1)
    assert found.input_std["u0"] == pytest.approx(theory, rel=0.1)
    assert found.input_mean["u0"] == pytest.approx(0, abs=0.1)
    assert found.equation_scale[0] == found.channel_scale[0]  # T = 1


def test_an_unknown_at_rest_is_as_large_as_what_drives_it():
    problem = Problem.from_file("reaction_diffusion")
    found = statistics_of(problem)
    assert found.channel_scale[0] == pytest.approx(1.0, rel=0.15)  # source of variance 1, T = 1
    assert found.channel_mean == (0.0,)


def test_where_shapes_differ_channels_without_data_are_sized_in_a_typical_one():
    found = statistics_of(Problem.from_file("elasticity"))
    assert all(0 < scale < math.inf for scale in found.channel_scale)


def test_an_auxiliary_equation_is_as_large_as_its_source():
    problem = Problem.from_file("navier_stokes")
    found = statistics_of(problem)
    vorticity = found.channel_scale[0]
    assert found.equation_scale == pytest.approx((vorticity / 5, vorticity), rel=0.1)
    assert found.channel_scale[1] == pytest.approx(vorticity / (4 * math.pi**2), rel=0.1)


def test_time_derivatives_are_found_with_their_order():
    burgers = Problem.from_file("burgers")
    assert time_derivative(burgers, 0) == ("u", 1)
    assert time_derivative(Problem.from_file("navier_stokes"), 1) is None


def test_statistics_survive_json(heat):
    found = statistics_of(heat)
    assert Statistics.from_json(found.to_json()) == found


def test_time_windows_of_an_earlier_version_are_refused(heat):
    stored = statistics_of(heat).to_json()
    assert Statistics.from_json({**stored, "windows": 4}).windows == 4
    del stored["windows_version"]
    assert Statistics.from_json({**stored, "harmonics": 0}).windows == 1
    with pytest.raises(UsageError, match=r"time windows by an earlier version.*piop solve"):
        Statistics.from_json({**stored, "windows": 4})


def test_function_sizes_are_relative_to_the_law(heat):
    statistics, residual = statistics_of(heat), compile_residual(heat)
    draws = Draws(0, 0, torch.arange(256))  # those the statistics are taken over
    functions = sample_inputs(heat, draws)
    queries = collocation(heat, draws, 64)
    size = FunctionSize(heat, residual, statistics)(functions, queries)
    assert size.mean().item() == pytest.approx(1.0, rel=1e-9)
    u0 = functions["u0"](queries[..., 1:])
    by_hand = u0.square().mean(1) / statistics.channel_scale[0] ** 2
    assert torch.allclose(size, by_hand)


def test_functions_at_rest_are_sized_by_what_drives_them():
    problem = Problem.from_file("reaction_diffusion")
    statistics, residual = statistics_of(problem), compile_residual(problem)
    draws = Draws(0, 0, torch.arange(8))
    functions = sample_inputs(problem, draws)
    queries = collocation(problem, draws, 64)
    size = FunctionSize(problem, residual, statistics)(functions, queries)
    f = functions["f"](queries[..., 1:])
    assert torch.allclose(size, f.square().mean(1) / statistics.equation_scale[0] ** 2)


def test_data_have_their_own_sizes(heat):
    values = torch.tensor([[[3.0, 5.0]], [[3.0, 5.0]]])
    points = torch.tensor([[[0.0], [1.0]]]).expand(2, -1, -1)
    inputs = {"u0": FunctionSamples(points, torch.tensor([[[1.0], [3.0]]]).expand(2, -1, -1))}
    axes = {"t": torch.tensor([1.0]), "x": torch.tensor([0.0, 1.0])}
    found = data_statistics(heat, Dataset(inputs, axes, {"u": values}), statistics_of(heat))
    assert found.input_mean["u0"] == 2.0
    assert found.channel_mean == (4.0,)
    assert found.channel_scale[0] == pytest.approx(math.sqrt(17))


def test_sensors_that_fill_up_shorter_samples_do_not_count(heat):
    points = torch.tensor([[[0.0], [1.0], [2.0]]]).expand(2, -1, -1)
    u0 = torch.tensor([[[2.0], [4.0], [6.0]], [[8.0], [0.0], [0.0]]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    axes = {"t": torch.tensor([1.0]), "x": torch.tensor([0.0])}
    data = Dataset({"u0": FunctionSamples(points, u0, mask)}, axes, {"u": torch.ones(2, 1, 1)})
    found = data_statistics(heat, data, statistics_of(heat))
    assert found.input_mean["u0"] == 5.0
    assert found.input_std["u0"] == pytest.approx(math.sqrt(20 / 3))


def test_moments_of_pieces_are_those_of_the_whole():
    values = 5 + torch.randn(100, generator=torch.Generator().manual_seed(0)).double()
    moments = Moments()
    for piece in values.split([1, 60, 39]):
        moments.add(piece)
    assert moments.mean == pytest.approx(float(values.mean()), rel=1e-14)
    assert moments.std == pytest.approx(float(values.std()), rel=1e-13)
    assert moments.square == pytest.approx(float(values.square().mean()), rel=1e-14)
