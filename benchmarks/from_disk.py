"""Train from a file beside the same data in memory: the ratio of their steps per second.

    python benchmarks/from_disk.py [--steps N] [--samples N] [--cold]

One data set of reference-like trajectories (random numbers: only their size matters here) is
written once. The two runs take turns, a few steps each, so that both see the same machine;
compared are medians of the time of a step, and the processor time of all threads, in which nothing
that is read beside a step hides. ``--cold`` drops the file from the page cache before each turn
from it, as where data are larger than memory; without it the file is in the cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from piop.datasets import AnyDataset, DatasetWriter, StoredDataset, read_dataset
from piop.problem import Problem
from piop.run.configuration import configure
from piop.run.data import note_grids
from piop.training.build import build_model, build_objective, build_source
from piop.training.config import BudgetConfig, TrainingConfig
from piop.training.loop.compilation import StepGradients
from piop.training.loss.statistics import find_statistics

sys.path.insert(0, str(Path(__file__).parent))
from record import record

TURN = 4
"""Steps of a turn."""
BATCH = 64
"""Samples that are written at a time."""


def write(path: Path, problem: Problem, samples: int, seed: int = 0) -> None:
    """Write a data set of the problem's own ``save`` grid, smooth in no way."""
    time_, space = problem.save[0], problem.save[1]
    axis = problem.space[0]
    generator = np.random.default_rng(seed)
    with DatasetWriter.open(path, problem, samples) as writer:
        assert problem.time is not None
        writer.axis("t", np.linspace(problem.time.low, problem.time.high, time_))
        writer.axis("x", axis.low + axis.length * np.arange(space) / space)
        for start in range(0, samples, BATCH):
            u = generator.normal(size=(min(BATCH, samples - start), time_, space))
            writer.append("u", ("t", "x"), u)
            writer.append("u0", ("x",), u[:, 0])


class Training:
    """A run that is timed step by step."""

    def __init__(self, problem: Problem, data: AnyDataset, backbone: str, functions: int) -> None:
        config = TrainingConfig(BudgetConfig(steps=1000), physics=False)
        settings = {"data_functions": functions}
        config = configure(problem, config, backbone, settings)
        sizes = find_statistics(problem, data, 0, physics=False)
        sizes = note_grids(problem, config, sizes, data)
        model = build_model(problem, sizes, config)
        loss = build_objective(model, sizes, config, data=True)
        self.draw = build_source(model, loss, sizes, config, data)
        self.gradients = StepGradients(loss, False)
        self.optimiser = torch.optim.AdamW(loss.parameters(), 1e-3)
        self.step = 0

    def turn(self) -> list[tuple[float, float]]:
        """Take a few steps; give the seconds of each, and those of all its processor cores."""
        found = []
        for _ in range(TURN):
            start, busy = time.perf_counter(), time.process_time()
            batch = self.draw(self.step, 0.0)
            self.gradients(batch)
            self.optimiser.step()
            found.append((time.perf_counter() - start, time.process_time() - busy))
            self.step += 1
        return found


def columns(
    pairs: dict[str, list[tuple[float, float]]],
) -> dict[str, tuple[list[float], list[float]]]:
    """Take pairs apart."""
    return {name: ([a for a, _ in each], [b for _, b in each]) for name, each in pairs.items()}


def drop(path: Path) -> None:
    """Drop a file from the page cache."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="burgers")
    parser.add_argument("--backbones", nargs="+", default=["pit", "fno"])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=16, help="trajectories of a batch")
    parser.add_argument("--steps", type=int, default=80, help="of each run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--record", action="store_true", help="keep the result in results/")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    problem = Problem.from_file(options.problem)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.nc"
        write(path, problem, options.samples)
        size = path.stat().st_size
        print(f"{options.samples} trajectories, {size / 1e6:.0f} MB", flush=True)
        for backbone in options.backbones:
            ways = {
                "memory": read_dataset(path, problem),
                "file": StoredDataset.open(path, problem),
            }
            runs = {n: Training(problem, d, backbone, options.functions) for n, d in ways.items()}
            seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
            for turn in range(1 + options.steps // TURN):
                for name, run in runs.items():
                    if options.cold and name == "file":
                        drop(path)
                    found = run.turn()
                    if turn:  # the first is for warming up
                        seconds[name] += found
            wall = {n: statistics.median(each) for n, (each, _) in columns(seconds).items()}
            busy = {n: statistics.fmean(each) for n, (_, each) in columns(seconds).items()}
            rows[backbone] = {
                "seconds_per_step": wall,
                "cpu_seconds_per_step": busy,
                "speed_from_file": round(wall["memory"] / wall["file"], 3),
                "speed_from_file_by_cpu": round(busy["memory"] / busy["file"], 3),
            }
            print(backbone, rows[backbone], flush=True)
    if options.record:
        name = "from_disk_cold" if options.cold else "from_disk"
        shared = {"bytes": size, "threads": options.threads, "functions": options.functions}
        command = f"python benchmarks/from_disk.py {' '.join(sys.argv[1:])}"
        record(name, command, {**shared, "steps": options.steps, "table": rows})


if __name__ == "__main__":
    main()
