"""A data set written and read again is the same, and every misfit is refused."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math

import numpy as np
import pytest
import torch
import xarray as xr

from piop.datasets import Dataset, DatasetWriter, StoredDataset, read_dataset, write_dataset
from piop.errors import DataError
from piop.fields import FunctionSamples

GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def on_axes(count, *axes):
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, len(axes))
    return FunctionSamples(grid.expand(count, -1, -1), normal(count, grid.shape[1], 1))


@pytest.fixture
def grid(several):
    t, x = torch.linspace(0, 1, 3).double(), torch.linspace(0, 1.5, 4).double()
    nu = FunctionSamples(torch.zeros(5, 1, 0).double(), normal(5, 1, 1))
    inputs = {"u0": on_axes(5, x), "f": on_axes(5, t, x), "nu": nu}
    values = {"u": normal(5, 3, 4), "psi": normal(5, 3, 4)}
    return Dataset(inputs, {"t": t, "x": x}, values, None, normal(5).abs(), {"seed": 7})


def assert_same(found, expected):
    for name, samples in expected.inputs.items():
        torch.testing.assert_close(found.inputs[name].points, samples.points, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.inputs[name].values, samples.values, rtol=0, atol=1e-12)
    for name, values in expected.values.items():
        torch.testing.assert_close(found.values[name], values, rtol=0, atol=1e-12)
    for name, positions in expected.axes.items():
        torch.testing.assert_close(found.axes[name], positions, rtol=0, atol=1e-12)


def test_a_data_set_on_a_grid_survives_the_file(grid, several, tmp_path):
    write_dataset(grid, tmp_path / "d.nc", several)
    found = read_dataset(tmp_path / "d.nc", several)
    assert_same(found, grid)
    torch.testing.assert_close(found.error_estimate, grid.error_estimate, rtol=0, atol=0)
    assert found.attributes["seed"] == 7
    assert len(found) == 5


@pytest.mark.parametrize("name", ["d.nc", "d.zarr"])
@pytest.mark.parametrize("variable", ["u", "f", "nu", "x", "error_estimate"])
def test_a_changed_number_is_noticed(name, variable, grid, several, tmp_path):
    if name == "d.zarr":
        pytest.importorskip("zarr")
    path = tmp_path / name
    write_dataset(grid, path, several)
    numbers = {**grid.axes, **grid.values, "error_estimate": grid.error_estimate}
    numbers |= {key: samples.values for key, samples in grid.inputs.items()}
    stored = numbers[variable].flatten()[1:2].numpy().tobytes()
    files = [path] if path.is_file() else [*(path / variable).rglob("c/**/[0-9]*")]
    (file,) = (f for f in files if f.is_file() and stored in f.read_bytes())
    content = bytearray(file.read_bytes())
    content[content.index(stored)] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=f"{name}.* cannot be read"):
        read_dataset(path, several)


def marked(grid, several, path, estimates):
    """Write a data set, NaN where there is no estimate, as `piop data` does."""
    estimates = torch.tensor(estimates, dtype=torch.float64)
    values = {n: v.clone() for n, v in grid.values.items()}
    for each in values.values():
        each[~estimates.isfinite()] = torch.nan
    bad = dataclasses.replace(grid, values=values, error_estimate=estimates)
    write_dataset(bad, path, several)
    data = xr.load_dataset(path)
    data["reference_accepted"] = ("sample", (estimates.numpy() < 1e-3).astype(np.int8))
    data.to_netcdf(path)
    return values


def test_samples_without_a_solution_are_left_out(grid, several, tmp_path, caplog):
    file = tmp_path / "d.nc"
    values = marked(grid, several, file, [1e-4, math.inf, 2e-3, math.nan, 1e-4])
    kept = [0, 2, 4]
    for reader in (read_dataset, StoredDataset.open):
        found = reader(file, several)
        assert len(found) == 3
        data = found.take(torch.arange(3))
        torch.testing.assert_close(data.values["u"], values["u"][kept])
        torch.testing.assert_close(data.inputs["f"].values, grid.inputs["f"].values[kept])
        said = caplog.text
        caplog.clear()
        assert "2 of 5 samples have no solution" in said
        assert "1 of 5 samples missed the tolerance" in said
        assert "estimated at up to 2.0e-03" in said


def test_a_file_without_any_solution_is_refused(grid, several, tmp_path):
    file = tmp_path / "d.nc"
    marked(grid, several, file, [math.inf] * 5)
    for reader in (read_dataset, StoredDataset.open):
        with pytest.raises(DataError, match="none of its 5 samples has a solution"):
            reader(file, several)


def test_scattered_values_and_sensors_survive_the_file(line, tmp_path):
    points = torch.stack([normal(2, 6).sigmoid(), 2 * normal(2, 6).sigmoid()], -1)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    where = normal(2, 3, 1).sigmoid() * mask[..., None]
    samples = FunctionSamples(where, normal(2, 3, 1) * mask[..., None], mask)
    data = Dataset({"u0": samples}, {}, {"u": normal(2, 6)}, points)
    write_dataset(data, tmp_path / "d.nc", line)
    found = read_dataset(tmp_path / "d.nc", line)
    assert_same(found, data)
    assert found.inputs["u0"].mask.tolist() == mask.tolist()
    torch.testing.assert_close(found.points, points, rtol=0, atol=1e-12)
    assert found.axes == {}
    assert found.error_estimate is None


def test_the_file_is_plain_netcdf_with_units_and_spec(grid, several, tmp_path):
    problem = dataclasses.replace(several, units={"t": "s", "x": "m", "u": "m/s"})
    write_dataset(grid, tmp_path / "d.nc", problem)
    with xr.open_dataset(tmp_path / "d.nc", engine="h5netcdf") as data:
        assert data["u"].dims == ("sample", "t", "x")
        assert data["f"].dims == ("sample", "t", "x")
        assert data["u0"].dims == ("sample", "x")
        assert data["nu"].dims == ("sample",)
        assert data["error_estimate"].dims == ("sample",)
        assert data["u"].attrs["units"] == "m/s"
        assert data["t"].attrs["units"] == "s"
        assert data.attrs["piop_spec"] == "name: several\n"
        assert data.attrs["piop_hash"] == "c0ffee"
        assert {"piop_version", "torch_version", "numpy_version"} <= set(data.attrs)


def test_parts_give_the_same_file_as_one_piece(line, tmp_path):
    values = normal(7, 4).numpy()
    for name, cuts in (("one", [0, 7]), ("parts", [0, 3, 6, 7])):
        with DatasetWriter.open(tmp_path / f"{name}.nc", line, 7) as writer:
            writer.axis("x", np.arange(4) / 4)
            for low, high in itertools.pairwise(cuts):
                writer.append("u0", ("x",), values[low:high])
    for name in ("one", "parts"):
        with xr.open_dataset(tmp_path / f"{name}.nc", engine="h5netcdf") as data:
            np.testing.assert_array_equal(data["u0"], values)


def test_an_unfinished_file_never_appears(line, tmp_path):
    with (
        pytest.raises(DataError, match="'u0' has 3 of 7 samples"),
        DatasetWriter.open(tmp_path / "d.nc", line, 7) as writer,
    ):
        writer.append("u0", ("x",), np.zeros((3, 4)))
    assert list(tmp_path.iterdir()) == []


def test_taking_samples_keeps_their_inputs_beside_them(grid):
    some = grid.take(torch.tensor([4, 1]))
    assert len(some) == 2
    torch.testing.assert_close(some.values["psi"][1], grid.values["psi"][1])
    torch.testing.assert_close(some.inputs["f"].values[0], grid.inputs["f"].values[4])
    torch.testing.assert_close(some.error_estimate, grid.error_estimate[[4, 1]])


def test_npz_and_other_orders_of_dimensions_read_alike(line, tmp_path):
    t, x, u = np.linspace(0, 1, 3), np.linspace(0, 1.5, 4), normal(2, 3, 4).numpy()
    np.savez(tmp_path / "d.npz", t=t, x=x, u=u, u0=u[:, 0])
    turned = {"u": (("x", "t", "sample"), u.transpose(2, 1, 0)), "u0": (("sample", "x"), u[:, 0])}
    xr.Dataset(turned, {"t": t, "x": x}).to_netcdf(tmp_path / "d.nc", engine="h5netcdf")
    for end in ("npz", "nc"):
        found = read_dataset(tmp_path / f"d.{end}", line)
        np.testing.assert_array_equal(found.values["u"], u)
        np.testing.assert_array_equal(found.inputs["u0"].values[..., 0], u[:, 0])


def test_an_auxiliary_unknown_may_be_absent(several, grid, tmp_path):
    data = dataclasses.replace(grid, values={"u": grid.values["u"]})
    write_dataset(data, tmp_path / "d.nc", several)
    assert list(read_dataset(tmp_path / "d.nc", several).values) == ["u"]


def test_a_file_of_another_spec_is_read_with_a_warning(grid, several, tmp_path, caplog):
    write_dataset(grid, tmp_path / "d.nc", several)
    with caplog.at_level(logging.WARNING):
        read_dataset(tmp_path / "d.nc", dataclasses.replace(several, hash="another"))
    assert "made from another version of the spec" in caplog.text


T, X = np.linspace(0, 1, 3), np.linspace(0, 1.5, 4)
U, U0 = np.zeros((2, 3, 4)), np.zeros((2, 4))
NAN = U.copy()
NAN[1, 2, 3] = np.nan
BAD = {
    "no unknown": ({"u0": U0}, "no variable 'u' .*an unknown of the spec"),
    "NaN": ({"u": NAN, "u0": U0}, "'u' is nan in sample 1, index 2, 3"),
    "shapes": ({"u": U[:, :2], "u0": U0}, r"'u' has shape \(2, 2, 4\).*does not fit t \(3,\)"),
    "channels": ({"u": np.zeros((2, 3, 4, 2)), "u0": U0}, "'u' has 2 channels"),
    "samples": ({"u": U, "u0": U0[:1]}, "'u0' has 1 samples but the solution has 2"),
    "a time outside": ({"u": U, "u0": U0, "t": 5 * T}, r"t = 2.5 is outside \[0, 1\]"),
    "an axis going down": ({"u": U, "u0": U0, "x": X[::-1]}, "axis 'x' does not increase"),
    "an estimate": ({"u": U, "u0": U0, "error_estimate": [1.0]}, r"shape \(1,\); expected \(2,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_sets_are_refused_with(case, line, tmp_path):
    arrays, message = BAD[case]
    np.savez(tmp_path / "d.npz", **({"t": T, "x": X} | arrays))
    if case == "samples":
        np.savez(tmp_path / "d.npz", t=T, x=X, u=U, u0=np.zeros((3, 4)))
        message = "'u0' has 3 samples but the solution has 2"
    with pytest.raises(DataError, match=message):
        read_dataset(tmp_path / "d.npz", line)


def test_unknowns_of_different_numbers_of_samples_are_refused(several, tmp_path):
    shared = {"t": T, "x": X, "u0": U0, "f": U, "nu": [0.1, 0.2]}
    np.savez(tmp_path / "d.npz", u=U, psi=np.zeros((3, 3, 4)), **shared)
    with pytest.raises(DataError, match="different numbers of samples: 'u' 2, 'psi' 3"):
        read_dataset(tmp_path / "d.npz", several)


def test_a_table_is_no_data_set(line, tmp_path):
    (tmp_path / "d.csv").write_text("t,x,u,u0\n0,0,1,1\n")
    with pytest.raises(DataError, match="is CSV; a data set is NetCDF"):
        read_dataset(tmp_path / "d.csv", line)


def test_names_that_files_need_themselves_are_refused(line, tmp_path):
    problem = dataclasses.replace(line, channels=("sample",))
    with (
        pytest.raises(DataError, match="'sample' is a name that data files use themselves"),
        DatasetWriter.open(tmp_path / "d.nc", problem, 1),
    ):
        pass
