"""Time until an error is reached: today's default recipe beside that of 24 November 2026.

    python benchmarks/time_to_error.py [--problem burgers] [--error 0.01] [--seconds 150]
    python benchmarks/time_to_error.py --seeds 200 --recipes default --set functions=4

Recipes that are compared train in one process, on one thread, a few steps of each in turn, and
their time is processor time (``time.process_time`` of drawing batches and of steps): whoever else
uses the machine slows all of them alike. Steps are compiled; compiling, and measuring errors, are
not counted, as in `piop solve --time`, whose schedule this is. Each recipe has its own budget in
seconds, since the step size ends at zero there: the time to an error depends on the budget. The
error is the mean relative L2 over 16 held-out inputs of the seed, the same for all recipes,
measured each fortieth of the budget.

``before`` is the recipe of commit fba6ee32 as far as settings and the optimiser's code go: no
``decay_after``, no ``weight_decay``, squared residuals of u, fewer functions at more points, and
SOAP of ``pytorch_optimizer``, one parameter after the other. Its compiled steps, by
``torch.compile`` of the whole loss, are not reproduced: both recipes have today's. ``--set`` adds a
recipe, the default with other settings, for trials on seeds that are not judged. A finished run is
kept when the script starts again. The result is `results/time_to_error_NAME.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytorch_optimizer
import torch
from record import RESULTS, environment, record
from second_order import build_case

from piop.problem import Problem
from piop.run.drawn_inputs import DrawnInputs
from piop.run.evaluation import OperatorJudge
from piop.training.loop.compilation import StepGradients
from piop.training.loop.phases import Stochastic, TrainingTask

SEEDS = (0, 1, 2)
HELD_OUT = 16
MEASUREMENTS = 40
"""Measurements of the error in a budget."""
CHUNK = 10
"""Steps of a recipe before it is the turn of the next one."""


@dataclass(frozen=True)
class Recipe:
    """What differs from the default.

    Attributes:
        settings: Settings, as of ``--set``.
        library: Whether the optimiser is SOAP of ``pytorch_optimizer``.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    library: bool = False


RECIPES = {
    "default": Recipe(),
    "before": Recipe(
        {
            "decay_after": 0,
            "weight_decay": 0.0,
            "form": "strong",
            "root": False,
            "functions": 8,
            "queries": 128,
            "clip": 1.0,
        },
        library=True,
    ),
}


@dataclass
class Race:
    """A recipe in training: takes steps within a budget, and keeps its errors.

    Attributes:
        step: Takes the number of a step and the fraction of the budget that is spent.
        measure: Returns the present error.
        seconds: Its budget in processor time.
        spent: Processor seconds so far.
        steps: Steps so far.
        errors: Processor seconds, steps and error at each measurement.
    """

    step: Callable[[int, float], Any]
    measure: Callable[[], float]
    seconds: float
    spent: float = 0.0
    steps: int = 0
    errors: list[tuple[float, int, float]] = field(default_factory=list)

    @property
    def fraction(self) -> float:
        """Fraction of the budget that is spent."""
        return self.spent / self.seconds

    def advance(self, chunk: int = CHUNK) -> None:
        """Take a few steps; measure the error where that is due."""
        for _ in range(chunk):
            if self.fraction < 1:
                start = time.process_time()
                self.step(self.steps, self.fraction)
                self.spent += time.process_time() - start
                self.steps += 1
        if self.fraction >= min(1.0, (len(self.errors) + 1) / MEASUREMENTS):
            self.errors.append((round(self.spent, 2), self.steps, self.measure()))


def alternate(races: Iterable[Race]) -> None:
    """Advance all races in turns, the one that is least far first, until all budgets are spent."""
    races = list(races)
    while any(race.fraction < 1 for race in races):
        min(races, key=lambda race: race.fraction).advance()


def time_to(errors: Sequence[tuple[float, int, float]], target: float) -> tuple[float, int] | None:
    """Return seconds and steps of the first measurement at or below an error; None for none.

    Example:
        >>> time_to([(1.0, 10, 0.5), (2.0, 20, 0.1), (3.0, 30, 0.2)], 0.1)
        (2.0, 20)
    """
    return next(((seconds, steps) for seconds, steps, e in errors if e <= target), None)


