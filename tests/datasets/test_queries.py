"""Ranges and files of points say where to predict."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

from piop.datasets import read_queries
from piop.errors import DataError, UsageError


def test_ranges_include_both_ends_and_follow_the_order_of_the_problem(line):
    found = read_queries("x = 0:2:5, t=0:1:3", line)
    assert list(found.axes) == ["t", "x"]
    assert found.axes["t"].tolist() == [0.0, 0.5, 1.0]
    assert found.axes["x"].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert found.shape == (3, 5)
    assert found.tensor()[0, 6].tolist() == [0.5, 0.5]


def test_a_single_position_and_pi_are_numbers_too(line):
    found = read_queries("t=5e-1, x=pi/4:0.5*pi:2", line)
    assert found.axes["t"].tolist() == [0.5]
    assert found.axes["x"].tolist() == [math.pi / 4, math.pi / 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t=0:1:3", "no range for x. Example"),
        ("t=0:1:3, x=0:1:3, z=0:1:3", "'z' is not a coordinate; one of t, x"),
        ("t=0:1:3, t=0:1:3", "'t' is given twice"),
        ("t=a:1:3, x=0", "'a:1:3' is not a position or a range first:last:number"),
        ("t=0:1, x=0", "'0:1' is not a position or a range"),
        ("t=0:1:0, x=0", "'0:1:0' is not a position or a range"),
        ("t=0:1:-4, x=0", "not a position or a range"),
        ("t=1:0:3, x=0", "the range '1:0:3' does not increase"),
        ("t=0:1:11, x=1e999", "x: '1e999' is not a position"),
        ("t=1/0, x=0", "t: '1/0' is not a position"),
        (f"t=0, x={'1+' * 3000}1", r"x: '1\+1.{20,40}\.\.\..{20,40}' is not a position"),
        ("t=0:1:3:4, x=0", "not a position or a range"),
        ("t=, x=0", "'' is not a position"),
        ("t=pi/0, x=0", "is not a position"),
        ("t=0:9:3, x=0", r"t = 4.5 is outside \[0, 1\] \(2 such positions\)"),
    ],
)
def test_bad_ranges_are_refused(text, message, line):
    with pytest.raises(UsageError, match=message) as caught:
        read_queries(text, line)
    assert caught.value.exit_code == 2


def test_rows_of_a_table_are_points(line, tmp_path):
    (tmp_path / "q.csv").write_text("t,x\n0.5,1.5\n0.1,0.2\n")
    found = read_queries(tmp_path / "q.csv", line)
    assert found.points.tolist() == [[[0.5, 1.5], [0.1, 0.2]]]
    assert found.shape == (2,)
    assert found.tensor() is found.points


def test_points_may_differ_from_sample_to_sample(line, tmp_path):
    (tmp_path / "q.csv").write_text("sample,t,x\n1,0.5,1.5\n0,0.1,0.2\n")
    assert read_queries(tmp_path / "q.csv", line).points.tolist() == [[[0.1, 0.2]], [[0.5, 1.5]]]


def test_vectors_along_themselves_are_axes_and_points_are_points(line, tmp_path):
    t, x = np.array([0.0, 0.5]), np.array([0.0, 1.0, 2.0])
    np.savez(tmp_path / "grid.npz", t=t, x=x)
    np.savez(tmp_path / "points.npz", t=np.tile(t, (3, 1)), x=np.ones((3, 2)))
    xr.Dataset(coords={"t": t, "x": x}).to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    scattered = {"t": ("point", t), "x": ("point", [1.0, 2.0])}
    xr.Dataset(scattered).to_netcdf(tmp_path / "points.nc", engine="h5netcdf")
    for end in ("npz", "nc"):
        assert read_queries(tmp_path / f"grid.{end}", line).shape == (2, 3)
    assert read_queries(tmp_path / "points.npz", line).points.shape == (3, 2, 2)
    expected = [[[0.0, 1.0], [0.5, 2.0]]]
    assert read_queries(tmp_path / "points.nc", line).points.tolist() == expected


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"t": [0.0]}, "no variable 'x'"),
        ({"t": [0.0, 0.0], "x": [0.0]}, "axis 't' does not increase: 0 is followed by 0"),
        (
            {"t": np.zeros((2, 3)), "x": np.zeros((2, 4))},
            r"t \(2, 3\), x \(2, 4\); expected a vector",
        ),
        ({"t": [0.0, np.nan], "x": [0.0]}, "'t of t' is nan"),
        ({"t": [[2.0]], "x": [[0.0]]}, r"'query': t = 2 in sample 0 is outside \[0, 1\]"),
        ({"t": [], "x": [0.0]}, r"axis 't' has shape \(0,\)"),
    ],
)
def test_bad_arrays_are_refused(arrays, message, line, tmp_path):
    np.savez(tmp_path / "q.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_queries(tmp_path / "q.npz", line)


def test_bad_tables_are_refused(line, tmp_path):
    (tmp_path / "q.csv").write_text("t,x\n0.5,\n")
    with pytest.raises(DataError, match="row 1 has no 'x'"):
        read_queries(tmp_path / "q.csv", line)
    (tmp_path / "q.csv").write_text("sample,t,x\n0,0,0\n1,0,0\n1,0,1\n")
    with pytest.raises(DataError, match="between 1 and 2 query points"):
        read_queries(tmp_path / "q.csv", line)
