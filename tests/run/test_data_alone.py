"""Problems without equations: their specs, and training on small files of the published layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.io import savemat

from piop.datasets import inspect_file, read_dataset
from piop.errors import NotSupportedError, SpecError
from piop.generation import generate
from piop.problem import Problem
from piop.problem.describe import to_json, to_text
from piop.run import Run, fit
from tests.report_page import data_of, text_of

SPECS = Path(__file__).parents[2] / "pdes"
SAMPLES = 6


def smooth(generator, *axes):
    """Something to learn, another for each sample: ``[SAMPLES, *axes]``."""
    size = generator.normal(size=(SAMPLES, *[1] * len(axes)))
    mesh = np.meshgrid(*(np.linspace(0, 1, n) for n in axes), indexing="ij")
    return size * np.cos(3 * sum(mesh)) + 1.0


def airfoil(path, generator):
    path.mkdir()
    np.save(path / "NACA_Cylinder_X.npy", smooth(generator, 9, 6))
    np.save(path / "NACA_Cylinder_Y.npy", smooth(generator, 9, 6))
    channels = [channel + smooth(generator, 9, 6) for channel in range(5)]
    np.save(path / "NACA_Cylinder_Q.npy", np.stack(channels, 1))


def plasticity(path, generator):
    output = np.stack([c + smooth(generator, 9, 6, 4) for c in range(4)], -1)
    savemat(path, {"input": smooth(generator, 9), "output": output}, appendmat=False)


def shallow_water(path, generator):
    lat, lon = np.linspace(-1.5, 1.5, 6), np.pi * (np.arange(8) / 4 - 1)
    w, h = (smooth(generator, 3, 6, 8) for _ in range(2))
    along = ("sample", "t", "lat", "lon")
    arrays = {"w": (along, w), "h": (along, h)}
    arrays |= {f"{n}0": (("sample", "lat", "lon"), v[:, 0]) for n, v in (("w", w), ("h", h))}
    data = xr.Dataset(arrays, {"t": [0.0, 10.0, 20.0], "lat": lat, "lon": lon})
    data.to_netcdf(path, engine="h5netcdf")


def era5(path, generator):
    lat, lon = np.linspace(-88, 88, 6), 45.0 * np.arange(8)
    past, future = smooth(generator, 7, 6, 8), smooth(generator, 7, 6, 8)
    data = xr.Dataset(
        {
            "t2m": (("sample", "t", "lat", "lon"), future),
            "past": (("sample", "day", "lat", "lon"), past),
            "past_t": (("day",), np.arange(-6.0, 1.0)),
        },
        {"t": np.arange(1.0, 8.0), "lat": lat, "lon": lon},
    )
    data.to_netcdf(path, engine="h5netcdf")


MAKERS = {f.__name__: f for f in (airfoil, plasticity, shallow_water, era5)}


@pytest.fixture(params=MAKERS)
def case(request, tmp_path):
    """A problem and a file of its layout, under a name that tells nothing."""
    MAKERS[request.param](tmp_path / "file", np.random.default_rng(0))
    return Problem.from_file(request.param), tmp_path / "file"


def test_it_is_trained_on_a_file_of_its_layout(case, tmp_path):
    problem, path = case
    settings = {"data_functions": 2, "data_queries": 16, "width": 8, "blocks": 1, "heads": 2}
    run = fit(
        problem, steps=3, data=path, physics=False, out=tmp_path / "r", settings=settings,
        device="cpu", compile=False, samples=2,
    )  # fmt: skip
    losses = [row["loss"] for row in run.metrics]
    assert np.isfinite(losses).all()
    again = Run.load(run.path).evaluate(samples=1, write=False)
    assert 0 < again["relative_l2"]["mean"] < 3
    assert again["residual"] == {}
    page = run.report().read_text()
    assert "No equations: the solutions are known from data alone." in text_of(page)
    assert [u["name"] for u in data_of(page)["fields"]["unknowns"]] == list(problem.unknowns)
    assert data_of(page)["residual"] is None


def test_physics_and_a_reference_are_refused_with_the_reason(case, tmp_path):
    problem, path = case
    for action in (
        lambda: fit(problem, steps=1, data=path, out=tmp_path / "r"),
        lambda: generate(problem, 1, tmp_path / "d.nc"),
        lambda: problem.capabilities.reference.require(),
    ):
        with pytest.raises(NotSupportedError, match="data alone"):
            action()
    problem.capabilities.data.require()
    assert "--data FILE --no-physics" in to_json(problem)["supported"]
    assert "known from data alone" in to_text(problem)


def test_the_spec_survives_writing(case):
    problem, _ = case
    assert Problem.from_yaml(problem.to_yaml()).hash == problem.hash
    assert "equations: data" in problem.to_yaml()


def test_the_layout_names_the_spec(tmp_path):
    for name in ("airfoil", "plasticity"):
        MAKERS[name](tmp_path / name, np.random.default_rng(0))
        assert inspect_file(tmp_path / name)["as_spec"]["spec"] == name


def test_airfoils_are_read_with_their_meshes(tmp_path):
    airfoil(tmp_path / "d", np.random.default_rng(0))
    data = read_dataset(tmp_path / "d", Problem.from_file("airfoil"))
    stored = np.load(tmp_path / "d" / "NACA_Cylinder_Q.npy")
    np.testing.assert_array_equal(data.values["mach"], stored[:, 4])
    x = np.load(tmp_path / "d" / "NACA_Cylinder_X.npy")
    np.testing.assert_array_equal(data.inputs["px"].values[..., 0], x.reshape(SAMPLES, -1))
    assert data.inputs["px"].points[0, 7].tolist() == [1 / 8, 1 / 5]


def test_plasticity_is_read_with_its_times(tmp_path):
    plasticity(tmp_path / "d", np.random.default_rng(0))
    data = read_dataset(tmp_path / "d", Problem.from_file("plasticity"))
    assert data.axes["t"].tolist() == [0.25, 0.5, 0.75, 1.0]
    found = data.values["uy"]  # [sample, t, s, r]
    assert found.shape == (SAMPLES, 4, 9, 6)
    assert 2.0 < float(found.mean()) < 6.0  # the fourth channel is 3 above the first


BARE = """
piop: 1
name: bare
space: {x: [0, 1]}
unknowns: [u]
inputs: {a: {of: [x], law: data}}
equations: data
"""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("parameters: {nu: 1}\n", "parameters: without equations .* nothing takes it"),
        ("initial: {u: a}\n", "initial: without equations"),
        ("boundary: {x: {dirichlet: {u: 0}}}\n", "only 'periodic' means something"),
    ],
)
def test_what_only_equations_take_is_refused(more, message):
    assert Problem.from_yaml(BARE).residuals == ()
    with pytest.raises(SpecError, match=message):
        Problem.from_yaml(BARE + more)


def test_forgotten_equations_are_still_missed():
    with pytest.raises(SpecError, match="'equations' is missing"):
        Problem.from_yaml(BARE.replace("equations: data\n", ""))
    with pytest.raises(SpecError, match="where a list is needed"):
        Problem.from_yaml(BARE.replace("equations: data", "equations: date"))


def test_an_input_of_data_alone_cannot_be_drawn_for_equations():
    problem = Problem.from_yaml(
        BARE.replace("equations: data", "equations: [-dxx(u) = a]")
        + "boundary: {x: {dirichlet: {u: 0}}}\n"
    )
    with pytest.raises(NotSupportedError, match="inputs a, because their distribution is data"):
        problem.capabilities.reference.require()
    problem.capabilities.data.require()
