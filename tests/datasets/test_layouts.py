"""Published layouts are told by content: small files of each, made here, and files unlike them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import torch
from scipy.io import savemat

from piop.datasets import inspect_file, read_dataset, write_dataset
from piop.datasets.formats.detect import open_raw, read_raw
from piop.errors import DataError

from .conftest import Axis, FileProblem, Given

X, Y, T = Axis("x", 0.0, 1.0, periodic=True), Axis("y", 0.0, 1.0, periodic=True), Axis("t", 0, 50.0)
BURGERS = FileProblem("burgers", (T, X), (Given("u0", ("x",)),))
FLOW = FileProblem("flow", (T, X, Y), (Given("w0", ("x", "y")),), ("w",), ("w",))
DARCY = FileProblem("darcy", (X, Y), (Given("a", ("x", "y")),))


def count(*shape):
    """Numbers that tell where they stand."""
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


def save_matlab7(path, arrays):
    """As MATLAB does: a block of its own before HDF5, axes reversed, a class for each array."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = np.asarray(values).T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: here")
    return path


def save_matlab5(path, arrays):
    savemat(path, arrays, appendmat=False)
    return path


MATLAB = pytest.mark.parametrize("save", [save_matlab5, save_matlab7], ids=["v5", "v7.3"])


@MATLAB
def test_burgers_of_li_et_al(save, tmp_path):
    a, u = count(3, 8), 100 + count(3, 8)
    path = save(tmp_path / "named_otherwise", {"a": a, "u": u, "a_smooth": a})
    data = read_dataset(path, BURGERS)
    assert data.axes["t"].tolist() == [1.0]
    assert data.axes["x"].tolist() == [i / 8 for i in range(8)]
    np.testing.assert_array_equal(data.values["u"][:, 0], u)
    np.testing.assert_array_equal(data.inputs["u0"].values[..., 0], a)
    assert inspect_file(path)["as_spec"]["spec"] == "burgers_fno"


@MATLAB
def test_flow_of_li_et_al(save, tmp_path):
    arrays = {"a": count(2, 4, 4), "u": count(2, 4, 4, 3), "t": np.array([[1.0, 2.0, 3.0]])}
    data = read_dataset(save(tmp_path / "d", arrays), FLOW)
    assert data.axes["t"].tolist() == [1.0, 2.0, 3.0]
    assert data.values["w"][1, 2, 3, 1] == arrays["u"][1, 3, 1, 2]
    assert data.inputs["w0"].values[1, 2 * 4 + 3, 0] == arrays["a"][1, 2, 3]
    assert data.inputs["w0"].points[1, 2 * 4 + 3].tolist() == [0.5, 0.75]


@MATLAB
def test_darcy_of_li_et_al(save, tmp_path):
    arrays = {"coeff": count(2, 5, 5), "sol": 7 + count(2, 5, 5), "Kcoeff": count(2, 5, 5)}
    data = read_dataset(save(tmp_path / "d", arrays), DARCY)
    assert data.axes["x"].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert data.values["u"][1, 3, 2] == arrays["sol"][1, 3, 2]
    assert data.inputs["a"].values[1, 3 * 5 + 2, 0] == arrays["coeff"][1, 3, 2]


@MATLAB
def test_a_matlab_file_with_names_of_the_spec(save, tmp_path):
    u = count(2, 3, 4)
    arrays = {"u": u, "u0": u[:, 0], "t": [0.0, 1.0, 2.0], "x": [0, 0.25, 0.5, 0.75]}
    data = read_dataset(save(tmp_path / "d", arrays), BURGERS)
    np.testing.assert_array_equal(data.values["u"], u)


def test_pdebench_in_one_array(tmp_path):
    path, u = tmp_path / "d.h5", count(2, 3, 4).astype(np.float32)
    with h5py.File(path, "w") as file:
        file["tensor"] = u
        file["x-coordinate"] = (np.arange(4) + 0.5) / 4
        file["t-coordinate"] = np.array([0.0, 0.1, 0.2, 0.3])  # one more than there are times
    data = read_dataset(path, BURGERS)
    assert data.axes["t"].tolist() == [0.0, 0.1, 0.2]
    assert data.axes["x"].tolist() == [0.125, 0.375, 0.625, 0.875]
    np.testing.assert_array_equal(data.values["u"], u)
    np.testing.assert_array_equal(data.inputs["u0"].values[..., 0], u[:, 0])


