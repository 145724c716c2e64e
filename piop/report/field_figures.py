"""Figures of fields: reference, prediction, error and residual, one row per held-out input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from piop.report.layouts import Cloud, View
from piop.report.style import (
    LINES,
    colour_bar,
    field_colours,
    figure,
    label,
    legend,
    letter,
    set_labels,
    signed_colours,
    style_lines,
)

PANEL = (2.7, 2.1)  # inches
TIMES_DRAWN = 4  # times drawn as lines


def field_figure(
    view: View, name: str, reference: np.ndarray, prediction: np.ndarray, titles: Sequence[str]
) -> Figure:
    """Draw reference, prediction and their difference.

    Args:
        view: The coordinates.
        name: The channel.
        reference: ``[rows, *axes]``.
        prediction: ``[rows, *axes]``.
        titles: One per row, such as the input's number and error.
    """
    lines = view.image_axes() is None or (len(view.axes) == 2 and view.time is not None)
    images = view.image_axes() is not None
    columns = 3 * images + lines
    fig = figure(PANEL[0] * max(columns, 2) + 0.6 * lines, PANEL[1] * len(reference))
    grid = fig.subplots(len(reference), columns, squeeze=False)
    for row, (truth, guess, title) in enumerate(zip(reference, prediction, titles, strict=True)):
        if images:
            _images(list(grid[row, :3]), view, name, truth, guess, title, row * columns)
        if lines:
            head = f"{'' if images else title}\n{letter(row * columns + columns - 1)} {OVERLAID}"
            _lines(grid[row, -1], view, name, truth, guess, head)
    return fig


OVERLAID = "prediction (dashed) on reference"


def cloud_figure(
    cloud: Cloud, name: str, reference: np.ndarray, prediction: np.ndarray, titles: Sequence[str]
) -> Figure:
    """Draw reference, prediction and their difference at points of the plane.

    Args:
        cloud: The points.
        name: The channel.
        reference: ``[rows, N]``.
        prediction: ``[rows, N]``.
        titles: One per row.
    """
    fig = figure(PANEL[0] * 3, PANEL[1] * len(reference))
    grid = fig.subplots(len(reference), 3, squeeze=False)
    shown = label(name, cloud.units)
    for row, (truth, guess, title) in enumerate(zip(reference, prediction, titles, strict=True)):
        heads, drawn, colours = _compared(truth, guess, title, shown, "", row * 3)
        for axes, values, head, scale in zip(grid[row], drawn, heads, colours, strict=True):
            cloud_panel(axes, cloud, row, values, head, scale, shown)
    return fig


def cloud_panel(
    axes: Axes,
    cloud: Cloud,
    row: int,
    values: np.ndarray,
    head: str,
    scale: Mapping[str, Any],
    bar: str,
) -> None:
    """Draw values at the points of a row: on its triangles, or as discs where there are none."""
    x, y = cloud.points[row].T
    if len(triangles := cloud.triangles[row]):
        look: dict[str, Any] = {"shading": "gouraud", "rasterized": True, **scale}
        mesh = axes.tripcolor(x, y, values, triangles=triangles, **look)
    else:
        size = 2.0e3 / max(1, len(x))
        mesh = axes.scatter(x, y, s=size, c=values, linewidths=0, rasterized=True, **scale)
    colour_bar(axes, mesh, bar)
    first, second = (label(n, cloud.units) for n in cloud.names)
    set_labels(axes, head, first, second)
    axes.set_aspect("equal", adjustable="box")


def _compared(
    truth: np.ndarray, guess: np.ndarray, title: str, shown: str, place: str, first: int
) -> tuple[list[str], list[np.ndarray], list[dict[str, Any]]]:
    """Return heads, values and colour scales of reference, prediction and error."""
    shared, error = field_colours(truth, guess), guess - truth
    names = [f"reference {shown}{place}", "prediction", "prediction − reference"]
    heads = [f"{title if k == 0 else ''}\n{letter(first + k)} {n}" for k, n in enumerate(names)]
    return heads, [truth, guess, error], [shared, shared, signed_colours(error)]


def _images(
    panels: list[Axes],
    view: View,
    name: str,
    truth: np.ndarray,
    guess: np.ndarray,
    title: str,
    first: int,
) -> None:
    shown = label(name, view.units)
    truth, guess = view.slice(truth), view.slice(guess)
    heads, drawn, colours = _compared(truth, guess, title, shown, view.place(), first)
    for axes, values, head, scale in zip(panels, drawn, heads, colours, strict=True):
        image_panel(axes, view, values, head, scale, shown)


def image_panel(
    axes: Axes, view: View, values: np.ndarray, head: str, scale: Mapping[str, Any], bar: str
) -> None:
    """Draw ``values [len(x), len(y)]``, x to the right and y up, with a labelled colour bar."""
    first, second = view.image_axes() or ("", "")
    x, y = view.axes[first], view.axes[second]
    mesh = axes.pcolormesh(x, y, values.T, shading="nearest", rasterized=True, **scale)
    colour_bar(axes, mesh, bar)
    set_labels(axes, head, label(first, view.units), label(second, view.units))
    if first != view.time:
        axes.set_aspect("equal", adjustable="box")


def _lines(
    axes: Axes, view: View, name: str, truth: np.ndarray, guess: np.ndarray, head: str
) -> None:
    names = list(view.axes)
    if len(names) == 1:
        snapshots, along = {"": (truth, guess)}, names[0]
    else:
        times, along = view.axes[names[0]], names[1]
        chosen = np.linspace(0, len(times) - 1, min(TIMES_DRAWN, len(times))).round().astype(int)
        snapshots = {f"{names[0]} = {times[i]:.3g}": (truth[i], guess[i]) for i in chosen}
    for (when, (known, predicted)), colour in zip(snapshots.items(), LINES, strict=False):
        x = view.axes[along]
        axes.plot(x, known, color=colour, linewidth=2.6, alpha=0.35, label=when or "reference")
        mark = None if when else "prediction"
        axes.plot(x, predicted, "--", color=colour, linewidth=1.1, label=mark)
    style_lines(axes, head, label(along, view.units), label(name, view.units))
    legend(axes, beside=len(names) > 1)


def residual_figure(
    view: View | Cloud, residuals: Mapping[str, np.ndarray], titles: Sequence[str]
) -> Figure:
    """Draw the size of the residual of each equation.

    Args:
        view: The coordinates.
        residuals: Equation → ``[rows, *axes]`` of the image or curve, or ``[rows, N]`` at points,
            units of the equation.
        titles: One per row.
    """
    rows, columns = len(titles), len(residuals)
    equal = isinstance(view, Cloud) or (view.image_axes() or (view.time,))[0] != view.time
    fig = figure(PANEL[0] * max(columns, 1 if equal else 2), PANEL[1] * rows)
    grid = fig.subplots(rows, columns, squeeze=False)
    for column, (equation, values) in enumerate(residuals.items()):
        for row in range(rows):
            axes, size = grid[row, column], np.abs(values[row])
            panel = letter(row * len(residuals) + column)
            head = f"{titles[row] if column == 0 else ''}\n{panel} |residual| of {equation}"
            if isinstance(view, View) and view.image_axes() is None:
                (along,) = view.axes
                axes.semilogy(view.axes[along], np.maximum(size, 1e-300), color=LINES[0])
                style_lines(axes, head, label(along, view.units), "|residual|")
                continue
            top = float(size.max()) or 1.0
            scale = {"cmap": "magma", "norm": LogNorm(top * 1e-4, top)}
            shown = np.maximum(size, top * 1e-4)
            if isinstance(view, Cloud):
                cloud_panel(axes, view, row, shown, head, scale, "|residual|")
            else:
                place = view.place().replace(" ", "\n", 1)  # a panel is not wider than it is high
                image_panel(axes, view, shown, head + place, scale, "|residual|")
            if equal and columns == 1:
                axes.set_anchor("C")  # beside its bar, on the right, its title would be cut off
    return fig
