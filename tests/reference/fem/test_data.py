"""Data sets of solutions on shapes: scattered points, read back as they were solved."""

import numpy as np
import torch

from piop.datasets import read_dataset
from piop.generation import generate
from piop.reference import solve_reference
from piop.run.drawn_inputs import DrawnInputs

from .cases import on_shape

FIELD = {"of": ["x", "y"], "law": "gaussian_random_field", "scale": 100, "tau": 5, "alpha": 4}
WAVES = {"amplitude": [0, 1], "wavenumber": [1, 2]}
INPUTS = {
    "f": {**FIELD, "modes": 4},
    "k": {"law": "uniform", "low": 1, "high": 2},
    "g": {"of": ["x"], "law": "fourier_series", "terms": 2, **WAVES},
}


def problem():
    boundary = {"cavity": {"neumann": {"u": "k*g"}}, "rest": {"dirichlet": {"u": 0}}}
    return on_shape("-lap(u) = f", boundary, inputs=INPUTS, save={"x": 7, "y": 7})


def test_points_inputs_and_solutions_come_back(tmp_path):
    case, path = problem(), tmp_path / "shape.nc"
    said = generate(case, 3, path, seed=4, tolerance=1e-2)
    assert said["above_tolerance"] == 0
    data = read_dataset(path, case)
    functions = case.sample(3, 4)
    solution = solve_reference(case, functions, tolerance=1e-2)
    assert data.scattered
    assert not data.axes
    torch.testing.assert_close(data.points, solution.points)
    torch.testing.assert_close(data.values["u"], solution.values["u"])
    torch.testing.assert_close(data.error_estimate, solution.error_estimate)
    torch.testing.assert_close(data.inputs["f"].points, solution.points)
    torch.testing.assert_close(data.inputs["f"].values[..., 0], functions["f"](solution.points))
    along = functions["g"](solution.points[..., :1])
    torch.testing.assert_close(data.inputs["g"].values[..., 0], along)
    assert data.inputs["k"].values.shape == (3, 1, 1)


def test_points_lie_in_the_shape_and_on_its_boundary():
    case = problem()
    solution = solve_reference(case, case.sample(1, 4))
    points = solution.points[0].numpy()
    away = np.linalg.norm(points - (0.5, 0.45), axis=1)
    assert away.min() > 0.22 - 1e-12
    assert case.domain.outline.distance(points).min() < 1e-15
    assert solution.modes.tolist()[0][0] in (13, 25, 49, 97)


def test_held_out_solutions_are_asked_where_they_are_known():
    found = DrawnInputs(problem(), 2, seed=0).held_out()
    assert found.queries.points is not None
    assert found.truth["u"].shape == found.queries.points.shape[:2]
