"""Seconds per answer of operator and solver, and after how many answers training has paid."""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from piop.errors import NotSupportedError, SolverError
from piop.problem import Problem
from piop.problem.capabilities import usual_tolerance
from piop.reference import solve_reference
from piop.reference.solution import Limits
from piop.run.evaluation import predict_held_out
from piop.run.held_out import HeldOut
from piop.training.build import Model

SAMPLES = 8
"""Inputs that are answered together, at most."""
PART_OF_OPERATOR = 0.5
"""Part of the time that the operator may take; inputs that do not fit are left out, but for one."""
LOOSEST = 0.5
"""Largest tolerance that the solver is asked for."""


def measure_worth(
    problem: Problem,
    model: Model,
    held_out: HeldOut,
    error: float,
    trained: float,
    seconds: float = math.inf,
) -> dict[str, Any] | None:
    """Time the operator and the reference solver on the same inputs, one batch of each.

    The solver is asked for the operator's own error, no more.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        held_out: Inputs with their functions, and the grid of the answers.
        error: Mean relative L2 error of the operator.
        trained: Seconds that the training took.
        seconds: Time that both may take together; the solver ends then.

    Returns:
        ``operator_seconds`` and ``solver_seconds`` per answer, the ``tolerance`` of the solver, the
        number of ``samples`` answered together, and after how many ``answers`` training has paid,
        None for never. None where the solver does not finish, or where inputs have no functions.
    """
    if not held_out.functions or not math.isfinite(error) or seconds <= 0:
        return None
    start = time.perf_counter()
    predict_held_out(problem, model, held_out.take(torch.arange(1)))  # prepares what all share
    one = time.perf_counter() - start
    fitting = max(1, int(min(PART_OF_OPERATOR * seconds / one, SAMPLES)))
    few = held_out.take(torch.arange(min(fitting, len(held_out.accepted))))
    axes, tolerance = few.queries.axes, min(max(error, usual_tolerance(problem)), LOOSEST)
    begun = time.perf_counter()
    predict_held_out(problem, model, few)
    between = time.perf_counter()
    try:
        solution = solve_reference(
            problem,
            few.functions,
            times=None if problem.time is None or axes is None else axes[problem.time.name],
            shape=None if axes is None else tuple(len(axes[c.name]) for c in problem.space),
            tolerance=tolerance,
            limits=Limits(seconds=seconds - (between - start)),
        )
    except (NotSupportedError, SolverError):
        return None
    if not bool(solution.accepted.all()):
        return None
    count, end = len(few.accepted), time.perf_counter()
    operator, solver = (between - begun) / count, (end - between) / count
    answers = math.ceil(trained / (solver - operator)) if solver > operator else None
    return {
        "operator_seconds": operator,
        "solver_seconds": solver,
        "tolerance": tolerance,
        "samples": count,
        "answers": answers,
    }
