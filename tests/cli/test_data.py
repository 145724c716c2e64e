"""`data`: reference solutions that are right, reproducible and say where they come from."""

from __future__ import annotations

import json

import numpy as np
import torch
import xarray as xr
from scipy.io import savemat

from piop.generation import generate
from piop.problem import Problem
from piop.sampling import Draws, sample_inputs

SMALL = ["--set", "functions=2", "--set", "queries=16", "--no-compile", "--device", "cpu"]


def test_reference_data_hold_inputs_solutions_and_where_they_come_from(piop, tmp_path):
    path = tmp_path / "d.nc"
    code, out, _ = piop("data", "heat", "-n", 3, "--seed", 5, "--output", path, "--json")
    assert code == 0
    assert json.loads(out)["error_estimate"]["max"] < 1e-6
    with xr.open_dataset(path, engine="h5netcdf") as data:
        assert data["u"].dims == ("sample", "t", "x")
        # each mode k of the heat equation decays as exp(-nu (2 pi k)^2 t)
        modes = np.fft.rfft(data["u0"].values, axis=-1)
        decay = np.exp(-0.01 * (2 * np.pi * np.arange(modes.shape[-1])) ** 2)
        last = np.fft.irfft(modes * decay, n=data.sizes["x"], axis=-1)
        np.testing.assert_allclose(data["u"].values[:, -1], last, atol=1e-6)
        assert data.attrs["seed"] == 5
        assert "name: heat" in data.attrs["piop_spec"]
    code, out, _ = piop("data", "--inspect", path)
    assert code == 0
    assert "u(sample: 3, t: 51, x: 128)" in out
    assert json.loads(piop("data", "--inspect", path, "--json")[1])["format"] == "netcdf"


def test_files_made_before_purposes_had_names_can_be_made_again(tmp_path):
    heat, found = Problem.from_file("heat"), {}
    for draws in (1, 2):
        generate(heat, 2, tmp_path / f"{draws}.nc", seed=5, draws=draws)
        with xr.open_dataset(tmp_path / f"{draws}.nc", engine="h5netcdf") as data:
            assert data.attrs["draws"] == draws
            found[draws] = torch.tensor(data["u0"].values)
            x = torch.tensor(data["x"].values)[None, :, None]
    before = sample_inputs(heat, Draws(5, 0, torch.arange(2)))["u0"](x)
    torch.testing.assert_close(found[1], before)
    torch.testing.assert_close(found[2], heat.sample(2, seed=5)["u0"](x))
    assert not torch.isclose(found[1], found[2]).all(1).any()


