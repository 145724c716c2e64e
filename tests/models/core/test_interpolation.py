from __future__ import annotations

import math

import pytest
import torch

from piop.models import AxisSignature
from piop.models.core.interpolation import even_ticks, interpolate_grid, interpolation_weights

TIME = AxisSignature("t", 1.0, 3.0)
RING = AxisSignature("x", -1.0, 1.0, periodic=True)


def even(axis, count):
    return even_ticks(axis, count, torch.zeros((), dtype=torch.float64))


@pytest.mark.parametrize("count", [9, 10])
def test_harmonics_below_half_the_points_are_read_anywhere_without_error(count):
    def wave(x):
        return 0.3 + torch.cos(4 * math.pi * x + 1) - torch.sin(math.pi * x)

    at = torch.tensor([[-1.0, 0.123], [0.99, 2.5]], dtype=torch.float64)
    found = interpolation_weights(even(RING, count), at, RING) @ wave(even(RING, count))
    torch.testing.assert_close(found, wave(at), rtol=0, atol=1e-13)


def test_the_wave_of_every_other_point_is_read_as_a_cosine():
    sawtooth = 1.0 - 2.0 * (torch.arange(8) % 2).double()
    at = torch.tensor([-0.9, 0.3], dtype=torch.float64)
    found = interpolation_weights(even(RING, 8), at, RING) @ sawtooth
    torch.testing.assert_close(found, torch.cos(4 * math.pi * (at + 1)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_cubics_are_read_without_error_as_far_as_there_are_points(count):
    ticks = even(TIME, count) if count != 9 else 1 + 2 * torch.linspace(0, 1, 9).double() ** 1.3
    degree = min(3, count - 1)
    at = torch.tensor([1.0, 1.01, 1.7, 2.95, 3.0], dtype=torch.float64)
    found = interpolation_weights(ticks, at, TIME) @ ticks**degree
    torch.testing.assert_close(found, at**degree, rtol=1e-13, atol=0)


def test_between_walls_the_error_falls_with_the_fourth_power_of_the_step():
    at, errors = even(TIME, 37), []
    for count in (21, 41, 81):
        ticks = even(TIME, count)
        found = interpolation_weights(ticks, at, TIME) @ torch.sin(3 * ticks)
        errors.append((found - torch.sin(3 * at)).norm().item())
    assert 3.7 < math.log2(errors[0] / errors[1]) < 4.5
    assert 3.7 < math.log2(errors[1] / errors[2]) < 4.5


@pytest.mark.parametrize("shared", [False, True])
def test_axes_are_interpolated_one_after_the_other(shared):
    """A product of a cubic and a harmonic, exact, for two functions and two channels."""
    ticks = [even(TIME, 5), even(RING, 7)]
    size = torch.tensor([1.0, -2.0], dtype=torch.float64)[:, None, None, None]

    def field(t, x):
        return torch.stack([t**3 * torch.sin(math.pi * x), t - torch.cos(2 * math.pi * x)], -1)

    points = torch.rand(1 if shared else 2, 6, 2, dtype=torch.float64) * 2 + torch.tensor([1, -1])
    values = size * field(*torch.meshgrid(*ticks, indexing="ij"))
    found = interpolate_grid(values, ticks, (TIME, RING), points)
    expected = size[:, 0] * field(points[..., 0], points[..., 1])
    assert (found - expected).abs().max() < 1e-12


def test_even_ticks_leave_out_the_end_of_a_period_alone():
    assert torch.equal(even(TIME, 3), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert torch.equal(even(RING, 4), torch.tensor([-1.0, -0.5, 0.0, 0.5], dtype=torch.float64))
