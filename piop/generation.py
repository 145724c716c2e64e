"""Make a data set of reference solutions, a batch at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from piop.datasets import DatasetWriter
from piop.datasets.layout import ESTIMATE
from piop.errors import UsageError
from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs
from piop.training.distributed import joined

if TYPE_CHECKING:
    from piop.problem import Problem

logger = logging.getLogger(__name__)

SMALLEST = 1e-12  # tolerance: float64 and its rounding leave little below it
BATCH = 16  # trajectories that one process solves and holds in memory at once
ACCEPTED = "accepted"


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
    solution, hidden ones among them. Several processes started by ``torchrun`` solve a batch each;
    the first writes them in order, so the file is the same.

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
        LostProcessError: Another process has ended.
    """
    if count < 1:
        raise UsageError(f"n = {count}: at least one sample is needed")
    if not SMALLEST <= tolerance < 1:
        raise UsageError(f"tolerance = {tolerance}: must be at least {SMALLEST:g} and below 1")
    attributes = {"seed": seed, "tolerance": tolerance, "reference": "piop.reference"}
    with joined() as processes:
        with ExitStack() as stack:
            writer: DatasetWriter | None = None

            def begin() -> None:
                nonlocal writer
                opened = DatasetWriter.open(path, problem, count, **attributes)
                writer = stack.enter_context(opened)

            processes.lead(begin)
            summary = Summary()
            for start in range(0, count, BATCH * processes.count):
                own = range(start, count)[BATCH * processes.rank :][:BATCH]
                solved = _solve(problem, own, seed, tolerance, device) if own else {}
                for content in processes.collect(save_tensors(solved)):
                    batch = load_tensors(content)
                    if writer is not None and batch:
                        _write(writer, problem, batch, first=not summary.done)
                        summary.add(batch)
                        if progress:
                            progress(summary.done)
        kept = {"path": str(path), "samples": count, "seed": seed, "tolerance": tolerance}
        return processes.lead(lambda: {**kept, **summary.report(tolerance)})


class Summary:
    """How good the solutions are, batch by batch.

    Attributes:
        done: Samples so far.
        missed: Those that may miss the tolerance.
        estimates: Error estimates of each batch.
    """

    def __init__(self) -> None:
        self.done, self.missed = 0, 0
        self.estimates: list[Tensor] = []

    def add(self, batch: dict[str, Tensor]) -> None:
        """Take the next batch into account."""
        self.estimates.append(batch[ESTIMATE])
        self.done += len(batch[ESTIMATE])
        self.missed += int((~batch[ACCEPTED]).sum())

    def report(self, tolerance: float) -> dict[str, Any]:
        """Give mean and largest error, and warn of what missed the tolerance."""
        if self.missed:
            text = "%d of %d solutions may miss the tolerance %g"
            logger.warning(text, self.missed, self.done, tolerance)
        error = torch.cat(self.estimates)
        summary = {"mean": error.mean().item(), "max": error.max().item()}
        return {"error_estimate": summary, "above_tolerance": self.missed}


def _solve(
    problem: Problem, samples: range, seed: int, tolerance: float, device: str | None
) -> dict[str, Tensor]:
    """Solve samples with these numbers, by name: axes, unknowns, inputs, error estimates."""
    draws = Draws(seed, 0, torch.arange(samples.start, samples.stop))
    functions = sample_inputs(problem, draws)
    solution = solve_reference(problem, functions, tolerance=tolerance, device=device)
    axes = _axes(problem, solution)
    on_axes = {i.name: functions[i.name].on_grid([axes[c] for c in i.of]) for i in problem.inputs}
    solved = {f"axis/{name}": positions for name, positions in axes.items()}
    solved |= {name: solution.values[name] for name in problem.channels} | on_axes
    solved |= {ESTIMATE: solution.error_estimate, ACCEPTED: solution.accepted}
    return {name: tensor.cpu().contiguous() for name, tensor in solved.items()}


def _axes(problem: Problem, solution: Any) -> dict[str, Tensor]:
    times = [] if problem.time is None else [solution.times]
    names = [c.name for c in problem.coordinates]
    return dict(zip(names, [*times, *solution.axes], strict=True))


def _write(writer: DatasetWriter, problem: Problem, batch: dict[str, Tensor], first: bool) -> None:
    """Append what :func:`_solve` gave."""
    names = tuple(c.name for c in problem.coordinates)
    if first:
        for name in names:
            writer.axis(name, batch[f"axis/{name}"])
    for name in problem.channels:
        writer.append(name, names, batch[name])
    for item in problem.inputs:
        writer.append(item.name, item.of, batch[item.name])
    writer.append(ESTIMATE, (), batch[ESTIMATE])
