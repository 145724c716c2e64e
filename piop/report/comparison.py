"""Held-out solutions beside the predictions of a run, as the figures show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.tri import LinearTriInterpolator, Triangulation
from torch import Tensor

from piop.datasets import Queries
from piop.errors import NotSupportedError, SolverError
from piop.metrics import relative_l2_by_time
from piop.report.field_figures import View
from piop.run.evaluation import OperatorJudge, errors_of, finite_samples, residual_at_points
from piop.training.build import residual_of_model

if TYPE_CHECKING:
    from piop.run import HeldOut, Run

SAMPLES, ROWS = 8, 3  # held-out inputs of the curves, and those of which fields are drawn
REGION_POINTS = 97  # points along each axis of figures of a region
RESIDUAL_POINTS = 2**13  # of a figure of residuals at most: a panel has about 250 × 225 pixels
RESIDUAL_CHUNK = 2048  # queries of the residual at a time


@dataclass(frozen=True)
class Comparison:
    """Held-out inputs and their predictions, as the figures show them.

    Attributes:
        view: The coordinates, time first.
        reference: Channel → ``[rows, *axes]`` of a few held-out inputs.
        prediction: The same, predicted.
        titles: One per row, such as ``"input 3, error 0.021"``.
        residuals: Equation → residual of the prediction ``[rows, *axes]``, on those axes of
            ``residual_view`` that are drawn; may be empty.
        errors: Relative L2 over time of all held-out inputs ``[n, T]``; None where steady.
        baselines: Name → mean error over time ``[T]``.
        residual_view: Coordinates of the residuals, where they are not those of the fields.
    """

    view: View
    reference: Mapping[str, np.ndarray]
    prediction: Mapping[str, np.ndarray]
    titles: Sequence[str]
    residuals: Mapping[str, np.ndarray] = field(default_factory=dict)
    errors: np.ndarray | None = None
    baselines: Mapping[str, np.ndarray] = field(default_factory=dict)
    residual_view: View | None = None


def compare(run: Run, seed: int | None = None, data: Path | None = None) -> Comparison | None:
    """Predict a few held-out inputs and lay them beside their reference solutions.

    Args:
        run: A trained run.
        seed: Seed of the held-out inputs; by default the run's own.
        data: File of the held-out solutions to use instead.

    Returns:
        The comparison, of the inputs whose reference and prediction are finite; None where there is
        none, or the reference is at points of a region that varies.
    """
    try:
        judged = run.shown(SAMPLES, seed, data)
    except (NotSupportedError, SolverError):
        return None
    held_out = judged.fine
    prediction = judged.fine_prediction(OperatorJudge(run.problem, run.model))
    finite = finite_samples(held_out.truth, prediction)
    if not bool(finite.any()):
        return None
    if not bool(finite.all()):
        kept = finite.nonzero().flatten()
        held_out, prediction = held_out.take(kept), {n: v[kept] for n, v in prediction.items()}
    if held_out.queries.axes is not None:
        return compare_on_grid(run, held_out, prediction, held_out.queries.axes)
    if held_out.queries.points is None or run.problem.domain.is_box or run.problem.domain.varies:
        return None
    return compare_on_region(run, held_out, prediction, held_out.queries.points)


def compare_on_grid(
    run: Run, held_out: HeldOut, prediction: Mapping[str, Tensor], axes: Mapping[str, Tensor]
) -> Comparison:
    """Compare solutions on a grid."""
    truth = held_out.truth
    positions = {name: axis.numpy() for name, axis in axes.items()}
    time = None if run.problem.time is None else run.problem.time.name
    view = View(positions, time, labels_of_units(run))
    fewer = view.with_fewer_points(RESIDUAL_POINTS)
    shown = Comparison(
        view=view,
        reference={name: value[:ROWS].numpy() for name, value in truth.items()},
        prediction={name: prediction[name][:ROWS].numpy() for name in truth},
        titles=_titles(prediction, truth),
        residuals=_residuals(run, held_out, fewer),
        residual_view=fewer,
    )
    if time is None:
        return shown
    if run.model.operator.end_only:
        return _at_the_end(shown, time)
    still = {name: value[:, :1].expand_as(value) for name, value in truth.items()}
    return replace(
        shown,
        errors=_by_time(prediction, truth).numpy(),
        baselines={"stays at u0": _by_time(still, truth).mean(0).numpy()},
    )


def compare_on_region(
    run: Run, held_out: HeldOut, prediction: Mapping[str, Tensor], positions: Tensor
) -> Comparison:
    """Compare solutions at ``positions [B or 1, N, 2]`` in a region, on a grid; NaN outside."""
    problem, truth = run.problem, held_out.truth
    axes = {c.name: np.linspace(c.low, c.high, REGION_POINTS) for c in problem.space}
    grid = np.meshgrid(*axes.values(), indexing="ij")
    inside = problem.domain.fixed.contains(np.stack(grid, -1).reshape(-1, 2)).reshape(grid[0].shape)

    def interpolated(values: Tensor) -> np.ndarray:
        each = positions.expand(len(values), -1, -1).numpy()
        rows = []
        for points, row in zip(each[:ROWS], values[:ROWS].numpy(), strict=True):
            between = LinearTriInterpolator(Triangulation(points[:, 0], points[:, 1]), row)
            rows.append(np.where(inside, between(*grid).filled(np.nan), np.nan))
        return np.stack(rows)

    return Comparison(
        view=View(axes, None, labels_of_units(run)),
        reference={name: interpolated(value) for name, value in truth.items()},
        prediction={name: interpolated(prediction[name]) for name in truth},
        titles=_titles(prediction, truth),
    )


def labels_of_units(run: Run) -> dict[str, str]:
    """Return the labels of the units of a run's problem, by name."""
    return {name: str(unit) for name, unit in run.problem.units.items()}


