"""What several processes cost and gain: bytes per step, and step times as ratios.

    python benchmarks/many_processes.py
    python benchmarks/many_processes.py --processes 4 --rounds 31 --json

Starts itself under torchrun. In turns, in the same processes: the first takes a step on the whole
batch alone while the others wait; all take a step on the same batch split; all take a step on a
batch as many times as large as there are processes. Ratios are of medians. The result is
`results/many_processes_cpu.json`, or `_gpu` where there is a CUDA device for each process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from record import record

from piop.problem import Problem
from piop.residual import compile_residual
from piop.run.fit import configure
from piop.training.build import build_model, build_objective, build_source
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig
from piop.training.distributed import Processes, SingleProcess, joined
from piop.training.loop.compilation import StepGradients
from piop.training.loop.gradients import ControlFlags, SharedGradients
from piop.training.loop.phases import Stochastic, TrainingTask
from piop.training.loss.statistics import distribution_statistics
from piop.training.torchrun import launched_together

WARM_UP = 3


def main() -> None:
    """Start the processes, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="burgers")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not launched_together():
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        launcher += ["--nproc-per-node", str(options.processes)]
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        command = [*launcher, *sys.argv]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    with joined() as processes:
        figures = measure(options, processes)
        if processes.leads:
            command = "python benchmarks/many_processes.py " + " ".join(sys.argv[1:])
            path = record(f"many_processes_{device_name()}", command.strip(), figures)
            print(json.dumps(figures) if options.json else path.read_text())


def device_name() -> str:
    """Name the kind of device in the result's name."""
    return "cpu" if device() == "cpu" else "gpu"


def device() -> str:
    """CUDA where each process of this machine can have a device."""
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    return "cuda" if torch.cuda.device_count() >= here else "cpu"


def measure(options: argparse.Namespace, processes: Processes) -> dict[str, Any]:
    """Time the three kinds of step in turns."""
    problem = Problem.from_file(options.problem)
    machine = MachineConfig(device=device(), compile=options.compile)  # type: ignore[arg-type]
    config = TrainingConfig(BudgetConfig(steps=1000), machine=machine)
    config = configure(problem, config, None, None)
    points = config.points
    larger = replace(points, functions=points.functions * processes.count)
    alone = step_of(problem, config, SingleProcess()) if processes.leads else None
    split = step_of(problem, config, processes)
    weak = step_of(problem, replace(config, points=larger), processes)
    times: dict[str, list[float]] = {"alone": [], "split": [], "larger": [], "reduction": []}
    numbers = torch.zeros(bytes_of(split, processes) // 4, device=device())
    for turn in range(options.rounds + WARM_UP):
        kinds: dict[str, Callable[[int], Any] | None] = {
            "alone": alone,
            "split": split,
            "larger": weak,
            "reduction": lambda _: processes.add([numbers]),
        }
        for name, step in kinds.items():
            processes.agree(0)  # a barrier
            begin = time.perf_counter()
            if step is not None:
                step(turn)
                if device() == "cuda":
                    torch.cuda.synchronize()
            if turn >= WARM_UP:
                times[name].append(time.perf_counter() - begin)
    found = {name: median(each) for name, each in times.items()}
    return {
        "problem": options.problem,
        "processes": processes.count,
        "device": device(),
        "compiled": options.compile,
        "functions": points.functions,
        "queries": points.queries,
        "bytes_per_step": 4 * numbers.numel(),
        "seconds": {name: round(value, 5) for name, value in found.items()},
        "same_batch_over_one_process": round(found["split"] / found["alone"], 3),
        "larger_batch_over_one_process": round(found["larger"] / found["alone"], 3),
        "reduction_over_split_step": round(found["reduction"] / found["split"], 3),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def bytes_of(step: Callable[[int], Any], processes: Processes) -> int:
    """Count what one step hands to all-reduce."""
    before = processes.bytes_sent
    step(0)
    return processes.bytes_sent - before


def step_of(problem: Problem, config: TrainingConfig, processes: Processes) -> Callable[[int], Any]:
    """Build a step of training, optimiser included, shared by these processes."""
    statistics = distribution_statistics(problem, compile_residual(problem), 0)
    model = build_model(problem, statistics, config)
    loss = build_objective(model, statistics, config, part=processes.part)
    draw = build_source(model, loss, statistics, config, None, processes)
    gradients = StepGradients(loss, config.machine.compile)
    if processes.count > 1:
        gradients = SharedGradients(gradients, loss, processes, ControlFlags)
    task = TrainingTask(model.operator, gradients, draw, config.optimiser, loss.weightings)
    phase = Stochastic(task)
    return lambda index: phase.step(index, 0.5)


if __name__ == "__main__":
    main()
