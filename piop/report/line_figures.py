"""Figures of lines: losses over steps, errors over time, errors over resolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from piop.inferred_parameters import INFERRED, estimate_text
from piop.report.style import GREY, LINES, figure, label, legend, style_lines
from piop.training.loop.callbacks import HELD_OUT
from piop.training.loss.weighting.base import WEIGHT

OTHER_COLUMNS = {"step", "seconds", "learning_rate", "gradient", HELD_OUT}
SMALLEST_ERROR = 1e-4  # of the largest error: rounding at the initial time is not worth showing
MEDIAN_WINDOW = 0.02  # fraction of the rows in the running median drawn over the raw loss


def loss_figure(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Draw the total loss and its terms over steps, and the step size below.

    Args:
        rows: The rows of ``metrics.jsonl``.
    """
    fig = figure(6.0, 4.2)
    top, bottom = fig.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    names = [n for n in dict.fromkeys(k for r in rows for k in r) if is_loss(n)]
    names.sort(key=lambda n: n != "loss")
    for name, colour in zip(names, (LINES[-1], *LINES[:-1], *[GREY] * len(names)), strict=False):
        step, value = _column(rows, name)
        if not np.any(value > 0):
            continue  # nothing that a logarithmic axis could show
        top.plot(step, value, color=colour, linewidth=0.5, alpha=0.25)
        top.plot(step, _running_median(value), color=colour, linewidth=1.3, label=name)
    top.set_yscale("log")
    style_lines(top, "Training loss (not the accuracy)", y="loss")
    if top.get_lines():
        legend(top)
    step, rate = _column(rows, "learning_rate")
    bottom.plot(step, rate, color=GREY, linewidth=1.0)
    style_lines(bottom, x="step", y="step size")
    return fig


def is_loss(name: str) -> bool:
    """Whether a column of the metrics is a loss."""
    return name not in OTHER_COLUMNS and not name.startswith((INFERRED, WEIGHT))


def inferred_figure(
    rows: Sequence[Mapping[str, float]],
    found: Mapping[str, Mapping[str, Any]],
    units: Mapping[str, str],
) -> Figure | None:
    """Draw each inferred parameter over the steps of training, and its final estimate.

    Args:
        rows: The rows of ``metrics.jsonl``.
        found: Parameter → its estimate in ``evaluation.json``; may be empty.
        units: Labels by name.

    Returns:
        None where no parameter is inferred.
    """
    names = [n for n in dict.fromkeys(k for r in rows for k in r) if n.startswith(INFERRED)]
    if not names:
        return None
    fig = figure(6.0, 2.2 * len(names))
    for axes, key in zip(fig.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        name = key.removeprefix(INFERRED)
        step, value = _column(rows, key)
        axes.plot(step, value, color=LINES[0], linewidth=1.3, label="in training")
        estimate = found.get(name, {})
        if (interval := estimate.get("interval")) is not None:
            axes.axhline(estimate["value"], color=LINES[1], linewidth=1.1, label="from the data")
            axes.axhspan(*interval, color=LINES[1], alpha=0.25, linewidth=0)
        title = "" if not estimate else f"{name} = {estimate_text(estimate)}"
        style_lines(axes, title, "step", label(name, units))
        legend(axes)
    return fig


def _column(rows: Sequence[Mapping[str, float]], name: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(r["step"], r[name]) for r in rows if r.get(name) is not None]
    array = np.array(pairs, dtype=float).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def _running_median(values: np.ndarray) -> np.ndarray:
    half = max(1, int(MEDIAN_WINDOW * len(values) / 2))
    padded = np.pad(values, half, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=-1)


def error_figure(
    times: np.ndarray,
    errors: np.ndarray,
    baselines: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    time: str = "t",
) -> Figure:
    """Draw the relative L2 error over time: median, middle 80 % of inputs, trivial baselines.

    Args:
        times: ``[T]``.
        errors: Relative L2 error of each held-out input ``[n, T]``.
        baselines: Name → mean error over time ``[T]``.
        units: Labels by coordinate.
        time: Name of the time coordinate.
    """
    fig = figure(5.2, 3.2)
    axes = fig.subplots()
    # a logarithmic axis cannot show the exact zero that hard initial conditions give
    low, middle, high = map(_positive, np.nanquantile(errors, [0.1, 0.5, 0.9], axis=0))
    axes.fill_between(times, low, high, color=LINES[0], alpha=0.2, linewidth=0)
    axes.plot(times, middle, color=LINES[0], linewidth=1.5, label="operator (median, 10–90 %)")
    styles = zip(baselines.items(), LINES[1:], ("--", ":", "-.", "--", ":", "-."), strict=False)
    for (name, values), colour, dashes in styles:
        axes.plot(times, _positive(values), dashes, color=colour, linewidth=1.1, label=name)
    drawn = np.concatenate([middle, *map(_positive, baselines.values())])
    if np.any(drawn > 0):
        axes.set_yscale("log")
        top = float(np.nanmax(drawn))
        axes.set_ylim(bottom=max(axes.get_ylim()[0], SMALLEST_ERROR * top))
    style_lines(axes, "Error on held-out inputs", label(time, units), "relative L2 error")
    legend(axes)
    return fig


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(values) > 0, values, np.nan)


MARKS = ("o", "s", "^", "D", "v", "P", "X")


def resolution_figure(found: Mapping[str, Any]) -> Figure:
    """Draw the error over grids, a line for each number of sensors, and the reverse.

    Args:
        found: The content of ``discretisation.json``.
    """
    errors = {(c["sensors"], c["grid"]): c["mean"] for c in found["relative_l2"]}
    sensors, grids = list(found["sensors"]), list(found["grids"])
    fig = figure(9.2, 3.2)
    left, right = fig.subplots(1, 2, sharey=True)
    for style, s in enumerate(sensors):
        name = f"{s} of sensors" if "%" in s else f"{s} sensors"
        _line(left, grids, [errors[s, g] for g in grids], name, style)
    for style, g in enumerate(grids):
        _line(right, sensors, [errors[s, g] for s in sensors], f"grid {g}", style)
    if all(math.isfinite(e) and e > 0 for e in errors.values()):
        left.set_yscale("log")
    style_lines(left, "Other grids", "points of the grid per axis", "relative L2 error")
    style_lines(right, "Other sensors", "sensors of the input", "relative L2 error")
    legend(left)
    legend(right)
    return fig


def _line(
    axes: Axes, resolutions: Sequence[str], errors: Sequence[float], name: str, style: int
) -> None:
    """Draw errors over resolutions, evenly spaced: they may be counts of one axis or of several."""
    look: dict[str, Any] = {"color": LINES[style % len(LINES)], "marker": MARKS[style % len(MARKS)]}
    axes.plot(range(len(resolutions)), errors, markersize=4, linewidth=1.2, label=name, **look)
    axes.set_xticks(range(len(resolutions)), resolutions)
