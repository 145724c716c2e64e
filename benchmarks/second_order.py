"""Gauss-Newton steps and least squares of the last layer, against the default recipe.

    python benchmarks/second_order.py --seconds 40
    python benchmarks/second_order.py --tune --problems burgers --seconds 30

Every row is trained on the equation alone for the same processor time (``time.process_time`` of
drawing batches and of steps, one thread, not compiled), which other processes on the machine hardly
change. What the spec's ``solve:`` says is left aside, and the loss is the mean square of residuals
at random points, of the whole time axis and with nothing solved exactly, since that is what a
Jacobian of residuals is of: ``AT_POINTS``. Where the default recipe differs, ``SOAP, default form``
is it. Errors are relative L2 over held-out inputs of each seed, the same for all rows, solved once
by the reference. ``--tune`` tries damping, momentum and step size on a seed that is not judged; its
runs are kept beside the judged ones.

``SOAP`` is the default recipe; ``SOAP, batches of Gauss-Newton`` has as many functions and points
in a step as that, fewer points and more functions. ``Gauss-Newton`` is ENGD-W with the momentum of
SPRING (``gauss_newton.py``), whose step sizes follow the same warm-up and half cosine. ``SOAP, then
Gauss-Newton`` gives SOAP three quarters of the time, with its whole schedule; its settings were
tuned there, those of ``large steps`` from the start. ``SOAP, then last layer`` solves for the
weights of the last layer after the whole of SOAP's time, so that it has more time than the others:
``extra_seconds``. One seed of every row comes first; a finished run is kept when the script starts
again.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import torch
from gauss_newton import (
    GaussNewton,
    GaussNewtonConfig,
    check_jacobian,
    solve_last_layer,
)
from record import RESULTS, environment, record
from specs import plain

from piop.denormals import flush_denormals
from piop.problem import Problem
from piop.run.configuration import choose_machine, configure
from piop.run.drawn_inputs import DrawnInputs
from piop.run.evaluation import OperatorJudge
from piop.run.held_out import HeldOut
from piop.run.job import Job, plan_job
from piop.training.batches.batch import BatchSource
from piop.training.build import Model, build_model, build_objective, build_source
from piop.training.config import BudgetConfig, TrainingConfig
from piop.training.distributed import SingleProcess
from piop.training.loop.compilation import StepGradients
from piop.training.loop.phases import Stochastic, TrainingTask
from piop.training.loss.objective import ResidualLoss
from piop.training.optimisers.build import learning_rate_factor

NAME = "second_order_cpu"
PROBLEMS = ("burgers", "diffusion_reaction", "heat2d", "kdv")
SEEDS = (100, 101, 102)
TUNED_ON = 200
HELD_OUT = 16
FINISH = 0.25
"""Fraction of the time that Gauss-Newton has after SOAP."""
ROUNDING = 1e-4
"""Largest error of a row of J in float32, relative to the row."""
SCRATCH = GaussNewtonConfig()
FINISHER = GaussNewtonConfig(damping=1e-2, rate=0.3)
AT_POINTS: Mapping[str, Mapping[str, Any]] = {
    "heat2d": {"linear_part": "learned"},
    "kdv": {"form": "strong", "windows": 1},
}
"""Settings by which a problem is trained on residuals at points, where that is not its default."""
SOAP, GAUSS_NEWTON = "SOAP", "Gauss-Newton"
DEFAULT_FORM, SAME_BATCHES = "SOAP, default form", "SOAP, batches of Gauss-Newton"
FINISHED, LAST_LAYER = "SOAP, then Gauss-Newton", "SOAP, then last layer"
LARGE_STEPS = f"{FINISHED}, large steps"
LAST_LAYER_BATCHES, LAST_LAYER_FUNCTIONS = 16, 32
"""Batches of so many functions, at as many points as a step has, by which the last layer is solved;
a quarter as many more choose the damping."""


@dataclass(frozen=True)
class Case:
    """A run that is set up: fresh weights, the loss around them, and its batches."""

    job: Job
    model: Model
    loss: ResidualLoss

    def draw(self, **points: int) -> BatchSource:
        """Return the source of batches, of other sizes where these are given."""
        config = self.job.config
        config = replace(config, points=replace(config.points, **points))
        return build_source(self.model, self.loss, self.job.statistics, config, None)


def build_case(
    problem: Problem, seed: int, settings: Mapping[str, Any] | None = None, device: str = "cpu"
) -> Case:
    """Set up the default recipe, not compiled, on one thread."""
    machine = choose_machine(device, "float32", False, 1, seed)
    budget = BudgetConfig.of(1, None)  # of no effect: the budget is processor time
    config = configure(problem, TrainingConfig(budget, machine=machine), None, settings)
    job = plan_job(problem, config, settings or {}, None, SingleProcess())
    model = build_model(job.problem, job.statistics, job.config)
    return Case(job, model, build_objective(model, job.statistics, job.config))


def settings_of(label: str, problem: Problem) -> Mapping[str, Any]:
    """Return the settings of a row."""
    if label == DEFAULT_FORM:
        return {}
    own = AT_POINTS.get(problem.name, {})
    if label == SAME_BATCHES:
        return {**own, "functions": SCRATCH.functions, "queries": SCRATCH.points}
    return own


Step = Callable[[int, float], None]
"""Takes the number of a step, and the fraction of the time that is spent."""


def soap(case: Case) -> Step:
    """Return the default recipe's step."""
    config = case.job.config.optimiser
    gradients = StepGradients(case.loss, compiled=False)
    task = TrainingTask(case.loss.operator, gradients, case.draw(), config, case.loss.weightings)
    phase = Stochastic(task)
    return lambda index, fraction: phase.step(index, fraction) and None


