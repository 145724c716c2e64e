"""Shapes that differ from sample to sample: data sets of clouds, and networks that learn them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from piop.datasets import inspect_file, read_dataset
from piop.datasets.reader import StoredDataset
from piop.errors import DataError, NotSupportedError, UsageError
from piop.fields import FunctionSamples
from piop.generation import generate
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.run import fit
from piop.training.build import signature_of
from tests.report_page import data_of

SPEC = """piop: 1
name: case
space: {x: [0, 1], y: [0, 1]}
domain:
  box: [[0, 1], [0, 1]]
  holes: {cavity: {star: {centre: [0.5, 0.5], angle: phi, radius: r}}}
unknowns: [u]
inputs:
  g: {of: [phi], law: gaussian_random_field, scale: 9, tau: 2, alpha: 2, modes: 3, hidden: true}
  r: {of: [phi], expression: "0.15 + 0.1/(1 + exp(g))"}
equations: [-lap(u) = 1]
boundary: {rest: {dirichlet: {u: 0}}}
sensors: {r: {count: 8, place: grid}}
save: {points: 30}
"""
SAMPLES = 5


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(SPEC)


@pytest.fixture(scope="module")
def path(problem, tmp_path_factory):
    found = tmp_path_factory.mktemp("clouds") / "clouds.nc"
    generate(problem, SAMPLES, found, seed=2, tolerance=0.2)
    return found


def test_clouds_and_radii_come_back(problem, path):
    data = read_dataset(path, problem)
    functions = problem.sample(SAMPLES, 2)
    assert data.points.shape == (SAMPLES, 30, 2)
    assert not torch.equal(data.points[0], data.points[1])
    seen = data.inputs["r"]
    angles = 2 * torch.pi * torch.arange(8, dtype=torch.float64) / 8
    torch.testing.assert_close(seen.points[3, :, 0], angles)
    torch.testing.assert_close(seen.values[..., 0], functions["r"].on_grid([angles]))
    assert "phi" in str(inspect_file(path))
    stored = StoredDataset.open(path, problem).take(torch.tensor([4, 1]))
    assert torch.equal(stored.points, data.points[[4, 1]])
    assert torch.equal(stored.inputs["r"].values, seen.values[[4, 1]])


def test_a_network_is_told_of_numbers(problem):
    (told,) = signature_of(problem, decide_constraints(problem)).inputs
    assert (told.of, told.channels, told.gridded) == ((), 8, False)


@pytest.mark.parametrize("backbone", ["position_attention", "pit", "ipot"])
def test_networks_learn_from_clouds(problem, path, tmp_path, backbone):
    run = fit(problem, data=path, physics=False, steps=2, backbone=backbone, out=tmp_path / "run")
    assert 0 < run.evaluate()["relative_l2"]["mean"] < 10
    data = read_dataset(path, problem)
    inputs = {"r": data.inputs["r"]}
    first = run.predict(inputs, at=data.points)
    turned = {"r": FunctionSamples(inputs["r"].points, inputs["r"].values.flip(1))}
    second = run.predict(turned, at=data.points)
    assert not np.allclose(first["u"].values, second["u"].values)
    fewer = {"r": FunctionSamples(inputs["r"].points[:, ::2], inputs["r"].values[:, ::2])}
    with pytest.raises(
        DataError, match="input 'r' is observed at 4 angles; the operator takes exactly"
    ):
        run.predict(fewer, at=data.points)


def test_equations_are_not_trained_on_such_shapes(problem):
    with pytest.raises(NotSupportedError, match="its shape differs from sample to sample"):
        problem.capabilities.equations.require()


def test_a_report_shows_each_shape_with_its_own_points(problem, path, tmp_path):
    run = fit(problem, data=path, physics=False, steps=2, backbone="pit", out=tmp_path / "run")
    page = run.report().read_text()
    data = data_of(page)
    fields = data["fields"]
    assert fields["kind"] == "cloud"
    assert len(fields["clouds"]) == len(data["rows"])
    assert fields["reference"]["u"]["shape"] == [len(data["rows"]), 30]
    assert fields["clouds"][0]["triangles"]
    assert run.plot("fields").axes
    assert data["residual"] is None
    assert "No map of the residual: shapes differ from sample to sample" in page
    with pytest.raises(UsageError, match=r"'residual' cannot be drawn of .*: shapes differ"):
        run.plot("residual")
