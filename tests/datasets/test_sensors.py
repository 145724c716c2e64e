"""Sensors from NetCDF, npz and CSV: the same numbers, and errors that say what and where."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from piop.datasets import read_sensors
from piop.errors import DataError

RNG = np.random.default_rng(0)
POSITIONS = np.sort(RNG.uniform(0, 2, 7))
VALUES = RNG.normal(size=(3, 7))


def write_csv(path, header, rows):
    lines = [",".join(header), *(",".join("" if c is None else repr(c) for c in r) for r in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_three_formats_give_the_same_sensors(line, tmp_path):
    xr.Dataset({"u0": (("sample", "x"), VALUES)}, {"x": POSITIONS}).to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf"
    )
    np.savez(tmp_path / "a.npz", u0=VALUES, x=POSITIONS)
    rows = [
        (s, float(x), float(v)) for s in range(3) for x, v in zip(POSITIONS, VALUES[s], strict=True)
    ]
    write_csv(tmp_path / "a.csv", ["sample", "x", "u0"], rows)
    found = [read_sensors(tmp_path / f"a.{end}", line)["u0"] for end in ("nc", "npz", "csv")]
    for samples in found:
        assert samples.mask is None
        np.testing.assert_array_equal(samples.values[..., 0], VALUES)
        np.testing.assert_array_equal(samples.points[1, :, 0], POSITIONS)


def test_the_content_and_not_the_name_tells_the_format(line, tmp_path):
    np.savez(tmp_path / "a.npz", u0=VALUES, x=POSITIONS)
    (tmp_path / "a.npz").rename(tmp_path / "a.csv")
    np.testing.assert_array_equal(
        read_sensors(tmp_path / "a.csv", line)["u0"].values[..., 0], VALUES
    )


def test_netcdf3_reads_like_netcdf4(line, tmp_path):
    data = xr.Dataset({"u0": (("sample", "x"), VALUES)}, {"x": POSITIONS})
    data.to_netcdf(tmp_path / "a.nc", engine="scipy")
    np.testing.assert_array_equal(
        read_sensors(tmp_path / "a.nc", line)["u0"].values[..., 0], VALUES
    )


def test_dimensions_may_come_in_any_order_and_sample_may_be_absent(plane, tmp_path):
    x, y = np.linspace(0, 2, 4), np.linspace(-1, 1, 3)
    a = x[:, None] + 10 * y[None, :]
    xr.Dataset({"a": (("y", "x"), a.T)}, {"x": x, "y": y}).to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf"
    )
    found = read_sensors(tmp_path / "a.nc", plane)["a"]
    assert found.points.shape == (1, 12, 2)
    expected = found.points[..., 0] + 10 * found.points[..., 1]
    torch.testing.assert_close(found.values[..., 0], expected)


def test_points_of_each_sample_are_its_own(line, tmp_path):
    x = RNG.uniform(0, 2, (3, 7))
    data = {"u0": (("sample", "point"), np.sin(x)), "x": (("sample", "point"), x)}
    xr.Dataset(data).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    np.savez(tmp_path / "a.npz", u0=np.sin(x), x=x)
    for end in ("nc", "npz"):
        found = read_sensors(tmp_path / f"a.{end}", line)["u0"]
        np.testing.assert_array_equal(found.points[..., 0], x)
        torch.testing.assert_close(found.values, found.points.sin())


def test_nan_in_position_and_value_fills_up_a_shorter_sample(line, tmp_path):
    x = np.array([[0.1, 0.2, 0.3], [0.4, np.nan, np.nan]])
    np.savez(tmp_path / "a.npz", u0=2 * x, x=x)
    found = read_sensors(tmp_path / "a.npz", line)["u0"]
    assert found.mask.tolist() == [[True, True, True], [True, False, False]]
    assert found.values[1, :, 0].tolist() == [0.8, 0.0, 0.0]


def test_csv_samples_may_have_different_numbers_of_sensors(line, tmp_path):
    rows = [(5, 0.1, 1.0), (2, 0.2, 2.0), (5, 0.3, 3.0)]
    found = read_sensors(write_csv(tmp_path / "a.csv", ["sample", "x", "u0"], rows), line)["u0"]
    assert found.mask.tolist() == [[True, False], [True, True]]  # sample 2, then sample 5
    assert found.values[1, :, 0].tolist() == [1.0, 3.0]


def test_csv_of_several_inputs_and_a_scalar(several, tmp_path):
    header = ["t", "x", "u0", "f", "nu"]
    rows = [(None, 0.5, 1.5, None, 0.1), (0.2, 1.0, None, 7.0, None), (0.3, 1.1, None, 8.0, None)]
    found = read_sensors(write_csv(tmp_path / "a.csv", header, rows), several)
    assert found["u0"].points.tolist() == [[[0.5]]]
    assert found["f"].points.tolist() == [[[0.2, 1.0], [0.3, 1.1]]]
    assert found["f"].values[..., 0].tolist() == [[7.0, 8.0]]
    assert found["nu"].points.shape == (1, 1, 0)
    assert found["nu"].values.item() == 0.1


def test_an_input_may_have_positions_of_its_own(several, tmp_path):
    np.savez(
        tmp_path / "a.npz",
        **{"u0": [1.0, 2.0], "u0_x": [0.0, 1.0], "nu": [0.1, 0.2, 0.3]},
        **{"f": np.ones((3, 2, 4)), "t": [0.0, 1.0], "x": [0.0, 0.5, 1.0, 1.5]},
    )
    found = read_sensors(tmp_path / "a.npz", several)
    assert found["u0"].points.shape == (3, 2, 1)  # one function for the three samples
    assert found["f"].points.shape == (3, 8, 2)
    assert found["nu"].values.flatten().tolist() == [0.1, 0.2, 0.3]


def test_meshgrid_arrays_are_one_grid(plane, tmp_path):
    x, y = np.meshgrid(np.linspace(0, 2, 4), np.linspace(-1, 1, 3), indexing="ij")
    np.savez(tmp_path / "a.npz", a=np.stack([x + y, x - y]), x=x, y=y)
    found = read_sensors(tmp_path / "a.npz", plane)["a"]
    assert found.values.shape == (2, 12, 1)
    torch.testing.assert_close(found.values[1, :, 0], found.points[1, :, 0] - found.points[1, :, 1])


def test_positions_within_rounding_of_an_end_are_put_on_it(line, tmp_path):
    np.savez(tmp_path / "a.npz", u0=[1.0], x=np.array([2.0000002], dtype=np.float32))
    assert read_sensors(tmp_path / "a.npz", line)["u0"].points.item() == 2.0


BAD = {
    "a missing variable": ({"x": [0.0]}, r"no variable 'u0' .*found: x"),
    "a missing coordinate": ({"u0": [0.0]}, r"no variable 'x' .*'u0' depends on\); found: u0"),
    "NaN": (
        {"u0": [[0.0, 1.0], [2.0, np.nan]], "x": [0.0, 1.0]},
        r"'u0' is nan in sample 1, index 1; expected finite",
    ),
    "a sensor outside": (
        {"u0": [[0.0, 1.0]], "x": [0.0, 2.5]},
        r"'u0': x = 2.5 in sample 0 is outside \[0, 2\]",
    ),
    "channels": (
        {"u0": np.zeros((4, 2, 3)), "x": [0.0, 1.0]},
        r"'u0' has 3 channels .*the spec has one",
    ),
    "shapes": ({"u0": np.zeros((4, 5)), "x": [0.0, 1.0]}, r"shape \(4, 5\).*does not fit x \(2,\)"),
    "text": (
        {"u0": np.array(["a", "b"]), "x": [0.0, 1.0]},
        r"'u0' holds <U1; expected real numbers",
    ),
    "complex numbers": ({"u0": np.array([1j]), "x": [0.0]}, "complex128; expected real numbers"),
    "two values at a position": (
        {"u0": [[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]], "x": [[0.1, 0.1, 1.0]] * 2},
        "sensors 0 and 1 of sample 0 are both at x = 0.1, with the values 1 and 2",
    ),
    "a sample without sensors": (
        {"u0": [[1.0], [np.nan]], "x": [[0.1], [np.nan]]},
        "no sensors in sample 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused_with(case, line, tmp_path):
    arrays, message = BAD[case]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message) as caught:
        read_sensors(tmp_path / "a.npz", line)
    assert str(tmp_path / "a.npz") in str(caught.value)
    assert caught.value.exit_code == 2


def test_pickled_objects_are_refused(line, tmp_path):
    ragged = np.array([np.zeros(2), np.zeros(3)], dtype=object)
    np.savez(tmp_path / "a.npz", u0=ragged, x=[0.0])
    with pytest.raises(DataError, match="'u0' holds Python objects"):
        read_sensors(tmp_path / "a.npz", line)


def test_an_array_that_fits_two_layouts_is_refused(plane, tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros((3, 3)), x=[0.0, 1.0, 2.0], y=[-1.0, 0.0, 1.0])
    with pytest.raises(DataError, match=r"may be a grid of one sample or scattered"):
        read_sensors(tmp_path / "a.npz", plane)


def test_inputs_of_different_numbers_of_samples_are_refused(several, tmp_path):
    np.savez(
        tmp_path / "a.npz",
        u0=np.zeros((2, 1)), x=[0.0], t=[0.0], f=np.zeros((3, 1, 1)), nu=0.1,
    )  # fmt: skip
    with pytest.raises(DataError, match="'u0' has 2 samples but 'f' has 3"):
        read_sensors(tmp_path / "a.npz", several)


def test_a_netcdf_dimension_that_no_coordinate_spans_is_refused(line, tmp_path):
    data = xr.Dataset({"u0": (("batch", "x"), VALUES)}, {"x": POSITIONS})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(DataError, match=r"'batch' of length 3.*many functions go along 'sample'"):
        read_sensors(tmp_path / "a.nc", line)


BAD_CSV = {
    "no header": ("0.1,2.0\n", r"a.csv:1: the first line must name the columns"),
    "a ragged row": (
        "x,u0\n0.1,2.0\n0.2\n",
        r"a.csv:3: 1 cells, the header has 2 columns \(x, u0\)",
    ),
    "a word": ("x,u0\n0.1,two\n", r"a.csv:2: column 'u0': 'two' is not a number"),
    "NaN": ("x,u0\n0.1,nan\n", r"a.csv:2: column 'u0': nan is not a finite number"),
    "no rows": ("x,u0\n", "a header .* but no rows"),
    "a missing column": ("x,v\n0.1,1\n", r"no column 'u0' \(an input of the spec\); found: x, v"),
    "a value without a place": ("x,u0\n,1\n", r"row 1 has a value of 'u0' but none of 'x'"),
    "an empty column": ("x,u0\n0.1,\n", "column 'u0' is empty"),
    "columns of one name": ("x,x,u0\n1,1,1\n", "two columns are called 'x'"),
    "a row of no sample": ("sample,x,u0\n,1,1\n", "row 1 has no sample number"),
    "only comments": ("# nothing\n", "is empty"),
    "a sensor outside": ("x,u0\n-0.5,1\n", r"x = -0.5 in sample 0 is outside \[0, 2\]"),
    "two values at a position": (
        "sample,x,u0\n0,1,1\n0,0,3\n1,1,1\n1,0,2\n1,1,3\n",
        "a.csv: 'u0': sensors 0 and 2 of sample 1 are both at x = 1, with the values 1 and 3; give",
    ),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_tables_are_refused_with(case, line, tmp_path):
    text, message = BAD_CSV[case]
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_sensors(tmp_path / "a.csv", line)


def test_a_scalar_that_differs_within_a_sample_is_refused(several, tmp_path):
    (tmp_path / "a.csv").write_text("t,x,u0,f,nu\n0,0,1,1,0.1\n0,1,1,1,0.2\n")
    with pytest.raises(DataError, match="scalar 'nu' has 2 values in sample 0"):
        read_sensors(tmp_path / "a.csv", several)


def test_a_scalar_without_a_column_is_missed_with_how_it_is_written(several, tmp_path):
    (tmp_path / "a.csv").write_text("t,x,u0,f\n0,0,1,1\n")
    with pytest.raises(
        DataError, match=r"no column 'nu' \(a scalar of the spec, once in each sample\)"
    ):
        read_sensors(tmp_path / "a.csv", several)


def test_tables_may_be_separated_by_semicolons_and_hold_comments(line, tmp_path):
    (tmp_path / "a.csv").write_text("\ufeff# from the lab\nx; u0\n0.5; 1e-3\n\n")
    assert read_sensors(tmp_path / "a.csv", line)["u0"].values.item() == 1e-3


BAD_FILES = {
    "empty": (b"", "is empty"),
    "binary": (b"\x00\x01\x02", "not a format that can be read"),
    "Latin text": (b"x,u\xe9\n1,2\n", "not a format that can be read"),
    "a broken archive": (b"PK\x03\x04rubbish", "damaged|cannot be read"),
    "a broken HDF5": (b"\x89HDF\r\n\x1a\nrubbish", "cannot be read"),
    "a broken NetCDF 3": (b"CDF\x01rubbish", "cannot be read"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_unreadable_files_are_refused(case, line, tmp_path):
    content, message = BAD_FILES[case]
    (tmp_path / "a.nc").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_sensors(tmp_path / "a.nc", line)


def test_missing_files_and_folders_are_refused(line, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_sensors(tmp_path / "none.nc", line)
    with pytest.raises(DataError, match="is a folder"):
        read_sensors(tmp_path, line)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be read"):
        read_sensors(tmp_path / "file" / "below.nc", line)
