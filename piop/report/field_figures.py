"""Figures of fields: reference, prediction, error and residual, one row per held-out input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from piop.report.style import (
    LINES,
    colour_bar,
    error_colours,
    field_colours,
    figure,
    label,
    legend,
    set_labels,
    style_lines,
)

PANEL = (2.7, 2.1)  # inches
TIMES_DRAWN = 4  # times drawn as lines


@dataclass(frozen=True)
class View:
    """The coordinates by which a field ``[n1, n2, …]`` is drawn.

    Attributes:
        axes: Coordinate name → positions, in the order of the field's dimensions.
        time: Name of the time coordinate; None for a steady problem.
        units: Labels by name.
    """

    axes: Mapping[str, np.ndarray]
    time: str | None
    units: Mapping[str, str]

    def image_axes(self) -> tuple[str, str] | None:
        """Return the two coordinates of an image; None for a curve."""
        names = list(self.axes)
        if len(names) < 2:
            return None
        first, second, *_ = names if len(names) == 2 else (n for n in names if n != self.time)
        return first, second

    def cuts(self) -> dict[str, int]:
        """Return where the other axes of an image are cut: the last time, the middle of a third."""
        keep = self.image_axes() or self.axes
        ends = {
            name: len(ticks) - 1 if name == self.time else len(ticks) // 2
            for name, ticks in self.axes.items()
        }
        return {name: at for name, at in ends.items() if name not in keep}

    def with_fewer_points(self, most: int) -> View:
        """Return the view with every k-th position of drawn axes, by turns the longest first.

        Args:
            most: Most points of the axes that are drawn.
        """
        axes, cuts = dict(self.axes), self.cuts()
        drawn = sorted((n for n in axes if n not in cuts), key=lambda n: -len(axes[n]))
        turns = cycle(drawn)
        while math.prod(len(axes[name]) for name in drawn) > most:
            name = next(turns)
            axes[name] = axes[name][::2]
        return replace(self, axes=axes)

    def slice(self, values: np.ndarray) -> np.ndarray:
        """Cut a field ``[n1, n2, …]`` to the two dimensions of an image."""
        cuts = self.cuts()
        return values[tuple(cuts.get(name, slice(None)) for name in self.axes)]

    def place(self) -> str:
        """Return where axes are cut, such as `` at t = 1``; nothing where none is."""
        where = [f"{name} = {self.axes[name][at]:.3g}" for name, at in self.cuts().items()]
        return f" at {', '.join(where)}" if where else ""


def field_figure(
    view: View, name: str, reference: np.ndarray, prediction: np.ndarray, titles: Sequence[str]
) -> Figure:
    """Draw prediction, reference and their difference.

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
            _images(list(grid[row, :3]), view, name, truth, guess, title)
        if lines:
            _lines(grid[row, -1], view, name, truth, guess, "" if images else title)
    return fig


def _images(
    panels: list[Axes], view: View, name: str, truth: np.ndarray, guess: np.ndarray, title: str
) -> None:
    truth, guess = view.slice(truth), view.slice(guess)
    shared, error = field_colours(truth, guess), np.abs(guess - truth)
    shown = label(name, view.units)
    heads = (
        f"{title}\nreference {shown}{view.place()}",
        "\nprediction",
        "\n|prediction − reference|",
    )
    colours = (shared, shared, error_colours(error))
    drawn = (truth, guess, error)
    for axes, values, head, scale in zip(panels, drawn, heads, colours, strict=True):
        _image(axes, view, values, head, scale, shown)


def _image(
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
    axes: Axes, view: View, name: str, truth: np.ndarray, guess: np.ndarray, title: str
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
    head = title or "\nbroad: reference, dashed: prediction"
    style_lines(axes, head, label(along, view.units), label(name, view.units))
    legend(axes, beside=len(names) > 1)


def residual_figure(
    view: View, residuals: Mapping[str, np.ndarray], titles: Sequence[str]
) -> Figure:
    """Draw the size of the residual of each equation.

    Args:
        view: The coordinates.
        residuals: Equation → ``[rows, *axes]`` of the image or curve, units of the equation.
        titles: One per row.
    """
    rows = len(titles)
    fig = figure(PANEL[0] * max(len(residuals), 2), PANEL[1] * rows)
    grid = fig.subplots(rows, len(residuals), squeeze=False)
    for column, (equation, values) in enumerate(residuals.items()):
        for row in range(rows):
            axes, size = grid[row, column], np.abs(values[row])
            head = f"{titles[row]}\n|residual|, {equation}"
            if view.image_axes() is None:
                (along,) = view.axes
                axes.semilogy(view.axes[along], np.maximum(size, 1e-300), color=LINES[0])
                style_lines(axes, head, label(along, view.units), "|residual|")
                continue
            top = float(size.max()) or 1.0
            scale = {"cmap": "magma", "norm": LogNorm(top * 1e-4, top)}
            head += view.place()
            _image(axes, view, np.maximum(size, top * 1e-4), head, scale, "|residual|")
    return fig