def _titles(prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> list[str]:
    errors = errors_of(prediction, truth)[:ROWS].tolist()
    return [f"input {i}: error {e:.2g}" for i, e in enumerate(errors)]


def _at_the_end(shown: Comparison, time: str) -> Comparison:
    """Treat the only time as a steady solution."""
    place = list(shown.view.axes).index(time) + 1
    rest = {name: ticks for name, ticks in shown.view.axes.items() if name != time}

    def still(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: value.take(-1, place) for name, value in values.items()}

    return replace(
        shown,
        view=replace(shown.view, axes=rest, time=None),
        reference=still(shown.reference),
        prediction=still(shown.prediction),
        residuals=still(shown.residuals),
    )


def _by_time(prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> Tensor:
    """Relative L2 of each sample at each time ``[B, T]``, the mean over the channels."""
    each = [relative_l2_by_time(prediction[name], truth[name]) for name in truth]
    return torch.stack(each).mean(0)


@torch.no_grad()
def _residuals(run: Run, held_out: HeldOut, view: View) -> dict[str, np.ndarray]:
    """Evaluate every equation on the axes that are drawn ``[rows, *axes]``.

    Empty for inputs that are known from data only, for operators whose residual is taken on a grid
    of its own, and where it is not finite.
    """
    if not held_out.functions and run.problem.inputs:
        return {}
    if run.model.operator.gridded or run.model.operator.end_only:
        return {}
    like = run.model.operator.scale
    rows = torch.arange(min(ROWS, len(next(iter(held_out.truth.values())))))
    functions = {n: f.take(rows).to(like.device, like.dtype) for n, f in held_out.functions.items()}
    observed = {name: samples.take(rows).to(like) for name, samples in held_out.inputs.items()}
    equations = residual_of_model(run.solved, run.model, run.config)
    residual = residual_at_points(run.model, equations, functions, observed)
    cuts, own = view.cuts(), {name: torch.from_numpy(axis) for name, axis in view.axes.items()}
    drawn = {name: axis[cuts[name], None] if name in cuts else axis for name, axis in own.items()}
    chunks = Queries(axes=drawn).tensor().split(RESIDUAL_CHUNK, dim=1)
    parts = [residual(c.to(like).expand(len(rows), -1, -1)).double().cpu() for c in chunks]
    found = torch.cat(parts, 1)
    found = found.reshape(len(rows), *(len(drawn[n]) for n in drawn if n not in cuts), -1)
    if not bool(found.isfinite().all()):
        return {}
    return {f"equation {e + 1}": found[..., e].numpy() for e in range(found.shape[-1])}
