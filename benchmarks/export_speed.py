"""Time of an answer of exported files relative to that of the run itself.

    python benchmarks/export_speed.py RUN [--samples 1] [--queries 4096] [--turns 15]

All three answer the same inputs at the same points, on one thread, in turns in one process; each
time is the median over the turns. The run evaluates its network as `Run.predict` does, without
error bounds and the test of the inputs. The result is `results/export_speed_NAME.json`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from record import record

from piop.datasets import Queries
from piop.export import FORMATS
from piop.export.export import capture, describe
from piop.run import Run
from piop.run.prediction import predict_values


def main() -> None:
    """Export, time, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--queries", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.load(given.run, "cpu")
    problem, model = run.problem, run.model
    ways: dict[str, Callable[[], object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, chosen in FORMATS.items():
            captured = capture(run, chosen)
            prediction, cases = captured.prediction, captured.cases
            path = Path(folder) / f"model{chosen.suffix}"
            metadata = describe(run, prediction)
            chosen.write(captured.graph, captured.example, prediction, metadata, path)
            inputs, queries = cases.inputs(given.samples, 7), cases.queries(given.queries, 7, False)
            tensors = [*prediction.sensors.tensors(inputs), queries]
            ways[name] = partial(chosen.load(path), tensors)
            points = Queries(points=queries.double()[None])
            ways["run"] = partial(predict_values, problem, model, inputs, points)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(given.turns + 2):
            for name, answer in ways.items():
                begun = time.perf_counter()
                answer()
                if turn > 1:  # the first ones warm up
                    times[name].append(time.perf_counter() - begun)
    seconds = {name: median(values) for name, values in times.items()}
    ratios = {name: seconds[name] / seconds["run"] for name in FORMATS}
    print(problem.name, given.samples, given.queries, ratios)
    command = " ".join(["python", "benchmarks/export_speed.py", *sys.argv[1:]])
    record(
        f"export_speed_{problem.name}",
        command,
        {"samples": given.samples, "queries": given.queries, "time_over_run": ratios},
    )


if __name__ == "__main__":
    main()
