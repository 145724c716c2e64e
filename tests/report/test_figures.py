"""Figures hold what they should, for every shape of problem, and belong to no global state."""

from __future__ import annotations

import errno
import sys

import numpy as np
import pytest

from piop.errors import PiopError
from piop.report import Comparison, draw_figures, figures
from piop.report.field_figures import field_figure, residual_figure
from piop.report.held_out_errors import HeldOutErrors
from piop.report.layouts import Cloud, View, triangulate
from piop.report.line_figures import error_figure, inferred_figure, loss_figure
from piop.report.style import error_colours, field_colours, label

T, X, Y, Z = np.linspace(0, 1, 5), np.linspace(0, 1, 8), np.linspace(0, 2, 6), np.linspace(0, 1, 4)
ROWS = [
    {
        "step": s,
        "loss": 1 / s,
        "residual": 0.5 / s,
        "initial": 0.0,
        "seconds": s,
        "learning_rate": 1,
    }
    for s in range(1, 30)
]


SAMPLES = HeldOutErrors(np.arange(1, 4), np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.3]))


def field(*axes):
    """Three samples of a field that is different at every point."""
    shape = tuple(map(len, axes))
    return np.arange(3 * np.prod(shape), dtype=float).reshape(3, *shape) - 5.0


def test_labels_carry_units():
    assert label("x", {"x": "m"}) == "x [m]"
    assert label("y", {"x": "m"}) == "y"


def test_scales_are_symmetric_about_zero_for_fields_of_both_signs():
    assert field_colours(np.array([-1.0, 3.0]))["vmin"] == -3.0
    assert field_colours(np.array([1.0]), np.array([4.0]))["vmax"] == 4.0
    assert field_colours(np.array([1.0, 4.0]))["cmap"] == "viridis"
    assert error_colours(np.zeros(3))["vmax"] == 1.0  # an exact prediction still has a scale


def test_losses_leave_out_what_is_always_zero():
    top, bottom = loss_figure(ROWS).axes
    assert top.get_legend_handles_labels()[1] == ["loss", "residual"]
    assert top.get_yscale() == "log"
    assert bottom.get_xlabel() == "step"


def test_inferred_parameters_are_drawn_over_steps_and_are_no_losses():
    rows = [row | {"inferred/nu": 0.1 / row["step"]} for row in ROWS]
    assert loss_figure(rows).axes[0].get_legend_handles_labels()[1] == ["loss", "residual"]
    assert inferred_figure(ROWS, {}, {}) is None
    found = {"nu": {"value": 0.01, "std": 0.002, "interval": [0.006, 0.014]}}
    (axes,) = inferred_figure(rows, found, {"nu": "m²/s"}).axes
    training, said = axes.get_lines()
    assert list(training.get_ydata()) == [row["inferred/nu"] for row in rows]
    assert list(said.get_ydata()) == [0.01, 0.01]
    assert axes.get_ylabel() == "nu [m²/s]"
    assert axes.get_title(loc="left") == "nu = 0.01 ± 0.002"


def test_losses_of_a_single_row_are_drawn():
    assert len(loss_figure(ROWS[:1]).axes[0].get_lines()) == 4


def test_the_error_curve_is_the_median_over_inputs():
    errors = np.array([[0.0, 0.1, 0.2], [0.0, 0.3, 0.4], [0.0, 0.5, 0.9]])
    axes = error_figure(np.arange(3), errors, {"stays": np.ones(3)}, {"t": "s"}).axes[0]
    median, still = axes.get_lines()
    np.testing.assert_allclose(median.get_ydata(), [np.nan, 0.3, 0.4])
    np.testing.assert_allclose(still.get_ydata(), 1.0)
    assert axes.get_xlabel() == "t [s]"


def test_errors_that_are_all_zero_are_drawn_on_a_linear_axis():
    assert error_figure(T, np.zeros((2, 5)), {}, {}).axes[0].get_yscale() == "linear"


def test_one_dimension_and_time_gives_images_and_lines():
    view = View({"t": T, "x": X}, "t", {"x": "m"})
    truth = field(T, X)
    figure = field_figure(view, "u", truth, truth + 1, ["a", "b", "c"])
    panels = [axes for axes in figure.axes if axes.get_xlabel()]
    assert len(panels) == 12
    assert panels[0].get_title(loc="left").startswith("a\n(a) reference u")
    assert (panels[0].get_xlabel(), panels[0].get_ylabel()) == ("t", "x [m]")
    error = panels[2].collections[0].get_array()
    np.testing.assert_allclose(np.asarray(error), 1.0)
    known, predicted = panels[3].get_lines()[:2]
    np.testing.assert_allclose(known.get_ydata(), truth[0, 0])
    np.testing.assert_allclose(predicted.get_ydata(), truth[0, 0] + 1)


def test_images_put_the_first_coordinate_to_the_right():
    view = View({"t": T, "x": X}, "t", {})
    figure = field_figure(view, "u", field(T, X), field(T, X), ["", "", ""])
    shown = np.asarray(figure.axes[0].collections[0].get_array()).reshape(len(X), len(T))
    np.testing.assert_allclose(shown, field(T, X)[0].T)