def test_pdebench_in_a_group_per_sample(tmp_path):
    path, u = tmp_path / "d.h5", count(3, 2, 4, 5, 2)
    with h5py.File(path, "w") as file:
        for sample in range(3):
            group = file.create_group(f"{sample:04d}")
            group["data"] = u[sample]
            for name, n in (("t", 2), ("x", 4), ("y", 5)):
                group[f"grid/{name}"] = np.arange(n) / 8
    given = (Given("u0", ("x", "y")), Given("v0", ("x", "y")))
    data = read_dataset(path, FileProblem("p", (T, X, Y), given, ("u", "v"), ("u", "v")))
    np.testing.assert_array_equal(data.values["v"], u[..., 1])
    np.testing.assert_array_equal(data.inputs["u0"].values.reshape(3, 4, 5), u[:, 0, ..., 0])
    assert data.axes["y"].tolist() == [0.0, 0.125, 0.25, 0.375, 0.5]


def test_pdebench_flow_and_darcy(tmp_path):
    with h5py.File(tmp_path / "flow", "w") as file:
        for i, name in enumerate(("density", "pressure", "Vx")):
            file[name] = i + count(2, 3, 4)
        file["x-coordinate"], file["t-coordinate"] = np.arange(4) / 4, np.arange(4) / 4
    raw = read_raw(tmp_path / "flow")
    assert raw.variables["Vx"].dimensions == ("sample", "t", "x")
    np.testing.assert_array_equal(raw.variables["pressure0"].values, 1 + count(2, 3, 4)[:, 0])
    with h5py.File(tmp_path / "darcy", "w") as file:
        file["nu"], file["tensor"] = count(2, 4, 4), count(2, 1, 4, 4)
        file["x-coordinate"] = file["y-coordinate"] = (np.arange(4) + 0.5) / 4
        file.attrs["beta"] = 1.0
    data = read_dataset(tmp_path / "darcy", DARCY)
    np.testing.assert_array_equal(data.values["u"], count(2, 1, 4, 4)[:, 0])
    assert data.attributes["beta"] == 1.0


def save_well(path):
    """Fields of rank 0 to 2 over time and a plane, one without time, and a scalar."""
    with h5py.File(path, "w") as file:
        file.attrs["dataset_name"], file.attrs["n_spatial_dims"] = "small", 2
        file.attrs["simulation_parameters"] = ["viscosity"]
        dims = file.create_group("dimensions")
        dims.attrs["spatial_dims"] = ["x", "y"]
        for name, n in (("time", 3), ("x", 4), ("y", 5)):
            dims[name] = np.arange(n) / 8
        wall = file.create_group("boundary_conditions/x_periodic")
        wall.attrs["associated_dims"], wall.attrs["bc_type"] = ["x"], "PERIODIC"
        whole = {"sample_varying": True, "time_varying": True, "dim_varying": [True, True]}
        fields = {
            "t0_fields/u": (count(2, 3, 4, 5), whole),
            "t0_fields/a": (count(2, 4, 5), {**whole, "time_varying": False}),
            "t0_fields/f": (count(5), dict.fromkeys(whole, False) | {"dim_varying": [False, True]}),
            "t1_fields/velocity": (count(2, 3, 4, 5, 2), whole),
            "t2_fields/D": (count(2, 3, 4, 5, 2, 2), whole),
            "scalars/nu": (np.array([0.1, 0.2]), {**whole, "time_varying": False}),
            "scalars/g": (np.array(9.8), {"sample_varying": False, "time_varying": False}),
        }
        for name, (values, attributes) in fields.items():
            file[name] = values
            file[name].attrs.update(attributes)
    return path


def test_the_well(tmp_path):
    raw = read_raw(save_well(tmp_path / "d"))
    assert raw.variables["u"].dimensions == ("sample", "t", "x", "y")
    np.testing.assert_array_equal(raw.variables["u0"].values, count(2, 3, 4, 5)[:, 0])
    velocity, tensor = count(2, 3, 4, 5, 2), count(2, 3, 4, 5, 2, 2)
    np.testing.assert_array_equal(raw.variables["velocity_y"].values, velocity[..., 1])
    np.testing.assert_array_equal(raw.variables["D_xy"].values, tensor[..., 0, 1])
    assert raw.variables["f"].dimensions == ("y",)
    assert raw.variables["g"].values.tolist() == [9.8, 9.8]
    assert raw.attributes["boundaries"] == "x: PERIODIC"
    given = (Given("u0", ("x", "y")), Given("a", ("x", "y")), Given("nu", ()))
    data = read_dataset(tmp_path / "d", FileProblem("p", (T, X, Y), given))
    assert data.inputs["nu"].values[:, 0, 0].tolist() == [0.1, 0.2]
    np.testing.assert_array_equal(data.values["u"], count(2, 3, 4, 5))


