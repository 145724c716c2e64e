"""One cell of the table: train a backbone on a problem's equation, judge it; and which are left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from piop.errors import PiopError, UsageError
from piop.problem import Problem
from piop.run import Run, fit, resume
from piop.run.evaluation import compare_with_truth

from .entries import BACKBONES, ENTRIES
from .judges import Judge


@dataclass(frozen=True)
class Cell:
    """One entry of the table.

    Attributes:
        problem: A key of ``ENTRIES``.
        backbone: A name of ``BACKBONES``.
        seed: Of weights, functions and points.
    """

    problem: str
    backbone: str
    seed: int

    def __str__(self) -> str:
        return f"{self.problem}/{self.backbone}/{self.seed}"


@dataclass(frozen=True)
class Budget:
    """How long and how a cell is trained.

    Attributes:
        time: As ``fit`` takes it; None for a number of steps.
        steps: Steps of every cell; None, with no time, for those of the entry.
        compile: As ``fit`` takes it.
        threads: As ``fit`` takes it.
    """

    time: str | None = None
    steps: int | None = None
    compile: bool | None = None
    threads: int | None = None

    def of(self, cell: Cell) -> dict[str, Any]:
        """Arguments of ``fit`` for a cell."""
        steps = self.steps or ENTRIES[cell.problem].steps_cpu[cell.backbone]
        return {
            **({"time": self.time} if self.time else {"steps": steps}),
            "compile": self.compile,
            "threads": self.threads,
        }


class Interrupted(Exception):
    """Training was ended by Ctrl-C; its state is kept."""


def plan(chosen: Sequence[str], seeds: Iterable[int]) -> list[Cell]:
    """List the cells in the order they are run: one seed of every cell, then the next seed.

    Args:
        chosen: ``PROBLEM``, ``BACKBONE`` or ``PROBLEM/BACKBONE``; all for none.
        seeds: In their order.

    Raises:
        UsageError: For a name that is none of these.
    """
    pairs = [(p, b) for p in ENTRIES for b in BACKBONES]
    wanted = set()
    for name in chosen:
        found = {pair for pair in pairs if name in (*pair, "/".join(pair))}
        if not found:
            raise UsageError(
                f"--cells: {name!r} is no cell; give problems ({', '.join(ENTRIES)}), backbones "
                f"({', '.join(BACKBONES)}), or PROBLEM/BACKBONE"
            )
        wanted |= found
    kept = [pair for pair in pairs if pair in wanted or not chosen]
    return [Cell(*pair, seed) for seed in dict.fromkeys(seeds) for pair in kept]


def missing(cells: Sequence[Cell], done: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Leave out the cells that a result file holds."""
    held = {(c["problem"], c["backbone"], c["seed"]) for c in done}
    return [c for c in cells if (c.problem, c.backbone, c.seed) not in held]


def run_cell(
    cell: Cell, problem: Problem, judges: Sequence[Judge], budget: Budget, work: Path
) -> dict[str, Any]:
    """Train and judge one cell, going on where an interrupted one stood.

    Returns:
        What the result file keeps of it.

    Raises:
        PiopError: If training or judging fails.
        Interrupted: On Ctrl-C.
    """
    folder = work / str(cell).replace("/", "-")
    torch.compiler.reset()  # many compiled steps in one process would meet torch's limit
    run = _trained(cell, problem, budget, folder)
    if run.interrupted:
        raise Interrupted
    found: dict[str, Any] = {
        "problem": cell.problem,
        "backbone": cell.backbone,
        "seed": cell.seed,
        "settings": run.config.to_json(),
        "steps": int(run.metrics[-1]["step"]),
        "seconds": run.metrics[-1]["seconds"],
        "parameters": sum(p.numel() for p in run.model.operator.parameters()),
        "relative_l2": {},
        "warnings": [],
    }
    for judge in judges:
        said = compare_with_truth(problem, run.model, judge.held_out)
        found["relative_l2"][judge.name] = spread(said["relative_l2"]["per_sample"])
        found["warnings"] += said["warnings"]
    shutil.rmtree(folder)
    _stamp(folder).unlink()
    return found


def spread(errors: Sequence[float]) -> dict[str, float]:
    """Mean, standard deviation, median and largest of the errors of all inputs."""
    ordered, n = sorted(errors), len(errors)
    mean = sum(errors) / n
    variance = sum((e - mean) ** 2 for e in errors) / max(1, n - 1)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return {"mean": mean, "std": variance**0.5, "median": median, "max": ordered[-1]}


def _stamp(folder: Path) -> Path:
    """Where it is written beside a run folder what it was trained for."""
    return folder.with_suffix(".json")


def _trained(cell: Cell, problem: Problem, budget: Budget, folder: Path) -> Run:
    """Resume what lies in the folder if it is this cell with this budget, else train anew."""
    arguments = budget.of(cell)
    stamp = _stamp(folder)
    mark = json.dumps({**arguments, "hash": problem.hash}, sort_keys=True)
    if folder.exists() and stamp.exists() and stamp.read_text() == mark:
        try:
            return resume(folder, samples=0)
        except PiopError as error:
            print(f"{cell}: training anew, for what lies in {folder} cannot be resumed: {error}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(mark)
    return fit(
        problem,
        **arguments,
        backbone=cell.backbone,
        seed=cell.seed,
        out=folder,
        force=True,
        samples=0,
    )
