"""Data sets of reference solutions, made a batch at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from piop.arguments import callback, file_path, flag, real_number, seed_number, whole_number
from piop.datasets import DatasetWriter
from piop.datasets.atomic_output import Shards, require_new
from piop.datasets.lazy_arrays import ACCEPTED, AXIS, ESTIMATE, POINT, POINTS, STEP
from piop.datasets.writer import file_attributes
from piop.errors import UsageError
from piop.fields import grid_axis
from piop.problem.capabilities import choose_method
from piop.reference import solve_reference
from piop.reference.solve import requested_tolerance
from piop.sampling import Draws, sample_inputs
from piop.sampling.random import DATA, NEWEST_SCHEME
from piop.training.distributed import joined

if TYPE_CHECKING:
    from piop.problem import Problem

logger = logging.getLogger(__name__)

BATCH = 16  # trajectories that one process solves and holds in memory at once
_ANGLES = 64  # angles of hidden inputs, where no visible input has angles


def generate(
    problem: Problem,
    count: int,
    path: str | Path,
    *,
    seed: int = 0,
    tolerance: float | None = None,
    noise: float = 0.0,
    device: str | None = None,
    force: bool = False,
    draws: int = NEWEST_SCHEME,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Draw inputs, solve, and write a file that appears under its name once it is complete.

    Sample i depends on seed and i, not on the number of samples. Inputs, hidden ones included, are
    written on the grid of the solution, or at its points on a shape. Each batch is kept in the
    folder ``NAME.parts`` as soon as it is solved: the same call continues where an earlier one
    ended. Several processes started by ``torchrun`` solve a batch each; the first writes them, so
    the file is the same. A problem without inputs has one solution, of which only noise makes
    different samples.

    Args:
        problem: The problem to solve.
        count: Number of samples.
        path: The file: NetCDF (``.nc``) or a folder in Zarr's format (``.zarr``).
        seed: Seed of the inputs.
        tolerance: Relative L2 error that each solution should stay below; the method's own by
            default, see ``piop.reference.solve_reference``.
        noise: Standard deviation of independent normal noise on every value of the unknowns, as a
            fraction of that of the unknown over its sample. Error estimates are of the solution
            without it.
        device: Device of the solver; the CPU by default.
        force: Replace a file that is there, once the new one is complete.
        draws: Scheme of the random numbers, noted in the file: 1 gives the samples of a file in
            which none is noted.
        progress: Called with the number of samples done after each batch.

    Returns:
        ``path``, ``samples``, ``seed``, ``tolerance``, ``error_estimate`` (mean, max),
        ``above_tolerance``, the number of samples that may miss the tolerance, and ``resumed``,
        the number of samples from an earlier call.

    Raises:
        NotSupportedError: No reference solver covers the problem, with the reason.
        SolverError: A solution is not finite.
        UsageError: A count or tolerance out of range; more than one sample of a problem that has
            one solution; parts of another data set; a file that is there already, or of no known
            format.
        DataError: The file cannot be written.
        LostProcessError: Another process has ended.
    """
    count, seed, force = whole_number("n", count), seed_number(seed), flag("force", force)
    path, progress = file_path("path", path), callback(progress)
    method = choose_method(problem)
    tolerance = requested_tolerance(problem, tolerance)
    if (noise := real_number("noise", noise)) < 0:
        raise UsageError(f"noise: {noise:g} is below zero")
    if count > 1 and not problem.inputs and not noise:
        raise UsageError(
            f"n = {count}: {problem.name} has no inputs and so one solution: give n = 1 (-n 1), or "
            f"noise (--noise 0.01) for {count} different observations of it"
        )
    attributes = {"seed": seed, "draws": draws, "tolerance": tolerance, "reference": method.name}
    attributes |= {"noise": noise} if noise else {}
    parts = [range(low, min(count, low + BATCH)) for low in range(0, count, BATCH)]
    with joined() as processes, ExitStack() as stack:

        def begin() -> list[bool]:
            DatasetWriter.require(path, force=True)
            manifest = _manifest(problem, attributes, device)
            opened.append(stack.enter_context(Shards.open(path, manifest)))
            there = [opened[0].has(part) for part in parts]
            if not all(there):  # else a file that is there is what an earlier call wrote last
                require_new(Path(path), force)
            return there

        def finish() -> dict[str, Any]:
            return _assemble(problem, parts, path, attributes, opened[0], force or all(there))

        opened: list[Shards] = []  # in the first process
        there = processes.lead(begin)
        resumed = done = sum(len(p) for p, has in zip(parts, there, strict=True) if has)
        if resumed:
            logger.info("%d of %d samples were made before", resumed, count)
        missing = [p for p, has in zip(parts, there, strict=True) if not has]
        for first in range(0, len(missing), processes.count):
            group = missing[first : first + processes.count]
            own = group[processes.rank] if processes.rank < len(group) else None
            solved = {} if own is None else _solve(problem, own, attributes, device)
            # Only the first process collects, from each in turn; it must take the empty content of
            # a process without a batch too, which waits until then.
            for rank, content in enumerate(processes.collect(save_tensors(solved))):
                if rank >= len(group):
                    continue
                part = group[rank]
                opened[0].write(part, content)
                done += len(part)
                if progress:
                    progress(done)
        found = processes.lead(finish)
    return {"path": str(path), "samples": count, "resumed": resumed, **found}


def _manifest(problem: Problem, attributes: dict[str, Any], device: str | None) -> dict[str, Any]:
    """Everything on which the content of a part depends."""
    described = file_attributes(problem, **attributes)
    kept = {k: v for k, v in described.items() if k not in ("title", "piop_spec", "reference")}
    return {**kept, "device": device or "cpu", "batch": BATCH}


