"""Compiled steps whose microbatches have a thread each, beside all threads on each microbatch.

    python benchmarks/concurrent_microbatches.py [--only burgers gray_scott] [--rounds 2]

A process of its own trains a problem in one of the two ways; both take turns, on an idle machine
and beside one program that keeps one core busy. Each figure is the median over the steps of all
rounds (draw, gradients and optimiser); ratios are those of the way with a thread each to the other.
Problems that are measured already are left out. The result is
`results/concurrent_microbatches_cpu.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from unittest.mock import patch

import torch
from record import RESULTS, record
from second_order import build_case

from piop.denormals import start_torch_threads
from piop.problem import Problem
from piop.training.loop import microbatches
from piop.training.loop.compilation import StepGradients
from piop.training.loop.phases import Stochastic, TrainingTask

PROBLEMS = ("burgers", "schroedinger", "allen_cahn", "kuramoto_sivashinsky", "gray_scott")
BUSY = "while True: pass"


def milliseconds(name: str, each: bool, steps: int = 60) -> list[float]:
    """Train for some steps; return the time of each, warm."""
    start_torch_threads()
    case = build_case(Problem.from_file(name), 0)
    gradients = StepGradients(case.loss, compiled=True)
    config, source = case.job.config.optimiser, case.draw()
    phase = Stochastic(
        TrainingTask(case.loss.operator, gradients, source, config, case.loss.weightings)
    )
    found: list[float] = []
    with patch.object(microbatches, "concurrent_count", choice(each)):
        for step in range(steps + 6):
            begun = time.perf_counter()
            phase.step(step, 0.1)
            found.append(1e3 * (time.perf_counter() - begun))
        gradients.close()
    return found[6:]


def choice(each: bool):
    """Return the function that chooses the number of concurrent microbatches."""
    return microbatches.concurrent_count if each else lambda *_: None


def measure(name: str, busy: bool, rounds: int) -> dict[str, float]:
    """Let both ways take turns in processes of their own."""
    times: dict[bool, list[float]] = {True: [], False: []}
    other = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
    try:
        for _ in range(rounds):
            for each, own in times.items():
                command = [sys.executable, __file__, "--one", name, str(int(each))]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                own += json.loads(printed.splitlines()[-1])
    finally:
        if other is not None:
            other.kill()
    ours, theirs = median(times[True]), median(times[False])
    return {
        "thread_each_ms": round(ours, 1),
        "all_threads_ms": round(theirs, 1),
        "ratio": round(ours / theirs, 2),
    }


def main() -> None:
    """Parse the arguments, measure, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=PROBLEMS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(milliseconds(options.one[0], options.one[1] == "1")))
        return
    path = RESULTS / "concurrent_microbatches_cpu.json"
    found = json.loads(path.read_text())["problems"] if path.exists() else {}
    command = f"python benchmarks/concurrent_microbatches.py {' '.join(sys.argv[1:])}".strip()
    for name in (name for name in options.only if name not in found):
        cells = (("idle", False), ("one core busy", True))
        found[name] = {cell: measure(name, busy, options.rounds) for cell, busy in cells}
        print(name, found[name], flush=True)
        record(path.stem, command, {"threads": torch.get_num_threads(), "problems": found})


if __name__ == "__main__":
    main()
