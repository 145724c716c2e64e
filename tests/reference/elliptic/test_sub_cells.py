"""Half cells of a grid, and the points inside them."""

import pytest
import torch

from piop.reference.elliptic.sub_cells import BoxSubCells, points_inside
from piop.reference.features import Features
from piop.reference.input_values import Sources

from .cases import steady


@pytest.mark.parametrize("rank", [2, 3])
def test_half_cells_take_data_at_the_points_that_are_looked_at(rank):
    axes = "xyz"[:rank]
    problem = steady("-lap(u) = 1", space={a: [0, 1] for a in axes})
    sources = Sources(problem, {}, torch.device("cpu"))
    cells = BoxSubCells(sources, Features(sources), [0], (4,) * rank)
    points = points_inside(problem.space, (4,) * rank, torch.device("cpu"))
    assert {len(points[a]) - 1 for a in axes} == {4 * 2 * cells.count}
