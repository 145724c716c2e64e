"""Held-out solutions beside the predictions of a run, as figures and report show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import NotSupportedError, SolverError
from piop.fields import FunctionSamples, InputFunction
from piop.metrics import relative_l2_by_time
from piop.report.held_out_errors import HeldOutErrors, measure_errors
from piop.report.layouts import Cloud, View, triangulate
from piop.run.evaluation import OperatorJudge, residual_at_points
from piop.run.run import HELD_OUT_INPUTS
from piop.training.build import residual_of_model

if TYPE_CHECKING:
    from piop.run import HeldOut, Run

RESIDUAL_POINTS = 2**13  # of a figure of residuals at most: a panel has about 250 × 225 pixels
RESIDUAL_CHUNK = 2048  # queries of the residual at a time


@dataclass(frozen=True)
class Comparison:
    """Held-out inputs and their predictions, as figures and report show them.

    Attributes:
        view: The coordinates of the rows, time first.
        reference: Channel → ``[rows, *axes]`` of the best, a median and the worst input.
        prediction: The same, predicted.
        names: One per row: ``best``, ``median``, ``worst``, or ``only``.
        samples: The errors of all held-out inputs.
        places: Of the rows among them.
        residuals: Equation → residual of the prediction ``[rows, *axes]``, on those axes of
            ``residual_view`` that are drawn; may be empty.
        residual_view: Coordinates of the residuals, where they are not those of the fields.
        without_residuals: Why there are no residuals, a clause; empty where there are some.
        times: T times of ``errors``; None where steady.
        errors: Relative L2 error of all held-out inputs at each time ``[n, T]``.
        baselines: Name → mean error over time ``[T]``.
        space_view: Coordinates of ``space_errors``; None where inputs have points of their own.
        space_errors: Channel → root mean square error over all inputs and times, relative to the
            root mean square of the references ``[*space]``.
        inputs: Sensors of the visible inputs of the rows.
        functions: The input functions of the rows; empty for data.
    """

    view: View | Cloud
    reference: Mapping[str, np.ndarray]
    prediction: Mapping[str, np.ndarray]
    names: Sequence[str]
    samples: HeldOutErrors
    places: Sequence[int]
    residuals: Mapping[str, np.ndarray] = field(default_factory=dict)
    residual_view: View | Cloud | None = None
    without_residuals: str = ""
    times: np.ndarray | None = None
    errors: np.ndarray | None = None
    baselines: Mapping[str, np.ndarray] = field(default_factory=dict)
    space_view: View | Cloud | None = None
    space_errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    inputs: Mapping[str, FunctionSamples] = field(default_factory=dict)
    functions: Mapping[str, InputFunction] = field(default_factory=dict)

    @property
    def titles(self) -> list[str]:
        """One per row, such as ``input 3 (worst): error 0.021``."""
        found = []
        for name, place in zip(self.names, self.places, strict=True):
            number, error = self.samples.numbers[place], self.samples.error[place]
            which = "" if name == "only" else f" ({name})"
            found.append(f"input {number}{which}: error {error:.2g}")
        return found


def compare(run: Run, seed: int | None = None, data: Path | None = None) -> Comparison | None:
    """Lay held-out inputs and their predictions beside the reference solutions.

    What the last evaluation has solved and predicted is used again.

    Args:
        run: A trained run.
        seed: Seed of the held-out inputs; by default the run's own.
        data: File of the held-out solutions to use instead.

    Returns:
        The comparison, of the inputs whose reference and prediction are finite; None where there is
        none, or the reference is at scattered points of one or three dimensions.
    """
    try:
        judged = run.shown(HELD_OUT_INPUTS, seed, data)
    except (NotSupportedError, SolverError):
        return None
    judge = OperatorJudge(run.solved, run.model)
    errors = judge.errors(judged.held_out, judged.prediction)
    kept = errors.isfinite().nonzero()[:, 0]
    if not len(kept):
        return None
    judged = judged.take(kept)
    samples = measure_errors(run, judged, errors[kept], kept + 1)
    rows = samples.rows()
    few = judged.take(torch.tensor(list(rows.values())))
    view = _view(run, few.fine)
    if view is None:
        return None
    guesses, truth = few.fine_prediction(judge), few.fine.truth
    found = Comparison(
        view,
        {name: value.numpy() for name, value in truth.items()},
        {name: guesses[name].double().numpy() for name in truth},
        list(rows),
        samples,
        list(rows.values()),
        inputs=few.fine.inputs,
        functions=few.fine.functions,
    )
    found = with_errors_in_time_and_space(run, found, judged.held_out, judged.prediction)
    found = _with_residuals(run, found, few.fine)
    time = view.time
    return _at_the_end(found, time) if time and run.model.operator.end_only else found


def _view(run: Run, held_out: HeldOut) -> View | Cloud | None:
    """Return the coordinates of a few held-out inputs."""
    problem, queries, units = run.problem, held_out.queries, labels_of_units(run)
    if queries.axes is not None:
        time = None if problem.time is None else problem.time.name
        return View({name: axis.numpy() for name, axis in queries.axes.items()}, time, units)
    if queries.points is None or queries.points.shape[-1] != 2 or len(problem.space) != 2:
        return None
    points = list(queries.points.expand(len(held_out.accepted), -1, -1).double().numpy())
    domain = problem.domain
    inside = None if domain.is_box or domain.varies else domain.fixed.contains
    triangles = [triangulate(row, inside) for row in points]
    first, second = problem.space
    return Cloud((first.name, second.name), points, triangles, units)


def _with_residuals(run: Run, found: Comparison, held_out: HeldOut) -> Comparison:
    """Add the residuals of a few held-out inputs, or why there are none."""
    if obstacle := _residual_obstacle(run, held_out):
        return replace(found, without_residuals=obstacle)
    own = _residual_view(run, found.view)
    residuals = _residuals(run, held_out, own)
    if not residuals:
        return replace(found, without_residuals="it is not finite at every point")
    return replace(found, residual_view=own, residuals=residuals)


def _residual_obstacle(run: Run, held_out: HeldOut) -> str:
    """Say why no residual can be evaluated at points, a clause; empty where it can."""
    problem, operator = run.problem, run.model.operator
    if not problem.residuals:
        return "the problem has no equations"
    if problem.domain.varies:
        return (
            "shapes differ from sample to sample, and the equations are compiled for one shape "
            "that all samples have"
        )
    if not problem.domain.is_box and not problem.capabilities.equations:
        return problem.capabilities.equations.refusal.removeprefix(f"{problem.name}: ")
    if not held_out.functions and problem.inputs:
        return "the held-out inputs are data, known at their sensors alone"
    if operator.gridded:
        return "the network is evaluated on a grid, and its residual on a grid of its own"
    if operator.end_only:
        return "the network predicts the last time alone, where derivatives in time are not known"
    return ""


def _residual_view(run: Run, view: View | Cloud) -> View | Cloud:
    """Return where residuals are drawn.

    On a shape these are the points off its boundary, where a hard constraint has no derivatives.
    """
    if isinstance(view, View):
        return view.with_fewer_points(RESIDUAL_POINTS)
    domain = run.problem.domain.fixed
    inner = [domain.contains(own) & ~domain.touches(own) for own in view.points]
    return view.of_points(inner)


def with_errors_in_time_and_space(
    run: Run, found: Comparison, held_out: HeldOut, prediction: Mapping[str, Tensor]
) -> Comparison:
    """Add the errors of all held-out inputs over time and over space."""
    problem = run.problem
    truth = {name: held_out.truth[name] for name in problem.unknowns if name in held_out.truth}
    axes, points, time = held_out.queries.axes, held_out.queries.points, problem.time
    over = [0]  # dimensions that the errors over space are the mean of
    if axes is not None and time is not None and not run.model.operator.end_only:
        still = {name: value[:, :1].expand_as(value) for name, value in truth.items()}
        starts = bool((axes[time.name][0] - time.low).abs() <= 1e-6 * time.length)
        stays = {"stays at u0": _by_time(still, truth).mean(0).numpy()} if starts else {}
        found = replace(
            found,
            times=axes[time.name].numpy(),
            errors=_by_time(prediction, truth).numpy(),
            baselines=stays,
        )
    units = labels_of_units(run)
    if axes is not None:
        over += [1] if time is not None else []
        rest = {n: a.numpy() for n, a in axes.items() if time is None or n != time.name}
        space = View(rest, None, units) if rest else None
    else:
        one = points is not None and (len(points) == 1 or bool((points == points[:1]).all()))
        space = found.view if one else None
    if space is None:
        return found
    errors = {
        name: ((prediction[name].double() - value).square().mean(over)).sqrt().numpy()
        / (float(value.square().mean().sqrt()) or 1.0)
        for name, value in truth.items()
    }
    return replace(found, space_view=space, space_errors=errors)


def labels_of_units(run: Run) -> dict[str, str]:
    """Return the labels of the units of a run's problem, by name."""
    return {name: str(unit) for name, unit in run.problem.units.items()}