def gauss_newton(case: Case, config: GaussNewtonConfig, first: int = 0) -> Step:
    """Return the step of Gauss-Newton.

    Args:
        case: What is trained.
        config: Its choices.
        first: Steps before, whose points are not taken again.
    """
    schedule = case.job.config.optimiser
    draw = case.draw(functions=config.functions, queries=config.points)
    optimiser = GaussNewton(case.loss, config)
    worst = check_jacobian(case.loss, case.draw(functions=2, queries=4)(0, 0.0), rows=(0, 7))
    if worst > ROUNDING:
        raise RuntimeError(f"rows of J differ from gradients of their residuals by {worst:.1e}")

    def step(index: int, fraction: float) -> None:
        rate = config.rate * learning_rate_factor(fraction, first + index, schedule)
        optimiser.step(draw(first + index, fraction), rate)

    return step


@flush_denormals()
def spend(step: Step, seconds: float) -> tuple[int, float]:
    """Take steps for a processor time; return how many, and the processor time."""
    start, count, spent = time.process_time(), 0, 0.0
    while spent < seconds:
        step(count, spent / seconds)
        count += 1
        spent = time.process_time() - start
    return count, spent


def error_of(case: Case, held_out: HeldOut) -> float | None:
    """Return the mean relative L2 error; None where it is not finite."""
    judge = OperatorJudge(case.job.problem, case.model)
    found = float(judge.errors(held_out, judge.predict(held_out)).mean())
    return found if math.isfinite(found) else None


