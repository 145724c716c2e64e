"""Half cells of a grid, and the points inside them."""

import pytest
import torch

from piop.reference import solve_reference
from piop.reference.elliptic.sub_cells import BoxSubCells, points_inside
from piop.reference.features import Features
from piop.reference.input_values import Sources

from ..cases import Scalars
from .cases import steady


@pytest.mark.parametrize("rank", [2, 3])
def test_half_cells_take_data_at_the_points_that_are_looked_at(rank):
    axes = "xyz"[:rank]
    problem = steady("-lap(u) = 1", space={a: [0, 1] for a in axes})
    sources = Sources(problem, {}, torch.device("cpu"))
    cells = BoxSubCells(sources, Features(sources), [0], (4,) * rank)
    points = points_inside(problem.space, (4,) * rank, torch.device("cpu"))
    assert {len(points[a]) - 1 for a in axes} == {4 * 2 * cells.count}


def test_coefficients_without_coordinates_stand_beside_a_narrow_source():
    """A drawn number is a coefficient as a written one is."""
    narrow = "exp(-abs(x - 0.3)/1e-3)"
    drawn = {name: {"law": "uniform", "low": 1, "high": 2} for name in "ar"}
    random = steady(f"-div(a*grad(u)) + r*u = {narrow}", "xy", inputs=drawn, save={"x": 9, "y": 9})
    written = steady(f"-div(1.5*grad(u)) + 2*u = {narrow}", "xy", save={"x": 9, "y": 9})
    values = {"a": Scalars([1.5]), "r": Scalars([2.0])}
    found, wanted = (
        solve_reference(p, v, tolerance=1e-2).values["u"]
        for p, v in ((random, values), (written, {}))
    )
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)
