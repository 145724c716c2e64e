"""Predictions are NetCDF with coordinates and units, on grids and at points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from piop.datasets import (
    Dataset,
    Queries,
    inspect_file,
    read_dataset,
    read_queries,
    write_dataset,
    write_prediction,
)
from piop.fields import FunctionSamples
from piop.problem import Problem


@pytest.mark.parametrize("name", ["source", "residual", "error_bound", "p_value"])
def test_inputs_may_be_called_as_what_a_prediction_says_of_each_sample(name, tmp_path):
    spec = {
        "name": "named",
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {name: {"of": [], "law": "uniform", "low": 0, "high": 1}},
        "equations": [f"-dxx(u) = {name}"],
        "boundary": {"x": {"dirichlet": {"u": 0}}},
    }
    problem = Problem(**spec)
    values = {"u": torch.arange(3.0).expand(2, 3)}
    inputs = {name: FunctionSamples(torch.empty(2, 1, 0), torch.tensor([[[0.25]], [[0.5]]]))}
    data = Dataset(inputs, {"x": torch.tensor([0.0, 0.5, 1.0])}, values)
    write_dataset(data, tmp_path / "d.nc", problem)
    read = read_dataset(tmp_path / "d.nc", problem)
    assert read.inputs[name].values[:, 0, 0].tolist() == [0.25, 0.5]


def test_a_prediction_on_a_grid_has_its_axes_and_units(line, tmp_path):
    queries = read_queries("t=0:1:2, x=0:2:3", line)
    values = torch.arange(12.0).reshape(2, 6)
    given = {"run": "runs/a", "input": "\udcff.csv"}  # a file name that is no text
    p_values = xr.DataArray([0.5, 0.25], dims="sample", attrs={"units": "1"})
    own = {"per_sample": {"p_value": p_values}}
    write_prediction(tmp_path / "p.nc", line, queries, {"u": values}, **own, **given)
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as data:
        assert data["u"].dims == ("sample", "t", "x")
        assert data["u"].sel(t=1.0, x=2.0).values.tolist() == [5.0, 11.0]
        assert data["x"].attrs["units"] == "m"
        assert data["p_value"].values.tolist() == [0.5, 0.25]
        assert data["p_value"].attrs["units"] == "1"
        assert (data.attrs["run"], data.attrs["input"]) == ("runs/a", "?.csv")


def test_a_prediction_at_points_has_a_place_for_each(line, tmp_path):
    queries = Queries(points=torch.tensor([[[0.1, 1.0], [0.2, 1.5]]], dtype=torch.float64))
    write_prediction(
        tmp_path / "p.nc", line, queries, {"u": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    )
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as data:
        assert data["u"].dims == ("sample", "point")
        assert data["t"].values.tolist() == [[0.1, 0.2]] * 2
        assert data["u"].values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_file_says_what_it_holds(line, tmp_path):
    np.savez(tmp_path / "d.npz", u=np.array([[1.0, np.nan], [3.0, -4.0]]), n=["a"], z=[np.nan])
    found = inspect_file(tmp_path / "d.npz")
    assert found["format"] == "npz"
    u = found["variables"]["u"]
    assert (u["shape"], u["minimum"], u["maximum"], u["nan"]) == ([2, 2], -4.0, 3.0, 1)
    assert found["variables"]["n"]["minimum"] is None
    assert found["variables"]["z"]["nan"] == 1
