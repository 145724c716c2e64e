"""Where grids are evaluated, and what reaches other places from there."""

from types import SimpleNamespace

import torch

from piop.models import AxisSignature, Signature
from piop.training.batches.training_grid import is_even, lay_out

TIME = AxisSignature("t", 1.0, 3.0)
RING = AxisSignature("x", -1.0, 1.0, periodic=True)


def even(axis, count):
    end = axis.high - (axis.high - axis.low) / count * axis.periodic
    return torch.linspace(axis.low, end, count, dtype=torch.float64)


def test_evenness_is_of_the_whole_axis():
    assert is_even(even(RING, 6), RING)
    assert is_even(even(TIME, 6).float(), TIME), "to the precision of stored data"
    assert not is_even(torch.linspace(-1, 1, 6).double(), RING), "its end is its beginning"
    assert not is_even(even(TIME, 6)[1:], TIME)
    assert not is_even(even(TIME, 6)[:1], TIME)
    assert not is_even(even(RING, 6).flip(0), RING)


def network(fixed=None):
    return SimpleNamespace(signature=Signature((TIME, RING), time=0), fixed_times=lambda: fixed)


def test_a_finer_even_axis_is_asked_as_it_is_a_coarser_one_refined_an_uneven_one_read_off_home():
    own_ticks = (even(TIME, 9), even(RING, 8))
    finer = lay_out(network(), own_ticks, (even(TIME, 17), even(RING, 16)))
    assert [len(axis) for axis in finer.axes] == [17, 16]
    assert finer.matrices == (None, None)
    mixed = lay_out(network(), own_ticks, (even(TIME, 4), even(RING, 16)))
    assert [len(axis) for axis in mixed.axes] == [10, 16], "three cells, each divided by three"
    assert mixed.matrices[0].shape == (4, 10)
    assert mixed.matrices[1] is None
    few = lay_out(network(), own_ticks, (even(TIME, 9), even(RING, 3)))
    assert len(few.axes[1]) == 9
    values = torch.randn(1, 9, 9, 1).double()
    torch.testing.assert_close(few.spread(values), values[:, :, ::3], rtol=0, atol=1e-12)
    chosen = lay_out(network(), own_ticks, (torch.tensor([1.5]).double(), even(RING, 8)[2:4]))
    assert [len(axis) for axis in chosen.axes] == [9, 8]
    values = torch.randn(2, 9, 8, 3).double()
    found = chosen.spread(values)
    assert found.shape == (2, 1, 2, 3)
    torch.testing.assert_close(found[:, 0], values[:, 2, 2:4], rtol=0, atol=1e-12)


def test_a_march_keeps_its_own_times_however_fine_others_are():
    own_ticks = (torch.tensor([1.0, 1.5, 3.0]).double(), even(RING, 8))
    finer = lay_out(network((1.0, 1.5, 3.0)), own_ticks, (even(TIME, 17), even(RING, 16)))
    assert torch.equal(finer.axes[0], own_ticks[0])
    assert len(finer.axes[1]) == 16
    same = lay_out(network((1.0, 1.5, 3.0)), own_ticks, (own_ticks[0], even(RING, 8)))
    assert same.matrices == (None, None)


def test_the_end_alone_stays_the_end():
    own_ticks = (torch.tensor([3.0]).double(), even(RING, 8))
    found = lay_out(network((3.0,)), own_ticks, (torch.tensor([3.0]).double(), even(RING, 8)))
    assert found.matrices == (None, None)
    assert found.axes[0].tolist() == [3.0]


def test_a_layout_moves_to_the_precision_of_a_tensor():
    own_ticks = (even(TIME, 9), even(RING, 8))
    found = lay_out(network(), own_ticks, (even(TIME, 5), even(RING, 8))).to(torch.empty(0))
    assert found.axes[0].dtype == found.matrices[0].dtype == torch.float32
