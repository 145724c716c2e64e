"""Steps of the problems of PI-CViT on the default PIT, differentiated in four ways.

Chen et al. 2026 (arXiv:2606.06164) differentiate their decoder at each point by ``jacrev`` for
slopes and ``hessian``, forward over reverse mode, for second derivatives (``losses.py`` of each
problem in their repository NanxiiChen/PI-CViT; slopes of shallow water by ``jacfwd``). That is
``published`` here, in torch, on the network and the points that piop's streams have, with the
slopes that the Hessians give on the way used again, in its favour. ``nested`` is reverse mode over
reverse mode. All three have the same loss, eager and in the microbatches of training; that their
losses agree is checked. Conditions that are soft constraints are part of it.

``default`` is the step that a training of the problem takes by default where that is on a lattice
in time windows. Its batch is another, so its times are given per step, and the points of both are
beside them. Times on a CPU are processor times. The steady cavity is not among the problems yet.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from second_order import Case, build_case
from torch import Tensor
from torch.func import jvp, vjp

from piop.forms.stream_plan import Index
from piop.problem import Problem
from piop.problem.classify import is_linear
from piop.residual import pointwise
from piop.training.batches.batch import Batch
from piop.training.loop.compilation import StepGradients
from steps.timing import Options, Run, interleaved

PROBLEMS = ("burgers2d_cvit", "wave2d_cvit", "shallow_water_cvit", "melting_cvit")
AT_POINTS = {"form": "strong", "windows": 1, "linear_part": "learned", "functions": 2}
AGREEMENT = 1e-3
"""Relative difference of losses that rounding in float32 may leave."""


def measure(options: Options) -> dict[str, float]:
    """Give the ratios of every problem."""
    figures: dict[str, float] = {}
    for name in PROBLEMS:
        found = compare(Problem.from_file(name), options)
        figures |= {f"{name}/{key}": value for key, value in found.items()}
    return figures


def compare(problem: Problem, options: Options) -> dict[str, float]:
    """Time the steps of a problem in turns."""
    case = build_case(problem, 0, AT_POINTS)
    batch = case.draw()(0, 0.0)
    runs = {way: step(case, batch, way) for way in ("streams", "nested", "published")}
    losses = {way: float(run()) for way, run in runs.items()}
    for way, loss in losses.items():
        if abs(loss - losses["nested"]) > AGREEMENT * losses["nested"]:
            raise RuntimeError(f"{problem.name}: the loss by {way} is {loss:.6g}; {losses}")
    points = {"streams": points_of(batch)}
    if not is_linear(problem):
        usual = build_case(problem, 0)
        usual_batch = usual.draw()(0, 0.0)
        runs["default"] = step(usual, usual_batch, "streams")
        points["default"] = points_of(usual_batch)
    clock = time.process_time if options.device.type == "cpu" else time.perf_counter
    seconds = interleaved(runs, options, warm=0, clock=clock)
    figures = {
        f"{way}_over_streams": value / seconds["streams"]
        for way, value in seconds.items()
        if way != "streams"
    }
    figures |= {f"points_{way}": float(count) for way, count in points.items()}
    found = {f"milliseconds_{way}": 1e3 * value for way, value in seconds.items()}
    print(problem.name, figures | found, file=sys.stderr, flush=True)
    return figures | found


def points_of(batch: Batch) -> int:
    """Count the points of the equations, over all functions."""
    if batch.equations is None:
        raise ValueError("a batch without equations has no points")
    functions = max([len(v.values) for v in batch.inputs.values()], default=1)
    return max(functions, len(batch.equations.queries)) * batch.equations.queries.shape[1]


def step(case: Case, batch: Batch, way: str) -> Run:
    """Prepare an eager step, which returns its loss; ``way`` is how it differentiates."""
    gradients = StepGradients(case.loss, compiled=False)
    residual = case.loss.residual
    conditions = [condition.residual for condition in case.loss.conditions.values()]

    def run() -> Tensor:
        by_streams: AbstractContextManager[Any] = nullcontext()
        if way == "published":
            by_streams = patch.object(pointwise, "nested_derivatives", forward_over_reverse)
        for each in (residual, *conditions):
            if isinstance(each, pointwise.PointwiseResidual):
                each.fallback = None if way == "streams" else way  # nested reverse mode
        case.loss.zero_grad(set_to_none=True)
        with by_streams:
            return gradients(batch)[0]["loss"]

    return run


def forward_over_reverse(
    field: Callable[[Any], Any], queries: Tensor, wanted: Iterable[tuple[int, Index]]
) -> dict[tuple[int, Index], Tensor]:
    """Differentiate a point-wise field: see ``piop.residual.reverse.nested_derivatives``.

    Slopes by one backward pass for each channel, second derivatives by forward mode through these,
    one pass for each coordinate that they are taken along.

    Raises:
        ValueError: For derivatives of order three or more, which no problem here has.
    """
    wanted = list(wanted)
    if max(sum(index) for _, index in wanted) > 2:
        raise ValueError("derivatives of order two at most")

    def slopes(at: Tensor) -> tuple[Tensor, Tensor]:
        values, pull = vjp(field, at)
        ones = torch.eye(values.shape[-1], dtype=values.dtype, device=values.device)
        return torch.stack([pull(one.expand_as(values))[0] for one in ones]), values

    count = queries.shape[-1]
    units = torch.eye(count, dtype=queries.dtype, device=queries.device)
    seconds = [index for _, index in wanted if sum(index) == 2]
    along = sorted({next(a for a, n in enumerate(index) if n) for index in seconds})
    if not along:
        first, values = slopes(queries)
    found: dict[int, Tensor] = {}
    for axis in along:
        unit = units[axis].expand_as(queries)
        first, found[axis], values = jvp(slopes, (queries,), (unit,), has_aux=True)

    def one(channel: int, index: Index) -> Tensor:
        axes = [axis for axis, n in enumerate(index) for _ in range(n)]
        if not axes:
            return values[..., channel]
        if len(axes) == 1:
            return first[channel][..., axes[0]]
        return found[axes[0]][channel][..., axes[1]]

    return {key: one(*key) for key in wanted}
