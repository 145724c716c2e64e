"""Error bounds of a prediction, and solutions in place of what exceeds a tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.run.error_bounds.coarse_solution import CoarseDifference
from piop.run.error_bounds.conformal import coverage
from piop.run.error_bounds.fallback import solve_samples
from piop.run.error_bounds.residual_size import ResidualSize
from piop.run.prediction import add_bounds_over_time, add_error_bounds, put_solutions

if TYPE_CHECKING:
    import xarray as xr

    from piop.datasets import Queries
    from piop.models.core.base import Inputs
    from piop.run.error_bounds.calibration import Calibration
    from piop.run.error_bounds.linearised_error import FirstOrder
    from piop.run.run import Run


def bound_errors(
    run: Run,
    calibrated: Calibration,
    found: xr.Dataset,
    observed: Inputs,
    outside: Tensor | None,
    confidence: float,
    first_order: FirstOrder | None = None,
) -> Tensor:
    """Add error estimates and bounds to a prediction, NaN where they do not cover it.

    Args:
        run: The run that predicts.
        calibrated: Its calibration.
        found: The prediction of B samples.
        observed: Their sensors.
        outside: Which are outside the distribution ``[B or 1]``; None where that is not known.
        confidence: Probability that a bound holds.
        first_order: What the prediction was corrected by.

    Returns:
        The bounds of all unknowns together ``[B]``.

    Raises:
        UsageError: If the calibration has too few inputs for the confidence.
    """
    count = found.sizes["sample"]
    uncovered = uncovered_inputs(calibrated, observed, outside, count)
    indicators, measured = indicators_of(run, calibrated, observed, count, first_order, ~uncovered)
    bounds = {
        name: bound.masked_fill(uncovered, torch.nan)
        for name, bound in calibrated.bounds(indicators, confidence).items()
    }
    estimate = calibrated.estimates(indicators).masked_fill(uncovered, torch.nan)
    _, low = coverage(calibrated.count, confidence)
    attributes = {
        "confidence": str(confidence),
        "calibration_inputs": str(calibrated.count),
        "coverage_at_least": f"{low:.3f}",
    }
    add_error_bounds(found, estimate, bounds, measured, attributes)
    time = run.problem.time
    if time is not None and time.name in found.dims:
        at = torch.tensor(found[time.name].values, dtype=torch.float64)
        over_time = calibrated.bounds_over_time(indicators, confidence, at)
        if over_time is not None:
            masked = over_time.masked_fill(uncovered[:, None], torch.nan)
            add_bounds_over_time(found, time.name, masked, attributes)
    return bounds[""]


def indicators_of(
    run: Run,
    calibrated: Calibration,
    observed: Inputs,
    count: int,
    first_order: FirstOrder | None = None,
    covered: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the indicator of the error of inputs, and what it is made of.

    Args:
        run: The run that predicts.
        calibrated: Its calibration.
        observed: Sensors of B inputs.
        count: B.
        first_order: What predictions were corrected by.
        covered: Inputs that bounds hold for ``[B]``; by default all. The others are not solved
            for, since they may be of any size; they have NaN.

    Returns:
        The indicator ``[B]``, and by the name of its variable what was measured ``[B]``, relative
        to a typical input; nothing where the indicator is the same for all.
    """
    indicator = calibrated.indicator
    if indicator.is_constant:
        return indicator(None, count), {}
    if indicator.coarse is None:
        measure = ResidualSize(run.solved, run.model, run.config, indicator.lattice)
        sizes = measure(observed, first_order)
    else:
        compare = CoarseDifference(run.solved, run.model, indicator.coarse)
        rows = torch.arange(count) if covered is None else covered.nonzero()[:, 0]
        own = {name: samples.repeat(count).take(rows) for name, samples in observed.items()}
        sizes = torch.full((count, len(indicator.units)), torch.nan, dtype=torch.float64)
        if len(rows):
            sizes[rows] = compare(own)
    return indicator(sizes, count), {indicator.variable: indicator.relative_size(sizes)}


def uncovered_inputs(
    calibrated: Calibration, observed: Inputs, outside: Tensor | None, count: int
) -> Tensor:
    """Mark inputs ``[B]`` that bounds do not hold for: outside the distribution, fewer sensors."""
    if not calibrated.covers(observed):
        return torch.ones(count, dtype=torch.bool)
    if outside is None:
        return torch.zeros(count, dtype=torch.bool)
    return outside.expand(count)


def solve_instead(
    run: Run,
    found: xr.Dataset,
    observed: Inputs,
    queries: Queries,
    rows: Tensor,
    tolerance: float,
) -> None:
    """Put solutions of the reference solver in place of some predictions, and count them.

    Args:
        run: The run that predicts.
        found: The prediction of B samples, with error bounds.
        observed: Their sensors.
        queries: Where it predicts.
        rows: Numbers of the samples to solve.
        tolerance: Largest relative L2 error of a solution.
    """
    count, problem = found.sizes["sample"], run.solved
    own = {name: samples.repeat(count).take(rows) for name, samples in observed.items()}
    solved = solve_samples(problem, own, queries.take(rows), tolerance, len(rows))
    put_solutions(found, problem.channels, rows, solved)
    good = int(solved.solved.sum())
    found.attrs |= {
        "tolerance": tolerance,
        "operator_answers": count - len(rows),
        "solver_answers": good,
        "unsolved_answers": len(rows) - good,
        "solver_seconds": solved.seconds,
        "unsolved_because": "; ".join(solved.reasons),
    }
