"""Error bounds of single answers: how often they hold, and how far they are above the errors.

    python benchmarks/trust.py [--only NAME …] [--times 20s 2m] [--draws N] [--threads N]

Each problem is trained for each time with the default recipe. N fresh inputs (half as many in two
dimensions) are predicted and solved by the reference; 200 times 150 of them, chosen at random,
calibrate the operator as `piop solve` does, and the others are bounded. Coverage at 80, 90 and
95 % beside what is promised, ⌈(N + 1)c⌉/(N + 1); at 90 % the bound over the true error (geometric
mean), the same without the residual, and the rank correlation of indicator and error. A cell that
is finished is kept. The result is `results/trust.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from record import RESULTS, environment, record
from torch import Tensor

from piop.errors import NotSupportedError
from piop.metrics import rank_correlation, relative_l2
from piop.problem import Problem
from piop.run import Run, fit
from piop.run.error_bounds.calibration import INPUTS, Calibration
from piop.run.error_bounds.conformal import coverage
from piop.run.error_bounds.linearised_error import choose_lattice
from piop.run.error_bounds.residual_indicator import ResidualSize
from piop.run.evaluation import OperatorJudge, nonzero_solutions

PROBLEMS = (
    "burgers",
    "kdv",
    "allen_cahn",
    "schroedinger",
    "fisher_kpp",
    "advection_diffusion",
    "diffusion_reaction",
    "poisson",
    "darcy_smooth",
    "cahn_hilliard",
    "gray_scott",
    "stokes_channel",
)
SPLITS = 200
"""Random choices of the inputs of the calibration."""
CONFIDENCES = (0.8, 0.9, 0.95)


def draw_pool(run: Run, count: int) -> tuple[dict[str, Tensor], Tensor | None]:
    """Return the errors of fresh inputs, by unknown, and their residuals."""
    problem = run.solved
    source = run.sources.for_calibration(problem, count, 1000, 0)
    judged = source.judging(OperatorJudge(problem, run.model))
    kept = nonzero_solutions(problem, judged.held_out)
    held_out = judged.held_out.take(kept.nonzero()[:, 0])
    estimate = 0.0 if held_out.error_estimate is None else held_out.error_estimate
    errors = {
        name: relative_l2(judged.prediction[name][kept], held_out.truth[name]) + estimate
        for name in problem.unknowns
    }
    try:
        own = problem, run.model, run.config
        size = ResidualSize(*own, choose_lattice(*own))
        return errors, size(held_out.inputs)
    except NotSupportedError:
        return errors, None


def measure(errors: dict[str, Tensor], residuals: Tensor | None) -> dict[str, Any]:
    """Calibrate on random parts of a pool, and bound the rest."""
    generator = torch.Generator().manual_seed(0)
    largest = torch.stack([*errors.values()]).amax(0)
    count = len(largest)
    held: dict[str, list[float]] = {f"{c:g}": [] for c in CONFIDENCES}
    ratios, plain, correlations = [], [], []
    for _ in range(SPLITS):
        order = torch.randperm(count, generator=generator)
        chosen, rest = order[:INPUTS], order[INPUTS:]
        own = {name: e[chosen] for name, e in errors.items()}
        learned = Calibration.learn(own, None if residuals is None else residuals[chosen], {}, {})
        alike = Calibration.learn(own, None, {}, {})
        sizes = learned.indicator(None if residuals is None else residuals[rest], len(rest))
        for confidence in CONFIDENCES:
            bounds = learned.bounds(sizes, confidence)[""]
            held[f"{confidence:g}"].append(float((largest[rest] <= bounds).double().mean()))
        ratios.append(float((learned.bounds(sizes, 0.9)[""] / largest[rest]).log().mean()))
        same = alike.indicator(None, len(rest))
        plain.append(float((alike.bounds(same, 0.9)[""] / largest[rest]).log().mean()))
        if learned.indicator.needs_residual:
            correlations.append(rank_correlation(sizes, largest[rest]))

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    scores = INPUTS - (INPUTS + 2) // 3
    return {
        "inputs": count,
        "error": float(largest.mean()),
        "worst": float(largest.max()),
        "spread": float(largest.quantile(0.95) / largest.quantile(0.05)),
        "coverage": {c: mean(values) for c, values in held.items()},
        "promised": {f"{c:g}": coverage(scores, c)[0] for c in CONFIDENCES},
        "bound_over_error": float(torch.tensor(mean(ratios)).exp()),
        "without_residual": float(torch.tensor(mean(plain)).exp()),
        "correlation": mean(correlations) if correlations else None,
        "with_residual": len(correlations) / SPLITS,
    }


def main() -> None:
    """Parse the arguments, measure each cell, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--times", nargs="+", default=["20s", "2m"])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    path = RESULTS / "trust.json"
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    for name in options.only:
        problem = Problem.from_file(name)
        count = options.draws // (2 if len(problem.space) > 1 else 1)
        for time in options.times:
            key = f"{name}/{time}/{count}"
            if key in cells:
                continue
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                run = fit(
                    problem, time=time, out=out, samples=0, threads=options.threads, compile=False
                )
                commit = {"commit": environment()["commit"]}
                cells[key] = measure(*draw_pool(run, count)) | commit
            print(key, json.dumps(cells[key]), flush=True)
            command = f"python benchmarks/trust.py {' '.join(sys.argv[1:])}".strip()
            record("trust", command, {"cells": cells})


if __name__ == "__main__":
    main()