def _at_the_end(shown: Comparison, time: str) -> Comparison:
    """Treat the only time as a steady solution."""
    if not isinstance(view := shown.view, View):
        return shown
    place = list(view.axes).index(time) + 1
    rest = {name: ticks for name, ticks in view.axes.items() if name != time}

    def still(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: value.take(-1, place) for name, value in values.items()}

    return replace(
        shown,
        view=replace(view, axes=rest, time=None),
        reference=still(shown.reference),
        prediction=still(shown.prediction),
    )


def _by_time(prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> Tensor:
    """Relative L2 of each sample at each time ``[B, T]``, the mean over the channels."""
    each = [relative_l2_by_time(prediction[name], truth[name]) for name in truth]
    return torch.stack(each).mean(0)


@torch.no_grad()
def _residuals(run: Run, held_out: HeldOut, view: View | Cloud) -> dict[str, np.ndarray]:
    """Evaluate every equation on the axes that are drawn ``[rows, *axes]``, or at points.

    Empty where it is not finite.
    """
    like = run.model.operator.scale
    rows = torch.arange(len(next(iter(held_out.truth.values()))))
    functions = {n: f.take(rows).to(like.device, like.dtype) for n, f in held_out.functions.items()}
    observed = {name: samples.take(rows).to(like) for name, samples in held_out.inputs.items()}
    equations = residual_of_model(run.solved, run.model, run.config)
    residual = residual_at_points(run.model, equations, functions, observed)
    queries, shape = _drawn_queries(view)
    chunks = queries.split(RESIDUAL_CHUNK, dim=1)
    parts = [residual(c.to(like).expand(len(rows), -1, -1)).double().cpu() for c in chunks]
    found = torch.cat(parts, 1).reshape(len(rows), *shape, -1)
    if not bool(found.isfinite().all()):
        return {}
    return {f"equation {e + 1}": found[..., e].numpy() for e in range(found.shape[-1])}


def _drawn_queries(view: View | Cloud) -> tuple[Tensor, list[int]]:
    """Return the points that are drawn ``[1 or rows, N, D]``, and the sizes that N stands for."""
    if isinstance(view, Cloud):
        return torch.from_numpy(np.stack(view.points)), [len(view.points[0])]
    cuts, own = view.cuts(), {name: torch.from_numpy(axis) for name, axis in view.axes.items()}
    drawn = {name: axis[cuts[name], None] if name in cuts else axis for name, axis in own.items()}
    return Queries(axes=drawn).tensor(), [len(drawn[n]) for n in drawn if n not in cuts]
