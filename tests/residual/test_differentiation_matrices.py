"""Matrices against formulas, with the order that is stated."""

import math

import pytest
import torch

from piop.residual.differentiation_matrices import (
    finite_differences,
    fourier_differences,
    point_weights,
)


@pytest.mark.parametrize("count", [8, 9, 16])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_waves_below_half_the_points_are_differentiated_exactly(count, order):
    x = torch.arange(count, dtype=torch.float64) * (2.0 / count)
    k = 3 * math.pi
    found = fourier_differences(count, 2.0, order) @ (torch.sin(k * x + 0.3) + 0.7)
    truth = k**order * torch.sin(k * x + 0.3 + order * math.pi / 2) + 0.7 * (order == 0)
    assert (found - truth).abs().max() < 1e-12 * max(1.0, k**order) * count


@pytest.mark.parametrize(("order", "size"), [(1, 0.0), (2, -16.0), (3, 0.0), (4, 256.0)])
def test_the_sawtooth_has_no_odd_derivative(order, size):
    sawtooth = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)
    found = fourier_differences(8, 2 * math.pi, order) @ sawtooth
    torch.testing.assert_close(found, size * sawtooth, rtol=1e-12, atol=1e-10)


def test_published_weights():
    """Fornberg 1988, tables 1 and 3: the fourth order slope in the middle and at an end."""
    nodes = torch.arange(5, dtype=torch.float64)
    middle = torch.tensor([1 / 12, -2 / 3, 0, 2 / 3, -1 / 12], dtype=torch.float64)
    end = torch.tensor([-25 / 12, 4, -3, 4 / 3, -1 / 4], dtype=torch.float64)
    torch.testing.assert_close(point_weights(nodes, 2.0, 1), middle, rtol=0, atol=1e-13)
    torch.testing.assert_close(point_weights(nodes, 0.0, 1), end, rtol=0, atol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("accuracy", [2, 4, 6])
@pytest.mark.parametrize("between", [False, True])
def test_the_error_falls_with_the_order_that_is_stated(order, accuracy, between):
    errors = []
    for count in (33, 65):
        ticks = torch.linspace(0, 1, count, dtype=torch.float64)
        at = (ticks[1:] + ticks[:-1]) / 2 if between else ticks
        found = finite_differences(ticks, order, accuracy, at) @ torch.sin(3 * ticks)
        truth = 3**order * torch.sin(3 * at + order * math.pi / 2)
        errors.append((found - truth).abs().max().item())
    measured = math.log2(errors[0] / errors[1])
    assert accuracy - 0.15 < measured < accuracy + 1.2


def test_uneven_ticks_are_as_good():
    ticks = torch.linspace(0, 1, 9, dtype=torch.float64) ** 1.5
    found = finite_differences(ticks, 1, 4) @ (ticks**4)
    torch.testing.assert_close(found, 4 * ticks**3, rtol=1e-10, atol=1e-10)


def test_too_few_values_are_refused_with_how_many_it_takes():
    with pytest.raises(
        ValueError, match=r"3 values .* order 1 with error order 4: give at least 5"
    ):
        finite_differences(torch.arange(3.0), 1, 4)


def test_two_values_are_enough_between_them():
    ticks = torch.tensor([1.0, 3.0])
    found = finite_differences(ticks, 1, 2, torch.tensor([2.0]))
    assert found.tolist() == [[-0.5, 0.5]]
