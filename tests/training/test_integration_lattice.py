"""The lattice is as fine as solutions ask for: judged by what those are known to be."""

import math

import torch

from piop.problem.residual_form import FormDecision
from piop.residual import Lattice
from piop.training.integration_lattice import (
    MOST_POINTS,
    choose_lattice,
    find_lattice,
    node_times,
    settings_on,
)


def waves(wave, growth, windows=2, points=128, offset=0.0):
    """One wave, whose size is a function of the time within [0, 1]."""
    times = torch.tensor(node_times(0.0, 1.0, windows), dtype=torch.float64)
    x = torch.arange(points, dtype=torch.float64) / points
    return (offset + growth(times)[:, None] * torch.sin(2 * math.pi * wave * x))[None]


def test_the_times_are_those_of_all_windows():
    times = node_times(1.0, 3.0, 3)
    assert len(times) == 3 * 16 + 1
    assert (times[0], times[16], times[-1]) == (1.0, 2.0, 4.0)
    assert times == sorted(times)


def test_points_follow_the_shortest_wave_that_counts():
    values = waves(9, torch.ones_like) + 0.01 * waves(14, torch.ones_like)
    assert find_lattice({"u": values}, 2) == Lattice(5, (42,))
    values = waves(9, torch.ones_like) + 0.001 * waves(14, torch.ones_like)
    assert find_lattice({"u": values}, 2) == Lattice(5, (28,))
    assert find_lattice({"u": waves(2, torch.ones_like)}, 2) == Lattice(5, (16,))


def test_times_follow_the_degree_within_a_window():
    values = waves(2, lambda t: 1 + t**6, windows=1)
    assert find_lattice({"u": values}, 1).times == 7  # t⁶ is nearly of degree 5
    kinked = waves(2, lambda t: (2 * t - 1).abs())
    assert find_lattice({"u": kinked}, 2).times == 5  # smooth in each of the two windows
    one = {"u": waves(2, lambda t: (2 * t - 1).abs(), windows=1)}
    assert "more than 8 times" in find_lattice(one, 1)
    short = {"u": waves(2, lambda t: 1 + 0.15 * torch.exp(-t / 0.03), windows=1)}
    assert find_lattice(short, 1).times == 8  # a short start is resolved less well


def test_each_unknown_counts_by_its_own_variation():
    values = {
        "u": waves(3, torch.ones_like, offset=100.0),
        "v": 1e-6 * waves(11, torch.ones_like),
    }
    assert find_lattice(values, 2) == Lattice(5, (34,))


def test_lattices_that_are_too_large_are_no_choice():
    fine = {"u": waves(100, torch.ones_like, windows=1, points=4096)}
    why = find_lattice(fine, 1)
    assert isinstance(why, str)
    assert "too many" in why
    assert choose_lattice(fine, 1, FormDecision(True, "")) == ((), why)


def test_a_step_takes_more_functions_of_smaller_lattices():
    assert settings_on(Lattice(5, (16,)))["functions"] == 16
    assert settings_on(Lattice(8, (128,)))["functions"] == 4
    assert settings_on(Lattice(4, (32, 32)))["functions"] == 2
    assert MOST_POINTS[2] == 4096
