"""Shapes to choose from: data sets with inputs at their points, and networks judged on another."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from piop.cli.error_tables import error_table
from piop.datasets import read_dataset
from piop.errors import DataError, UsageError
from piop.generation import generate
from piop.problem import Problem
from piop.run import fit
from piop.run.drawn_inputs import DrawnInputs

SPEC = """piop: 1
name: case
space: {x: [0, 1], y: [0, 1]}
domain:
  choose: k
  of:
    disk: {disk: [0.5, 0.5, 0.5]}
    ring: {disk: [0.5, 0.5, 0.5], holes: {inner: {disk: [0.5, 0.5, 0.15]}}}
unknowns: [u]
inputs:
  k: {law: integer, low: 0, high: 1, hidden: true}
  s: {law: uniform, low: 0, high: 1, hidden: true}
  f: {of: [x, y], expression: "where(x < s, 1, 2)", smooth: false}
equations: [-lap(u) = f]
boundary: {rest: {dirichlet: {u: 0}}}
sensors: {f: {place: points}}
save: {points: 40}
"""
UNSEEN = (
    SPEC[: SPEC.index("domain:")].replace("name: case", "name: unseen")
    + "domain: {polygon: [[0, 0], [1, 0], [1, 1]]}\n"
    + SPEC[SPEC.index("unknowns:") :].replace(
        "  k: {law: integer, low: 0, high: 1, hidden: true}\n", ""
    )
)
SAMPLES, SEED = 6, 2


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(SPEC)


@pytest.fixture(scope="module")
def path(problem, tmp_path_factory):
    found = tmp_path_factory.mktemp("choice") / "seen.nc"
    generate(problem, SAMPLES, found, seed=SEED, tolerance=0.3)
    return found


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    found = tmp_path_factory.mktemp("choice") / "unseen.nc"
    generate(Problem.from_yaml(UNSEEN), 3, found, seed=SEED, tolerance=0.3)
    return found


@pytest.fixture(scope="module")
def run(problem, path, tmp_path_factory):
    out = tmp_path_factory.mktemp("choice") / "run"
    return fit(problem, data=path, physics=False, steps=2, backbone="oformer", out=out, samples=0)


def test_inputs_are_seen_at_the_points_of_each_sample(problem, path):
    data = read_dataset(path, problem)
    functions = problem.sample(SAMPLES, SEED)
    assert len(functions["k"].on_grid(()).unique()) == 2
    assert data.points.shape == (SAMPLES, 40, 2)
    assert torch.equal(data.inputs["f"].points, data.points)
    assert torch.equal(data.inputs["f"].values[..., 0], functions["f"](data.points))
    assert list(data.inputs) == ["f"]
    for sample, number in enumerate(functions["k"].on_grid(()).long().tolist()):
        outline = list(problem.domain.members.values())[number].outline
        edge = outline.distance(data.points[sample].numpy()) < 1e-9
        assert not data.values["u"][sample][torch.from_numpy(edge)].any()
        assert edge.sum() > 5


def test_sensors_of_held_out_inputs_are_where_their_solutions_are(problem):
    found = DrawnInputs(problem, 2, seed=0).held_out()
    assert torch.equal(found.inputs["f"].points, found.queries.points)
    assert torch.equal(found.inputs["f"].values[..., 0], found.functions["f"](found.queries.points))


def test_a_run_is_judged_on_a_shape_it_has_never_seen(run, unseen, caplog):
    found = run.evaluate(data=unseen)
    assert "unseen.nc was made from the spec unseen; this is case" in caplog.text
    data = read_dataset(unseen, run.problem)
    values = run.predict({"f": data.inputs["f"]}, at=data.points)["u"].values
    truth = data.values["u"].numpy()
    errors = np.linalg.norm(values - truth, axis=1) / np.linalg.norm(truth, axis=1)
    assert found["relative_l2"]["per_sample"] == pytest.approx(errors.tolist(), rel=1e-5)
    assert found["baselines"]["zero"] == pytest.approx(1)
    written = json.loads((run.path / "evaluation.json").read_text())
    assert written["data"] == str(unseen)
    assert f"on 3 held-out inputs of {unseen}" in error_table(written)
    fewer = run.evaluate(samples=2, data=unseen, write=False)
    assert fewer["relative_l2"]["per_sample"] == found["relative_l2"]["per_sample"][:2]
    own = run.evaluate()
    assert "data" not in own
    assert own["relative_l2"]["mean"] != found["relative_l2"]["mean"]


def test_other_data_are_judged_with_fewer_sensors_too(run, unseen):
    found = run.discretisation("50%,100%", data=unseen, write=False)
    assert found["judged_by"] == "data"
    assert found["samples"] == 3
    assert [c["f"] for c in found["sensors"].values()] == [20, 40]
    whole = run.evaluate(data=unseen, write=False)["relative_l2"]
    assert found["relative_l2"][1]["per_sample"] == pytest.approx(whole["per_sample"])
    with pytest.raises(UsageError, match="there are 40 of 'f', which is fewer than 50"):
        run.discretisation([50], data=unseen, write=False)


def test_other_data_that_do_not_fit_are_refused(run, unseen, tmp_path):
    with pytest.raises(UsageError, match="have their own points and sensors; leave at and"):
        run.evaluate(data=unseen, sensors={"f": (9, "uniform")})
    with pytest.raises(DataError, match="no such file"):
        run.evaluate(data=tmp_path / "nothing.nc")
    other = tmp_path / "other.npz"
    np.savez(other, x=np.zeros((2, 3)), y=np.zeros((2, 3)), u=np.ones((2, 3)))
    with pytest.raises(DataError, match="'f'"):
        run.evaluate(data=other)


def test_data_without_samples_and_values_without_squares_are_refused(run, path, tmp_path):
    data = read_dataset(path, run.problem)
    with pytest.raises(DataError, match="'u' is as large as 1e\\+200, whose square is no number"):
        run.evaluate(data=replace(data, values={"u": data.values["u"] * 0 + 1e200}))
    with xr.open_dataset(path, engine="h5netcdf") as file:
        file.isel(sample=slice(0)).to_netcdf(tmp_path / "none.nc", engine="h5netcdf")
    with pytest.raises(DataError, match=r"none\.nc: holds no samples"):
        run.evaluate(data=tmp_path / "none.nc")


def test_data_that_were_trained_on_judge_with_a_warning(run, path, unseen):
    found = run.evaluate(data=path, write=False)
    assert any("was trained on the inputs of 5 of these 6" in text for text in found["warnings"])
    others = run.evaluate(data=unseen, write=False)
    assert not any("was trained on" in text for text in others["warnings"])


def test_a_network_of_grids_refuses_such_data(problem, path, tmp_path):
    with pytest.raises(UsageError, match="its sensors are not on an even grid"):
        fit(problem, data=path, physics=False, steps=1, backbone="fno", out=tmp_path / "run")
