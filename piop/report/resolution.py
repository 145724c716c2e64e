"""The figure of discretisation: errors over sensors and over grids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from piop.report.figures import save
from piop.report.style import LINES, dress, figure, legend, plain

if TYPE_CHECKING:
    from piop.run import Run

MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw_discretisation(run: Run, found: Mapping[str, Any]) -> Path:
    """Draw errors over resolutions into a run's figures.

    Args:
        run: Whose folder.
        found: What :meth:`piop.run.Run.discretisation` gave.

    Raises:
        PiopError: The file cannot be written.
    """
    folder = run.path / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    return save(resolution_figure(found), folder / "discretisation.png")


def resolution_figure(found: Mapping[str, Any]) -> Figure:
    """Error over the points of the grid, a line for each choice of sensors, and the other way.

    Args:
        found: What ``discretisation.json`` holds.
    """
    errors = {(c["sensors"], c["grid"]): c["mean"] for c in found["relative_l2"]}
    seen, grids = list(found["sensors"]), list(found["grids"])
    fig = figure(9.2, 3.2)
    left, right = fig.subplots(1, 2, sharey=True)
    series = {f"{s} of sensors" if "%" in s else f"{s} sensors": s for s in seen}
    for style, (name, s) in enumerate(series.items()):
        _line(left, grids, [errors[s, g] for g in grids], name, style)
    dress(left, "Other grids", "points of the grid per axis", "relative L2 error")
    for style, g in enumerate(grids):
        _line(right, seen, [errors[s, g] for s in seen], f"grid {g}", style)
    dress(right, "Other sensors", "sensors of the input")
    if all(isinstance(e, float) and math.isfinite(e) and e > 0 for e in errors.values()):
        left.set_yscale("log")
    for axes in (left, right):
        plain(axes)
        legend(axes)
    return fig


def _line(
    axes: Axes, places: Sequence[str], errors: Sequence[float], name: str, style: int
) -> None:
    """Resolutions stand at even distances, for they may be counts of one axis or of several."""
    axes.plot(
        range(len(places)),
        errors,
        color=LINES[style % len(LINES)],
        marker=MARKS[style % len(MARKS)],
        markersize=4,
        linewidth=1.2,
        label=name,
    )
    axes.set_xticks(range(len(places)), places)
