"""Judge the error estimates of reference solutions on random problems with known solutions.

    python benchmarks/reference_estimates.py [--only fourier …] [--count 200] [--seed 0]

The classes of problems are those of `reference_problems`, one module per solver: smooth and rough
data, and data with features finer than the grid, at random places. Results:
`results/reference_estimates_cpu.json` and `docs/reference_estimates.md`; classes that are not run,
or with fewer samples than before, keep the figures of their last run.

What must hold: the estimate is at least the true error for 99.5 % of all samples and for all but 3
of 200 of each class, and no accepted sample is wrong by more than three tolerances.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from record import RESULTS, environment, record
from reference_problems.judged import Judged

RESULT = "reference_estimates_cpu"
COLUMNS = {
    "samples": "{samples}",
    "refused": "{refused}",
    "accepted": "{accepted}",
    "above": "{above}",
    "error / estimate": "{largest_ratio:.2g}",
    "worst accepted / tolerance": "{worst_accepted:.2g}",
}
"""Title → format of the figure."""
REPORT = Path(__file__).parents[1] / "docs" / "reference_estimates.md"
INTRODUCTION = """\
# Error estimates of reference solutions, judged

Random problems with known solutions, solved and compared: rough data, and data with features finer
than a grid or a step, at random places, of widths down to 1e-5 of an axis or of the time. *Refused*
samples have a message instead of a solution; *accepted* ones an estimate within the tolerance
requested, all others are marked and have a note. *Above* are those whose true error is above the
estimate, accepted or not. `python benchmarks/reference_estimates.py` repeats it; the commit of each
row is in `benchmarks/results/reference_estimates_cpu.json`.
"""
SOLVERS = (
    "fourier",
    "chebyshev",
    "ordinary",
    "elliptic",
    "fem",
    "finite_volume",
    "characteristics",
    "stored",
    "small_parts",
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


def table(found: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Columns of the figures in Markdown."""
    lines = [f"| class | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for name, row in found.items():
        shown = " | ".join(columns.values()).format(**row)
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


def report(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The page of all classes, in the order of their modules."""
    rows = {name: found[name] for name in classes() if name in found}
    samples, accepted, above = (
        sum(row[key] for row in rows.values()) for key in ("samples", "accepted", "above")
    )
    worst = max(row["worst_accepted"] for row in rows.values())
    total = (
        f"{len(rows)} classes, {samples} samples: {accepted} accepted, {above} above; the largest "
        f"error of an accepted sample is {worst:.2g} of its tolerance."
    )
    return f"{INTRODUCTION}\n{total}\n\n{table(rows, COLUMNS)}\n"


def main() -> None:
    """Draw, solve and judge; print the table; exit code 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names of classes")
    parser.add_argument("--count", type=int, default=200, help="samples of each class")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    path = RESULTS / f"{RESULT}.json"
    kept: dict[str, Any] = json.loads(path.read_text())["found"] if path.exists() else {}
    found: dict[str, Any] = {}
    timed = COLUMNS | {"seconds": "{seconds:.0f}"}
    run = {n: c for n, c in classes().items() if n.startswith(tuple(options.only))}
    for name, solve in run.items():
        start = time.perf_counter()
        row = figures(solve(options.count, options.seed))
        row |= {"seconds": time.perf_counter() - start, "seed": options.seed}
        found[name] = row = row | {"commit": environment()["commit"]}
        print(table({name: row}, timed).splitlines()[-1], flush=True)
        if row["samples"] >= kept.get(name, row)["samples"]:
            kept[name] = row
            record(RESULT, "python benchmarks/reference_estimates.py", {"found": kept})
            REPORT.write_text(report(kept))
    print(table(found, timed))
    if wrong := failures(found):
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
