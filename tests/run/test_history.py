"""Ten in, the rest out: operators that see the past of the solution, trained on data alone."""

import math

import pytest
import torch
import xarray as xr

from piop.datasets import read_dataset
from piop.errors import DataError, NotSupportedError, SpecError
from piop.generation import generate
from piop.problem import Problem
from piop.problem.describe import to_text
from piop.problem.inputs import channels_of, history_of, observed_times, query_coordinates
from piop.run import Run, fit
from tests.datasets.test_history import N, flow
from tests.report_page import data_of

SMALL = {
    "pit": {"width": 8, "blocks": 1, "heads": 2},
    "deeponet": {},
    "fno": {},
    "oformer": {"preset": "march", "steps": 3},
    "ipot": {"preset": "march", "steps": 3},
    "position_attention": {},
    "galerkin": {},
}

FAST = ("pit", "fno", "oformer")  # points, grids, steps; the others are slow together


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Sixteen trajectories of the reference, t = 0 … 6."""
    path = tmp_path_factory.mktemp("history") / "d.nc"
    generate(flow(), 16, path, tolerance=1e-4)
    return path


def test_a_reference_data_set_holds_the_whole_trajectory(made):
    with xr.open_dataset(made) as found:
        assert found["t"].values.tolist() == [0, 1, 2, 3, 4, 5, 6]
        assert "past" not in found.data_vars
        assert {"w", "start"} <= set(found.data_vars)
        start = found["start"].values
    data = read_dataset(made, flow())
    assert data.axes["t"].tolist() == [3, 4, 5, 6]
    # Every wave moves with speed 1, a period in each time, so what is left is decay.
    last = data.inputs["past"].values[..., -1].reshape(16, N, N)
    assert torch.equal(last, data.values["w"][:, 0])
    assert float(last.square().mean()) < float((start**2).mean())


@pytest.mark.parametrize(
    "backbone", [b if b in FAST else pytest.param(b, marks=pytest.mark.slow) for b in SMALL]
)
def test_it_is_trained_judged_and_asked(made, tmp_path, backbone):
    settings = {"data_functions": 4, **SMALL[backbone]}
    run = fit(
        flow(), steps=3, data=made, physics=False, backbone=backbone, out=tmp_path / "r",
        settings=settings, device="cpu", compile=False, samples=2,
    )  # fmt: skip
    again = Run.load(run.path)
    found = again.evaluate(samples=1, write=False)
    assert 0 < found["relative_l2"]["mean"] < 100
    assert found["per_time"]["t"] == [4, 5, 6]  # the rest, without what was shown
    assert "stays at u0" in found["baselines"]
    assert data_of(again.report().read_text())["inputs"] == []  # the past is not a function
    data = read_dataset(made, flow())
    seen = {"past": data.inputs["past"]}
    predicted = again.predict(seen)
    assert predicted["w"].shape == (16, 3, N, N)
    grid = data.inputs["past"].values.reshape(16, N, N, 3)
    same = again.predict({"past": grid})
    assert (abs(same["w"] - predicted["w"]) < 1e-5).all()
    other = again.predict({"past": grid.flip(-1)})
    assert float(abs(other["w"] - predicted["w"]).max()) > 1e-4  # the order of the times is seen
    with pytest.raises(DataError, match=r"t = 1 is outside \[3, 6\]"):
        again.predict(seen, {"t": 1.0, "x": 0.0, "y": 0.0})
    with pytest.raises(DataError, match="has 2 channels, it is a history of 3 values"):
        again.predict({"past": grid[..., 1:]})


def test_its_statistics_are_those_of_the_data(made, tmp_path):
    run = fit(
        flow(), steps=1, data=made, physics=False, out=tmp_path / "r", settings=SMALL["pit"],
        device="cpu", compile=False, samples=0,
    )  # fmt: skip
    past = torch.cat([d.inputs["past"].values for d in [read_dataset(made, flow())]])
    assert run.statistics.input_std["past"] == pytest.approx(float(past.std()), rel=0.2)


def test_physics_is_refused_with_the_reason(made, tmp_path):
    with pytest.raises(
        NotSupportedError, match=r"past, because its distribution is history: .* a past"
    ):
        fit(flow(), steps=1, data=made, out=tmp_path / "r")
    assert "--no-physics" in to_text(flow())


def test_what_is_seen_and_what_is_asked_for():
    problem = flow(("u", "v"), times=3, until=3)
    item = history_of(problem)
    assert observed_times(problem, item) == (1, 2, 3)
    assert channels_of(problem, item) == 6
    assert channels_of(problem, problem.inputs[0]) == 1
    time = query_coordinates(problem)[0]
    assert (time.name, time.low, time.high) == ("t", 3, 6)


@pytest.mark.parametrize(
    ("name", "end"),
    [("1e-3", 50), ("1e-4", 30), ("1e-5", 20), ("mix", 30)],
)
def test_navier_stokes_sees_ten_and_is_asked_for_the_rest(name, end):
    problem = Problem.from_file(f"navier_stokes_{name}")
    item = history_of(problem)
    assert observed_times(problem, item) == tuple(range(1, 11))
    assert problem.save[0] == end + 1
    assert query_coordinates(problem)[0].high == end
    visible = [i.name for i in problem.visible_inputs]
    assert visible == (["nu", "past"] if name == "mix" else ["past"])
    # The equations are those of the spec that begins at the start, which other tests solve.
    base = Problem.from_file("navier_stokes")
    nu = next((i.symbol for i in problem.inputs if i.name == "nu"), None)
    value = float(name) if nu is None else math.nan
    for own, known in zip(problem.residuals, base.residuals, strict=True):
        left = own if nu is None else own.xreplace({nu: 1e-3})
        atoms = [a for a in known.atoms() if a.is_Number and abs(abs(float(a)) - 1e-3) < 1e-15]
        others = {a: a * value * 1000 for a in atoms}
        right = known if nu is not None else known.xreplace(others)
        gap = (left - right).expand()
        assert all(abs(float(c)) < 1e-15 for c in gap.as_coefficients_dict().values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of": ["t", "x", "y"]}, "a history is observed at points of space, so it is of"),
        ({"hidden": True}, "a history is there to be seen"),
        ({"until": 6}, "6 is not inside the time interval"),
        ({"times": 0}, "times"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(SpecError, match=message):
        changed(past=change)


def changed(**changes):
    words = {
        "name": "flow",
        "time": {"t": [0, 6]},
        "space": {"x": [0, 1], "y": [0, 1]},
        "unknowns": ["w"],
        "inputs": {"past": {"of": ["x", "y"], "law": "history", "until": 3, "times": 3}},
        "equations": ["dt(w) + dx(w) = 0.01*lap(w)"],
        "initial": {"w": "sin(2*pi*x)"},
        "boundary": {"x": "periodic", "y": "periodic"},
    }
    words["inputs"]["past"] |= changes.pop("past", {})
    return Problem(**words | changes)


def test_equations_hold_no_history_and_there_is_one_at_most():
    with pytest.raises(SpecError, match="hold the solution itself, not its history"):
        changed(equations=["dt(w) + dx(w) = past"])
    law = {"of": ["x", "y"], "law": "history", "until": 3}
    with pytest.raises(SpecError, match="one history at most"):
        changed(inputs={"past": law, "other": law})
