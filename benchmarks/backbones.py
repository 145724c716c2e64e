"""Every backbone on the same problem: the equation alone, the same steps, functions and points.

    python benchmarks/backbones.py heat --steps 150
    python benchmarks/backbones.py burgers --steps 400

Each row is the default preset of a backbone, or its marching one, with the recipe that piop uses
where neither spec nor user asks for another; a row may need another step size or more steps to be
at its best, so this is what a user gets at first, not a ranking of ideas. The error is relative L2
over held-out inputs, the same for all rows of a seed; the cost is the CPU time of the run's steps
over that of PIT with the same seed. One seed of every row comes first; a finished run is kept when
the script starts again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from record import RESULTS, environment, record
from specs import plain

import piop
from piop.errors import TrainingError, UsageError
from piop.models.registry import BACKBONES
from piop.run import fit

SEEDS = (200, 201, 202)
"""Others than those of `accuracy.py` and `ablation.py`."""
PRESETS = ("default", "march")
WARM = 20
"""Step from which the cost of steps counts."""

Run = dict[str, Any]


def train(
    problem: piop.Problem, backbone: str, preset: str, steps: int, seed: int, compiled: bool
) -> Run:
    """Train once; give the error, the parameters, and the CPU seconds of a step."""
    marks: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        run = fit(
            problem,
            steps=steps,
            backbone=backbone,
            seed=seed,
            compile=compiled,
            threads=1,
            settings={"preset": preset},
            samples=64,
            out=Path(folder) / "run",
            progress=lambda row: marks.append((row["step"], time.process_time())),
        )
        found = json.loads((run.path / "evaluation.json").read_text())
    later = [mark for mark in marks if mark[0] >= WARM]
    each = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(later)]
    return {
        "seed": seed,
        "relative_l2": found["relative_l2"]["mean"],
        "std_over_inputs": found["relative_l2"]["std"],
        "parameters": found["parameters"],
        "cpu_seconds_per_step": statistics.median(each),
        "commit": environment()["commit"],
    }


def table(rows: dict[str, list[Run]]) -> str:
    """Write the rows as Markdown, best first."""
    pit = {run["seed"]: run["cpu_seconds_per_step"] for run in rows.get("pit default", [])}
    lines = [
        "| backbone | parameters | relative L2 | seeds | step, PIT = 1 |",
        "|---|---|---|---|---|",
    ]
    means = {
        name: statistics.mean(run["relative_l2"] for run in runs)
        for name, runs in rows.items()
        if all("relative_l2" in run for run in runs)
    }
    for name in sorted(means, key=means.__getitem__):
        each = " ".join(f"{run['relative_l2']:.4f}" for run in rows[name])
        costs = [
            run["cpu_seconds_per_step"] / pit[run["seed"]]
            for run in rows[name]
            if run["seed"] in pit
        ]
        cost = f"{statistics.median(costs):.1f}" if costs else "–"
        lines.append(
            f"| {name} | {rows[name][0]['parameters']:,} | {means[name]:.4f} | {each} | {cost} |"
        )
    failed = [
        f"{name}: {run['failed']}" for name, runs in rows.items() for run in runs if "failed" in run
    ]
    return "\n".join([*lines, *failed])


def main() -> None:
    """Parse the arguments, train the runs that are missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--backbones", nargs="+", default=list(BACKBONES), choices=list(BACKBONES))
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    problem = plain(options.problem)
    device = "gpu" if torch.cuda.is_available() else "cpu"
    name = f"backbones_{problem.name}_{options.steps}_{device}"
    path = RESULTS / f"{name}.json"
    rows: dict[str, list[Run]] = json.loads(path.read_text())["rows"] if path.exists() else {}
    command = f"python benchmarks/backbones.py {' '.join(sys.argv[1:])}"
    cells = [(b, p) for b in options.backbones for p in PRESETS if p in BACKBONES[b]]
    for seed in options.seeds:
        for backbone, preset in cells:
            runs = rows.setdefault(f"{backbone} {preset}", [])
            if any(run["seed"] == seed for run in runs):
                continue
            try:
                run = train(problem, backbone, preset, options.steps, seed, options.compile)
                print(
                    f"{backbone} {preset}, seed {seed}: {run['relative_l2']:.4f}", file=sys.stderr
                )
            except (TrainingError, UsageError) as error:  # which is a result too
                run = {"seed": seed, "failed": str(error), "commit": environment()["commit"]}
                print(f"{backbone} {preset}, seed {seed}: {error}", file=sys.stderr)
            runs.append(run)
            record(name, command, {"steps": options.steps, "rows": rows})
    print(path.read_text() if options.json else table(rows))


if __name__ == "__main__":
    main()
