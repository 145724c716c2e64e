"""The interpolation CNNs against torch's own interpolation and convolution."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from piop.models.core.base import AxisSignature
from piop.models.galerkin.layers import (
    Convolution,
    Down,
    Up,
    linear_weights,
    middle_count,
    resampled,
)

EXACT = 1e-12

WALLS = (AxisSignature("x", 0.0, 1.0), AxisSignature("y", 0.0, 1.0))

RING = AxisSignature("x", 0.0, 1.0, periodic=True)


def image(size=9, channels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, size, size, channels, generator=generator, dtype=torch.float64)


def bilinear(state, size):
    """As published: bilinear between grids that share their corners."""
    found = functional.interpolate(
        state.movedim(-1, 1), size=(size, size), mode="bilinear", align_corners=True
    )
    return found.movedim(1, -1)


@pytest.mark.parametrize("size", [4, 6, 9, 14])
def test_resampling_between_walls_is_bilinear_with_common_corners(size):
    found = resampled(image(), size, WALLS)
    assert (found - bilinear(image(), size)).abs().max() < EXACT


@pytest.mark.parametrize(("count", "wanted"), [(8, 16), (8, 5), (7, 7), (5, 12)])
def test_resampling_round_a_period_is_piecewise_linear(count, wanted):
    values = torch.cos(2 * math.pi * torch.arange(count, dtype=torch.float64) / count)
    weights = linear_weights(count, wanted, True, values)
    assert (weights.sum(-1) - 1).abs().max() < EXACT
    closed = torch.cat([values, values[:1]])
    for i, found in enumerate(weights @ values):
        cell, rest = divmod(i * count, wanted)
        expected = closed[cell] * (1 - rest / wanted) + closed[cell + 1] * (rest / wanted)
        assert abs(found - expected) < EXACT


def test_convolution_between_walls_has_zeros_beyond():
    layer = Convolution(3, 4, WALLS).double()
    expected = functional.conv2d(image().movedim(-1, 1), layer.layer.weight, padding=1)
    assert (layer(image()) - expected.movedim(1, -1)).abs().max() < EXACT


def test_convolution_round_a_period_moves_with_its_input():
    layer = Convolution(3, 4, (RING, WALLS[1])).double()
    moved = layer(image().roll(2, 1))
    assert (moved - layer(image()).roll(2, 1)).abs().max() < EXACT
    beside = layer(image().roll(2, 2)) - layer(image()).roll(2, 2)
    assert beside.abs().max() > 0.1, "walls do not move"


def test_the_way_down_is_the_one_of_figure_six():
    torch.manual_seed(0)
    layer = Down(3, 8, WALLS, (middle_count(9, 4), 4), functional.silu).double()

    def convolved(part, state):
        found = functional.conv2d(state.movedim(-1, 1), part.layer.weight, padding=1)
        return functional.silu(found.movedim(1, -1))

    state = functional.silu(bilinear(convolved(layer.first, image()), 6))
    one = convolved(layer.chain[0], state)
    two = convolved(layer.chain[1], one)
    three = convolved(layer.chain[2], two)
    assert [part.shape[-1] for part in (one, two, three)] == [2, 2, 4]
    expected = functional.silu(bilinear(torch.cat([one, two, three], -1), 4))
    assert (layer(image()) - expected).abs().max() < EXACT


def test_the_way_up_is_the_one_of_figure_seven():
    torch.manual_seed(0)
    layer = Up(3, WALLS, (6, 9)).double()
    middle_grid = bilinear(image(4), 6).movedim(-1, 1)
    found = functional.conv2d(middle_grid, layer.convolution.layer.weight, padding=1)
    expected = bilinear(functional.silu(found).movedim(1, -1), 9)
    assert (layer(image(4)) - expected).abs().max() < EXACT
