"""The PIT paper's table, and Burgers' equation with the law of Wang et al. 2021.

    python benchmarks/pit_table.py                    # all cells, all seeds; where it was, goes on
    python benchmarks/pit_table.py --cells pit heat2d/deeponet --seeds 0 --time 30m

Every cell trains one backbone on the equation alone and is judged on inputs that all seeds and
backbones of the problem share and none has trained on. One seed of every cell comes first. After
each cell the result is written (`results/pit_table_gpu.json`, or `_cpu`); started again, the
script goes on with what is missing, a half-trained cell included. On a GPU each cell has ten
minutes and the judges are the paper's 400 and 200 inputs; on a CPU it has a fixed number of steps,
so that a busy machine gives the same table, and 64 and 32 inputs on a coarser grid.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from record import RESULTS, record
from table.cells import Budget, Cell, Interrupted, missing, plan, run_cell
from table.entries import ENTRIES
from table.protocol import DATA, FILE, judges_of, protocol
from table.summary import markdown, summarise

from piop.errors import PiopError, UsageError
from piop.problem import Problem
from piop.training.setting_declarations import parse_time

ROOT = Path(__file__).parents[1]
GPU_TIME = "10m"


def read(path: Path, setup: dict[str, Any]) -> dict[str, Any]:
    """Read the result so far, or begin one.

    Raises:
        UsageError: If it was made with another setup, or cannot be read.
    """
    if not path.exists():
        return {"setup": setup, "protocol": {}, "cells": []}
    try:
        found = json.loads(path.read_text())
        same = _known(found["setup"], setup) == _known(setup, found["setup"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: is no result of this script ({error!r}); give --out") from error
    if not same:
        raise UsageError(
            f"{path}: holds cells of {found['setup']}, this is {setup}; give --out FILE for "
            "another table, or remove it"
        )
    return {"setup": setup, "protocol": found["protocol"], "cells": found["cells"]}


def _known(setup: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A setup without the budgets of problems that the other had not heard of."""
    steps, theirs = (s["budget"].get("steps") for s in (setup, other))
    if not isinstance(steps, dict) or not isinstance(theirs, dict):
        return setup
    kept = {name: each for name, each in steps.items() if name in theirs}
    return {**setup, "budget": {"steps": kept}}


def write(path: Path, result: dict[str, Any]) -> str:
    """Write the result with its table; return the table."""
    floors = {
        name: {view: said["best_possible"] for view, said in found["judged_on"].items()}
        for name, found in result["protocol"].items()
    }
    rows = summarise(result["cells"], floors)
    table = markdown(rows)
    command = f"python benchmarks/pit_table.py {' '.join(sys.argv[1:])}".strip()
    record(path.stem, command, {**result, "table": rows, "markdown": table}, path.parent)
    return table


def run(options: argparse.Namespace) -> int:
    """Run the missing cells; return the exit code."""
    full = options.scale == "gpu"
    time = options.time or (GPU_TIME if full and options.steps is None else None)
    if time is not None:
        parse_time(time)  # so that a mistake ends the command, not every cell
    budget = Budget(time, options.steps, options.compile, options.threads)
    steps = options.steps or {name: dict(entry.steps_cpu) for name, entry in ENTRIES.items()}
    setup = {
        "scale": options.scale,
        "budget": {"time": time} if time else {"steps": steps},
        "inputs": options.inputs or "of each problem",
    }
    path = options.out or RESULTS / f"pit_table_{options.scale}.json"
    result = read(path, setup)
    cells = missing(plan(options.cells, options.seeds), result["cells"])
    if not cells:
        print(write(path, result))
        return 0
    failed: list[Cell] = []
    for count, cell in enumerate(cells, 1):
        problem = Problem.from_file(cell.problem)
        judges = judges_of(cell.problem, problem, full, options.inputs, options.data, options.work)
        result["protocol"].setdefault(cell.problem, protocol(cell.problem, problem, judges))
        try:
            found = run_cell(cell, problem, judges, budget, options.work)
        except PiopError as error:
            print(f"{cell}: failed: {error}", file=sys.stderr)
            failed.append(cell)
            continue
        result["cells"].append(found)
        write(path, result)
        errors = ", ".join(f"{v['mean']:.4f} ({n})" for n, v in found["relative_l2"].items())
        print(f"{count} of {len(cells)}: {cell}: {errors}; {found['seconds']:.0f} s", flush=True)
    print(write(path, result))
    return 1 if failed else 0


def natural(least: int) -> Callable[[str], int]:
    """Read a whole number of at least so much, as argparse asks for it."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return read


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    scale = "gpu" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--scale", choices=("cpu", "gpu"), default=scale, help="size of the table")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--time", help=f"of each cell, such as 30m; on a GPU {GPU_TIME}")
    budget.add_argument(
        "--steps", type=natural(1), help="of each cell; on a CPU as in table/entries.py"
    )
    parser.add_argument("--seeds", type=natural(0), nargs="+", default=[0, 1, 2])
    parser.add_argument("--cells", nargs="+", default=[], help="PROBLEM, BACKBONE or both by /")
    parser.add_argument("--inputs", type=natural(1), help="test inputs, when not of the scale")
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of {FILE}")
    parser.add_argument("--out", type=Path, help="result file, when not results/pit_table_*.json")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "pit_table")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--threads", type=natural(1))
    options = parser.parse_args()
    try:
        return run(options)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except PiopError as error:
        print(error, file=sys.stderr)
        return 1
    except (Interrupted, KeyboardInterrupt):
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
