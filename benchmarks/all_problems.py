"""Every problem that is trained on its equation, by the command that a user would type.

    python benchmarks/all_problems.py --time 5m --seeds 0 [--only NAME …] [--threads N]
    python benchmarks/all_problems.py --time 1m --cold

A cell is one `piop solve NAME --time T --seed S` with the default recipe in a process of its own:
error over held-out inputs, until when it holds, the best trivial answer, steps, and the seconds of
each phase, and how many cores other programs kept busy meanwhile. A cell that is finished is kept
when the script is started again, unless `--again` is given. With `--cold` every cell has an empty
cache of compiled code and of references. The result is `results/all_problems_T.json` (`_cold`), and
the page `docs/problems.md` with a small picture of each problem, of seed 0.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import command
from problems_page import keep_picture, write_page
from record import RESULTS, environment, record

from piop.problem import Problem
from piop.spec.load import builtin_names

MARKS = {0: 0.02, 1: 0.02, 2: 0.05, 3: 0.1}
"""Relative L2 error to reach, by the number of axes of space."""


def trained_on_equations() -> list[str]:
    """Name the problems that need no data."""
    problems = {name: Problem.from_file(name) for name in builtin_names()}
    return [
        name
        for name, problem in problems.items()
        if problem.residuals
        and problem.capabilities.equations
        and not problem.infer
        and problem.learn is None
    ]


def held_until(per_time: Mapping[str, Any] | None, mark: float) -> list[float] | None:
    """Return until when the mean error stays below a mark, and the end; None without a time."""
    if not per_time:
        return None
    times = next(values for name, values in per_time.items() if name != "relative_l2")
    good = takewhile(lambda at: at[1] <= mark, zip(times, per_time["relative_l2"], strict=True))
    return [max((time for time, _ in good), default=times[0]), times[-1]]


def busy_seconds() -> tuple[float, float] | None:
    """Return the processor seconds of the whole machine and of finished children; Linux alone."""
    try:
        user, nice, system, _idle, _wait, interrupt, soft = map(
            int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
        )
    except OSError:
        return None
    ticks = user + nice + system + interrupt + soft
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / os.sysconf("SC_CLK_TCK"), children.ru_utime + children.ru_stime


def solve(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run the command once; return what it says."""
    place = {key: environment()[key] for key in ("date", "cpu", "commit")}
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        chosen = {"--threads": options.threads, "--samples": options.samples}
        given = [s for k, v in chosen.items() if v is not None for s in (k, str(v))]
        caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "XDG_CACHE_HOME": folder}
        before = busy_seconds()
        done, wall = command.solve(
            name, options.time, seed, out, given, caches if options.cold else {}
        )
        after = busy_seconds()
        if done.returncode:
            return {"failed": done.stderr.strip().splitlines()[-1], "environment": place}
        found = json.loads(done.stdout)
        if not options.cold and seed == 0:
            keep_picture(name, Path(out) / "figures")
    line = re.search(r"^Seconds: (.*)$", done.stderr, re.MULTILINE)
    phases = [part.rsplit(" ", 1) for part in line[1].split(", ")] if line else []
    error = found["relative_l2"] or {}
    others = None
    if before and after:
        others = max(after[0] - before[0] - (after[1] - before[1]), 0.0) / wall
    mark = MARKS[len(Problem.from_file(name).space)]
    return {
        "mark": mark,
        "held_until": held_until(found.get("per_time"), mark),
        "mean": error.get("mean"),
        "worst": max(error.get("per_sample", [None])),
        "per_channel": found.get("per_channel"),
        "best_trivial": min(found.get("baselines", {"none": None}).values()),
        "samples": found.get("samples"),
        "steps": found["steps"],
        "wall": round(wall, 1),
        "threads": options.threads,
        "cores_busy_otherwise": None if others is None else round(others, 2),
        "phases": {phase: float(seconds) for phase, seconds in phases},
        "warnings": found["warnings"],
        "environment": place,
    }


def main() -> None:
    """Parse the arguments, run the cells that are missing, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", default="5m")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--samples", type=int, default=None)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--again", action="store_true", help="measure finished cells anew")
    options = parser.parse_args()

    name = f"all_problems_{options.time}{'_cold' if options.cold else ''}"
    path = RESULTS / f"{name}.json"
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    for seed in options.seeds:
        for problem in options.only or trained_on_equations():
            key = f"{problem}/{seed}"
            if "mean" in cells.get(key, {}) and not options.again:
                continue
            cells[key] = found = solve(problem, seed, options)
            record(name, f"python benchmarks/all_problems.py {' '.join(sys.argv[1:])}",
                   {"cells": dict(sorted(cells.items()))})  # fmt: skip
            write_page()
            print(key, found.get("failed") or f"{found['mean']} {found['phases']}", flush=True)


if __name__ == "__main__":
    main()
