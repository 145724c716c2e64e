from __future__ import annotations

import math

import pytest
import torch

from piop.models import AxisSignature
from piop.models.interpolation import even_ticks, weights_between

RING = AxisSignature("x", -1.0, 3.0, periodic=True)
WALLED = AxisSignature("t", 0.5, 2.5)
PLACES = torch.linspace(-1.0, 3.0, 37, dtype=torch.float64)
WITHIN = torch.linspace(0.5, 2.5, 37, dtype=torch.float64)


@pytest.mark.parametrize(("count", "highest"), [(9, 4), (8, 3)])
def test_round_a_period_all_waves_that_the_ticks_resolve_are_exact(count, highest):
    def wave(x):
        angle = math.pi / 2 * (x + 1)
        return 0.3 + torch.cos(angle) - torch.sin(highest * angle)

    ticks = even_ticks(RING, count, PLACES)
    found = weights_between(PLACES, RING, count) @ wave(ticks)
    assert (found - wave(PLACES)).abs().max() < 1e-12


def test_the_wave_of_nyquist_comes_back_as_its_cosine():
    ticks = even_ticks(RING, 8, PLACES)
    values = torch.cos(2 * math.pi * (ticks + 1))  # 1, −1, 1, …
    found = weights_between(PLACES, RING, 8) @ values
    assert (found - torch.cos(2 * math.pi * (PLACES + 1))).abs().max() < 1e-12


def test_between_walls_cubics_are_exact_up_to_both_ends():
    ticks = even_ticks(WALLED, 6, WITHIN)
    assert ticks[0] == 0.5
    assert ticks[-1] == 2.5
    found = weights_between(WITHIN, WALLED, 6) @ (ticks**3 - 2 * ticks)
    assert (found - (WITHIN**3 - 2 * WITHIN)).abs().max() < 1e-12


def test_between_walls_the_error_falls_with_the_fourth_power_of_the_step():
    errors = []
    for count in (21, 41, 81):
        ticks = even_ticks(WALLED, count, WITHIN)
        found = weights_between(WITHIN, WALLED, count) @ torch.sin(3 * ticks)
        errors.append((found - torch.sin(3 * WITHIN)).norm())
    assert 3.7 < math.log2(errors[0] / errors[1]) < 4.5
    assert 3.7 < math.log2(errors[1] / errors[2]) < 4.5
