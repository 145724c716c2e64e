"""Cost against the numbers of queries and of sensors, and the memory of a million queries.

Burgers' equation with the default PIT, one function; `predict` is a whole prediction, `step` an
eager residual step. Numbers go up by four from 2^8 to 2^20 until a curve has used its time or
memory; `largest_…` says how far it came. An exponent is the slope of a line through the logarithms
of the last three times: 1 is linear, and below it overhead still counts.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import piop
from piop.datasets import Queries
from piop.problem import Problem
from piop.run import Run
from piop.run.prediction import predict_values
from steps.case import build_case
from steps.pit import burgers
from steps.timing import Options, wait

COUNTS = [4**k for k in range(4, 11)]
SECONDS = 40.0
"""Time for each of the four curves; none begins a size that would exceed it."""
BYTES_PER_QUERY = 40_000
"""What a query of a step takes at most, in one piece with its backward pass."""
STEP_BYTES = 8e9
"""Memory that a step may take."""


def measure(options: Options) -> dict[str, float]:
    """Give exponents, the largest sizes, and the peak memory of a million queries."""
    with tempfile.TemporaryDirectory() as folder:
        problem = Problem.from_file("burgers")
        run = problem.fit(steps=1, out=Path(folder) / "run", samples=0, device=options.device.type)
        curves = {
            "predict_queries": lambda n: predict(run, sensors=64, queries=n),
            "predict_sensors": lambda n: predict(run, sensors=n, queries=256),
            "step_queries": lambda n: step(options.device, sensors=64, queries=n),
            "step_sensors": lambda n: step(options.device, sensors=n, queries=256),
        }
        figures: dict[str, float] = {}
        for name, prepare in curves.items():
            figures |= {f"scaling/{k}": v for k, v in curve(name, prepare, options).items()}
        figures |= {f"scaling/{k}": v for k, v in million(run.path, options).items()}
    return figures


def curve(
    name: str, prepare: Callable[[int], Callable[[], object]], options: Options
) -> dict[str, float]:
    """Time one curve."""
    times: list[tuple[int, float]] = []
    begun = time.perf_counter()
    for count in COUNTS:
        if name == "step_queries" and count * BYTES_PER_QUERY > STEP_BYTES:
            break
        if times and time.perf_counter() - begun + 4 * 4 * times[-1][1] > SECONDS:
            break
        run = prepare(count)
        times.append((count, min(timed(run, options))))
    last = times[-3:]
    logs = [(math.log(n), math.log(s)) for n, s in last]
    middle = [sum(column) / len(logs) for column in zip(*logs, strict=True)]
    rise = sum((x - middle[0]) * (y - middle[1]) for x, y in logs)
    slope = rise / sum((x - middle[0]) ** 2 for x, _ in logs)
    found = {f"exponent_{name}": slope, f"largest_{name}": float(times[-1][0])}
    return found | {f"milliseconds_{name}_{n}": 1e3 * s for n, s in times}


def timed(run: Callable[[], object], options: Options) -> Iterator[float]:
    """Time three calls after a warm one."""
    for turn in range(4):
        wait(options.device)
        start = time.perf_counter()
        run()
        wait(options.device)
        if turn:
            yield time.perf_counter() - start


def predict(run: Run, sensors: int, queries: int) -> Callable[[], object]:
    """Prepare a prediction from random sensors at random queries."""
    generator = torch.Generator().manual_seed(0)
    x = 2 * math.pi * torch.rand(1, sensors, 1, generator=generator, dtype=torch.float64)
    seen = {"u0": piop.FunctionSamples(x, torch.sin(x) + 0.3 * torch.cos(2 * x))}
    size = torch.tensor([2.475, 2 * math.pi], dtype=torch.float64)
    at = size * torch.rand(1, queries, 2, generator=generator, dtype=torch.float64)
    return lambda: predict_values(run.problem, run.model, seen, Queries(points=at))


def step(device: torch.device, sensors: int, queries: int) -> Callable[[], object]:
    """Prepare an eager residual step of one function, read by its harmonic fit as in training."""
    case = build_case(burgers(sensors), 64, device, attend=False, functions=1, queries=queries)
    return case.step("streams", compiled=False, in_pieces=False)


MILLION = """
import json, math, pathlib, sys, time, torch, piop

def peak():
    # Not ru_maxrss, which a child inherits from its parent.
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e9

torch.set_num_threads(int(sys.argv[3]))
run = piop.Run.load(sys.argv[1], device=sys.argv[2])
x = 2 * math.pi * torch.arange(64) / 64
given = {"u0": (x, torch.sin(x))}
run.predict(given, {"t": [1.0], "x": [0.0]})
before, start = peak(), time.perf_counter()
places = 2 * math.pi * torch.arange(1000) / 1000
found = run.predict(given, {"t": torch.linspace(0, 2.475, 1000), "x": places})
assert found.u.size == 10**6
print(json.dumps([peak(), peak() - before, time.perf_counter() - start]))
"""


def million(path: Path, options: Options) -> dict[str, float]:
    """Predict a million queries in a process of its own.

    Returns:
        The peak resident size of the whole process, and what the million adds to that after a
        prediction at one query, in gigabytes; and seconds.
    """
    arguments = [str(path), options.device.type, str(torch.get_num_threads())]
    done = subprocess.run(
        [sys.executable, "-c", MILLION, *arguments], capture_output=True, text=True, check=True
    )
    peak, more, seconds = json.loads(done.stdout.splitlines()[-1])
    return {
        "gigabytes_process_million_queries": peak,
        "gigabytes_increment_million_queries": more,
        "seconds_million_queries": seconds,
    }
