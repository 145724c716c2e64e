"""The training time that an error takes: this commit beside an older one, by a user's command.

    python benchmarks/commits.py --before COMMIT [--problem burgers] [--error 0.01]
                                 [--start 200 100] [--seeds 0 1 2]

A run is one `piop solve NAME --time T --seed S` in a process of its own, with the defaults of its
commit and all cores; caches are warm, since compiling is not counted in ``--time``. The step size
ends at zero where the budget does, so that the time to an error is the shortest budget that reaches
it: budgets grow or shrink by √2 until one misses the error and the next one reaches it, and the
time between them is interpolated on logarithmic axes. The two commits take turns. A finished run is
kept when the script starts again. The result is `results/commits_NAME_MAKER.json`, by the maker of
the processor.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import command
from record import RESULTS, environment, maker, record

HERE = Path(__file__).parents[1]


def next_budget(errors: Mapping[float, float], target: float, start: float) -> float | None:
    """Return the next budget to try, None where neighbours miss and reach the error.

    Args:
        errors: Errors by budget in seconds, so far.
        target: The error to reach.
        start: The first budget.

    Example:
        >>> next_budget({}, 0.01, 100.0), next_budget({100.0: 0.02}, 0.01, 100.0)
        (100.0, 141.0)
        >>> next_budget({100.0: 0.02, 141.0: 0.009}, 0.01, 100.0)
    """
    missed = [budget for budget, error in errors.items() if error > target]
    reached = [budget for budget, error in errors.items() if error <= target]
    if missed and reached:
        return None
    if missed:
        return float(round(max(missed) * math.sqrt(2)))
    return float(round(min(reached) / math.sqrt(2))) if reached else start


def time_to(errors: Mapping[float, float], target: float) -> float | None:
    """Interpolate the budget that reaches an error on logarithmic axes; None where none does.

    Example:
        >>> time_to({100.0: 0.02, 200.0: 0.005}, 0.01)
        141.4
    """
    reached = min((budget for budget, error in errors.items() if error <= target), default=None)
    if reached is None:
        return None
    below = max((budget for budget in errors if budget < reached), default=reached)
    if below == reached:
        return None
    share = math.log(errors[below] / target) / math.log(errors[below] / errors[reached])
    return round(below * (reached / below) ** share, 1)


def solve(checkout: Path, problem: str, seed: int, budget: float) -> dict[str, Any]:
    """Run the command of a checkout once; return what it says."""
    with tempfile.TemporaryDirectory() as folder:
        path = {"PYTHONPATH": str(checkout)}
        time, out = f"{budget:g}s", f"{folder}/run"
        done, wall = command.solve(problem, time, seed, out, variables=path, folder=folder)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    return {
        "relative_l2": found["relative_l2"]["mean"],
        "steps": found["steps"],
        "wall": round(wall, 1),
        **{key: environment()[key] for key in ("date", "cpu")},
    }


def table(runs: Mapping[str, Mapping[str, Mapping[str, Any]]], target: float) -> str:
    """Write the runs of all seeds and commits as Markdown; ``runs`` by seed, commit and budget."""
    lines = [
        f"| seed | commit | seconds to {target} | seconds of training: error, steps |",
        "|---|---|---|---|",
    ]
    for seed, commits in runs.items():
        for commit, own in commits.items():
            errors = {float(budget): run["relative_l2"] for budget, run in own.items()}
            cells = ", ".join(
                f"{budget}: {run['relative_l2']:.4f}, {run['steps']}"
                for budget, run in sorted(own.items(), key=lambda item: float(item[0]))
            )
            lines.append(f"| {seed} | {commit} | {time_to(errors, target) or '–'} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, make the missing runs, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--problem", default="burgers")
    parser.add_argument("--error", type=float, default=0.01)
    parser.add_argument("--start", type=float, nargs=2, default=[200.0, 100.0], metavar="SECONDS")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    name = f"commits_{options.problem}_{maker()}"
    path = RESULTS / f"{name}.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "before"
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(old), options.before], cwd=HERE, check=True
        )
        try:
            checkouts = {options.before: old, "now": HERE}
            for checkout in checkouts.values():  # fills the caches of compiled code
                solve(checkout, options.problem, options.seeds[0], min(options.start))
            for seed in map(str, options.seeds):
                found = runs.setdefault(seed, {commit: {} for commit in checkouts})
                pending = True
                while pending:
                    pending = False
                    for (commit, checkout), start in zip(
                        checkouts.items(), options.start, strict=True
                    ):
                        own = found.setdefault(commit, {})
                        errors = {float(b): run["relative_l2"] for b, run in own.items()}
                        budget = next_budget(errors, options.error, start)
                        if budget is None:
                            continue
                        run = solve(checkout, options.problem, int(seed), budget)
                        exact = environment()["commit"] if checkout is HERE else commit
                        own[f"{budget:g}"] = {**run, "commit": exact}
                        pending = True
                        typed = f"python benchmarks/commits.py {' '.join(sys.argv[1:])}"
                        record(name, typed, {"error": options.error, "runs": runs})
                        print(table(runs, options.error), flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=HERE, check=True)


if __name__ == "__main__":
    main()