def test_torch_tensors_with_names_of_the_spec(tmp_path):
    u = torch.from_numpy(count(2, 3, 4))
    positions = {"t": torch.arange(3.0), "x": torch.arange(4) / 4}
    torch.save({"u": u, "u0": u[:, 0].clone(), **positions}, tmp_path / "d")
    assert torch.equal(read_dataset(tmp_path / "d", BURGERS).values["u"], u)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_either_version(version, tmp_path):
    zarr = pytest.importorskip("zarr")
    u = count(2, 3, 4)
    group = zarr.open_group(tmp_path / "d", mode="w", zarr_format=version)
    arrays = {"u": ("sample", "t", "x"), "u0": ("sample", "x"), "t": ("t",), "x": ("x",)}
    values = {"u": u, "u0": u[:, 0], "t": np.arange(3.0), "x": np.arange(4) / 4}
    for name, dimensions in arrays.items():
        named = {"dimension_names": dimensions} if version == 3 else {}
        array = group.create_array(name, data=values[name], **named)
        if version == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = list(dimensions)
    np.testing.assert_array_equal(read_dataset(tmp_path / "d", BURGERS).values["u"], u)


def test_a_zarr_of_ones_own_is_read_back(line, tmp_path):
    pytest.importorskip("zarr")
    t, x, u = np.linspace(0, 1, 3), np.linspace(0, 1.5, 4), count(2, 3, 4)
    np.savez(tmp_path / "d.npz", t=t, x=x, u=u, u0=u[:, 0])
    one = read_dataset(tmp_path / "d.npz", line)
    write_dataset(one, tmp_path / "d.zarr", line)
    two = read_dataset(tmp_path / "d.zarr", line)
    assert torch.equal(one.values["u"], two.values["u"])
    assert torch.equal(one.inputs["u0"].values, two.inputs["u0"].values)


@pytest.fixture
def own_zarr(line, tmp_path):
    pytest.importorskip("zarr")
    path, x = tmp_path / "d.zarr", np.linspace(0, 1.5, 4)
    np.savez(tmp_path / "d.npz", t=np.linspace(0, 1, 3), x=x, u=count(2, 3, 4), u0=count(2, 4))
    write_dataset(read_dataset(tmp_path / "d.npz", line), path, line)
    return path


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("u/zarr.json", '"separator": "/"', '"separator": "."'),  # names no chunk that is there
        ("zarr.json", '"piop_format": 1', '"piop_format": 3'),
        ("u/c/0/0/0", None, None),
        ("u0/zarr.json", None, None),
    ],
)
def test_damaged_metadata_and_missing_files_of_a_zarr_of_ones_own_are_told(
    name, before, after, line, own_zarr
):
    damaged = own_zarr / name
    if before is None:
        damaged.unlink()
    else:
        damaged.write_text(damaged.read_text().replace(before, after))
    with pytest.raises(DataError, match=r"d\.zarr: is damaged, or was changed .* checksum"):
        read_dataset(own_zarr, line)


def test_a_zarr_made_before_there_were_checksums_is_read(line, own_zarr):
    zarr = pytest.importorskip("zarr")
    del zarr.open_group(own_zarr).attrs["piop_checksum"]
    assert len(read_dataset(own_zarr, line)) == 2


def test_a_damaged_list_of_chunks_of_a_netcdf_of_ones_own_is_told(line, tmp_path):
    path, x, u = tmp_path / "d.nc", np.linspace(0, 1.5, 4), count(2000, 3, 4)
    np.savez(tmp_path / "d.npz", t=np.linspace(0, 1, 3), x=x, u=u, u0=u[:, 0])
    write_dataset(read_dataset(tmp_path / "d.npz", line), path, line)
    content = bytearray(path.read_bytes())
    content[content.index(b"FADB") + 20] ^= 1  # block of a fixed array: where each chunk is
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"d\.nc: .*damaged"):
        read_dataset(path, line)


