"""`predict`: any sensors in, any queries out."""

from __future__ import annotations

import json
from shutil import copytree

import numpy as np
import pytest
import xarray as xr


def test_the_three_formats_predict_the_same(piop, finished, sensors, tmp_path):
    x = np.array([0.1, 0.4, 0.8])
    u0 = np.stack([np.round(np.sin(6.28 * x + s), 6) for s in (0, 1)])
    np.savez(tmp_path / "s.npz", x=x, u0=u0)
    xr.Dataset({"u0": (("sample", "x"), u0)}, {"x": x}).to_netcdf(
        tmp_path / "s.nc", engine="h5netcdf"
    )
    found = []
    for source in (sensors, tmp_path / "s.npz", tmp_path / "s.nc"):
        output = tmp_path / f"{source.name}.nc"
        at = "t=0:1:3, x=0:1:5"
        assert piop("predict", finished, "--input", source, "--at", at, "--output", output)[0] == 0
        with xr.open_dataset(output, engine="h5netcdf") as data:
            assert data["u"].dims == ("sample", "t", "x")
            assert data["u"].attrs["units"] == "K"
            assert data["x"].attrs["units"] == "m"
            found.append(data["u"].values)
    assert found[0].shape == (2, 3, 5)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_a_prediction_at_points_is_that_on_the_grid(piop, finished, sensors, tmp_path):
    (tmp_path / "q.csv").write_text("t,x\n0.5,0.25\n1.0,0.75\n")
    grid = ("--at", "t=0.5:1:2, x=0.25:0.75:2")
    for name, where in (("a", ("--queries", tmp_path / "q.csv")), ("b", grid)):
        arguments = ("--input", sensors, *where, "--output", tmp_path / f"{name}.nc", "--json")
        code, out, _ = piop("predict", finished, *arguments)
        assert code == 0
        assert json.loads(out)["samples"] == 2
    points, on_grid = (
        xr.load_dataset(tmp_path / f"{name}.nc", engine="h5netcdf")["u"].values for name in "ab"
    )
    np.testing.assert_allclose(points, on_grid[:, [0, 1], [0, 1]], atol=1e-6)


def test_inputs_outside_the_distribution_are_named(piop, finished, sensors, tmp_path):
    x = np.arange(32) / 32
    known = 0.7 * np.sin(2 * np.pi * x)
    odd = known + 0.5 * np.sin(2 * np.pi * 9 * x)
    np.savez(tmp_path / "s.npz", x=x, u0=np.stack([known, odd]))
    arguments = ("--input", tmp_path / "s.npz", "--output", tmp_path / "p.nc")
    code, out, _ = piop("predict", finished, *arguments)
    assert code == 0
    assert "Inputs: 1 of 2 outside the distribution of the spec" in out
    assert "  sample 1: p-value" in out
    assert "misfit" in out
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as data:
        assert data["in_distribution"].dims == ("sample",)
        assert data["in_distribution"].values.tolist() == [1, 0]
        assert data["in_distribution"].attrs["flag_meanings"] == "outside inside"
        assert data["p_value"].values[1] < 0.01 < data["p_value"].values[0]
    code, out, _ = piop("predict", finished, *arguments, "--force", "--json")
    assert code == 0
    assert json.loads(out)["in_distribution"] == [1, 0]
    np.savez(tmp_path / "s.npz", x=x, u0=known[None])
    code, out, _ = piop("predict", finished, *arguments, "--force")
    assert "Inputs: in the distribution of the spec (p-value at least" in out


