"""Resolutions as text, and sensors thinned to them."""

from itertools import pairwise

import pytest
import torch

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.run.resolution_study import SensorCount, keep_sensors, read_grids, read_sensor_counts
from piop.sampling import Draws

DRAWS = Draws(3, 0, torch.arange(5))


def samples(mask=None):
    """Five functions at twenty sensors; the values tell which sensor of which function it is."""
    points = torch.rand(1, 20, 2, generator=torch.Generator().manual_seed(0)).expand(5, -1, -1)
    return FunctionSamples(points, torch.arange(100.0).reshape(5, 20, 1), mask)


def kept(found):
    """Which sensors each function has, as sets."""
    mask = torch.ones(found.values.shape[:2], dtype=bool) if found.mask is None else found.mask
    return [set(v[m].tolist()) for v, m in zip(found.values[..., 0], mask, strict=True)]


def test_percentages_and_counts_are_told_apart():
    choices = read_sensor_counts("25%, 12.5 %,100%,40,007")
    assert [c.label for c in choices] == ["25%", "12.5%", "100%", "40", "7"]
    assert [c.of(64) for c in choices] == [16, 8, 64, 40, 7]
    assert read_sensor_counts(["25%", 40])[1] == SensorCount("40", count=40)
    assert SensorCount("1%", fraction=0.01).of(20) == 1  # never none


@pytest.mark.parametrize(
    "text", ["", "0%", "101%", "-5%", "0", "-3", "1.5", "half", "25%,,50%", "1e3", "nan%", "%"]
)
def test_other_text_for_sensors_is_refused(text):
    with pytest.raises(
        UsageError, match="neither a percentage above 0% and up to 100% nor a count"
    ):
        read_sensor_counts(text)


def test_what_is_given_twice_or_not_at_all_is_refused():
    with pytest.raises(UsageError, match="sensors: 50% is given twice"):
        read_sensor_counts("50%,25%,50.0%")
    with pytest.raises(UsageError, match="grid: 64x64 is given twice"):
        read_grids("64,64x64", ["x", "y"])
    with pytest.raises(UsageError, match="sensors: none is given"):
        read_sensor_counts([])


def test_grids_are_counts_for_all_axes_or_for_each():
    assert read_grids("64,128x32", ["x", "y"]) == [(64, 64), (128, 32)]
    assert read_grids([16, (8, 4), "4×2"], ["x", "y"]) == [(16, 16), (8, 4), (4, 2)]
    assert read_grids("64", ["x"]) == [(64,)]


@pytest.mark.parametrize(
    ("text", "axes", "message"),
    [
        ("1", ["x"], "'1' is not a grid: give points per axis of space, 2 or more, such as 64$"),
        ("a", ["x", "y"], "such as 64x64$"),
        ("8x8", ["x"], "'8x8' has 2 counts; the axes of space are x:"),
        ("8x8x8", ["x", "y"], "'8x8x8' has 3 counts; the axes of space are x, y:"),
        ("64,", ["x"], "'' is not a grid"),
    ],
)
def test_other_text_for_grids_is_refused(text, axes, message):
    with pytest.raises(UsageError, match=message):
        read_grids(text, axes)


def test_smaller_parts_of_the_sensors_lie_within_larger_ones():
    parts = [
        kept(keep_sensors(samples(), c, DRAWS, "u0")) for c in read_sensor_counts("10%,25%,50%,12")
    ]
    assert [len(p[0]) for p in parts] == [2, 5, 10, 12]
    for small, large in pairwise(parts):
        assert all(a < b for a, b in zip(small, large, strict=True))


def test_each_function_is_seen_at_sensors_of_its_own_and_the_seed_chooses_them():
    choice = SensorCount("50%", fraction=0.5)
    first = kept(keep_sensors(samples(), choice, DRAWS, "u0"))
    places = [{v % 20 for v in one} for one in first]
    assert len({frozenset(p) for p in places}) == 5
    assert kept(keep_sensors(samples(), choice, DRAWS, "u0")) == first
    assert kept(keep_sensors(samples(), choice, Draws(4, 0, torch.arange(5)), "u0")) != first
    assert kept(keep_sensors(samples(), choice, DRAWS, "v0")) != first


def test_points_stay_with_their_values_and_all_sensors_stay_as_they_were():
    whole, half = samples(), keep_sensors(samples(), SensorCount("50%", fraction=0.5), DRAWS, "u0")
    assert half.mask is None
    assert torch.equal(half.values.diff(dim=1) > 0, torch.ones(5, 9, 1, dtype=bool))
    number = half.values[..., 0].long() % 20
    assert torch.equal(half.points, whole.points[0][number])
    same = keep_sensors(whole, SensorCount("100%", fraction=1.0), DRAWS, "u0")
    assert torch.equal(same.values, whole.values)
    assert torch.equal(same.points, whole.points)


def test_a_share_is_of_each_functions_own_sensors():
    mask = torch.ones(5, 20, dtype=bool)
    mask[1, 4:] = False  # the second function has four sensors
    found = keep_sensors(samples(mask), SensorCount("50%", fraction=0.5), DRAWS, "u0")
    assert [len(k) for k in kept(found)] == [10, 2, 10, 10, 10]
    assert kept(found)[1] < {20.0, 21.0, 22.0, 23.0}
    with pytest.raises(UsageError, match="there are 4 of 'u0', which is fewer than 5"):
        keep_sensors(samples(mask), SensorCount("5", count=5), DRAWS, "u0")
