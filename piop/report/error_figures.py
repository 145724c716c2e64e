"""Figures of the errors of all held-out inputs: in order, over space, distance and bound."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from piop.report.field_figures import PANEL, cloud_panel, image_panel
from piop.report.held_out_errors import HeldOutErrors
from piop.report.layouts import Cloud, View
from piop.report.style import (
    GREY,
    LINES,
    error_colours,
    figure,
    label,
    legend,
    letter,
    logarithmic,
    style_lines,
)

ERROR = "relative L2 error"


def inputs_figure(samples: HeldOutErrors) -> Figure:
    """Draw the error of every held-out input, in order of size."""
    fig = figure(4.2, 3.0)
    axes = fig.subplots()
    errors = np.sort(samples.error)
    axes.plot(np.arange(1, len(errors) + 1), errors, "o", color=LINES[0], markersize=3.5)
    mean = float(errors.mean())
    axes.axhline(mean, color=GREY, linestyle="--", linewidth=1.1, label=f"mean {mean:.3g}")
    logarithmic(axes, y=bool(errors[0] > 0))
    head = f"Errors of {len(errors)} held-out inputs"
    style_lines(axes, head, "inputs, in order of their error", ERROR)
    legend(axes)
    return fig


def distance_figure(samples: HeldOutErrors) -> Figure | None:
    """Draw errors over the distance of inputs from the centre of their distribution."""
    if samples.distance is None:
        return None
    fig = figure(4.2, 3.0)
    axes = fig.subplots()
    axes.plot(samples.distance, samples.error, "o", color=LINES[0], markersize=3.5)
    logarithmic(axes, y=bool(samples.error.min() > 0))
    across = "distance from the centre (half of the inputs are closer than 1)"
    style_lines(axes, "Errors over the distribution", across, ERROR)
    return fig


def bound_figure(
    samples: HeldOutErrors, calibration: tuple[np.ndarray, np.ndarray] | None, confidence: float
) -> Figure | None:
    """Draw bounds over errors.

    Args:
        samples: Held-out inputs, with their bounds where these are known.
        calibration: Bound and error of the inputs of the calibration; None without.
        confidence: Of the bounds.
    """
    sets = []
    if calibration is not None:
        sets.append(("inputs of the calibration", GREY, calibration[1], calibration[0]))
    if samples.bound is not None:
        sets.append(("held-out inputs", LINES[0], samples.largest, samples.bound))
    known = [np.isfinite(e) & np.isfinite(b) & (e > 0) & (b > 0) for _, _, e, b in sets]
    if not any(k.any() for k in known):
        return None
    fig = figure(3.8, 3.4)
    axes = fig.subplots()
    ends = [np.inf, 0.0]
    for (name, colour, error, bound), kept in zip(sets, known, strict=True):
        axes.plot(
            error[kept], bound[kept], "o", color=colour, markersize=3.5, alpha=0.8, label=name
        )
        both = np.concatenate([error[kept], bound[kept], [ends[0]] if np.isfinite(ends[0]) else []])
        ends = [min(ends[0], both.min()), max(ends[1], both.max())]
    axes.plot(ends, ends, "--", color="black", linewidth=1.0, label="bound = error")
    logarithmic(axes, x=True, y=True)
    head = f"Bounds with {100 * confidence:g} % confidence"
    style_lines(axes, head, ERROR, "bound of the error")
    legend(axes)
    return fig


def space_figure(
    view: View | Cloud, errors: Mapping[str, np.ndarray], units: Mapping[str, str]
) -> Figure:
    """Draw the root mean square error of all inputs at each point, a panel for each unknown.

    Args:
        view: The coordinates, without time.
        errors: Channel → relative to the root mean square of the references ``[*space]``.
        units: Labels by name.
    """
    fig = figure((PANEL[0] + 0.4) * max(len(errors), 1), PANEL[1] + 0.4)
    panels = fig.subplots(1, len(errors), squeeze=False)[0]
    for number, (axes, (name, values)) in enumerate(zip(panels, errors.items(), strict=True)):
        mark = f"{letter(number)} " if len(errors) > 1 else ""
        head = f"{mark}error of {name}"
        if isinstance(view, Cloud):
            cloud_panel(axes, view, 0, values, head, error_colours(values), "relative error")
        elif view.image_axes() is None:
            (along,) = view.axes
            axes.plot(view.axes[along], values, color=LINES[0], linewidth=1.3)
            style_lines(axes, head, label(along, units), "relative error")
            axes.set_ylim(bottom=0)
        else:
            drawn = view.slice(values)
            colours = error_colours(drawn) | {"cmap": "viridis"}
            image_panel(axes, view, drawn, head + view.place(), colours, "relative error")
    return fig