def test_answers_have_bounds_once_the_run_is_calibrated(piop, finished, sensors, tmp_path):
    run = tmp_path / "run"
    copytree(finished, run)
    x = np.arange(32) / 32
    np.savez(tmp_path / "s.npz", x=x, u0=np.stack([np.sin(2 * np.pi * x), 99 * np.sin(6 * x)]))
    rest = ("--output", tmp_path / "p.nc", "--force")
    arguments = ("predict", run, "--input", tmp_path / "s.npz", *rest)
    code, out, _ = piop("predict", run, "--input", sensors, *rest)
    assert code == 0
    assert "none for fewer sensors than those of the spec, which alone cause a relative" in out
    code, out, _ = piop(*arguments)
    assert code == 0
    assert "not calibrated: piop evaluate RUN --calibrate N" in out
    code, out, _ = piop("evaluate", run, "--calibrate", "33")
    assert code == 0
    assert out.startswith("Error bounds: 90 % confidence from 22 inputs (coverage of at least 8")
    code, out, _ = piop(*arguments)
    assert code == 0
    head, first, second = out.splitlines()[-3:]
    assert head == "Relative L2 error, bound with a confidence of 90 %:"
    assert second == "  sample 1: not covered"
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as data:
        bound, estimate = data["error_bound"].values, data["error_estimate"].values
        assert first == f"  sample 0: about {estimate[0]:.2g}, at most {bound[0]:.2g}"
        assert np.isnan(bound[1])
        assert data["error_bound"].attrs["confidence"] == "0.9"
        assert data["error_bound_over_time"].dims == ("sample", "t")
        assert data["error_estimate"].attrs["long_name"].startswith("relative L2 error that half")
    code, out, _ = piop(*arguments, "--confidence", "0.5", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["error_bound"][0] < bound[0]
    assert found["error_bound"][1] is None
    code, out, _ = piop(*arguments, "--tolerance", "1e-4")
    assert code == 0
    line = out.splitlines()[-1]
    assert line.startswith(
        "Tolerance 0.0001, confidence 90 %: 0 of 2 answers by the operator, 2 by"
    )
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as data:
        assert data["source"].values.tolist() == [1, 1]
        assert data.attrs["solver_answers"] == "2"
        assert data["u"].values[0, 0] == pytest.approx(
            np.sin(2 * np.pi * data["x"].values), abs=1e-6
        )
    code, out, _ = piop(*arguments, "--refine", "--json")
    assert code == 0
    assert json.loads(out)["error_bound"][0] < bound[0]
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as data:
        assert data.attrs["refined"].startswith("one step of Newton's method on ")
    code, _, err = piop(*arguments, "--confidence", "0.99")
    assert code == 2
    assert "confidence: 0.99 needs a calibration of at least 99 inputs; there are 22" in err


BAD_PREDICTIONS = {
    "no input": ([], "--input is missing"),
    "a missing file": (["--input", "no.csv"], "no.csv: no such file"),
    "NaN": (["--input", "nan.csv"], "nan.csv:2: column 'u0': nan is not a finite number"),
    "a sensor outside": (["--input", "out.csv"], "x = 1.5 in sample 0 is outside [0, 1]"),
    "a missing column": (["--input", "other.csv"], "no column 'u0'"),
    "channels": (["--input", "many.npz"], "'u0' has 3 channels"),
    "bad ranges": (["--input", "good.csv", "--at", "t=0:1"], "not a position or a range"),
    "a time outside": (["--input", "good.csv", "--at", "t=0:9:2, x=0"], "is outside [0, 1]"),
    "two places": (["--input", "good.csv", "--at", "t=0", "--queries", "q"], "not both"),
    "a folder": (["--input", "good.csv", "--at", "t=0, x=0", "--output", "."], "no ending is not"),
    "another format": (
        ["--input", "good.csv", "--at", "t=0, x=0", "--output", "p.csv"],
        "p.csv: .csv is not the ending of a format that is written; end the name in .nc",
    ),
    "a file that is there": (
        ["--input", "good.csv", "--at", "t=0, x=0", "--output", "there.nc"],
        "there.nc: exists already; give another name, or replace it with --force",
    ),
    "no folder": (
        ["--input", "good.csv", "--at", "t=0, x=0", "--output", "a/b.nc"],
        "no such folder",
    ),
    "a device": (
        ["--input", "good.csv", "--at", "t=0, x=0", "--output", "full.nc"],
        "regular file",
    ),
}


@pytest.mark.parametrize("case", BAD_PREDICTIONS)
def test_bad_predictions_are_refused(case, piop, finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text("x,u0\n0.5,1\n")
    (tmp_path / "nan.csv").write_text("x,u0\n0.5,nan\n")
    (tmp_path / "out.csv").write_text("x,u0\n1.5,1\n")
    (tmp_path / "other.csv").write_text("x,v\n0.5,1\n")
    np.savez(tmp_path / "many.npz", u0=np.zeros((2, 1, 3)), x=[0.5])
    (tmp_path / "there.nc").write_text("mine")
    (tmp_path / "full.nc").symlink_to("/dev/full")
    before = {p.name for p in tmp_path.iterdir()}
    arguments, message = BAD_PREDICTIONS[case]
    code, out, err = piop("predict", finished, "--output", "p.nc", *arguments)
    assert message in err
    assert (code, out) == (2, "")
    assert {p.name for p in tmp_path.iterdir()} == before
    assert (tmp_path / "there.nc").read_text() == "mine"