def test_two_dimensions_show_the_last_time_and_three_the_middle_as_well():
    view = View({"t": T, "x": X, "y": Y}, "t", {})
    assert view.place() == " at t = 1"
    np.testing.assert_array_equal(view.slice(field(T, X, Y)[0]), field(T, X, Y)[0, -1])
    view = View({"t": T, "x": X, "y": Y, "z": Z}, "t", {})
    assert view.place() == " at t = 1, z = 0.667"
    values = field(T, X, Y, Z)[0]
    np.testing.assert_array_equal(view.slice(values), values[-1, :, :, 2])


def test_a_view_with_fewer_points_keeps_every_other_of_each_axis():
    view = View({"t": np.arange(101.0), "x": np.arange(256.0)}, "t", {})
    few = view.with_fewer_points(8192)
    assert [len(axis) for axis in few.axes.values()] == [51, 128]
    assert few.axes["t"][[0, 1, -1]].tolist() == [0, 2, 100]
    assert few.axes["x"][[0, 1, -1]].tolist() == [0, 2, 254]
    cut = View({"t": T, "x": X, "y": Y, "z": Z}, "t", {})
    assert cut.with_fewer_points(len(X) * len(Y)) == cut  # axes that are cut do not count


def test_figures_that_unknowns_share_are_drawn_once(tmp_path, monkeypatch):
    counts = {"residual_figure": 0, "error_figure": 0}

    def counted(name):
        draw = getattr(figures, name)

        def drawing(*given):
            counts[name] += 1
            return draw(*given)

        return drawing

    for name in counts:
        monkeypatch.setattr(figures, name, counted(name))
    truth = field(T, X)
    both = {"u": truth, "v": truth}
    few = View({"t": T, "x": X[::2]}, "t", {})
    comparison = Comparison(
        view=View({"t": T, "x": X}, "t", {}),
        reference=both,
        prediction=both,
        names=["best", "median", "worst"],
        samples=SAMPLES,
        places=[0, 1, 2],
        times=T,
        residuals={"equation 1": field(T, X[::2])},
        errors=np.full((3, len(T)), 0.5),
        residual_view=few,
    )
    assert len(draw_figures(tmp_path, [], comparison)) == 4
    assert counts == {"residual_figure": 1, "error_figure": 1}


@pytest.mark.parametrize(
    ("axes", "time", "count"),
    [({"x": X}, None, 3), ({"t": T}, "t", 3), ({"x": X, "y": Y}, None, 9)],
)
def test_steady_problems_and_single_axes_are_drawn(axes, time, count):
    view = View(axes, time, {})
    values = field(*axes.values())
    figure = field_figure(view, "u", values, values, ["a", "b", "c"])
    assert len([a for a in figure.axes if a.get_xlabel()]) == count
    residual_figure(view, {"equation 1": values}, ["a", "b", "c"])


def test_titles_of_residuals_are_within_the_figure():
    view, titles = View({"t": T, "x": X, "y": X}, "t", {}), ["input 3 (median): error 0.018"] * 3
    drawn = residual_figure(view, {"equation 1": field(X, X)}, titles)
    drawn.draw_without_rendering()
    panels = [axes for axes in drawn.axes if axes.get_xlabel() == "x"]
    assert len(panels) == 3
    for axes in panels:
        assert axes.get_title(loc="left").endswith("\nat t = 1")
        title = axes._left_title.get_window_extent()
        assert 0 <= title.x0 < title.x1 <= drawn.bbox.x1


def test_residuals_at_points_are_drawn_on_triangles():
    points = np.random.default_rng(0).uniform(size=(20, 2))
    cloud = Cloud(("x", "y"), [points] * 2, [triangulate(points, None)] * 2, {})
    figure = residual_figure(cloud, {"equation 1": np.full((2, 20), 0.5)}, ["a", "b"])
    panels = [axes for axes in figure.axes if axes.get_xlabel() == "x"]
    assert [axes.get_title(loc="left").split("\n")[0] for axes in panels] == ["a", "b"]
    assert all(len(axes.collections) == 1 for axes in panels)


def test_all_files_are_written_and_pyplot_is_never_loaded(tmp_path):
    truth = field(T, X)
    shown = Comparison(
        View({"t": T, "x": X}, "t", {}), {"u": truth, "v": truth}, {"u": truth, "v": truth},
        ["best", "median", "worst"], SAMPLES, [0, 1, 2], {"equation 1": truth},
        times=T, errors=np.ones((4, 5)), baselines={"zero": np.ones(5)},
    )  # fmt: skip
    before = "matplotlib.pyplot" in sys.modules
    paths = draw_figures(tmp_path / "figures", ROWS, shown)
    names = {p.name for p in paths}
    assert names == {
        "losses.png", "predictions_u.png", "predictions_v.png", "residual.png",
        "error_over_time.png",
    }  # fmt: skip
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in paths)
    assert ("matplotlib.pyplot" in sys.modules) == before
    assert draw_figures(tmp_path / "none", [], None) == []


def test_a_full_disk_keeps_the_last_figure(tmp_path, monkeypatch):
    (path,) = draw_figures(tmp_path, ROWS, None)
    kept = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    with pytest.raises(PiopError, match="No space left on device"):
        draw_figures(tmp_path, ROWS[:3], None)
    assert path.read_bytes() == kept
