"""The test of inputs against the distribution of a spec: false alarms, and what it finds.

    python benchmarks/typicality.py [--only NAME …] [--draws N]
    python benchmarks/typicality.py --trained 2m --only NAME …

For each problem, at the sensors of its spec: how many of N fresh inputs of the distribution are
flagged at a level of 1 %, and how many of 500 inputs that are changed: twice the amplitude (about
the mean of all), twice the wave number, 5 % noise, values a thousand times too large, one sensor
off by a standard deviation; and 0.1 % noise, which is to pass.

With `--trained` an operator is trained for so long with the default recipe and calibrated, and 200
inputs of each change of which fewer than 95 % were flagged are predicted: how many are flagged, or
have an error within the bound of their prediction at 90 %. Amplitudes change the function, whose
reference solution is the truth; of noise and sensors that are off the truth is that of the function
without them.

Results of other problems are kept. The results are `results/typicality.json` and
`typicality_trained.json`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from record import RESULTS, environment, record
from torch import Tensor

from piop.fields import Device, FunctionSamples, InputFunction
from piop.metrics import relative_l2
from piop.problem import Problem
from piop.reference.solve import solve_reference
from piop.run import Run, fit
from piop.run.error_bounds.calibration import INPUTS
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
PREDICTED = 200
"""Changed inputs of each kind that a trained operator answers."""
TO_FLAG = 0.95
"""Part of changed inputs to flag; where fewer are, a trained operator is to cover the others."""

Samples = Mapping[str, FunctionSamples]
Functions = Mapping[str, InputFunction]


@dataclass(frozen=True)
class ChangedFunction(InputFunction):
    """Another function, scaled and compressed: ``factor f(low + waves (x - low)) + shift``.

    Attributes:
        function: f.
        factor: Factor of the values.
        shift: Added to the values.
        waves: Whole number by which wave numbers grow.
        ends: Low end and length of each axis, beyond which f repeats itself where waves grow.
    """

    function: InputFunction
    factor: float = 1.0
    shift: float = 0.0
    waves: int = 1
    ends: Sequence[tuple[float, float]] = ()

    @property
    def batch(self) -> int:
        """See the base class."""
        return self.function.batch

    @property
    def dimension(self) -> int:
        """See the base class."""
        return self.function.dimension

    @property
    def given_at(self) -> tuple[Tensor, ...]:
        """See the base class."""
        return self.function.given_at

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """See the base class."""
        if self.waves != 1:
            low, length = points.new_tensor(self.ends).T
            points = low + (self.waves * (points - low)).remainder(length)
        total = sum(order)
        found = self.factor * self.waves**total * self.function.derivative(points, order)
        return found if total else found + self.shift

    def take(self, index: Tensor) -> ChangedFunction:
        """See the base class."""
        return replace(self, function=self.function.take(index))

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> ChangedFunction:
        """See the base class."""
        return replace(self, function=self.function.to(device, dtype))


@dataclass(frozen=True)
class Change:
    """A change of inputs of a problem.

    Attributes:
        function: Takes the name of an input, its function and values at its sensors; returns the
            function that it is changed to.
        values: Takes values at sensors; returns those that are changed.
    """

    function: Callable[[str, InputFunction, Tensor], InputFunction] = lambda _name, own, _: own
    values: Callable[[Tensor], Tensor] = lambda values: values

    def __call__(self, functions: Functions, seen: Samples) -> tuple[Functions, Samples]:
        """Change functions, and what sensors see of them."""
        changed = {n: self.function(n, functions[n], s.values) for n, s in seen.items()}
        found = {}
        for name, own in seen.items():
            values = own.values
            if changed[name] is not functions[name]:
                values = changed[name](own.points)[..., None]
            found[name] = FunctionSamples(own.points, self.values(values))
        return {**functions, **changed}, found


def changes(problem: Problem) -> dict[str, Change]:
    """Return the changes of inputs, by name."""
    generator = torch.Generator().manual_seed(0)

    def noise(size: float) -> Callable[[Tensor], Tensor]:
        def add(values: Tensor) -> Tensor:
            drawn = torch.randn(values.shape, generator=generator, dtype=torch.float64)
            return values + size * values.std() * drawn

        return add

    def one_off(values: Tensor) -> Tensor:
        changed, count = values.clone(), len(values)
        sensor = torch.randint(values.shape[1], (count,), generator=generator)
        changed[torch.arange(count), sensor] += values.std()
        return changed

    def twice_the_waves(name: str, function: InputFunction, _values: Tensor) -> InputFunction:
        of = next(item.of for item in problem.visible_inputs if item.name == name)
        axes = map(problem.coordinate, of)
        return ChangedFunction(function, waves=2, ends=[(a.low, a.length) for a in axes])

    def twice(_name: str, function: InputFunction, values: Tensor) -> InputFunction:
        return ChangedFunction(function, factor=2.0, shift=-float(values.mean()))

    return {
        "twice the amplitude": Change(function=twice),
        "twice the wave number": Change(function=twice_the_waves),
        "5 % noise": Change(values=noise(0.05)),
        "wrong unit": Change(values=lambda values: 1000 * values),
        "one sensor off": Change(values=one_off),
        "0.1 % noise": Change(values=noise(0.001)),
    }


def see(problem: Problem, functions: Functions, number: int) -> Samples:
    """Observe functions, all at the sensors of the first input of seed 1."""
    one = observe(problem.sample(1, seed=1), problem, Draws(0, 0, torch.arange(1)))
    return {
        n: FunctionSamples(s.points.expand(number, -1, -1), functions[n](s.points)[..., None])
        for n, s in one.items()
    }


def measure(name: str, count: int) -> dict[str, float]:
    """Test fresh inputs of a problem, and changed ones."""
    problem = Problem.from_file(name)
    test = TypicalityTest(problem)

    def flagged(inputs: Samples) -> float:
        return float((test(inputs).p_value < LEVEL).double().mean())

    found = {}
    one = see(problem, problem.sample(1, seed=1), 1)
    for which in ("first", "next"):
        start = time.perf_counter()
        test(one)
        found[f"seconds of the {which}"] = time.perf_counter() - start
    seeds = range(1, 1 + count // BLOCK)
    alarms = [flagged(see(problem, problem.sample(BLOCK, seed), BLOCK)) for seed in seeds]
    found["false alarms"] = sum(alarms) / len(alarms)
    functions = problem.sample(BLOCK, 1)
    seen = see(problem, functions, BLOCK)
    for what, change in changes(problem).items():
        found[what] = flagged(change(functions, seen)[1])
    return found


def cover(name: str, trained: str, shares: Mapping[str, float]) -> dict[str, Any]:
    """Train an operator, and count changed inputs that are flagged or within their bounds.

    Args:
        name: The problem.
        trained: Time of the training.
        shares: Change → part that was flagged.
    """
    problem, found = Problem.from_file(name), {}
    with tempfile.TemporaryDirectory() as folder:
        run = fit(problem, out=Path(folder) / "run", time=trained, samples=0)
        run.calibrate(INPUTS)
        functions = problem.sample(PREDICTED, 1)
        seen = see(problem, functions, PREDICTED)
        for what, change in changes(problem).items():
            if shares[what] < TO_FLAG and what != "0.1 % noise":
                found[what] = cover_one(run, *change(functions, seen))
    return {"trained": trained, "commit": environment()["commit"], "changes": found}


def cover_one(run: Run, functions: Functions, seen: Samples) -> dict[str, float]:
    """Predict inputs, and count those that are flagged, or within their bounds."""
    solution = solve_reference(run.solved, functions, tolerance=1e-3)
    given = {n: (s.points[0].squeeze(-1), s.values[..., 0]) for n, s in seen.items()}
    prediction = run.predict(given)
    unknowns = [n for n in run.solved.unknowns if n in solution.values]
    errors = torch.stack(
        [
            relative_l2(torch.as_tensor(prediction[n].values).double(), solution.values[n])
            for n in unknowns
        ]
    ).amax(0)
    flagged = torch.as_tensor(prediction["in_distribution"].values) == 0
    bounds = torch.as_tensor(prediction["error_bound"].values).nan_to_num(nan=-math.inf)
    covered = errors + solution.error_estimate <= bounds
    return {
        "flagged": float(flagged.double().mean()),
        "flagged or covered": float((flagged | covered).double().mean()),
        "error of the others": float(errors[~flagged].mean()),
        "their bound": float(bounds[~flagged].mean()),
    }


def stored_cells(name: str) -> dict[str, Any]:
    """Read the cells of an earlier result; none where there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["cells"] if path.exists() else {}


def main() -> None:
    """Parse the arguments, measure each problem, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--trained", metavar="TIME")
    options = parser.parse_args()
    flagged = stored_cells("typicality")
    name = "typicality_trained" if options.trained else "typicality"
    cells = stored_cells(name)
    for problem in options.only:
        if options.trained:
            cells[problem] = cover(problem, options.trained, flagged[problem])
        else:
            cells[problem] = measure(problem, options.draws)
        print(problem, cells[problem], flush=True)
        command = f"python benchmarks/typicality.py {' '.join(sys.argv[1:])}".strip()
        record(name, command, {"cells": cells})


if __name__ == "__main__":
    main()
