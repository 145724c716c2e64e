"""What the page holds is what was compared, for every shape of problem, within its size."""

import json

import numpy as np
import pytest
import torch

from piop.fields import FunctionSamples
from piop.report import page_data
from piop.report.comparison import Comparison
from piop.report.held_out_errors import HeldOutErrors
from piop.report.layouts import Cloud, View
from piop.web import LEVELS, script_json, unpack

ERRORS = np.array([0.1, 0.3, 0.2])
SAMPLES = HeldOutErrors(np.array([1, 2, 4]), ERRORS, ERRORS, bound=np.array([0.2, np.nan, 0.1]))
NAMES, PLACES = ["best", "median", "worst"], [0, 2, 1]
UNITS = {"u": "m", "t": "s"}


def compared(view, shape, **more):
    draw = np.random.default_rng(0)
    truth, error = draw.normal(size=(3, *shape)), 1e-4 * draw.normal(size=(3, *shape))
    return Comparison(view, {"u": truth}, {"u": truth + error}, NAMES, SAMPLES, PLACES, **more)


def decoded(shown):
    data = json.loads(script_json(page_data.comparison_data(shown, UNITS, {"a": ("x", "y")})))
    assert [r["number"] for r in data["rows"]] == [1, 4, 2]
    assert [r["error"] for r in data["rows"]] == [0.1, 0.2, 0.3]
    return data


@pytest.mark.parametrize(
    ("axes", "time"),
    [
        ({"t": 5}, "t"),
        ({"x": 7}, None),
        ({"t": 5, "x": 7}, "t"),
        ({"x": 6, "y": 5}, None),
        ({"t": 3, "x": 6, "y": 5}, "t"),
        ({"t": 3, "x": 4, "y": 5, "z": 6}, "t"),
    ],
)
def test_fields_on_grids_come_back(axes, time):
    view = View({name: np.linspace(0, 1, count) for name, count in axes.items()}, time, UNITS)
    shown = compared(view, tuple(axes.values()))
    fields = decoded(shown)["fields"]
    assert (fields["kind"], fields["time"]) == ("grid", time)
    assert [(a["name"], len(a["values"])) for a in fields["axes"]] == list(axes.items())
    truth, error = unpack(fields["reference"]["u"]), unpack(fields["error"]["u"])
    difference = shown.prediction["u"] - shown.reference["u"]
    assert np.abs(truth - shown.reference["u"]).max() < np.ptp(shown.reference["u"]) / LEVELS
    # the error is as exact as itself, however small it is beside the solution
    assert np.abs(error - difference).max() < np.ptp(difference) / LEVELS


def test_fields_at_points_come_back():
    points = np.random.default_rng(1).uniform(size=(40, 2))
    triangles = np.array([[0, 1, 2], [3, 4, 5]])
    cloud = Cloud(("x", "y"), [points] * 3, [triangles] * 3, UNITS)
    shown = compared(cloud, (40,))
    shown = Comparison(**{**vars(shown), "space_view": cloud, "space_errors": {"u": points[:, 0]}})
    data = decoded(shown)
    assert data["fields"]["kind"] == "cloud"
    assert np.allclose(unpack(data["fields"]["clouds"][1]["points"]), points, atol=2e-5)
    assert data["fields"]["clouds"][2]["triangles"] == triangles.tolist()
    assert np.allclose(unpack(data["overSpace"]["errors"]["u"]), points[:, 0], atol=2e-5)
    assert data["residual"] is None
    residuals = {"equation 1": np.tile(10.0 * points[:, 0] + 1, (3, 1))}
    inner = Cloud(("x", "y"), [points] * 3, [triangles] * 3, UNITS)
    shown = Comparison(**{**vars(shown), "residual_view": inner, "residuals": residuals})
    found = decoded(shown)["residual"]
    assert (found["kind"], found["place"], found["labels"]) == ("cloud", "", ["x", "y"])
    assert np.allclose(unpack(found["clouds"][1]["points"]), points, atol=2e-5)
    logarithms = unpack(found["equations"][0]["values"])
    assert np.allclose(logarithms, np.log10(residuals["equation 1"]), atol=1e-4)


def test_many_values_are_thinned_to_the_budget(monkeypatch):
    monkeypatch.setattr(page_data, "MOST_VALUES", 6 * 100)
    view = View({"t": np.arange(33.0), "x": np.arange(64.0)}, "t", {})
    shown = compared(view, (33, 64))
    fields = decoded(shown)["fields"]
    kept = unpack(fields["reference"]["u"])
    assert kept[0].size <= 100
    t, x = (np.array(a["values"]).astype(int) for a in fields["axes"])
    assert np.allclose(kept, shown.reference["u"][:, t][:, :, x], atol=1e-3)