def enter(problem: Problem, recipe: Recipe, seed: int, seconds: float) -> Race:
    """Set up a recipe and compile its step."""
    case = build_case(problem, seed, recipe.settings)
    config = case.job.config.optimiser
    gradients = StepGradients(case.loss, compiled=True)
    source = case.draw()
    task = TrainingTask(case.loss.operator, gradients, source, config, case.loss.weightings)
    phase = Stochastic(task)
    if recipe.library:
        phase.optimiser = pytorch_optimizer.SOAP(
            phase.parameters,
            lr=config.learning_rate,
            weight_decay=0.0,
            precondition_frequency=config.precondition,
        )
    held_out = DrawnInputs(problem, HELD_OUT, seed).held_out()
    judge = OperatorJudge(case.job.problem, case.model)
    state = source.state_dict()
    gradients(source(0, 0.0))  # compiles
    source.load_state_dict(state)
    case.loss.zero_grad(set_to_none=True)
    return Race(
        phase.step,
        lambda: float(judge.errors(held_out, judge.predict(held_out)).mean()),
        seconds,
    )


def run(
    problem: Problem, recipes: Mapping[str, Recipe], seed: int, seconds: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Train recipes in turns; return the result of each."""
    races = {name: enter(problem, own, seed, seconds[name]) for name, own in recipes.items()}
    alternate(races.values())
    machine = {key: environment()[key] for key in ("commit", "cpu", "date")}
    return {
        name: {
            "seed": seed,
            "seconds": seconds[name],
            "settings": dict(recipes[name].settings),
            "beside": sorted(set(races) - {name}),
            "steps": race.steps,
            "relative_l2": race.errors[-1][2],
            "errors": race.errors,
            **machine,
        }
        for name, race in races.items()
    }


def table(runs: Mapping[str, Sequence[Mapping[str, Any]]], target: float) -> str:
    """Write the times of all runs as Markdown."""
    lines = [
        f"| recipe | budget (s) | steps | final relative L2 | seconds to {target} | steps to it |",
        "|---|---|---|---|---|---|",
    ]
    for name, results in runs.items():
        for budget, group in itertools.groupby(results, key=lambda r: r["seconds"]):
            own = list(group)
            hits = [time_to(r["errors"], target) for r in own]
            steps = f"{statistics.mean(r['steps'] for r in own):.0f}"
            finals = " ".join(f"{r['relative_l2']:.4f}" for r in own)
            times, counts = (
                " ".join("–" if hit is None else f"{hit[i]:.0f}" for hit in hits) for i in (0, 1)
            )
            lines.append(f"| {name} | {budget:g} | {steps} | {finals} | {times} | {counts} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, train the recipes that are missing, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="burgers")
    parser.add_argument("--error", type=float, default=0.01)
    parser.add_argument("--seconds", type=float, nargs="+", default=[150.0], help="of each recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--recipes", nargs="+", default=[*RECIPES], choices=[*RECIPES])
    parser.add_argument("--set", action="append", default=[], metavar="K=V,K=V")
    options = parser.parse_args()
    torch.set_num_threads(1)
    problem = Problem.from_file(options.problem)
    recipes = {name: RECIPES[name] for name in options.recipes}
    recipes |= {s: Recipe(dict(pair.split("=", 1) for pair in s.split(","))) for s in options.set}
    budgets = options.seconds * (len(recipes) if len(options.seconds) == 1 else 1)
    if len(budgets) != len(recipes):
        parser.error(f"--seconds: give one number, or one for each of {', '.join(recipes)}")
    seconds = dict(zip(recipes, budgets, strict=True))

    name = f"time_to_error_{problem.name}"
    path = RESULTS / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    runs, commands = found.get("runs", {}), found.get("commands", [])
    commands.append(f"python benchmarks/time_to_error.py {shlex.join(sys.argv[1:])}".strip())
    for seed in options.seeds:
        missing = {
            own: recipe
            for own, recipe in recipes.items()
            if not any((r["seed"], r["seconds"]) == (seed, seconds[own]) for r in runs.get(own, []))
        }
        if not missing:
            continue
        for own, result in run(problem, missing, seed, seconds).items():
            ordered = [*runs.get(own, []), result]
            runs[own] = sorted(ordered, key=lambda r: (r["seconds"], r["seed"]))
        figures = {"commands": list(dict.fromkeys(commands)), "error": options.error, "runs": runs}
        record(name, commands[-1], figures)
        print(table(runs, options.error), file=sys.stderr, flush=True)
    print(table(runs, options.error))


if __name__ == "__main__":
    main()