def run(
    label: str, problem: Problem, seed: int, seconds: float, chosen: GaussNewtonConfig | None = None
) -> dict[str, dict[str, Any]]:
    """Train once; return the results by row, two where one training serves two."""
    case = build_case(problem, seed, settings_of(label, problem))
    held_out = DrawnInputs(problem, HELD_OUT, seed).held_out()
    found: dict[str, Any] = {"seed": seed, "steps": {}, "seconds": 0.0}
    common = {"commit": environment()["commit"]}

    def train(name: str, step: Step, budget: float) -> int:
        try:
            steps, spent = spend(step, budget)
        except torch.linalg.LinAlgError as error:  # J is no longer finite
            found["failed"] = str(error).splitlines()[0]
            return 0
        found["steps"][name] = steps
        found["seconds"] = round(found["seconds"] + spent, 2)
        return steps

    if label == GAUSS_NEWTON:
        train(GAUSS_NEWTON, gauss_newton(case, chosen or SCRATCH), seconds)
    elif label in (FINISHED, LARGE_STEPS):
        usual = FINISHER if label == FINISHED else SCRATCH
        steps = train(SOAP, soap(case), seconds * (1 - FINISH))
        found["relative_l2_before"] = error_of(case, held_out)
        train(GAUSS_NEWTON, gauss_newton(case, usual, steps), seconds * FINISH)
    else:
        train(SOAP, soap(case), seconds)
    failed = "failed" in found
    rows = {label: {**found, "relative_l2": None if failed else error_of(case, held_out), **common}}
    if label == SOAP:
        draw = case.draw(functions=LAST_LAYER_FUNCTIONS)
        last = 10**6  # beyond the steps that any run takes
        start = time.process_time()
        batches = [draw(last + i, 1.0) for i in range(LAST_LAYER_BATCHES * 5 // 4)]
        split = LAST_LAYER_BATCHES
        damping = solve_last_layer(case.loss, batches[:split], batches[split:])
        extra = {"extra_seconds": round(time.process_time() - start, 2), "damping": damping}
        error = error_of(case, held_out)
        rows[LAST_LAYER] = {**found, **extra, "relative_l2": error, **common}
    return rows


def tune(
    label: str, problem: Problem, seconds: float, configs: Sequence[GaussNewtonConfig]
) -> Iterator[dict[str, Any]]:
    """Train on a seed that is not judged, with several settings; one training of SOAP for all."""
    if label == SOAP:
        yield run(label, problem, TUNED_ON, seconds)[label]
    elif label == GAUSS_NEWTON:
        for config in configs:
            found = run(label, problem, TUNED_ON, seconds, config)[label]
            yield {"settings": asdict(config), **found}
    else:
        case = build_case(problem, TUNED_ON, settings_of(label, problem))
        held_out = DrawnInputs(problem, HELD_OUT, TUNED_ON).held_out()
        first = spend(soap(case), seconds * (1 - FINISH))[0]
        start = {name: value.clone() for name, value in case.loss.operator.state_dict().items()}
        common = {"seed": TUNED_ON, "relative_l2_before": error_of(case, held_out)}
        for config in configs:
            case.loss.operator.load_state_dict(start)
            steps, _ = spend(gauss_newton(case, config, first), seconds * FINISH)
            counts = {"steps": {SOAP: first, GAUSS_NEWTON: steps}}
            error = error_of(case, held_out)
            yield {"settings": asdict(config), **common, **counts, "relative_l2": error}


def shown(result: dict[str, Any]) -> str:
    """Write the error of a run, or that there is none."""
    return "diverged" if result["relative_l2"] is None else f"{result['relative_l2']:.4f}"


def table(problems: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Write the errors of all seeds as Markdown."""
    lines = ["| problem | method | steps | relative L2 | seeds |", "|---|---|---|---|---|"]
    for problem, rows in problems.items():
        for label, results in rows.items():
            errors = [r["relative_l2"] for r in results]
            mean = "–" if None in errors else f"{statistics.mean(errors):.4f}"
            steps = " + ".join(str(n) for n in results[0]["steps"].values())
            each = " ".join(map(shown, results))
            lines.append(f"| {problem} | {label} | {steps} | {mean} | {each} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, train the runs that are missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=PROBLEMS)
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time of a run")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rows", nargs="+", default=[SOAP, GAUSS_NEWTON, FINISHED])
    parser.add_argument("--tune", action="store_true", help="try other settings on another seed")
    for name, kind in (("functions", int), ("points", int), ("damping", float)):
        parser.add_argument(f"--{name}", type=kind, nargs="+", help="with --tune")
    parser.add_argument("--momentum", type=float, nargs="+", help="with --tune")
    parser.add_argument("--rate", type=float, nargs="+", help="with --tune")
    options = parser.parse_args()
    torch.set_num_threads(1)

    path = RESULTS / f"{NAME}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    tuning, problems = found.get("tuning", []), found.get("problems", {})
    commands = found.get("commands", [])
    commands.append(f"python benchmarks/second_order.py {shlex.join(sys.argv[1:])}".strip())

    def keep() -> None:
        figures = {
            "commands": list(dict.fromkeys(commands)),
            "finish": FINISH,
            "settings": {
                GAUSS_NEWTON: asdict(SCRATCH),
                FINISHED: asdict(FINISHER),
                LARGE_STEPS: asdict(SCRATCH),
            },
            "problems": problems,
            "tuning": tuning,
        }
        record(NAME, commands[-1], figures)

    if options.tune:
        names = ("functions", "points", "damping", "momentum", "rate")
        usual = asdict(SCRATCH)
        lists = [getattr(options, name) or [usual[name]] for name in names]
        configs = [GaussNewtonConfig(*values) for values in product(*lists)]
        for problem, label in product(options.problems, options.rows):
            for result in tune(label, plain(problem), options.seconds, configs):
                tuning.append({"problem": problem, "method": label, **result})
                keep()
                print(problem, label, result.get("settings"), shown(result), file=sys.stderr)
        return
    for seed, problem, label in product(options.seeds, options.problems, options.rows):
        rows = problems.setdefault(problem, {})
        if any(r["seed"] == seed for r in rows.get(label, [])):
            continue
        for name, result in run(label, plain(problem), seed, options.seconds).items():
            rows[name] = sorted([*rows.get(name, []), result], key=lambda r: r["seed"])
            print(problem, name, seed, shown(result), file=sys.stderr)
        keep()
    print(table(problems))


if __name__ == "__main__":
    main()
