"""Where grids are evaluated, and what reaches other places from there."""

import math
from types import SimpleNamespace

import pytest
import torch

from piop.models import AxisSignature, Signature
from piop.training.layout import is_even, lay, weights_between

TIME = AxisSignature("t", 1.0, 3.0)
RING = AxisSignature("x", -1.0, 1.0, periodic=True)


def even(axis, count):
    end = axis.high - (axis.high - axis.low) / count * axis.periodic
    return torch.linspace(axis.low, end, count, dtype=torch.float64)


@pytest.mark.parametrize("count", [9, 10])
def test_harmonics_below_half_the_points_are_read_anywhere_without_error(count):
    def wave(x):
        return 0.3 + torch.cos(4 * math.pi * x + 1) - torch.sin(math.pi * x)

    at = torch.tensor([[-1.0, 0.123], [0.99, 2.5]], dtype=torch.float64)
    found = weights_between(even(RING, count), at, RING) @ wave(even(RING, count))
    torch.testing.assert_close(found, wave(at), rtol=0, atol=1e-13)


def test_the_wave_of_every_other_point_is_read_as_a_cosine():
    sawtooth = 1.0 - 2.0 * (torch.arange(8) % 2).double()
    at = torch.tensor([-0.9, 0.3], dtype=torch.float64)
    found = weights_between(even(RING, 8), at, RING) @ sawtooth
    torch.testing.assert_close(found, torch.cos(4 * math.pi * (at + 1)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_cubics_are_read_without_error_as_far_as_there_are_points(count):
    ticks = even(TIME, count) if count != 9 else 1 + 2 * torch.linspace(0, 1, 9).double() ** 1.3
    degree = min(3, count - 1)
    at = torch.tensor([1.0, 1.01, 1.7, 2.95, 3.0], dtype=torch.float64)
    found = weights_between(ticks, at, TIME) @ ticks**degree
    torch.testing.assert_close(found, at**degree, rtol=1e-13, atol=0)


def test_evenness_is_of_the_whole_axis():
    assert is_even(even(RING, 6), RING)
    assert is_even(even(TIME, 6).float(), TIME), "to the precision of stored data"
    assert not is_even(torch.linspace(-1, 1, 6).double(), RING), "its end is its beginning"
    assert not is_even(even(TIME, 6)[1:], TIME)
    assert not is_even(even(TIME, 6)[:1], TIME)
    assert not is_even(even(RING, 6).flip(0), RING)


def network(field="grid", times="any"):
    return SimpleNamespace(signature=Signature((TIME, RING), time=0), field=field, times=times)


def test_a_finer_even_axis_is_asked_as_it_is_and_a_coarser_one_is_read_off_home():
    home = (even(TIME, 9), even(RING, 8))
    finer = lay(network(), home, (even(TIME, 17), even(RING, 16)))
    assert [len(axis) for axis in finer.axes] == [17, 16]
    assert finer.matrices == (None, None)
    mixed = lay(network(), home, (even(TIME, 5), even(RING, 16)))
    assert [len(axis) for axis in mixed.axes] == [9, 16]
    assert mixed.matrices[0].shape == (5, 9)
    assert mixed.matrices[1] is None
    chosen = lay(network(), home, (torch.tensor([1.5]).double(), even(RING, 8)[2:4]))
    assert [len(axis) for axis in chosen.axes] == [9, 8]
    values = torch.randn(2, 9, 8, 3).double()
    found = chosen.spread(values)
    assert found.shape == (2, 1, 2, 3)
    torch.testing.assert_close(found[:, 0], values[:, 2, 2:4], rtol=0, atol=1e-12)


def test_a_march_keeps_its_own_times_however_fine_others_are():
    home = (torch.tensor([1.0, 1.5, 3.0]).double(), even(RING, 8))
    finer = lay(network("march"), home, (even(TIME, 17), even(RING, 16)))
    assert torch.equal(finer.axes[0], home[0])
    assert len(finer.axes[1]) == 16
    same = lay(network("march"), home, (home[0], even(RING, 8)))
    assert same.matrices == (None, None)


def test_the_end_alone_stays_the_end():
    home = (torch.tensor([3.0]).double(), even(RING, 8))
    found = lay(network(times="end"), home, (torch.tensor([3.0]).double(), even(RING, 8)))
    assert found.matrices == (None, None)
    assert found.axes[0].tolist() == [3.0]


def test_a_layout_moves_to_the_precision_of_a_tensor():
    home = (even(TIME, 9), even(RING, 8))
    found = lay(network(), home, (even(TIME, 5), even(RING, 8))).to(torch.empty(0))
    assert found.axes[0].dtype == found.matrices[0].dtype == torch.float32
