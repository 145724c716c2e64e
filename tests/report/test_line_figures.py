"""The figure of discretisation: a line for each choice, on a scale that holds the errors."""

import pytest

from piop.report.line_figures import resolution_figure

FOUND = {
    "sensors": {"25%": {"u0": 4}, "20": {"u0": 20}},
    "grids": ["16", "64", "32x64"],
    "relative_l2": [
        {"sensors": s, "grid": g, "mean": 0.1 * i + 0.01 * j}
        for i, s in enumerate(("25%", "20"), 1)
        for j, g in enumerate(("16", "64", "32x64"))
    ],
}


def test_lines_run_over_grids_for_each_sensors_and_over_sensors_for_each_grid():
    left, right = resolution_figure(FOUND).axes
    assert left.get_legend_handles_labels()[1] == ["25% of sensors", "20 sensors"]
    assert right.get_legend_handles_labels()[1] == ["grid 16", "grid 64", "grid 32x64"]
    assert list(left.get_lines()[1].get_ydata()) == pytest.approx([0.2, 0.21, 0.22])
    assert list(right.get_lines()[2].get_ydata()) == pytest.approx([0.12, 0.22])
    assert [t.get_text() for t in left.get_xticklabels()] == ["16", "64", "32x64"]
    assert left.get_yscale() == "log"


def test_an_error_of_zero_is_drawn_on_a_scale_that_has_it():
    cells = [{**c, "mean": 0.0} for c in FOUND["relative_l2"]]
    assert resolution_figure({**FOUND, "relative_l2": cells}).axes[0].get_yscale() == "linear"
