"""Accuracy by physics alone: train for a budget, judge on held-out inputs, several seeds.

    python benchmarks/accuracy.py burgers --time 10m --seeds 0 1 2

Each seed is one `fit` with nothing but the equation; the error is the relative L2 against the
reference over held-out inputs that the network sees through sensors only. A finished seed is kept
when the script is started again; the result is `results/accuracy_NAME.json`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from record import RESULTS, record
from specs import reworded

import piop
from piop.run import fit


def load(name: str, place: str | None) -> piop.Problem:
    """Load a shipped problem, with its sensors placed otherwise where asked."""
    problem = piop.Problem.from_file(name)
    if place is None:
        return problem
    counts = {item.name: math.prod(item.sensor_shape) for item in problem.inputs}
    return reworded(name, sensors={n: {"count": c, "place": place} for n, c in counts.items()})


def one_seed(problem: piop.Problem, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train once and return what the evaluation says."""
    with tempfile.TemporaryDirectory() as folder:
        fit(
            problem,
            time=options.time,
            steps=options.steps,
            seed=seed,
            compile=options.compile,
            threads=options.threads,
            samples=64,
            settings=dict(pair.split("=", 1) for pair in options.set),
            out=Path(folder) / "run",
        )
        evaluation = json.loads((Path(folder) / "run" / "evaluation.json").read_text())
        config = json.loads((Path(folder) / "run" / "config.json").read_text())
    return {"seed": seed, "evaluation": evaluation, "config": config}


def main() -> None:
    """Parse the arguments, train the seeds that are missing, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem")
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--time")
    budget.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--place", help="where sensors are, when not as in the spec")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    problem = load(options.problem, options.place)
    device = "gpu" if torch.cuda.is_available() else "cpu"
    words = ["accuracy", problem.name, options.place, options.time, *options.set, device]
    name = "_".join(str(word).replace("=", "-") for word in words if word)
    path = RESULTS / f"{name}.json"
    done = json.loads(path.read_text())["runs"] if path.exists() else []
    for seed in options.seeds:
        if any(run["seed"] == seed for run in done):
            continue
        done.append(one_seed(problem, seed, options))
        means = [run["evaluation"]["relative_l2"]["mean"] for run in done]
        command = f"python benchmarks/accuracy.py {' '.join(sys.argv[1:])}"
        figures = {"mean_over_seeds": statistics.mean(means), "per_seed": means, "runs": done}
        record(name, command, figures)
        if not options.json:
            print(f"seed {seed}: relative L2 {means[-1]:.4f}")
    if options.json:
        print(path.read_text())


if __name__ == "__main__":
    main()
