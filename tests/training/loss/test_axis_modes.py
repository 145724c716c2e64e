"""Modes of an axis, against sines, cosines and waves."""

import math

import numpy as np
import pytest
import torch
from sympy import Symbol
from torch import Tensor

from piop.domain import Coordinate
from piop.forms.axis_conditions import AxisConditions, PeriodicConditions, WallConditions
from piop.training.loss.axis_modes import AxisModes, axis_modes

AXIS = Coordinate("x", Symbol("x", real=True), 1.0, 3.0)
KINDS = [
    PeriodicConditions(),
    WallConditions((True, True)),
    WallConditions((False, False)),
    WallConditions((True, False)),
    WallConditions((False, True)),
]


def made(conditions: AxisConditions, count: int = 33) -> AxisModes:
    return axis_modes(AXIS, conditions, count)


def evaluated(modes: AxisModes, x: Tensor, order: int = 0) -> Tensor:
    """Every mode at points: ``[n, K]``."""
    table = modes.basis.table(x, order)
    return table.to(modes.backward.dtype) @ modes.backward


@pytest.mark.parametrize("conditions", KINDS)
def test_the_longest_modes_have_the_wavenumbers_of_the_axis(conditions: AxisConditions) -> None:
    wanted = torch.from_numpy(conditions.wavenumbers(AXIS.length, 4)).square().sort().values
    found = -(made(conditions).factors ** 2).real.sort(descending=True).values
    torch.testing.assert_close(found[: len(wanted)], wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("conditions", KINDS)
def test_the_second_derivative_of_a_long_mode_is_a_multiple_of_it(
    conditions: AxisConditions,
) -> None:
    modes, x = made(conditions), torch.linspace(1, 3, 21).double()
    long = modes.factors.abs().argsort()[:5]
    found, values = evaluated(modes, x, 2)[:, long], evaluated(modes, x)[:, long]
    wanted = (modes.factors**2).real[long] * values
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("conditions", KINDS[1:])
def test_all_modes_meet_the_conditions_at_the_walls(conditions: WallConditions) -> None:
    """Of slopes up to 33² as large as the values, to the rounding of the basis' derivative."""
    modes = made(conditions)
    for vanish, end in zip(conditions.vanish, (1.0, 3.0), strict=True):
        at = torch.tensor([end]).double()
        size = evaluated(modes, modes.nodes, 0 if vanish else 1).abs().max()
        assert evaluated(modes, at, 0 if vanish else 1).abs().max() < 1e-9 * size


@pytest.mark.parametrize("conditions", KINDS)
def test_values_at_the_nodes_are_interpolated(conditions: AxisConditions) -> None:
    modes = made(conditions)
    values = torch.randn(len(modes.nodes), dtype=torch.float64)
    parts = modes.forward @ values.to(modes.forward.dtype)
    found = (evaluated(modes, modes.nodes) @ parts.to(modes.backward.dtype)).real
    torch.testing.assert_close(found, values, rtol=1e-9, atol=1e-9)


def test_periodic_modes_are_waves_with_their_factor() -> None:
    modes, x = made(PeriodicConditions(), 9), torch.linspace(1, 3, 7).double()
    phases = modes.factors * (x[:, None] - 1)
    torch.testing.assert_close(evaluated(modes, x), torch.exp(phases))
    torch.testing.assert_close(evaluated(modes, x, 1), modes.factors * torch.exp(phases))


@pytest.mark.parametrize("conditions", [KINDS[0], KINDS[2]])
def test_the_constant_mode_is_one_and_all_long_ones_have_mean_zero(
    conditions: AxisConditions,
) -> None:
    modes, (nodes, weights) = made(conditions), np.polynomial.legendre.leggauss(40)
    assert modes.constant is not None
    assert modes.factors[modes.constant] == 0
    values = evaluated(modes, 2 + torch.from_numpy(nodes))
    one = values[:, modes.constant].real
    torch.testing.assert_close(one, torch.ones_like(one))
    means = torch.from_numpy(weights / 2).to(values) @ values
    long = modes.factors.abs().argsort()[1:9]
    assert means[long].abs().max() < 1e-10


def test_values_that_vanish_at_a_wall_leave_no_constant() -> None:
    assert all(made(kind).constant is None for kind in (KINDS[1], KINDS[3], KINDS[4]))


def test_smooth_values_that_do_not_vanish_at_walls_converge_exponentially() -> None:
    """p'' = 1 with p = 0 at both walls; sines alone would leave 1e-3 at 33 points."""
    modes, x = made(WallConditions((True, True)), 17), torch.linspace(1, 3, 9).double()
    parts = modes.forward.sum(1) / (modes.factors**2).real
    found = evaluated(modes, x) @ parts
    torch.testing.assert_close(found, (x - 1) * (x - 3) / 2, rtol=1e-11, atol=1e-12)
    assert math.isclose(float(found[4]), -0.5, rel_tol=1e-10)
