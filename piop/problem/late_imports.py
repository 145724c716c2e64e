"""Methods of `Problem` and `Run` that call layers above them, which are imported when needed.

The only place of the symbolic half that reaches upwards, and so the only one that loads torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from piop.arguments import seed_number, whole_number
from piop.errors import NotSupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from piop.export import Exported
    from piop.fields import InputFunction
    from piop.problem.problem import Problem
    from piop.reference import Solution
    from piop.residual import Residual
    from piop.run import Run


def fit(problem: Problem, **settings: Any) -> Run:
    """Train an operator; see `Problem.fit`."""
    from piop import run

    return run.fit(problem, **settings)


def sample(problem: Problem, n: int, seed: int) -> dict[str, InputFunction]:
    """Draw input functions; see `Problem.sample`."""
    from piop.sampling import Draws, sample_inputs
    from piop.sampling.random import DATA

    count = whole_number("n", n)
    return sample_inputs(problem, Draws.of(DATA, seed_number(seed), range(count)))


def solve_reference(problem: Problem, inputs: Any, **settings: Any) -> Solution:
    """Solve by the classical method; see `Problem.solve_reference`."""
    from piop import reference
    from piop.run.user_inputs import read_functions

    return reference.solve_reference(problem, read_functions(problem, inputs), **settings)


def residual(problem: Problem) -> Residual:
    """Compile the residual; see `Problem.residual`."""
    from piop.residual import compile_residual

    if not problem.residuals:
        raise NotSupportedError(f"{problem.name}: it has no equations, being known from data alone")
    return compile_residual(problem)


def plot(
    run: Run,
    figure: str,
    path: str | Path | None,
    unknown: str | None,
    seed: int | None,
    force: bool,
) -> Figure:
    """Draw a figure of a run; see `Run.plot`."""
    from piop import report

    return report.plot(run, figure, path, unknown, seed, force)


def report(run: Run, path: str | Path | None, data: str | Path | None, force: bool) -> Path:
    """Write the report of a run; see `Run.report`."""
    from piop import report

    return report.report(run, path, data, force)


def export(
    run: Run,
    path: str | Path | None,
    format: str | None,
    sensors: Any,
    force: bool,
) -> Exported:
    """Export a run; see `Run.export`."""
    from piop.export import export_run

    return export_run(run, path, format, sensors, force)
