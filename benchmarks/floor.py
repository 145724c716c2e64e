"""What sensors leave to be won: the reference solver started from the reconstructed input.

    python benchmarks/floor.py

An operator sees an input through its sensors alone. The exact solution of the best linear
interpolant of what they say is what it can hope for: for a linear equation and a Gaussian law
nothing does better in the mean square. The result is `results/floor.json`: for each problem and
set of sensors the relative L2 of that solution, and of the interpolant itself.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from record import RESULTS, record
from table.cells import spread
from table.judges import NEURALOP, floor_of, neuralop_judge, see
from table.judges import SEED as HELD_OUT_SEED
from table.protocol import DATA, FILE

from piop.metrics import relative_l2
from piop.problem import Problem
from piop.run.drawn_inputs import DrawnInputs
from piop.run.held_out import HeldOut
from piop.sampling import reconstruct

VIEWS: dict[str, dict[str, tuple[int | tuple[int, ...], str]]] = {
    "heat": {"32 at random": (32, "uniform")},
    "heat2d": {
        "12 x 12 grid": ((12, 12), "grid"),
        "144 at random": ((12, 12), "uniform"),
        "400 at random": ((20, 20), "uniform"),
    },
    "burgers": {"64 at random": (64, "uniform"), "16 at random": (16, "uniform")},
    "burgers_wang": {"101 on a grid": (101, "grid"), "16 on a grid": (16, "grid")},
}


def judged(problem: Problem, held_out: HeldOut) -> dict[str, Any]:
    """Errors of the solution and of the input that the sensors alone allow."""
    (item,) = problem.visible_inputs
    axes = [(held_out.queries.axes or {})[name] for name in item.of]
    guess = reconstruct(problem, item, held_out.inputs[item.name]).on_grid(axes)
    start = next(iter(held_out.truth.values()))[:, 0]  # all of these problems start from the input
    return {
        "solution": spread(floor_of(problem, held_out).tolist()),
        "input": spread(relative_l2(guess, start).tolist()),
    }


def main() -> None:
    """Parse the arguments, solve, write and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=64)
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of {FILE}")
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for name, views in VIEWS.items():
        problem = Problem.from_file(name)
        held_out = DrawnInputs(problem, options.inputs, HELD_OUT_SEED, scheme=1).held_out()
        seen = {view: see(problem, held_out, *sensors) for view, sensors in views.items()}
        if name == "burgers_wang" and (options.data / FILE).exists():
            seen[NEURALOP] = neuralop_judge(problem, options.data / FILE, options.inputs).held_out
        found[name] = {view: judged(problem, held) for view, held in seen.items()}
    lines = [
        "| problem | sensors | best possible | ± inputs | its input |",
        "|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        for view, row in rows.items():
            best, start = row["solution"], row["input"]
            spread_of = f"{best['mean']:.2g} | {best['std']:.2g} | {start['mean']:.2g}"
            lines.append(f"| `{name}` | {view} | {spread_of} |")
    command = f"python benchmarks/floor.py {' '.join(sys.argv[1:])}".strip()
    figures = {"inputs": options.inputs, "held_out_seed": HELD_OUT_SEED, "floors": found}
    record("floor", command, {**figures, "markdown": "\n".join(lines)}, RESULTS)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
