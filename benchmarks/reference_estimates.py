"""Judge the error estimates of reference solutions on random problems with known solutions.

    python benchmarks/reference_estimates.py [--only fourier …] [--count 200] [--seed 0]

The classes of problems are those of `reference_problems`, one module per solver: smooth and rough
data, and data with features finer than the grid, at random places. Results:
`results/reference_estimates_cpu.json`; classes that are not run keep the figures of their last run.

What must hold: the estimate is at least the true error for 99.5 % of all samples and for all but 3
of 200 of each class, and no accepted sample is wrong by more than three tolerances.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from record import RESULTS, environment, record
from reference_problems.judged import Judged

RESULT = "reference_estimates_cpu"
SOLVERS = (
    "fourier",
    "chebyshev",
    "ordinary",
    "elliptic",
    "fem",
    "finite_volume",
    "characteristics",
)
"""Modules of `reference_problems`."""
HELD, ABOVE, WRONG = 0.995, 3 / 200, 3.0
"""Part of all samples that an estimate must bound, part of a class that it may not, and the error
of an accepted sample in tolerances."""
ROUNDING = 1e-11
"""Errors below this are not judged: the truth has its own, as of (t − c)/w where w is 1e-5."""


def classes() -> dict[str, Callable[[int, int], Judged]]:
    """All classes of problems by name, that of the solver first."""
    modules = {name: importlib.import_module(f"reference_problems.{name}") for name in SOLVERS}
    return {f"{s}: {n}": own for s, m in modules.items() for n, own in m.CLASSES.items()}


def figures(judged: Judged) -> dict[str, Any]:
    """Count what a class of problems came to."""
    error, estimate, accepted = judged.error, judged.estimate, judged.accepted
    above = (error > estimate) & (error > ROUNDING)
    ratio = np.where(error > ROUNDING, error / np.maximum(estimate, 1e-300), 0.0)
    return {
        "samples": len(error),
        "refused": judged.refused,
        "accepted": int(accepted.sum()),
        "above": int(above.sum()),
        "largest_ratio": float(ratio.max(initial=0.0)),
        "tolerance": judged.tolerance,
        "worst_accepted": float((error[accepted] / judged.tolerance).max(initial=0.0)),
        "median_error": float(np.median(error)) if len(error) else 0.0,
        "median_estimate": float(np.median(estimate)) if len(error) else 0.0,
    }


def failures(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What does not hold."""
    out = []
    samples = sum(row["samples"] for row in found.values())
    above = sum(row["above"] for row in found.values())
    if above > (1 - HELD) * samples:
        out.append(f"{above} of {samples} errors are above their estimates")
    for name, row in found.items():
        if row["above"] > ABOVE * row["samples"]:
            out.append(f"{name}: {row['above']} of {row['samples']} are above their estimates")
        if row["worst_accepted"] > WRONG:
            out.append(f"{name}: accepted with an error of {row['worst_accepted']:.1f} tolerances")
    return out


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures in Markdown."""
    titles = (
        "class",
        "samples",
        "refused",
        "accepted",
        "above",
        "error / estimate",
        "worst accepted / tolerance",
        "seconds",
    )
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, row in found.items():
        lines.append(
            f"| {name} | {row['samples']} | {row['refused']} | {row['accepted']} | {row['above']} "
            f"| {row['largest_ratio']:.2g} | {row['worst_accepted']:.2g} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Draw, solve and judge; print the table; exit code 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names of classes")
    parser.add_argument("--count", type=int, default=200, help="samples of each class")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    path = RESULTS / f"{RESULT}.json"
    found: dict[str, Any] = json.loads(path.read_text())["found"] if path.exists() else {}
    run = {n: c for n, c in classes().items() if n.startswith(tuple(options.only))}
    for name, solve in run.items():
        start = time.perf_counter()
        row = figures(solve(options.count, options.seed))
        row |= {"seconds": time.perf_counter() - start, "seed": options.seed}
        found[name] = row | {"commit": environment()["commit"]}
        print(table({name: row}).splitlines()[-1], flush=True)
        if options.count >= 200:
            record(RESULT, "python benchmarks/reference_estimates.py", {"found": found})
    found = {n: row for n, row in found.items() if n in run}
    print(table(found))
    if wrong := failures(found):
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
