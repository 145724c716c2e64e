"""The test of inputs against the distribution of a spec: false alarms, and what it finds.

    python benchmarks/typicality.py [--only NAME …] [--draws N]

For each problem, at the sensors of its spec: how many of N fresh inputs of the distribution are
flagged at a level of 1 %, and how many of 500 inputs that are changed: twice the amplitude (about
the mean of all), twice the wave number, 5 % noise, values a thousand times too large, one sensor
off by a standard deviation; and 0.1 % noise, which is to pass. The result is
`results/typicality.json`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping

import torch
from record import record
from torch import Tensor

from piop.fields import FunctionSamples, InputFunction
from piop.problem import Problem
from piop.sampling import Draws, observe
from piop.sampling.typicality import LEVEL, TypicalityTest

PROBLEMS = (
    "advection_diffusion",
    "burgers",
    "burgers_fno",
    "darcy_smooth",
    "fisher_kpp",
    "gray_scott",
    "kdv",
    "navier_stokes",
    "schroedinger",
    "wave",
)
BLOCK = 500
"""Inputs drawn at once, and changed ones of each kind."""

Samples = Mapping[str, FunctionSamples]


def changes(
    problem: Problem, functions: Mapping[str, InputFunction]
) -> dict[str, Callable[[str, FunctionSamples], Tensor]]:
    """Return what changes the values of an input, by name."""
    generator = torch.Generator().manual_seed(0)

    def noise(samples: FunctionSamples, size: float) -> Tensor:
        drawn = torch.randn(samples.values.shape, generator=generator, dtype=torch.float64)
        return samples.values + size * samples.values.std() * drawn

    def one_off(name: str, samples: FunctionSamples) -> Tensor:
        values, count = samples.values.clone(), len(samples.values)
        sensor = torch.randint(values.shape[1], (count,), generator=generator)
        values[torch.arange(count), sensor] += values.std()
        return values

    def twice_the_waves(name: str, samples: FunctionSamples) -> Tensor:
        of = next(item.of for item in problem.visible_inputs if item.name == name)
        points = samples.points[:1].clone()
        for column, axis in enumerate(map(problem.coordinate, of)):
            points[..., column] = axis.low + (2 * (points[..., column] - axis.low)).remainder(
                axis.length
            )
        return functions[name](points)[..., None]

    def twice(name: str, samples: FunctionSamples) -> Tensor:
        return 2 * samples.values - samples.values.mean()

    return {
        "twice the amplitude": twice,
        "twice the wave number": twice_the_waves,
        "5 % noise": lambda name, samples: noise(samples, 0.05),
        "wrong unit": lambda name, samples: 1000 * samples.values,
        "one sensor off": one_off,
        "0.1 % noise": lambda name, samples: noise(samples, 0.001),
    }


def measure(name: str, count: int) -> dict[str, float]:
    """Test fresh inputs of a problem, and changed ones."""
    problem = Problem.from_file(name)
    one = observe(problem.sample(1, seed=1), problem, Draws(0, 0, torch.arange(1)))
    test = TypicalityTest(problem)

    def see(functions: Mapping[str, InputFunction], number: int) -> Samples:
        """Observe functions, all at the sensors of the one."""
        return {
            n: FunctionSamples(s.points.expand(number, -1, -1), functions[n](s.points)[..., None])
            for n, s in one.items()
        }

    def flagged(inputs: Samples) -> float:
        return float((test(inputs).p_value < LEVEL).double().mean())

    found = {}
    for which in ("first", "next"):
        start = time.perf_counter()
        test(one)
        found[f"seconds of the {which}"] = time.perf_counter() - start
    seeds = range(1, 1 + count // BLOCK)
    alarms = [flagged(see(problem.sample(BLOCK, seed), BLOCK)) for seed in seeds]
    found["false alarms"] = sum(alarms) / len(alarms)
    functions = problem.sample(BLOCK, 1)
    seen = see(functions, BLOCK)
    for what, change in changes(problem, functions).items():
        changed = {n: FunctionSamples(s.points, change(n, s)) for n, s in seen.items()}
        found[what] = flagged(changed)
    return found


def main() -> None:
    """Parse the arguments, measure each problem, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--draws", type=int, default=10_000)
    options = parser.parse_args()
    cells = {}
    for name in options.only:
        cells[name] = measure(name, options.draws)
        print(name, {k: round(v, 4) for k, v in cells[name].items()}, flush=True)
    command = f"python benchmarks/typicality.py {' '.join(sys.argv[1:])}".strip()
    record("typicality", command, {"cells": cells})


if __name__ == "__main__":
    main()
