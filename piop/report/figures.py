"""All figures of a run, written to its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from piop.datasets import replacing
from piop.report.curves import error_figure, inferred_figure, loss_figure
from piop.report.panels import View, field_figure, residual_figure
from piop.report.style import DPI


@dataclass(frozen=True)
class Shown:
    """Held-out inputs and what became of them, as the figures need it.

    Attributes:
        axes: Coordinate name → positions, time first.
        time: Name of the time coordinate; None for a steady problem.
        units: Labels by name.
        reference: Channel → ``[rows, *axes]`` of a few held-out inputs.
        prediction: The same, predicted.
        titles: One per row, such as ``"input 3, error 0.021"``.
        residuals: Equation → residual of the prediction ``[rows, *axes]``; may be empty.
        errors: Relative L2 over time of all held-out inputs ``[n, T]``; None where steady.
        baselines: Name → mean error over time ``[T]``.
    """

    axes: Mapping[str, np.ndarray]
    time: str | None
    units: Mapping[str, str]
    reference: Mapping[str, np.ndarray]
    prediction: Mapping[str, np.ndarray]
    titles: Sequence[str]
    residuals: Mapping[str, np.ndarray] = field(default_factory=dict)
    errors: np.ndarray | None = None
    baselines: Mapping[str, np.ndarray] = field(default_factory=dict)


def draw_figures(
    folder: Path,
    metrics: Sequence[Mapping[str, float]],
    shown: Shown | None,
    inferred: Mapping[str, Mapping[str, Any]] | None = None,
    units: Mapping[str, str] | None = None,
) -> list[Path]:
    """Draw what there is to draw.

    Args:
        folder: The run's ``figures``, made when missing.
        metrics: Rows of ``metrics.jsonl``; none give no figure.
        shown: Held-out inputs; None where there is no reference to compare with.
        inferred: Parameter → what ``evaluation.json`` says of it.
        units: Labels of the parameters.

    Returns:
        The files written.

    Raises:
        PiopError: A file cannot be written.
    """
    figures: dict[str, Figure] = {}
    if metrics:
        figures["losses"] = loss_figure(metrics)
        parameters = inferred_figure(metrics, inferred or {}, units or {})
        if parameters is not None:
            figures["inferred"] = parameters
    if shown is not None:
        view = View(shown.axes, shown.time, shown.units)
        for name, reference in shown.reference.items():
            key = "predictions" if len(shown.reference) == 1 else f"predictions_{name}"
            predicted = shown.prediction[name]
            figures[key] = field_figure(view, name, reference, predicted, shown.titles)
        if shown.residuals:
            figures["residual"] = residual_figure(view, shown.residuals, shown.titles)
        if shown.errors is not None and shown.time is not None:
            times = shown.axes[shown.time]
            figures["error_over_time"] = error_figure(
                times, shown.errors, shown.baselines, shown.units, shown.time
            )
    folder.mkdir(parents=True, exist_ok=True)
    return [save(figure, folder / f"{name}.png") for name, figure in figures.items()]


def save(figure: Figure, path: Path) -> Path:
    """Write a figure, whole or not at all; give its path.

    Raises:
        PiopError: The file cannot be written.
    """
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI)
    return path
