"""Error bounds of single answers: how often they hold, and how far they are above the errors.

    python benchmarks/trust.py [--only NAME …] [--times 20s 2m] [--draws N] [--ensemble]

Each problem is trained for each time with the default recipe; those of `DATA_ALONE` on solutions
alone, which are generated once. N fresh inputs (half as many in two dimensions) are predicted and
solved by the reference; 200 times 150 of them, chosen at random, calibrate the operator as
`piop solve` does, and the others are bounded. Coverage at 80, 90 and
95 % beside what is promised, ⌈(N + 1)c⌉/(N + 1); at 90 % the bound over the true error (geometric
mean), the same without an indicator, and the rank correlation of indicator and error; and with a
tolerance, answers beyond it, where the operator answers what its bound allows and the solver the
rest, at the tolerance for which there are most of nine between the errors. With
`--ensemble` the indicator is the spread of five operators of different seeds, each trained for the
time, beside the usual one for the first of them. A cell that is finished is kept, and generated
solutions stay in the folder of `--data`: the same call continues where an earlier one ended. The
result is `results/trust.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from record import RESULTS, environment, record
from torch import Tensor

from piop.errors import NotSupportedError
from piop.generation import generate
from piop.metrics import rank_correlation
from piop.problem import Problem
from piop.run import Run, fit
from piop.run.error_bounds.calibration import (
    INPUTS,
    Calibration,
    errors_and_estimates,
    mean_of_selection,
)
from piop.run.error_bounds.coarse_choice import coarse_differences
from piop.run.error_bounds.conformal import coverage
from piop.run.error_bounds.indicator import Measurement
from piop.run.error_bounds.linearised_error import choose_lattice
from piop.run.error_bounds.residual_size import ResidualSize
from piop.run.evaluation import nonzero_solutions, predict_held_out
from piop.run.held_out import HeldOut

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
    "darcy",
    "electrostatics",
)
DATA_ALONE = {"darcy": 500, "electrostatics": 200}
"""Problems that are trained on so many solutions alone, of which a tenth is held out."""
OPERATORS = 5
"""Operators of an ensemble."""
FOR_CHOICES = 50
"""Further inputs, by which a lattice and the levels of coarse solutions are chosen."""
SPLITS = 200
"""Random choices of the inputs of the calibration."""
CONFIDENCES = (0.8, 0.9, 0.95)
TOLERANCES = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)
"""Shares of the errors that are within each tolerance."""


def draw_pool(run: Run, count: int) -> HeldOut:
    """Solve fresh inputs of the distribution, apart from those of the training."""
    problem, drawn = run.solved, replace(run, data=None).sources
    held_out = drawn.for_calibration(problem, count, 1000, 0).held_out()
    return held_out.take(nonzero_solutions(problem, held_out).nonzero()[:, 0])


def solutions_of(problem: Problem, folder: Path) -> Path:
    """Return the file of solutions to train on, generated where it is not there."""
    path = folder / f"trust_{problem.name}_{DATA_ALONE[problem.name]}.nc"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generate(problem, DATA_ALONE[problem.name], path)
    return path


def errors_of(run: Run, held_out: HeldOut) -> dict[str, Tensor]:
    """Return the errors of predictions and of their references together, by unknown."""
    prediction = predict_held_out(run.solved, run.model, held_out)
    return errors_and_estimates(run.solved, held_out, prediction)


def measured_of(run: Run, held_out: HeldOut, few: HeldOut) -> list[Measurement]:
    """Return what may tell the errors of predictions.

    Args:
        run: The operator.
        held_out: The inputs.
        few: Further ones, by which a lattice and the levels of coarse solutions are chosen.
    """
    own, errors = (run.solved, run.model, run.config), errors_of(run, few)
    residuals, chosen = [], []
    with suppress(NotSupportedError):
        lattice = choose_lattice(*own, mean_of_selection(errors), few)
        size = ResidualSize(*own, lattice)
        residuals = [Measurement(size(held_out.inputs), lattice)]
        chosen = [Measurement(size(few.inputs), lattice)]
    largest = torch.stack([*errors.values()]).amax(0)
    return residuals + coarse_differences(*own[:2], few.inputs, largest, chosen, held_out.inputs)


def spread_of(runs: Sequence[Run], held_out: HeldOut) -> Tensor:
    """Return the standard deviation of several predictions over their size ``[B, unknowns]``."""
    columns = []
    for name in runs[0].solved.unknowns:
        found = [predict_held_out(r.solved, r.model, held_out)[name].flatten(1) for r in runs]
        values = torch.stack(found).double()
        deviation = values.std(0).square().mean(1).sqrt()
        columns.append(deviation / values.mean(0).square().mean(1).sqrt())
    return torch.stack(columns, -1)


def measure(errors: dict[str, Tensor], measured: Sequence[Measurement]) -> dict[str, Any]:
    """Calibrate on random parts of a pool, and bound the rest."""
    generator = torch.Generator().manual_seed(0)
    largest = torch.stack([*errors.values()]).amax(0)
    count = len(largest)
    held: dict[str, list[float]] = {f"{c:g}": [] for c in CONFIDENCES}
    tolerances = largest.quantile(TOLERANCES.to(largest))
    beyond: dict[str, list[Tensor]] = {f"{c:g}": [] for c in CONFIDENCES}
    ratios, plain, correlations, indicators = [], [], [], Counter()
    for _ in range(SPLITS):
        order = torch.randperm(count, generator=generator)
        chosen, rest = order[:INPUTS], order[INPUTS:]
        own = {name: e[chosen] for name, e in errors.items()}
        learned = Calibration.learn(own, [m.take(chosen) for m in measured], {}, {})
        alike = Calibration.learn(own, [], {}, {})
        known = learned.indicator.sizes_among([m.take(rest) for m in measured])
        sizes = learned.indicator(known, len(rest))
        indicators[learned.indicator.to_json()["kind"]] += 1
        for confidence in CONFIDENCES:
            bounds = learned.bounds(sizes, confidence)[""]
            held[f"{confidence:g}"].append(float((largest[rest] <= bounds).double().mean()))
            given = tolerances[:, None]
            wrong = ((bounds <= given) & (largest[rest] > given)).double()
            beyond[f"{confidence:g}"].append(wrong.mean(1))
        ratios.append(float((learned.bounds(sizes, 0.9)[""] / largest[rest]).log().mean()))
        same = alike.indicator(None, len(rest))
        plain.append(float((alike.bounds(same, 0.9)[""] / largest[rest]).log().mean()))
        if not learned.indicator.is_constant:
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
        "beyond_tolerance": {c: float(torch.stack(v).mean(0).max()) for c, v in beyond.items()},
        "promised": {f"{c:g}": coverage(scores, c)[0] for c in CONFIDENCES},
        "bound_over_error": float(torch.tensor(mean(ratios)).exp()),
        "without_residual": float(torch.tensor(mean(plain)).exp()),
        "correlation": mean(correlations) if correlations else None,
        "indicators": {kind: times / SPLITS for kind, times in indicators.most_common()},
    }


def main() -> None:
    """Parse the arguments, measure each cell, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--times", nargs="+", default=["20s", "2m"])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--ensemble", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()), metavar="FOLDER")
    options = parser.parse_args()
    path = RESULTS / "trust.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    cells, ensembles = stored.get("cells", {}), stored.get("ensembles", {})
    for name in options.only:
        problem = Problem.from_file(name)
        count = options.draws // (2 if len(problem.space) > 1 else 1)
        for time in options.times:
            key = f"{name}/{time}/{count}"
            if key in (ensembles if options.ensemble else cells):
                continue
            with tempfile.TemporaryDirectory() as folder:
                own = {"time": time, "samples": 0, "threads": options.threads, "compile": False}
                if name in DATA_ALONE:
                    own |= {"data": solutions_of(problem, options.data), "physics": False}
                runs = [
                    fit(problem, out=Path(folder) / str(seed), seed=seed, calibrate=0, **own)
                    for seed in range(OPERATORS if options.ensemble else 1)
                ]
                drawn = draw_pool(runs[0], FOR_CHOICES + count)
                few = drawn.take(torch.arange(FOR_CHOICES))
                held_out = drawn.take(torch.arange(FOR_CHOICES, len(drawn.accepted)))
                errors, commit = errors_of(runs[0], held_out), environment()["commit"]
                measured = measured_of(runs[0], held_out, few)
                found = measure(errors, measured)
                found |= {"data_alone": name in DATA_ALONE, "commit": commit}
                if options.ensemble:
                    spread = measure(errors, [Measurement(spread_of(runs, held_out))])
                    ensembles[key] = {"spread": spread, "residual": found}
                else:
                    cells[key] = found
            print(key, json.dumps(found), flush=True)
            command = f"python benchmarks/trust.py {' '.join(sys.argv[1:])}".strip()
            record("trust", command, {"cells": cells, "ensembles": ensembles})


if __name__ == "__main__":
    main()
