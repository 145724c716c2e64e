"""Coordinates as features, against their formulas one by one."""

from __future__ import annotations

import math

import pytest
import torch

from piop.models import AxisSignature
from piop.models.core.attention import RotaryEmbedding
from piop.models.core.coordinates import CoordinateEncoding, angles, take_columns

AXES = [
    AxisSignature("t", 0.0, 2.0),
    AxisSignature("x", -1.0, 3.0, periodic=True),
    AxisSignature("y", 0.0, 2.0, periodic=True),
]


def points(dimension: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(2, 5, dimension, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("columns", [(), (0, 1, 2), (1, 2), (2,), (2, 0), (0, 2)])
def test_columns_come_in_the_order_given(columns):
    given = points(3)
    found = take_columns(given, columns)
    assert found.shape == (2, 5, len(columns))
    for place, column in enumerate(columns):
        assert torch.equal(found[..., place], given[..., column])


@pytest.mark.parametrize("columns", [(0, 1, 2), (1, 2), (0,), (2, 0)])
@pytest.mark.parametrize("frequencies", [0, 3])
def test_each_coordinate_has_itself_then_sines_then_cosines(columns, frequencies):
    given = points(3)
    found = CoordinateEncoding(AXES, columns, frequencies)(given)
    expected = []
    for column in columns:
        axis = AXES[column]
        unit = (given[..., column] - axis.low) / (axis.high - axis.low)
        angle = unit * (2 * math.pi if axis.periodic else math.pi)
        rates = range(1, frequencies + 1)
        expected.append(torch.sin(angle) if axis.periodic else 2 * unit - 1)
        expected += [torch.sin(k * angle) for k in rates] + [torch.cos(k * angle) for k in rates]
    assert found.shape[-1] == len(columns) * (1 + 2 * frequencies)
    assert (found - torch.stack(expected, -1)).abs().max() < 1e-14


@pytest.mark.parametrize("axes", [AXES, [AXES[2]] * 3])
def test_axes_alike_are_scaled_as_others(axes):
    given = points(3)
    apart = [angles(given[..., i : i + 1], [axis]) for i, axis in enumerate(axes)]
    assert torch.equal(angles(given, axes), torch.cat(apart, -1))


def test_some_entries_turn_and_the_others_stay():
    waves = torch.tensor([[1.0], [3.0]])
    entries, angle = points(7)[:, :, None], points(1)
    turn = RotaryEmbedding(waves, 7, first=1).double()(angle)
    found, pairs = turn(entries), torch.complex(entries[..., 1:3], entries[..., 3:5])
    turned = pairs * torch.exp(1j * angle * waves[:, 0])[:, :, None]
    assert torch.equal(found[..., [0, 5, 6]], entries[..., [0, 5, 6]])
    expected = torch.cat([turned.real, turned.imag], -1)
    assert (found[..., 1:5] - expected).abs().max() < 1e-14
    assert (turn.inverse()(found) - entries).abs().max() < 1e-14