def test_samples_of_any_order_are_read_alone(tmp_path):
    with open_raw(save_well(tmp_path / "d")) as file:
        some = file.read(np.array([1, 0, 1]))
    assert some.variables["nu"].values.tolist() == [0.2, 0.1, 0.2]
    np.testing.assert_array_equal(some.variables["u"].values, count(2, 3, 4, 5)[[1, 0, 1]])
    assert some.variables["x"].values.shape == (4,)


def test_inspection_says_what_the_arrays_would_be_in_a_spec(tmp_path):
    found = inspect_file(save_well(tmp_path / "d"))["as_spec"]
    assert found["samples"] == 2
    assert found["coordinates"]["t"] == {"low": 0.0, "high": 0.25, "points": 3}
    assert found["functions"]["u"] == ["t", "x", "y"]
    assert found["functions"]["a"] == ["x", "y"]
    assert found["scalars"] == ["g", "nu"]


def test_inspection_takes_a_file_in_pieces(tmp_path, monkeypatch):
    whole = inspect_file(save_well(tmp_path / "d"))
    monkeypatch.setattr("piop.datasets.inspection.CHUNK_BYTES", 1)
    assert inspect_file(tmp_path / "d") == whole


def h5(**arrays):
    def save(path):
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name.replace("__", "/").replace("_coordinate", "-coordinate")] = values

    return save


def numpy_folder(**arrays):
    def save(path):
        path.mkdir()
        for name, values in arrays.items():
            np.save(path / f"{name}.npy", values)

    return save


GRID, POSITIONS = count(4), {"x_coordinate": count(4), "t_coordinate": count(3)}
UNLIKE = {
    "hdf5": (h5(velocity=count(2, 3)), "no variable 'u' .*; found: velocity. Expected .* PDEBench"),
    "times": (h5(tensor=count(2, 5, 4), **POSITIONS), "found 5 times, 't-coordinate' 3"),
    "axes": (h5(tensor=count(2, 3, 4, 4), **POSITIONS), r"'u' \(2, 3, 4, 4\) for coordinates x"),
    "no times": (h5(tensor=count(2, 3, 4), x_coordinate=GRID), "found no 't-coordinate'"),
    "groups": (
        h5(**{"0000__data": count(2, 4, 1), "0000__grid__x": GRID}),
        "'0000/data' .*'grid' x",
    ),
    "the well": (h5(dimensions__x=GRID, t0_fields__u=GRID), "expected The Well's .* holds x"),
    "matlab": (
        lambda path: save_matlab5(path, {"b": count(2, 3)}),
        "no variable 'u' .*; found: b. Expected .* Li et al",
    ),
    "matlab 7": (
        lambda path: save_matlab7(path, {"b": count(2, 3)}),
        "no variable 'u' .*; found: b. Expected .* Li et al",
    ),
    "numpy": (numpy_folder(A_X=GRID, A_Y=GRID, A_Q=GRID), r"expected Geo-FNO's.*'A_Q' \(4,\)"),
    "folder": (lambda path: path.mkdir(), "is a folder; expected a file, or"),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_another_layout_is_refused_with_what_was_expected_and_found(case, tmp_path):
    save, message = UNLIKE[case]
    save(tmp_path / "d")
    with pytest.raises(DataError, match=message):
        read_dataset(tmp_path / "d", BURGERS)


def test_a_component_too_many_is_refused(tmp_path):
    with h5py.File(save_well(tmp_path / "d"), "r+") as file:
        del file["t0_fields/u"]
        file["t0_fields/u"] = count(2, 3, 4, 5, 1)
    with pytest.raises(DataError, match=r"shape \(2, 3, 4, 5, 1\); expected \(sample, t, x, y\)"):
        open_raw(tmp_path / "d")


def test_half_a_file_is_refused(tmp_path):
    whole = save_well(tmp_path / "d").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="looks like HDF5 but cannot be read"):
        inspect_file(tmp_path / "half")


def test_a_matlab_file_of_version_7_is_told_by_its_content_alone(tmp_path):
    """Also without the text that MATLAB puts in front."""
    path = save_matlab7(tmp_path / "d", {"a": count(3, 8), "u": count(3, 8)})
    with path.open("r+b") as file:
        file.write(b"\0" * 64)
    assert inspect_file(path)["format"] == "matlab: MATLAB 7.3, Li et al.'s Burgers data"
