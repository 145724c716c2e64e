"""What each part of the recipe is worth: one change at a time, the same budget, several seeds.

    python benchmarks/ablation.py burgers --steps 1200
    python benchmarks/ablation.py heat2d --steps 150

Every row changes the default recipe in one way and is trained on the equation alone; what the
spec's ``solve:`` says is left aside. The budget is what the given number of steps of the default
recipe costs: a row whose step takes longer gets fewer
steps, one whose step takes less gets more, in proportion to the CPU time of its first seed's steps,
the median, over that of a few steps of the default recipe taken just before, so that a machine
whose pace changes burdens both; within 25 per cent counts as the same. Errors are relative L2 over
held-out inputs; each seed has its own, the same for all rows, and none of them are those of
`accuracy.py`, so that the recipe is not chosen on what it is judged by. One seed of every row comes
first; a finished run is kept when the script starts again.
"""

from __future__ import annotations

import argparse
import json
import math
import re
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
from piop.run import fit

Settings = dict[str, Any]

SOFT: Settings = {"constraints": "soft"}
COMMON: dict[str, Settings] = {
    "default": {},
    # weights
    "absolute loss": {"relative": False},
    "squares": {"root": False},
    "causal": {"causal": 1.0},
    "penalised initial data": SOFT,
    "penalised, gradient norm": {**SOFT, "weighting": "gradient_norm", "initial_weight": 1.0},
    "penalised, NTK": {**SOFT, "weighting": "ntk", "initial_weight": 1.0},
    "local NTK": {"weighting": "ntk_local"},
    "residual-based attention": {"weighting": "residual_attention"},
    # points
    "Sobol points": {"method": "sobol"},
    "residual-adaptive points": {"method": "residual_adaptive"},
    "time curriculum": {"horizon": 0.2, "horizon_until": 0.5},
    # optimisers
    "AdamW": {"optimiser": "adamw", "learning_rate": 1e-3},
    "Muon": {"optimiser": "muon"},
    "Muon, 3e-2": {"optimiser": "muon", "learning_rate": 3e-2},
    "L-BFGS finish": {"lbfgs": 0.2},
    "mean of weights": {"average": 0.99},
    "clip 1": {"clip": 1.0},
    "no clip": {"clip": 0.0},
}
ROWS: dict[str, dict[str, Settings]] = {
    # Linear problems have no front weight to take away.
    "burgers": {**COMMON, "no front weight": {"front": 0.0}},
    "heat2d": COMMON,
}
SEEDS = (100, 101, 102)
SAME_COST = 0.25
"""Cost of a step relative to the default's that still counts as the same: a busy machine moves it
by a fifth."""
WARM, PROBE = 20, 60
"""Step from which the cost of steps counts, and steps of the default recipe that it is compared
with."""
HELD_OUT = 64


def train(
    problem: piop.Problem, settings: Settings, steps: int, seed: int, compiled: bool
) -> tuple[dict[str, Any], float]:
    """Train once; give the error, and the CPU seconds of a step, compilation left out."""
    marks: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        fit(
            problem,
            steps=steps,
            seed=seed,
            compile=compiled,
            threads=1,
            settings=settings,
            out=run,
            progress=lambda row: marks.append((row["step"], time.process_time())),
            samples=HELD_OUT,
        )
        error = json.loads((run / "evaluation.json").read_text())["relative_l2"]
    later = [mark for mark in marks if mark[0] >= WARM]
    each = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(later)]
    found = {
        "seed": seed,
        "steps": steps,
        "relative_l2": error["mean"],
        "std_over_inputs": error["std"],
        "commit": environment()["commit"],
    }
    return found, statistics.median(each)


def by_seed(run: dict[str, Any]) -> int:
    """Order runs by their seed."""
    return run["seed"]


def fair_steps(costs: dict[str, float], label: str, steps: int) -> int:
    """Give the steps that cost as much as the default's, from the first run of each row."""
    ratio = costs.get(label, 1.0)
    return steps if abs(ratio - 1) <= SAME_COST else round(steps / ratio)


def error_of(run: dict[str, Any]) -> float:
    """Give the error of a run, infinite where it diverged."""
    return math.inf if run["relative_l2"] is None else run["relative_l2"]


def shown(run: dict[str, Any]) -> str:
    """Write the error of a run, or that there is none."""
    return "diverged" if run["relative_l2"] is None else f"{run['relative_l2']:.4f}"


def table(rows: dict[str, list[dict[str, Any]]]) -> str:
    """Write the rows as Markdown, best first."""
    lines = ["| recipe | steps | relative L2 | seeds |", "|---|---|---|---|"]
    means = {name: statistics.mean(map(error_of, runs)) for name, runs in rows.items()}
    for name in sorted(means, key=means.__getitem__):
        each = " ".join(map(shown, rows[name]))
        lines.append(f"| {name} | {rows[name][-1]['steps']} | {means[name]:.4f} | {each} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, train the runs that are missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", choices=ROWS)
    parser.add_argument("--steps", type=int, required=True, help="of the default recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="by default all")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    problem = plain(options.problem)
    chosen = ROWS[options.problem]
    for name in options.rows or []:
        if name not in chosen:
            parser.error(f"{name!r} is no row; one of {', '.join(chosen)}")
    device = "gpu" if torch.cuda.is_available() else "cpu"
    name = f"ablation_{options.problem}_{options.steps}_{device}"
    path = RESULTS / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    rows, costs = found.get("rows", {}), found.get("step_over_default", {})
    command = f"python benchmarks/ablation.py {' '.join(sys.argv[1:])}"
    for seed in options.seeds:
        for label in options.rows or chosen:
            runs = rows.get(label, [])
            while True:  # once more where the first run shows that the row's steps cost more
                steps = fair_steps(costs, label, options.steps)
                if any(run["seed"] == seed and run["steps"] == steps for run in runs):
                    break
                try:
                    usual = 1.0
                    if label not in costs and chosen[label]:
                        usual = train(problem, {}, PROBE, seed, options.compile)[1]
                    run, cost = train(problem, chosen[label], steps, seed, options.compile)
                    ratio = cost / usual if chosen[label] else 1.0
                except UsageError as error:
                    print(f"{label}: left out: {error}", file=sys.stderr)
                    break
                except TrainingError as error:  # it diverged, which is a result too
                    told = re.sub(r"\S+/run\b", "RUN", str(error))
                    run = {"seed": seed, "steps": steps, "relative_l2": None, "failed": told}
                    run["commit"] = environment()["commit"]
                    ratio = 1.0
                costs.setdefault(label, ratio)
                runs = sorted([r for r in runs if r["seed"] != seed] + [run], key=by_seed)
                rows[label] = runs
                figures = {
                    "steps": options.steps,
                    "settings": {label: chosen[label] for label in rows},
                    "step_over_default": costs,
                    "rows": rows,
                }
                record(name, command, figures)
                print(f"{label}, seed {seed}: {shown(run)}", file=sys.stderr)
    print(path.read_text() if options.json else table(rows))


if __name__ == "__main__":
    main()
