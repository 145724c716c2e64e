"""The figures of a run: one as an object, or all of them written to its folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure

from piop.arguments import file_path, flag
from piop.datasets import replacing
from piop.datasets.atomic_output import require_new, require_place
from piop.errors import DataError, UsageError
from piop.report.comparison import Comparison, compare, labels_of_units
from piop.report.error_figures import (
    bound_figure,
    distance_figure,
    inputs_figure,
    space_figure,
)
from piop.report.field_figures import cloud_figure, field_figure, residual_figure
from piop.report.layouts import Cloud
from piop.report.line_figures import error_figure, inferred_figure, loss_figure, resolution_figure
from piop.report.page import write_report
from piop.report.page_data import calibration_pairs
from piop.report.style import DPI, FINE_DPI, VECTOR_TEXT
from piop.run.error_bounds.calibration import CONFIDENCE
from piop.run.folder import EVALUATION
from piop.run.threads import threads_of

if TYPE_CHECKING:
    from piop.run import Run

logger = logging.getLogger(__name__)

OF_COMPARISON = {
    "fields": "a reference solution on a grid or a fixed region",
    "residual": "a network evaluated pointwise, and inputs that are known as functions",
    "error_over_time": "a reference solution in time",
    "error_over_space": "a reference solution at the same points for all inputs",
    "error_over_inputs": "a reference solution",
    "error_over_distance": "inputs whose distribution is known",
    "bound_over_error": "error bounds: piop evaluate RUN --calibrate 150",
}
"""Figures of held-out solutions beside predictions: name → what each is drawn from."""
OF_TRAINING = {
    "losses": "the metrics of training",
    "inferred": "parameters that are inferred",
    "discretisation": "a discretisation study: call run.discretisation() first",
}
"""Figures of what the run folder holds: name → what each is drawn from."""


def plot(
    run: Run,
    figure: str = "fields",
    path: str | Path | None = None,
    unknown: str | None = None,
    seed: int | None = None,
    force: bool = False,
) -> Figure:
    """Draw one figure of a run; see :meth:`piop.run.Run.plot`."""
    if path is not None:
        path = _new_file(path, force)
        _format_of(path)
    needs = OF_COMPARISON | OF_TRAINING
    if figure not in needs:
        raise UsageError(f"figure: {figure!r} is not one of {', '.join(needs)}")
    unknown = run.problem.channels[0] if unknown is None else unknown
    if unknown not in run.problem.channels:
        names = ", ".join(run.problem.channels)
        raise UsageError(f"unknown: {unknown!r} is not an unknown of the problem; one of {names}")
    comparison: Comparison | None = None
    if figure in OF_TRAINING:
        inferred = run.folder.read_json(EVALUATION).get("inferred") or {}
        drawn = _training_figures(run.metrics, inferred, labels_of_units(run), run.study)
    else:
        with threads_of(run.config.machine):
            comparison = compare(run, seed)
        drawn = {} if comparison is None else _comparison_figures(run, comparison, unknown)
    if figure not in drawn:
        reason = "" if comparison is None else comparison.without_residuals
        if figure == "residual" and reason:
            raise UsageError(f"figure: {figure!r} cannot be drawn of {run.path}: {reason}")
        raise UsageError(
            f"figure: {figure!r} needs {needs[figure]}, which {run.path} does not have"
        )
    if path is not None:
        save(drawn[figure], path)
    return drawn[figure]


def draw_run(run: Run, seed: int | None = None, data: Path | None = None) -> list[Path]:
    """Draw the figures of a run into its folder, and write its report.

    Args:
        run: A trained run; its metrics and weights are read.
        seed: Seed of the held-out inputs; by default the run's own.
        data: File of the held-out solutions to show instead.

    Returns:
        The files written, the report last: of the figures only losses where there is no reference
        to compare with, or the data of the run are gone.

    Raises:
        PiopError: A file cannot be written.
    """
    comparison = compare_or_warn(run, seed, data)
    inferred = run.folder.read_json(EVALUATION).get("inferred")
    units = labels_of_units(run)
    with run.folder.writing():
        drawn = draw_figures(run.folder.figures(), run.metrics, comparison, inferred, units)
        return [*drawn, write_report(run, comparison)]


def compare_or_warn(
    run: Run, seed: int | None = None, data: Path | None = None
) -> Comparison | None:
    """Compare held-out inputs as :func:`compare`; warn where the data of the run are gone.

    Raises:
        DataError: If data that are given cannot be used.
    """
    try:
        with threads_of(run.config.machine):
            return compare(run, seed, data)
    except DataError as error:
        if data is not None:
            raise
        logger.warning("no figure of predictions: %s", error)
        return None


def report(
    run: Run,
    path: str | Path | None = None,
    data: str | Path | None = None,
    force: bool = False,
) -> Path:
    """Write the report of a run; see :meth:`piop.run.Run.report`."""
    target = None if path is None else _new_file(path, force)
    given = None if data is None else file_path("data", data)
    found = run.folder.read_json(EVALUATION) if run.is_evaluated else {}
    comparison = None
    if found.get("relative_l2") is not None:
        comparison = compare_or_warn(run, found["seed"], given)
    if target is not None:
        return write_report(run, comparison, target)
    with run.folder.writing():
        return write_report(run, comparison)


def _new_file(path: str | Path, force: bool) -> Path:
    """Return the path of an output, checked before the work that it is for."""
    found = file_path("path", path)
    require_new(found, flag("force", force))
    require_place(found)
    return found


def draw_discretisation(run: Run, study: Mapping[str, Any]) -> Path:
    """Draw errors over sensors and grids into the folder of a run.

    Args:
        run: The run.
        study: The result of :meth:`piop.run.Run.discretisation`.

    Raises:
        PiopError: The file cannot be written.
    """
    with run.folder.writing():
        return save(resolution_figure(study), run.folder.figures() / "discretisation.png")


def draw_figures(
    folder: Path,
    metrics: Sequence[Mapping[str, float]],
    comparison: Comparison | None,
    inferred: Mapping[str, Mapping[str, Any]] | None = None,
    units: Mapping[str, str] | None = None,
) -> list[Path]:
    """Draw every figure for which there are data.

    Args:
        folder: The run's ``figures``, made when missing.
        metrics: Rows of ``metrics.jsonl``; without rows there is no figure of them.
        comparison: Held-out inputs; None where there is no reference to compare with.
        inferred: Parameter → its estimate in ``evaluation.json``.
        units: Labels of the parameters.

    Returns:
        The files written.

    Raises:
        PiopError: A file cannot be written.
    """
    figures = _training_figures(metrics, inferred or {}, units or {})
    if comparison is not None:
        for name in comparison.reference:
            key = "predictions" if len(comparison.reference) == 1 else f"predictions_{name}"
            figures[key] = _field_figure(comparison, name)
        figures |= _other_figures(comparison)
    folder.mkdir(parents=True, exist_ok=True)
    return [save(figure, folder / f"{name}.png") for name, figure in figures.items()]


def _training_figures(
    rows: Sequence[Mapping[str, float]],
    inferred: Mapping[str, Mapping[str, Any]],
    units: Mapping[str, str],
    study: Mapping[str, Any] | None = None,
) -> dict[str, Figure]:
    found = {
        "losses": loss_figure(rows) if rows else None,
        "inferred": inferred_figure(rows, inferred, units),
        "discretisation": resolution_figure(study) if study else None,
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def _comparison_figures(run: Run, comparison: Comparison, unknown: str) -> dict[str, Figure]:
    found = _other_figures(comparison)
    if unknown in comparison.reference:
        found["fields"] = _field_figure(comparison, unknown)
    samples, units = comparison.samples, labels_of_units(run)
    found["error_over_inputs"] = inputs_figure(samples)
    if comparison.space_view is not None:
        found["error_over_space"] = space_figure(
            comparison.space_view, comparison.space_errors, units
        )
    more = {
        "error_over_distance": distance_figure(samples),
        "bound_over_error": bound_figure(samples, calibration_pairs(run.calibration), CONFIDENCE),
    }
    return found | {name: figure for name, figure in more.items() if figure is not None}


def _field_figure(comparison: Comparison, unknown: str) -> Figure:
    view, titles = comparison.view, comparison.titles
    reference, prediction = comparison.reference[unknown], comparison.prediction[unknown]
    if isinstance(view, Cloud):
        return cloud_figure(view, unknown, reference, prediction, titles)
    return field_figure(view, unknown, reference, prediction, titles)


def _other_figures(comparison: Comparison) -> dict[str, Figure]:
    """Draw the residual, and errors over time, which all unknowns share."""
    view, figures = comparison.view, {}
    own = comparison.residual_view or view
    if comparison.residuals:
        figures["residual"] = residual_figure(own, comparison.residuals, comparison.titles)
    if comparison.errors is not None and comparison.times is not None:
        figures["error_over_time"] = error_figure(
            comparison.times,
            comparison.errors,
            comparison.baselines,
            view.units,
            view.time or "t",
        )
    return figures


def save(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the file name's ending, PNG without one.

    The file appears whole or not at all.

    Returns:
        The path.

    Raises:
        UsageError: The ending is no format of matplotlib.
        PiopError: The file cannot be written.
    """
    kind = _format_of(path)
    dpi = DPI if kind == "png" else FINE_DPI
    with replacing(path) as temporary, rc_context(VECTOR_TEXT):
        figure.savefig(temporary, format=kind, dpi=dpi)
    return path


def _format_of(path: Path) -> str:
    """Return the format of a figure by the ending of its file, PNG without one."""
    formats = FigureCanvasBase.get_supported_filetypes()
    kind = path.suffix.removeprefix(".") or "png"
    if kind not in formats:
        raise UsageError(
            f"{path}: {kind!r} is not a format of figures; one of {', '.join(formats)}"
        )
    return kind
