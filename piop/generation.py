"""Make a data set of reference solutions, a batch at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from piop.datasets import DatasetWriter
from piop.errors import UsageError
from piop.fields import InputFunction
from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs

if TYPE_CHECKING:
    from piop.problem import Problem

logger = logging.getLogger(__name__)

SMALLEST = 1e-12  # tolerance: float64 and its rounding leave little below it
BATCH = 16  # trajectories solved and held in memory at once


def generate(
    problem: Problem,
    count: int,
    path: str | Path,
    *,
    seed: int = 0,
    tolerance: float = 1e-6,
    device: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Draw inputs, solve, and write NetCDF that appears under its name once it is whole.

    Sample i depends on seed and i, not on how many there are. Inputs stand on the grid of the
    solution, hidden ones among them.

    Args:
        problem: What to draw and solve.
        count: Samples.
        path: The file.
        seed: Of the inputs.
        tolerance: Relative L2 error that each solution should stay below.
        device: Where to solve; the CPU by default.
        progress: Told the number of samples done after each batch.

    Returns:
        ``path``, ``samples``, ``seed``, ``tolerance``, ``error_estimate`` (mean, max) and
        ``above_tolerance``, the number of samples that may miss the tolerance.

    Raises:
        NotSupportedError: No reference solver covers the problem; says why.
        SolverError: A solution is not finite.
        UsageError: A count, seed or tolerance that makes no sense.
        DataError: The file cannot be written.
    """
    if count < 1:
        raise UsageError(f"n = {count}: at least one sample is needed")
    if not SMALLEST <= tolerance < 1:
        raise UsageError(f"tolerance = {tolerance}: must be at least {SMALLEST:g} and below 1")
    estimates: list[Tensor] = []
    missed = 0
    attributes = {"seed": seed, "tolerance": tolerance, "reference": "piop.reference"}
    with DatasetWriter.open(path, problem, count, **attributes) as writer:
        for start in range(0, count, BATCH):
            stop = min(start + BATCH, count)
            draws = Draws(seed, 0, torch.arange(start, stop))
            functions = sample_inputs(problem, draws)
            solution = solve_reference(problem, functions, tolerance=tolerance, device=device)
            axes = _axes(problem, solution)
            if start == 0:
                for name, positions in axes.items():
                    writer.axis(name, positions)
            for name in problem.channels:
                writer.append(name, tuple(axes), solution.values[name])
            for name, dimensions, values in _on_axes(problem, functions, axes):
                writer.append(name, dimensions, values)
            writer.append("error_estimate", (), solution.error_estimate)
            estimates.append(solution.error_estimate.cpu())
            missed += int((~solution.accepted).sum())
            if progress:
                progress(stop)
    if missed:
        logger.warning("%d of %d solutions may miss the tolerance %g", missed, count, tolerance)
    error = torch.cat(estimates)
    summary = {"mean": error.mean().item(), "max": error.max().item()}
    return {
        "path": str(path),
        "samples": count,
        "seed": seed,
        "tolerance": tolerance,
        "error_estimate": summary,
        "above_tolerance": missed,
    }


def _axes(problem: Problem, solution: Any) -> dict[str, Tensor]:
    times = [] if problem.time is None else [solution.times]
    names = [c.name for c in problem.coordinates]
    return dict(zip(names, [*times, *solution.axes], strict=True))


def _on_axes(
    problem: Problem, functions: dict[str, InputFunction], axes: dict[str, Tensor]
) -> Iterator[tuple[str, tuple[str, ...], Tensor]]:
    for item in problem.inputs:
        where = [axes[c] for c in item.of]
        yield item.name, item.of, functions[item.name].on_grid(where)
