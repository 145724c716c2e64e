"""What a problem's cells are judged on, and how the result states it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from piop.problem import Problem

from .cells import spread
from .entries import ENTRIES
from .judges import NEURALOP, SEED, Judge, cached, law_judges, neuralop_judge

DATA = Path(__file__).parents[3] / "shared" / "data"
FILE = "neuralop_burgers_test_16.pt"


def judges_of(
    name: str, problem: Problem, full: bool, inputs: int | None, data: Path, work: Path
) -> list[Judge]:
    """All that a problem's cells are judged on, solved once and kept in a folder.

    Args:
        name: A key of ``ENTRIES``.
        problem: Its problem.
        full: The grid and the number of inputs of the full table, not of the scaled-down one.
        inputs: How many inputs in place of that number.
        data: Folder of neuraloperator's trajectories.
        work: Where solutions are kept.
    """
    entry = ENTRIES[name]
    samples = inputs or (entry.inputs if full else entry.inputs_cpu)
    key = {
        "hash": problem.hash,
        "full": full,
        "seed": SEED,
        "grid": dict(entry.grid),
        "inputs": samples,
        "views": dict(entry.views),
    }
    judges = cached(work, key, lambda: law_judges(problem, entry, samples, full))
    if name != "burgers_wang":
        return judges
    file = data / FILE
    if not file.exists():
        print(f"burgers_wang: not judged on neuraloperator's trajectories: no {file}; give --data")
        return judges
    theirs = {"hash": problem.hash, "file": FILE, "samples": samples}
    return [*judges, *cached(work, theirs, lambda: [neuralop_judge(problem, file, samples)])]


def protocol(name: str, problem: Problem, judges: list[Judge]) -> dict[str, Any]:
    """State the sampler and the test: nothing about a figure is left to be guessed."""
    entry = ENTRIES[name]
    return {
        "spec": problem.to_yaml(),
        "source": entry.source,
        "differs": entry.differs,
        "published": dict(entry.published),
        "held_out_seed": SEED,
        "judged_on": {
            judge.name: {
                "inputs": len(judge.held_out.accepted),
                "grid": {n: len(a) for n, a in (judge.held_out.queries.axes or {}).items()},
                "reference_error_estimate": None
                if judge.held_out.error_estimate is None
                else float(judge.held_out.error_estimate.max()),
                "best_possible": spread(judge.floor.tolist()),
                "whose": "neuraloperator (MIT)" if judge.name == NEURALOP else "the law, piop",
            }
            for judge in judges
        },
    }