def _assemble(
    problem: Problem,
    parts: Sequence[range],
    path: str | Path,
    attributes: dict[str, Any],
    shards: Shards,
    force: bool,
) -> dict[str, Any]:
    """Write the file from its parts, remove them, and summarise the errors."""
    estimates: list[Tensor] = []
    count, missed, tolerance = parts[-1].stop, 0, attributes["tolerance"]
    own = {"workspace": shards.folder, "force": force, **attributes}
    with DatasetWriter.open(path, problem, count, **own) as writer:
        for part in parts:
            batch = load_tensors(shards.read(part))
            _write(writer, problem, batch, first=not estimates)
            estimates.append(batch[ESTIMATE])
            missed += int((batch[ACCEPTED] == 0).sum())
    shards.remove()
    if missed:
        logger.warning("%d of %d solutions may miss the tolerance %g", missed, count, tolerance)
    error = torch.cat(estimates)
    return {
        "seed": attributes["seed"],
        "tolerance": tolerance,
        "error_estimate": {"mean": error.mean().item(), "max": error.max().item()},
        "above_tolerance": missed,
    }


def _solve(
    problem: Problem, samples: range, attributes: dict[str, Any], device: str | None
) -> dict[str, Tensor]:
    """Solve the samples of these indices: axes, unknowns, inputs and error estimates by name."""
    draws = Draws.of(DATA, attributes["seed"], samples, attributes["draws"])
    functions = sample_inputs(problem, draws)
    solution = solve_reference(problem, functions, tolerance=attributes["tolerance"], device=device)
    if not bool(solution.error_estimate.isfinite().all()):
        for note in solution.notes:
            logger.warning("of the samples from %d on, %s", samples.start, note)
    if solution.points is None:
        times = [] if problem.time is None else [solution.times]
        names = [c.name for c in problem.coordinates]
        axes = dict(zip(names, [*times, *solution.axes], strict=True))
        solved = {f"axis/{name}": positions for name, positions in axes.items()}
        for item in problem.inputs:
            if item.name in functions:  # a history is in the solution
                solved[item.name] = functions[item.name].on_grid([axes[c] for c in item.of])
    else:
        solved = _at_points(problem, functions, solution.points)
    solved |= {name: solution.values[name] for name in problem.channels}
    solved |= {ESTIMATE: solution.error_estimate, ACCEPTED: solution.accepted.to(torch.int8)}
    if problem.space:
        solved[POINTS] = solution.modes.to(torch.int32)
    solved[STEP] = solution.step
    if not problem.inputs:  # one solution, repeated
        solved = {
            name: v if name.startswith("axis/") else v.expand(len(samples), *v.shape[1:])
            for name, v in solved.items()
        }
    noise = attributes.get("noise", 0.0)
    solved |= {name: noisy(solved[name].cpu(), noise, draws, name) for name in problem.channels}
    return {name: tensor.cpu().contiguous() for name, tensor in solved.items()}


def _at_points(problem: Problem, functions: Any, points: Tensor) -> dict[str, Tensor]:
    """Positions ``[B, P]`` of each coordinate, and inputs there."""
    names = [c.name for c in problem.space]
    found = {f"place/{name}": points[..., i] for i, name in enumerate(names)}
    angles = _angles(problem)
    found |= {f"axis/{name}": positions for name, positions in angles.items()}
    for item in problem.inputs:
        function = functions[item.name]
        if angles.keys() & set(item.of) or not item.of:
            found[item.name] = function.on_grid([angles[c] for c in item.of])
        else:
            found[item.name] = function(points[..., [names.index(c) for c in item.of]])
    return found


def _angles(problem: Problem) -> dict[str, Tensor]:
    """Angles of the inputs in a file: as many as the most sensors of a visible input."""
    visible = problem.visible_inputs
    counts = {a: [i.sensor_shape[0] for i in visible if a.name in i.of] for a in problem.angles}
    return {
        a.name: grid_axis(a.low, a.high, max(own, default=_ANGLES), True)
        for a, own in counts.items()
    }


def noisy(values: Tensor, level: float, draws: Draws, name: str) -> Tensor:
    """Add normal noise, a fraction of the standard deviation of each sample of ``[B, …]``."""
    if not level:
        return values
    flat = values.flatten(1)
    spread = flat.std(1, keepdim=True)
    return (flat + level * spread * draws.normal(f"noise/{name}", flat.shape[1])).view_as(values)


def _write(writer: DatasetWriter, problem: Problem, batch: dict[str, Tensor], first: bool) -> None:
    """Append the arrays of :func:`_solve`."""
    names = tuple(c.name for c in problem.coordinates)
    angles = tuple(a.name for a in problem.angles)
    scattered = f"place/{names[-1]}" in batch
    for name in names:
        if scattered:
            writer.append(name, (POINT,), batch[f"place/{name}"])
        elif first:
            writer.axis(name, batch[f"axis/{name}"])
    for name in angles if first else ():
        writer.axis(name, batch[f"axis/{name}"])
    for name in problem.channels:
        writer.append(name, (POINT,) if scattered else names, batch[name])
    for item in problem.inputs:
        if item.name not in batch:
            continue
        along = (POINT,) if scattered and set(item.of) & set(names) else item.of
        writer.append(item.name, along, batch[item.name])
    for name in (ESTIMATE, ACCEPTED, STEP):
        writer.append(name, (), batch[name])
    if POINTS in batch:
        writer.append(POINTS, (AXIS,), batch[POINTS])
