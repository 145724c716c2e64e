"""Take from a run what its figures show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.tri import LinearTriInterpolator, Triangulation
from torch import Tensor

from piop.domain import Shape
from piop.errors import NotSupportedError, SolverError
from piop.fields import FunctionSamples
from piop.metrics import relative_l2_by_time
from piop.report.figures import Shown, draw_figures
from piop.residual import compile_residual
from piop.run import predict_held_out
from piop.run.evaluation import ends_only, errors_of
from piop.run.folder import read_json
from piop.run.prediction import save_grid
from piop.training.batches.input_grid import on_lattices
from piop.training.operator import OperatorField

if TYPE_CHECKING:
    from piop.run import HeldOut, Run

SAMPLES, ROWS = 8, 3  # held-out inputs behind the curves, and shown one by one
FINE = (101, 256)  # times and points of figures in one space dimension, at most
RASTER = 97  # places along each axis of figures of a shape
POINTS = 2048  # queries of the residual at once


def draw_run(run: Run, seed: int | None = None, data: Path | None = None) -> list[Path]:
    """Draw the figures of a run into its folder.

    Args:
        run: Trained; its metrics and weights are read.
        seed: Of the held-out inputs; by default the run's own.
        data: File of those to show instead.

    Returns:
        The files written: losses alone where nothing can be compared with.

    Raises:
        PiopError: A file cannot be written.
    """
    try:
        line, end = len(run.problem.space) == 1, ends_only(run.model)
        finer = save_grid(run.problem, FINE, end) if line else None
        held_out = run.held_out(SAMPLES, seed, finer, data=data)
    except (NotSupportedError, SolverError):
        held_out = None
    shown = None
    if held_out is not None and held_out.queries.axes is not None:
        shown = collect(run, held_out)
    elif held_out is not None and run.problem.region is not None and not run.problem.varies:
        shown = collect_cloud(run, held_out, run.problem.region)
    inferred = read_json(run.path / "evaluation.json").get("inferred")
    units = {name: str(unit) for name, unit in run.problem.units.items()}
    return draw_figures(run.path / "figures", run.metrics, shown, inferred, units)


def collect(run: Run, held_out: HeldOut) -> Shown:
    """Predict held-out inputs on a grid and gather what the figures need."""
    problem = run.problem
    assert held_out.queries.axes is not None  # noqa: S101 - asked for by the caller
    prediction = predict_held_out(problem, run.model, held_out)
    truth = dict(held_out.truth)
    errors = errors_of(prediction, truth)
    shown = Shown(
        axes={name: axis.numpy() for name, axis in held_out.queries.axes.items()},
        time=None if problem.time is None else problem.time.name,
        units={name: str(unit) for name, unit in problem.units.items()},
        reference={name: value[:ROWS].numpy() for name, value in truth.items()},
        prediction={name: prediction[name][:ROWS].numpy() for name in truth},
        titles=[f"input {i}: error {e:.2g}" for i, e in enumerate(errors[:ROWS].tolist())],
        residuals=_residuals(run, held_out),
    )
    if problem.time is None:
        return shown
    if ends_only(run.model):
        return _at_the_end(shown, problem.time.name)
    still = {name: value[:, :1].expand_as(value) for name, value in truth.items()}
    return replace(
        shown,
        errors=_by_time(prediction, truth).numpy(),
        baselines={"stays at u0": _by_time(still, truth).mean(0).numpy()},
    )


def collect_cloud(run: Run, held_out: HeldOut, region: Shape) -> Shown:
    """Bring solutions at points of a shape to a grid; what is outside is NaN."""
    problem = run.problem
    assert held_out.queries.points is not None  # noqa: S101 - asked for by the caller
    truth, prediction = held_out.truth, predict_held_out(problem, run.model, held_out)
    errors = errors_of(prediction, dict(truth))
    axes = {c.name: np.linspace(c.low, c.high, RASTER) for c in problem.space}
    grid = np.meshgrid(*axes.values(), indexing="ij")
    inside = region.inside(np.stack(grid, -1).reshape(-1, 2)).reshape(grid[0].shape)

    def laid(values: Tensor) -> np.ndarray:
        places = held_out.queries.points.expand(len(values), -1, -1).numpy()  # type: ignore[union-attr]
        rows = []
        for points, row in zip(places[:ROWS], values[:ROWS].numpy(), strict=True):
            between = LinearTriInterpolator(Triangulation(points[:, 0], points[:, 1]), row)
            rows.append(np.where(inside, between(*grid).filled(np.nan), np.nan))
        return np.stack(rows)

    return Shown(
        axes=axes,
        time=None,
        units={name: str(unit) for name, unit in problem.units.items()},
        reference={name: laid(value) for name, value in truth.items()},
        prediction={name: laid(prediction[name]) for name in truth},
        titles=[f"input {i}: error {e:.2g}" for i, e in enumerate(errors[:ROWS].tolist())],
    )


def _at_the_end(shown: Shown, time: str) -> Shown:
    """Show the one time there is as a steady solution is shown."""
    place = list(shown.axes).index(time) + 1

    def still(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: value.take(-1, place) for name, value in values.items()}

    return replace(
        shown,
        axes={name: ticks for name, ticks in shown.axes.items() if name != time},
        time=None,
        reference=still(shown.reference),
        prediction=still(shown.prediction),
        residuals=still(shown.residuals),
    )


def _by_time(prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> Tensor:
    """Relative L2 of each sample at each time ``[B, T]``, the mean over the channels."""
    each = [relative_l2_by_time(prediction[name], truth[name]) for name in truth]
    return torch.stack(each).mean(0)


@torch.no_grad()
def _residuals(run: Run, held_out: HeldOut) -> dict[str, np.ndarray]:
    """Evaluate every equation on the grid ``[rows, *axes]``.

    None for inputs known by data only, nor for operators whose residual lives on a grid of its own.
    """
    if not held_out.functions and run.problem.inputs:
        return {}
    if run.model.operator.gridded or ends_only(run.model):
        return {}
    model, residual = run.model, compile_residual(run.solved)
    like = model.operator.scale
    rows = torch.arange(min(ROWS, len(next(iter(held_out.truth.values())))))
    functions = {n: f.take(rows).to(like.device, like.dtype) for n, f in held_out.functions.items()}
    seen = {name: _rows(samples, rows).to(like) for name, samples in held_out.inputs.items()}
    seen = on_lattices(model.grids, functions, seen)
    lift = None if model.known is None else residual.compile_lift(model.known.expressions)
    parts = []
    for points in held_out.queries.tensor().split(POINTS, dim=1):
        queries = points.to(like).expand(len(rows), -1, -1)
        known = None if lift is None else lift(functions, queries)
        field = OperatorField(model.operator, seen, lift, known)
        values = residual.evaluate_inputs(functions, queries)
        parts.append(residual(field, queries, values).values.double().cpu())
    found = torch.cat(parts, 1).reshape(len(rows), *held_out.queries.shape, -1)
    return {f"equation {e + 1}": found[..., e].numpy() for e in range(found.shape[-1])}


def _rows(samples: FunctionSamples, rows: Tensor) -> FunctionSamples:
    mask = None if samples.mask is None else samples.mask[rows]
    return FunctionSamples(samples.points[rows], samples.values[rows], mask)
