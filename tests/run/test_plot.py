"""Figures of a run as objects of matplotlib."""

import numpy as np
import pytest

from piop.errors import PiopError, UsageError


@pytest.mark.parametrize(
    ("figure", "panels"), [("fields", 12), ("residual", 3), ("error_over_time", 1), ("losses", 1)]
)
def test_every_panel_is_labelled(trained, figure, panels):
    drawn = trained.plot(figure)
    labelled = [axes for axes in drawn.axes if axes.get_title(loc="left") and axes.get_xlabel()]
    assert len(labelled) == panels - (figure == "losses")  # the step size is below the losses
    assert all(axes.get_ylabel() for axes in drawn.axes)


def test_fields_show_the_best_a_median_and_the_worst_held_out_input(trained):
    errors = np.array(trained.evaluate(8, seed=5, write=False)["relative_l2"]["per_sample"])
    truth = trained.held_out(8, seed=5).truth["u"].numpy()  # [inputs, times, positions]
    figure = trained.plot("fields", seed=5)
    panels = [axes for axes in figure.axes if "reference u" in axes.get_title(loc="left")]
    order = errors.argsort()
    for axes, number in zip(panels, (order[0], order[4], order[-1]), strict=True):
        assert axes.get_title(loc="left").startswith(f"input {number + 1} (")
        (mesh,) = axes.collections
        shown = np.asarray(mesh.get_array()).reshape(truth[0].T.shape)
        np.testing.assert_allclose(shown.T, truth[number])


def test_errors_of_all_inputs_are_drawn_in_order(trained):
    errors = trained.evaluate(8, seed=5, write=False)["relative_l2"]["per_sample"]
    drawn = trained.plot("error_over_inputs", seed=5).axes[0].get_lines()[0]
    np.testing.assert_allclose(drawn.get_ydata(), sorted(errors))
    assert trained.plot("error_over_distance", seed=5).axes[0].get_lines()[0].get_xdata().min() > 0
    assert trained.plot("error_over_space", seed=5).axes[0].get_lines()[0].get_ydata().max() > 0


def test_a_figure_is_written_in_the_format_of_its_name(trained, tmp_path):
    trained.plot("losses", tmp_path / "l.pdf")
    assert (tmp_path / "l.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(UsageError, match=r"'xyz' is not a format of figures; one of .*png"):
        trained.plot("losses", tmp_path / "l.xyz")
    before = (tmp_path / "l.pdf").write_text("mine")
    with pytest.raises(UsageError, match=r"l\.pdf: exists already.*force=True"):
        trained.plot("losses", tmp_path / "l.pdf")
    assert (tmp_path / "l.pdf").stat().st_size == before
    trained.plot("losses", tmp_path / "l.pdf", force=True)
    assert (tmp_path / "l.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("name", "message"),
    [("f.xyz", "'xyz' is not a format"), ("missing/f.png", "missing: there is no such folder")],
)
def test_a_file_that_cannot_be_written_is_refused_before_references(
    trained, tmp_path, monkeypatch, name, message
):
    def compared(*_):
        raise AssertionError("references were solved")

    monkeypatch.setattr("piop.report.figures.compare", compared)
    with pytest.raises(PiopError, match=message):
        trained.plot("fields", tmp_path / name)
    with pytest.raises(PiopError, match="missing: there is no such folder"):
        trained.report(tmp_path / "missing/r.html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"figure": "field"},
            "'field' is not one of fields, residual, error_over_time,",
        ),
        ({"figure": "bound_over_error"}, "error bounds: piop evaluate RUN --calibrate 150"),
        ({"figure": "inferred"}, "'inferred' needs parameters that are inferred, which"),
        ({"figure": "discretisation"}, r"call run\.discretisation"),
        ({"figure": "fields", "unknown": "v"}, "'v' is not an unknown of the problem; one of u"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_reason(trained, arguments, message):
    with pytest.raises(UsageError, match=message):
        trained.plot(**arguments)
