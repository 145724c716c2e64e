"""A step of SOAP on all parameters of a network at once, beside the library's, one after the other.

    python benchmarks/optimiser.py [--steps N] [--threads N]

The parameters are those of the default PIT of some problems, the gradients random; both take turns
in one process, and each time is the median over the turns. The result is
`results/optimiser_cpu.json`.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median

import pytorch_optimizer
import torch
from record import record

from piop.problem import Problem
from piop.training.build import build_model
from piop.training.config import BudgetConfig, TrainingConfig
from piop.training.loss.statistics import find_statistics
from piop.training.optimisers.soap import SOAP

PROBLEMS = ("burgers", "heat2d", "poisson", "gray_scott")


def seconds(optimiser: torch.optim.Optimizer, steps: int) -> float:
    """Return the time of a step, updates of the eigenbases included."""
    begun = time.perf_counter()
    for _ in range(steps):
        optimiser.step()
    return (time.perf_counter() - begun) / steps


def measure(name: str, steps: int, turns: int = 7) -> dict[str, float]:
    """Time both on the parameters of a problem's network."""
    problem = Problem.from_file(name)
    config = TrainingConfig(BudgetConfig(steps=1))
    optimisers = []
    for kind in (SOAP, pytorch_optimizer.SOAP):
        model = build_model(problem, find_statistics(problem, None), config)
        weights = [p for p in model.operator.parameters() if p.requires_grad]
        generator = torch.Generator().manual_seed(0)
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimisers.append(kind(weights, lr=1e-2, weight_decay=0.0))
        optimisers[-1].step()
    times: list[list[float]] = [[], []]
    for _ in range(turns):
        for own, optimiser in zip(times, optimisers, strict=True):
            own.append(seconds(optimiser, steps))
    ours, theirs = map(median, times)
    return {
        "parameters": sum(w.numel() for w in weights),
        "tensors": len(weights),
        "milliseconds": round(1e3 * ours, 3),
        "milliseconds_library": round(1e3 * theirs, 3),
        "ratio": round(theirs / ours, 2),
    }


def main() -> None:
    """Parse the arguments, measure, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    found = {name: measure(name, options.steps) for name in PROBLEMS}
    command = f"python benchmarks/optimiser.py {' '.join(sys.argv[1:])}".strip()
    record("optimiser_cpu", command, {"threads": torch.get_num_threads(), "problems": found})
    for name, row in found.items():
        print(name, row)


if __name__ == "__main__":
    main()
