"""Choice of the coarse solutions that tell the error of predictions best, and cost little."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress

from torch import Tensor

from piop.errors import NotSupportedError
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.problem.capabilities import usual_tolerance
from piop.run.error_bounds.coarse_solution import CoarseDifference, CoarseLevels
from piop.run.error_bounds.indicator import Measurement
from piop.run.prediction import predict_values
from piop.run.user_inputs import save_grid
from piop.run.worth import LOOSEST, SAMPLES
from piop.training.build import Model

MOST_PREDICTIONS = 2.0
"""Predictions on the ``save`` grid that a coarse solution, compared, may take as long as."""
MOST_LEVELS = 3
"""Levels of coarse solutions at most."""
PART = 0.1
"""Part of the operator's error that coarse solutions need not be more accurate than."""
LONG = 0.05
"""Seconds of one prediction from which on several take as long as one after the other."""
ENOUGH = 0.95
"""Correlation of the logarithms of indicator and error that needs nothing better."""


def coarse_differences(
    problem: Problem,
    model: Model,
    few: Inputs,
    errors: Tensor,
    residuals: Sequence[Measurement],
    inputs: Inputs,
    seconds: float = math.inf,
) -> list[Measurement]:
    """Compare predictions with coarse solutions, unless residuals tell their errors already.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        few: Sensors of the n inputs that choices are made on.
        errors: Relative L2 errors of their predictions ``[n]``.
        residuals: Those of their predictions; none where they are not known.
        inputs: Sensors of B inputs.
        seconds: Time that coarse solutions may take.

    Returns:
        The differences of the B predictions; none where a coarse solution takes too long, or no
        solver covers the problem.
    """
    if seconds <= 0 or any(own.agreement(errors) >= ENOUGH for own in residuals):
        return []
    count = max((len(samples.values) for samples in inputs.values()), default=1)
    with suppress(NotSupportedError):
        coarse = choose_coarse(problem, model, few, errors, count, seconds)
        if coarse is not None:
            return [Measurement(CoarseDifference(problem, model, coarse)(inputs), coarse=coarse)]
    return []


def choose_coarse(
    problem: Problem,
    model: Model,
    observed: Inputs,
    errors: Tensor,
    all_inputs: int,
    seconds: float = math.inf,
) -> CoarseLevels | None:
    """Choose the coarse solutions whose differences from predictions follow the errors best.

    Levels are tried from one on, until they take too long or nothing better is needed. Times are
    those of several inputs together.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        observed: Sensors of the n inputs that choices are made on.
        errors: Relative L2 errors of their predictions ``[n]``.
        all_inputs: Number of inputs that are compared with coarse solutions in the end.
        seconds: Time that all of this may take.

    Returns:
        How far they are refined; None where even one level takes longer than two predictions, or
        than there is time.

    Raises:
        NotSupportedError: If no solver covers the problem, or sensors do not determine what it
            needs.
    """
    known = errors[errors.isfinite()]
    typical = float(known.mean()) if len(known) else 1.0
    tolerance = min(max(PART * typical, usual_tolerance(problem)), LOOSEST)
    begun, count = time.perf_counter(), min(SAMPLES, len(errors))
    few = {name: samples.take(slice(count)) for name, samples in observed.items()}
    first = CoarseDifference(problem, model, CoarseLevels(1, tolerance))
    most = MOST_PREDICTIONS * _seconds_of_predictions(problem, model, few)
    first({name: samples.take(slice(1)) for name, samples in few.items()})  # prepares once
    best, best_agreement = None, -1.0
    for levels in range(1, MOST_LEVELS + 1):
        found = CoarseLevels(levels, tolerance)
        compare = CoarseDifference(problem, model, found)
        start = time.perf_counter()
        compare(few)
        taken = time.perf_counter() - start
        needed = taken / count * (len(errors) + all_inputs)
        if taken > most or needed > seconds - (time.perf_counter() - begun):
            break
        agreement = Measurement(compare(observed), coarse=found).agreement(errors)
        if agreement > best_agreement:
            best, best_agreement = found, agreement
        if agreement >= ENOUGH:
            break
    return best


def _seconds_of_predictions(problem: Problem, model: Model, observed: Inputs) -> float:
    """Return the time of predictions on the ``save`` grid."""
    queries = save_grid(problem, end=model.operator.end_only)
    one = {name: samples.take(slice(1)) for name, samples in observed.items()}
    count = max([len(samples.values) for samples in observed.values()], default=1)

    def seconds(of: Inputs) -> float:
        begun = time.perf_counter()
        predict_values(problem, model, of, queries)
        return time.perf_counter() - begun

    seconds(one)  # what is prepared once is not counted
    single = seconds(one)
    return count * single if single > LONG else seconds(observed)
