"""Errors of inputs that are reconstructed from the sensors of shipped problems.

    python benchmarks/sensors.py [--only NAME …] [--inputs 16]

Relative L2 error, over inputs of the distribution, of the best linear interpolant of an input's
values at its sensors, on 64 even points per axis of it, 512 on a single one. Of initial data that
are hard constraints it is the error of the operator at the start, however long it is trained. The
result is `results/sensors.json`.
"""

from __future__ import annotations

import argparse
import sys

import torch
from all_problems import trained_on_equations
from record import record

from piop.metrics import relative_l2
from piop.problem import Problem
from piop.sampling import Draws, observe, reconstruct, sample_inputs

SEED = 1000


def errors(problem: Problem, count: int) -> dict[str, dict[str, float]]:
    """Return the mean and the largest error of each input that is a function."""
    draws = Draws(0, SEED, torch.arange(count))
    functions = sample_inputs(problem, draws, torch.float64)
    observed = observe(functions, problem, draws)
    found = {}
    for item in problem.visible_inputs:
        own = [c for c in problem.coordinates if c.name in item.of]
        if not own:
            continue
        each = 512 if len(own) == 1 else 64
        axes = [torch.linspace(c.low, c.high, each + 1, dtype=torch.float64)[:-1] for c in own]
        given = reconstruct(problem, item, observed[item.name]).on_grid(axes)
        error = relative_l2(given, functions[item.name].on_grid(axes))
        found[item.name] = {"mean": float(error.mean()), "max": float(error.max())}
    return found


def main() -> None:
    """Parse the arguments, measure, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--inputs", type=int, default=16)
    options = parser.parse_args()
    cells = {}
    for name in options.only or trained_on_equations():
        cells[name] = errors(Problem.from_file(name), options.inputs)
        print(name, cells[name], flush=True)
    command = f"python benchmarks/sensors.py {' '.join(sys.argv[1:])}".strip()
    record("sensors", command, {"inputs": options.inputs, "relative_l2": cells})


if __name__ == "__main__":
    main()
