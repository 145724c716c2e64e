"""Time of drawing a batch: functions, points, and what the loss needs of them.

    python benchmarks/drawing.py [--only NAME …] [--threads 1]

For each problem whose batches depend on their step alone, milliseconds a step of the default
recipe: one step at a time, and several at once, which is how training draws them; and one step at a
time with every derivative of an exact linear solution evaluated by itself. All three take turns in
one process. The result is `results/drawing_cpu.json`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from unittest.mock import patch

import torch
from all_problems import trained_on_equations
from record import record
from second_order import build_case
from torch import Tensor

from piop.fields import InputFunction
from piop.problem import Problem
from piop.training.batches.ahead import BatchesAhead
from piop.training.loss.linear_propagation import Waves
from piop.training.loss.varying_propagation import Modes

WAYS = ("derivatives apart", "one step", "several steps")
ROUNDS = 5
STEPS = 8
"""Steps of each way in a round; a multiple of those that are drawn at once."""


def seconds(draw: Callable[[int, float], object], first: int) -> float:
    """Time a few steps; return the seconds of one."""
    start = time.perf_counter()
    for step in range(first, first + STEPS):
        draw(step, 0.0)
    return (time.perf_counter() - start) / STEPS


def apart(derivatives: Callable[..., list[Tensor]]) -> Callable[..., list[Tensor]]:
    """Evaluate each derivative by itself."""

    def each(own: InputFunction, points: Tensor, orders: Sequence[Sequence[int]]) -> list[Tensor]:
        return [derivatives(own, points, [order])[0] for order in orders]

    return each


def measure(ahead: BatchesAhead) -> dict[str, float]:
    """Return the median milliseconds of a step, drawn in each way."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(ROUNDS + 1):  # the first one warms up
        first = STEPS * (turn + 1)
        with ExitStack() as stack:
            for kind in (Waves, Modes):
                stack.enter_context(patch.object(kind, "derivatives", apart(kind.derivatives)))
            times = [seconds(ahead.equations, first)]
        times += [seconds(ahead.equations, first), seconds(ahead, first)]
        for name, value in zip(WAYS, times, strict=True):
            if turn:
                found[name].append(1e3 * value)
    return {name: round(statistics.median(values), 3) for name, values in found.items()}


def main() -> None:
    """Parse the arguments, measure each problem, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cells = {}
    print(f"| problem | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|", sep="\n")
    for name in options.only or trained_on_equations():
        source = build_case(Problem.from_file(name), 0, {}).draw()
        if isinstance(source, BatchesAhead):
            cells[name] = measure(source)
            numbers = " | ".join(f"{value:.3g}" for value in cells[name].values())
            print(f"| `{name}` | {numbers} |", flush=True)
    command = f"python benchmarks/drawing.py {' '.join(sys.argv[1:])}".strip()
    record("drawing_cpu", command, {"threads": options.threads, "milliseconds": cells})


if __name__ == "__main__":
    main()
