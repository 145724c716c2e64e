"""Figures of lines: losses over steps, errors over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from piop.estimates import INFERRED, estimate_text
from piop.report.style import GREY, LINES, dress, figure, label, legend, plain

NOT_LOSSES = {"step", "seconds", "learning_rate", "gradient"}
DECADES = 1e-4  # of the largest error: rounding at the initial time is not worth showing
SMOOTH = 0.02  # share of the rows in the running median drawn over the raw loss


def loss_figure(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Total loss and its parts over steps, and the step size below.

    Args:
        rows: The rows of ``metrics.jsonl``.
    """
    fig = figure(6.0, 4.2)
    top, bottom = fig.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    names = [n for n in dict.fromkeys(k for r in rows for k in r) if _is_loss(n)]
    names.sort(key=lambda n: n != "loss")
    for name, colour in zip(names, (LINES[-1], *LINES[:-1], *[GREY] * len(names)), strict=False):
        step, value = _column(rows, name)
        if not np.any(value > 0):
            continue  # nothing that a logarithmic axis could show
        top.plot(step, value, color=colour, linewidth=0.5, alpha=0.25)
        top.plot(step, _running_median(value), color=colour, linewidth=1.3, label=name)
    top.set_yscale("log")
    dress(top, "Training loss (not the accuracy)", y="loss")
    plain(top)
    if top.get_lines():
        legend(top)
    step, rate = _column(rows, "learning_rate")
    bottom.plot(step, rate, color=GREY, linewidth=1.0)
    dress(bottom, x="step", y="step size")
    plain(bottom)
    return fig


def _is_loss(name: str) -> bool:
    return name not in NOT_LOSSES and not name.startswith(INFERRED)


def inferred_figure(
    rows: Sequence[Mapping[str, float]],
    found: Mapping[str, Mapping[str, Any]],
    units: Mapping[str, str],
) -> Figure | None:
    """Each inferred parameter over the steps of training, and what the data say in the end.

    Args:
        rows: The rows of ``metrics.jsonl``.
        found: Parameter → what ``evaluation.json`` says of it; may be empty.
        units: Labels by name.

    Returns:
        None where nothing was inferred.
    """
    names = [n for n in dict.fromkeys(k for r in rows for k in r) if n.startswith(INFERRED)]
    if not names:
        return None
    fig = figure(6.0, 2.2 * len(names))
    for axes, key in zip(fig.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        name = key.removeprefix(INFERRED)
        step, value = _column(rows, key)
        axes.plot(step, value, color=LINES[0], linewidth=1.3, label="in training")
        said = found.get(name, {})
        if (interval := said.get("interval")) is not None:
            axes.axhline(said["value"], color=LINES[1], linewidth=1.1, label="from the data")
            axes.axhspan(*interval, color=LINES[1], alpha=0.25, linewidth=0)
        title = "" if not said else f"{name} = {estimate_text(said)}"
        dress(axes, title, "step", label(name, units))
        plain(axes)
        legend(axes)
    return fig


def _column(rows: Sequence[Mapping[str, float]], name: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(r["step"], r[name]) for r in rows if r.get(name) is not None]
    array = np.array(pairs, dtype=float).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def _running_median(values: np.ndarray) -> np.ndarray:
    half = max(1, int(SMOOTH * len(values) / 2))
    padded = np.pad(values, half, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=-1)


def error_figure(
    times: np.ndarray,
    errors: np.ndarray,
    baselines: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    time: str = "t",
) -> Figure:
    """Relative L2 error over time: median, the middle 80 % of inputs, and trivial baselines.

    Args:
        times: ``[T]``.
        errors: Of each held-out input ``[n, T]``.
        baselines: Name → mean error over time ``[T]``.
        units: Labels by coordinate.
        time: Name of the time coordinate.
    """
    fig = figure(5.2, 3.2)
    axes = fig.subplots()
    # a logarithmic axis has no place for the exact zero that built-in initial data give
    low, middle, high = map(_positive, np.nanquantile(errors, [0.1, 0.5, 0.9], axis=0))
    axes.fill_between(times, low, high, color=LINES[0], alpha=0.2, linewidth=0)
    axes.plot(times, middle, color=LINES[0], linewidth=1.5, label="operator (median, 10–90 %)")
    styles = zip(baselines.items(), LINES[1:], ("--", ":", "-.", "--", ":", "-."), strict=False)
    for (name, values), colour, dashes in styles:
        axes.plot(
            times, _positive(values), color=colour, linewidth=1.1, linestyle=dashes, label=name
        )
    if any(np.any(line.get_ydata() > 0) for line in axes.get_lines()):  # type: ignore[operator]
        axes.set_yscale("log")
        top = max(float(np.nanmax(line.get_ydata())) for line in axes.get_lines())  # type: ignore[arg-type]
        axes.set_ylim(bottom=max(axes.get_ylim()[0], DECADES * top))
    dress(axes, "Error on held-out inputs", label(time, units), "relative L2 error")
    plain(axes)
    legend(axes)
    return fig


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(values) > 0, values, np.nan)