def test_a_sample_does_not_depend_on_how_many_there_are(piop, tmp_path, monkeypatch):
    monkeypatch.setattr("piop.generation.BATCH", 2)
    for count in (1, 5):
        piop("data", "heat", "-n", count, "--output", tmp_path / f"{count}.nc")
    one, five = (xr.load_dataset(tmp_path / f"{n}.nc", engine="h5netcdf") for n in (1, 5))
    np.testing.assert_allclose(one["u0"].values, five["u0"].values[:1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(one["u"].values, five["u"].values[:1], rtol=0, atol=1e-12)
    assert np.ptp(five["u0"].values[:, 0]) > 0.1  # and samples do differ


def test_training_on_reference_data_alone(piop, tmp_path):
    piop("data", "heat", "-n", 4, "--output", tmp_path / "d.nc")
    small = [
        text.replace("functions", "data_functions").replace("queries", "data_queries")
        for text in SMALL
    ]
    arguments = ("--steps", 2, "--data", tmp_path / "d.nc", "--no-physics", "--json", *small)
    code, out, _ = piop("solve", "heat", "--out", tmp_path / "r", *arguments)
    found = json.loads(out)  # one object and nothing else
    assert code == 0
    assert found["run"] == str(tmp_path / "r")
    assert found["steps"] == 2
    assert found["samples"] == len(found["relative_l2"]["per_sample"]) == 1  # a tenth, or one
    assert (tmp_path / "r" / "figures" / "predictions.png").exists()


def test_attributes_of_a_file_give_a_terminal_no_commands(piop, tmp_path):
    data = xr.Dataset({"u": ("x", [1.0])}, attrs={"title": "one\x1b]0;two\x07\nthree"})
    data.to_netcdf(tmp_path / "d.nc", engine="h5netcdf")
    code, out, _ = piop("data", "--inspect", tmp_path / "d.nc")
    assert code == 0
    assert "    one\ufffd]0;two\ufffd\n    three" in out


def test_a_spec_may_be_held_to_a_file(piop, tmp_path):
    values = np.arange(50.0).reshape(2, 5, 5)
    savemat(tmp_path / "d", {"coeff": values, "sol": values}, appendmat=False)
    code, out, _ = piop("data", "darcy", "--inspect", tmp_path / "d")
    assert code == 0
    assert "coordinate x: 5 points in [0, 1]" in out
    assert "for the spec darcy_fno" in out
    assert "Fits darcy: u(x, y); inputs: a at 25 points" in out
    code, _, err = piop("data", "heat", "--inspect", tmp_path / "d")
    assert code == 2
    assert "no variable 't' (a coordinate of 'u'); found: a, u, x, y" in err


def test_a_file_of_another_layout_is_refused_without_a_traceback(piop, tmp_path):
    savemat(tmp_path / "d", {"b": np.ones((2, 3))}, appendmat=False)
    arguments = ("solve", "heat", "--steps", 1, "--no-physics", "--out", tmp_path / "r")
    code, _, err = piop(*arguments, "--data", tmp_path / "d")
    assert code == 2
    assert "found: b. Expected the names of the spec" in err


def test_noise_is_as_large_as_asked_and_of_the_sample_alone(piop, tmp_path, monkeypatch):
    monkeypatch.setattr("piop.generation.BATCH", 2)
    found = {}
    for name, count, level in (("clean", 3, 0), ("noisy", 3, 0.05), ("one", 1, 0.05)):
        path = tmp_path / f"{name}.nc"
        assert piop("data", "heat", "-n", count, "--noise", level, "--output", path)[0] == 0
        found[name] = xr.load_dataset(path, engine="h5netcdf")
    away = found["noisy"]["u"].values - found["clean"]["u"].values
    spread = found["clean"]["u"].values.reshape(3, -1).std(1)
    np.testing.assert_allclose(away.reshape(3, -1).std(1) / spread, 0.05, rtol=0.05)
    assert abs(np.corrcoef(away[0].ravel(), away[1].ravel())[0, 1]) < 0.05
    np.testing.assert_allclose(found["one"]["u"], found["noisy"]["u"][:1], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["noisy"]["u0"], found["clean"]["u0"])
    assert found["noisy"].attrs["noise"] == 0.05


def test_a_problem_without_inputs_has_one_solution(piop, tmp_path):
    code, _, err = piop("data", "poisson_lshape", "-n", 2, "--output", tmp_path / "d.nc")
    assert code == 2
    assert "n = 2: poisson_lshape has no inputs and so one solution: give n = 1 (-n 1), or" in err
    assert not list(tmp_path.iterdir())


def test_noise_makes_different_samples_of_one_solution(piop, tmp_path):
    path = tmp_path / "d.nc"
    options = ["--noise", 0.1, "--tolerance", 0.1]
    assert piop("data", "poisson_lshape", "-n", 3, "--output", path, *options)[0] == 0
    with xr.open_dataset(path) as found:
        u = found["u"].values
        assert u.shape == (3, found.sizes["point"])
        assert (found["x"].values == found["x"].values[:1]).all()
        assert (np.abs(np.diff(u, axis=0)).max(1) > 0).all()
        assert np.corrcoef(u).min() > 0.9