def test_a_page_of_many_unknowns_stays_below_five_megabytes():
    view = View({"t": np.arange(101.0), "x": np.arange(256.0)}, "t", {})
    names = [f"u{k}" for k in range(12)]
    values = np.random.default_rng(0).normal(size=(3, 101, 256))
    fields = dict.fromkeys(names, values)
    shown = Comparison(view, fields, fields, NAMES, SAMPLES, PLACES)
    assert len(script_json(page_data.comparison_data(shown, {}, {}))) < 4e6


def test_errors_residuals_and_bounds_come_back():
    view = View({"t": np.linspace(0, 1, 4), "x": np.linspace(0, 1, 6)}, "t", UNITS)
    residual = 10.0 ** np.random.default_rng(2).uniform(-3, 0, (3, 4, 6))
    residual[0, 0, 0] = 0.0
    over = np.array([[np.nan, 0.1, 0.2, 0.3], [np.nan, 0.2, 0.4, 0.6], [np.nan, 0.3, 0.6, 0.9]])
    shown = compared(
        view,
        (4, 6),
        residuals={"equation 1": -residual},
        times=np.linspace(0, 1, 4),
        errors=over,
        baselines={"stays at u0": np.ones(4)},
        space_view=View({"x": np.linspace(0, 1, 6)}, None, UNITS),
        space_errors={"u": np.arange(6.0)},
    )
    data = decoded(shown)
    found = 10 ** unpack(data["residual"]["equations"][0]["values"])
    assert np.allclose(found[residual > 0], residual[residual > 0], rtol=1e-3)
    assert found[0, 0, 0] == pytest.approx(residual.max() * 1e-5, rel=1e-3)
    assert data["overTime"]["label"] == "t [s]"
    assert np.allclose(unpack(data["overTime"]["median"]), over[1], equal_nan=True)
    assert np.allclose(unpack(data["overTime"]["mean"]), over[1], equal_nan=True)
    assert np.allclose(unpack(data["overSpace"]["errors"]["u"]), np.arange(6), atol=1e-3)
    assert np.allclose(unpack(data["samples"]["bound"]), [0.2, np.nan, 0.1], equal_nan=True)


def test_sensors_are_shown_as_scalars_curves_grids_and_points():
    view = View({"x": np.linspace(0, 1, 4), "y": np.linspace(0, 1, 4)}, None, UNITS)
    grid = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0)).expand(3, -1, -1)
    scattered = torch.rand(3, 7, 2)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 5:] = False
    line = torch.tensor([0.5, 0.1, 0.9])[None, :, None].expand(3, -1, -1)
    inputs = {
        "k": FunctionSamples(torch.zeros(3, 1, 0), torch.tensor([1.0, 2.0, 3.0])[:, None, None]),
        "a": FunctionSamples(grid, torch.arange(36.0).reshape(3, 12, 1)),
        "b": FunctionSamples(scattered, scattered[..., :1], mask),
        "c": FunctionSamples(line, 2 * line),
        "past": FunctionSamples(torch.zeros(3, 5, 3), torch.zeros(3, 5, 1)),
    }
    data = decoded(compared(view, (4, 4), inputs=inputs))
    k, a, b, c = data["inputs"]  # the past of a solution is not among them
    assert [i["dimension"] for i in (k, a, b, c)] == [0, 2, 2, 1]
    assert [unpack(row["values"]).tolist() for row in k["rows"]] == [[1.0], [2.0], [3.0]]
    assert a["of"] == ["x", "y"]
    assert a["rows"][1]["grid"] == {"x": [0, 1, 2], "y": [0, 1, 2, 3]}
    assert unpack(a["rows"][1]["values"]).tolist() == list(range(12, 24))
    assert [row["count"] for row in b["rows"]] == [7, 5, 7]
    assert np.allclose(unpack(c["rows"][0]["values"]), [0.2, 1.0, 1.8])  # in the order of x


def test_losses_weights_and_inferred_parameters_are_kept():
    rows = [
        {
            "step": s,
            "loss": 1 / s,
            "data": 0.5,
            "seconds": s,
            "learning_rate": 0.1,
            "inferred/nu": s,
        }
        for s in range(1, 2001)
    ]
    found = page_data.training_data(rows, {"data": 2.0})
    loss, data = found["losses"]
    assert (loss["name"], loss["weight"], data["name"], data["weight"]) == ("loss", None, "data", 2)
    steps = unpack(loss["x"])
    assert len(steps) == page_data.MOST_ROWS
    assert (steps[0], steps[-1]) == (1, 2000)
    assert np.allclose(unpack(loss["y"]), 1 / steps)
    assert found["inferred"][0]["name"] == "nu"
    assert found["weights"] == []
    adapting = [row | {"weight/data": 3.0 * row["step"]} for row in rows]
    found = page_data.training_data(adapting, {"data": 2.0})
    assert [loss["name"] for loss in found["losses"]] == ["loss", "data"]  # a weight is no loss
    assert found["losses"][1]["weight"] is None
    assert np.allclose(unpack(found["weights"][0]["y"]), 6 * unpack(found["weights"][0]["x"]))
    assert page_data.training_data([], {}) is None
