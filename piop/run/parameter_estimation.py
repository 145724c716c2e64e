"""Estimate parameters and their uncertainty by least squares with the classical solver.

Training gives a value by the way, as good as the network is. From there Gauss-Newton steps minimise
the misfit of the *classical solution* to the data, whose curvature gives the standard error. With
independent normal noise of one size for each unknown and no prior, that is the mode of the
posterior and its Laplace approximation.

Source: Seber & Wild 1989, Nonlinear Regression, sec. 2.1 (doi:10.1002/0471725315): the asymptotic
covariance σ²(JᵀJ)⁻¹, eq. 2.15 and σ² from the residual sum of squares, eq. 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from piop.datasets import AnyDataset, Dataset
from piop.errors import NotSupportedError, SolverError, SpecError
from piop.fields import grid_axis
from piop.models import AxisSignature
from piop.models.core.interpolation import interpolate_grid, interpolation_weights
from piop.problem import Coordinate, Problem
from piop.problem.capabilities import usual_tolerance
from piop.reference import solve_reference
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.batches.training_grid import is_even

FIRST_TOLERANCE = 1e-4
"""Tolerance of solutions until the noise is known."""
REFINEMENT = 2
"""Cells of the grid of a solution per cell of ``save``, where the data lie on none."""


@final
class ForwardModel:
    """Parameters → the values that the data are compared with.

    Where the data lie on an even grid, the problem is solved there; elsewhere it is solved on the
    problem's ``save`` grid, refined, and is interpolated.

    Args:
        problem: With parameters to infer.
        data: Samples, whose inputs are interpolated from their sensors.

    Attributes:
        channels: Names of the unknowns that are compared.
        tolerance: Requested error estimate, relative L2.
        least: The usual one of the method.
        error: Largest error estimate of a solution so far, relative L2.

    Raises:
        NotSupportedError: If no solver covers the problem, or the data do not tell all inputs.
    """

    def __init__(self, problem: Problem, data: Dataset) -> None:
        self.least = usual_tolerance(problem)
        self.tolerance = max(self.least, FIRST_TOLERANCE)
        if not problem.domain.is_box:
            raise NotSupportedError("solutions on shapes are not compared with data yet")
        hidden = [i.name for i in problem.hidden_inputs]
        if hidden:
            raise NotSupportedError(f"the data do not tell the hidden input {hidden[0]}")
        self.problem, self.data = problem, data
        self.functions = interpolate_inputs(problem, data.inputs)
        self.channels = tuple(n for n in problem.channels if n in data.values)
        self.error = 0.0
        self._ticks = [self._along(c) for c in problem.coordinates]
        self._axes = [AxisSignature(c.name, c.low, c.high, c.periodic) for c in problem.coordinates]

    def __call__(self, values: Mapping[str, float]) -> Tensor:
        """Solve: ``[n, P, C]``, the points of each sample in the order of :meth:`observed`.

        Raises:
            SolverError: If there is no solution at these values.
            SpecError: If the problem is ill posed at these values.
        """
        steady = self.problem.time is None
        space = self._ticks if steady else self._ticks[1:]
        solution = solve_reference(
            self.problem.at(values),
            self.functions,
            times=None if steady else self._ticks[0],
            shape=[len(ticks) for ticks in space],
            tolerance=self.tolerance,
        )
        self.error = max(self.error, float(solution.error_estimate.max()))
        grid = torch.stack([solution.values[name] for name in self.channels], -1)
        grid = grid.expand(len(self.data), *grid.shape[1:])
        if self.data.points is not None:
            return interpolate_grid(grid, self._ticks, self._axes, self.data.points.double())
        for place, (ticks, axis) in enumerate(zip(self._ticks, self._axes, strict=True), 1):
            wanted = self.data.axes[axis.name].double()
            if len(wanted) != len(ticks) or not torch.equal(wanted, ticks):
                moved = grid.movedim(place, -1) @ interpolation_weights(ticks, wanted, axis).mT
                grid = moved.movedim(-1, place)
        return grid.flatten(1, -2)

    def observed(self) -> Tensor:
        """Give the values of the data ``[n, P, C]``, NaN where there are none."""
        columns = [self.data.values[name].double().flatten(1) for name in self.channels]
        return torch.stack(columns, -1)

    def _along(self, coordinate: Coordinate) -> Tensor:
        """Return positions along an axis: those of the data where the solver can use them."""
        if self.data.points is None:
            ticks = self.data.axes[coordinate.name].double()
            if coordinate is self.problem.time:
                return ticks
            if is_even(ticks, coordinate):
                return grid_axis(coordinate.low, coordinate.high, len(ticks), coordinate.periodic)
        names = [c.name for c in self.problem.coordinates]
        cells = REFINEMENT * self.problem.save[names.index(coordinate.name)]
        count = cells + (not coordinate.periodic)
        return grid_axis(coordinate.low, coordinate.high, count, coordinate.periodic)


def neighbour_correlation(values: Tensor, data: Dataset) -> float | None:
    """Correlate values ``[n, P, C]`` of data on a grid with those beside them along the last axis.

    Returns:
        In [-1, 1], 0 up to chance for independent ones; None for scattered data.
    """
    if data.points is not None:
        return None
    last = len(list(data.axes.values())[-1])
    lines = values.reshape(len(values), -1, last, values.shape[-1])
    lines = lines / lines.square().mean((0, 1, 2)).clamp(min=1e-300).sqrt()
    found = (lines[:, :, 1:] * lines[:, :, :-1]).mean()
    return float(found) if math.isfinite(found) else None


SAMPLES = 64
"""Samples of the data that are solved for, at most."""
ROUNDS, HALVINGS = 12, 6
DIFFERENCE_STEP = 0.01
"""Step of the finite differences, as a fraction of a parameter. One-sided differences suffice:
its error, a percent or so, is one of the standard error."""
LARGEST_TOLERANCE, SOLVER_ERROR_FRACTION = 1e-4, 0.1
"""Largest tolerance of a solution; and its error as a fraction of that which would move an estimate
by one standard error, were it of the shape of a slope."""
CONVERGED = 0.05
"""A step below this fraction of the standard error ends the search."""
LARGEST = 1.0
"""Largest change of a logarithm in one step."""
CORRELATED, BY_CHANCE = 0.1, 4.0
"""Correlation of neighbouring misfits to warn of: at least so much, and so many times 1/√n."""
SMALLEST_EIGENVALUE = 1e-7
"""Smallest eigenvalue of the parameters' correlations at which they are identifiable."""
QUANTILE_95 = 1.959964
"""Half width of the middle 95 % of a normal distribution, in standard deviations."""


@dataclass(frozen=True)
class ParameterScale:
    """How a parameter is moved: in its logarithm where it starts from a number, else as it is.

    Attributes:
        start: Where the search starts, units of the parameter.
        logarithmic: Whether its sign stays.
        step: Between the solutions of a slope, in what is moved.
    """

    start: float
    logarithmic: bool
    step: float

    def value(self, moved: float) -> float:
        """Give the parameter for what was moved, 0 at the start."""
        return self.start * math.exp(moved) if self.logarithmic else self.start + moved

    def interval(self, moved: float, error: float) -> list[float]:
        """Give the middle 95 %, ascending."""
        ends = self.value(moved - QUANTILE_95 * error), self.value(moved + QUANTILE_95 * error)
        return sorted(ends)

    def std(self, moved: float, error: float) -> float:
        """Give the standard error in the units of the parameter, to first order."""
        return abs(self.value(moved)) * error if self.logarithmic else error


@dataclass(frozen=True)
class LeastSquaresFit:
    """The end of a search.

    Attributes:
        moved: Of each parameter ``[P]``.
        covariance: Of the same ``[P, P]``; None where they are not identifiable.
        noise: Standard deviation of the noise of each channel ``[C]``.
        misfits: Data minus solution ``[n, P, C]``.
        rounds: Gauss-Newton steps taken.
        settled: Whether the last one was small.
    """

    moved: Tensor
    covariance: Tensor | None
    noise: Tensor
    misfits: Tensor
    rounds: int
    settled: bool


def infer(
    problem: Problem, trained: Mapping[str, float], data: AnyDataset
) -> tuple[dict[str, Any], list[str]]:
    """Estimate the parameters of a problem from data.

    Args:
        problem: With parameters to infer.
        trained: What training found, where the search starts.
        data: What it was trained on; the first ``SAMPLES`` are looked at.

    Returns:
        What ``evaluation.json`` holds under ``inferred`` and ``inference``, and warnings. For each
        parameter ``value``, ``std``, ``interval`` (the middle 95 %), ``trained`` and ``start``;
        where there is no solver to say better, ``value`` is that of training and ``std`` None.
    """
    scales = [_scale(problem.infer[name], value) for name, value in trained.items()]
    names = list(trained)

    def at(moved: Tensor) -> dict[str, float]:
        return {n: s.value(float(m)) for n, s, m in zip(names, scales, moved, strict=True)}

    try:
        forward = ForwardModel(problem, data.take(torch.arange(min(SAMPLES, len(data)))))
        observed, steps = forward.observed(), [s.step for s in scales]
        _choose_tolerance(forward, observed, observed - forward(trained))
        found = least_squares(lambda moved: forward(at(moved)), observed, steps)
    except (NotSupportedError, SolverError, SpecError) as error:
        reason = f"no classical solution says how sure the parameters are: {error}"
        return {"inferred": trained_estimates(problem, trained)}, [reason]
    covariance = found.covariance
    inferred = trained_estimates(problem, trained)
    for i, (name, scale) in enumerate(zip(names, scales, strict=True)):
        moved = float(found.moved[i])
        inferred[name]["value"] = scale.value(moved)
        if covariance is not None:
            error = math.sqrt(float(covariance[i, i]))
            inferred[name]["std"] = scale.std(moved, error)
            inferred[name]["interval"] = scale.interval(moved, error)
    size = observed.square().nanmean((0, 1)).sqrt()
    inference = {
        "samples": len(found.misfits),
        "observations": int(found.misfits.isfinite().sum()),
        "noise": {
            name: {"std": float(noise), "relative": float(noise / whole)}
            for name, noise, whole in zip(forward.channels, found.noise, size, strict=True)
        },
        "correlation": None if covariance is None else _scaled(covariance).tolist(),
        "rounds": found.rounds,
        "reference_error": forward.error,
    }
    warnings = _warnings(found, forward, names, size)
    return {"inferred": inferred, "inference": inference}, warnings


def trained_estimates(problem: Problem, trained: Mapping[str, float]) -> dict[str, Any]:
    """Describe parameters of which nothing but training knows."""
    unknown = {"std": None, "interval": None}
    return {
        name: {"value": value, **unknown, "trained": value, "start": problem.infer[name]}
        for name, value in trained.items()
    }


def least_squares(
    solve: Callable[[Tensor], Tensor], observed: Tensor, steps: Sequence[float]
) -> LeastSquaresFit:
    """Minimise Σ_c S_c/σ_c² by Gauss-Newton steps, each halved until the misfit falls.

    Args:
        solve: What is moved ``[P]`` → the values to compare ``[n, points, C]``.
        observed: The data, NaN where there are none.
        steps: Between the solutions of a slope.

    Raises:
        SolverError: If there is no solution where the search starts.
    """
    moved = torch.zeros(len(steps), dtype=torch.float64)
    misfits = observed - solve(moved)
    settled, rounds = False, 0
    while True:
        slopes = _slopes(solve, moved, observed - misfits, steps)
        noise = _noise(misfits, len(steps))
        known = misfits.isfinite()
        rows = torch.where(known, slopes / noise, 0.0).flatten(1)
        right = rows @ torch.where(known, misfits / noise, 0.0).flatten()
        covariance = _inverse(rows @ rows.T)
        if covariance is None or settled or rounds == ROUNDS:
            return LeastSquaresFit(moved, covariance, noise, misfits, rounds, settled)
        step = covariance @ right
        step = step * min(1.0, LARGEST / float(step.abs().max().clamp(min=1e-300)))
        settled = bool((step.abs() < CONVERGED * covariance.diagonal().sqrt()).all())
        before = (misfits / noise).square().nansum()
        for halving in range(HALVINGS):
            there = moved + step * 0.5**halving
            try:
                found = observed - solve(there)
            except (SolverError, SpecError):
                continue
            if (found / noise).square().nansum() <= before:
                break
        else:  # the misfit falls no further: rounding, or slopes that lead nowhere
            return LeastSquaresFit(moved, covariance, noise, misfits, rounds, settled)
        moved, misfits, rounds = there, found, rounds + 1


def _slopes(
    solve: Callable[[Tensor], Tensor], moved: Tensor, here: Tensor, steps: Sequence[float]
) -> Tensor:
    """Differences ``[P, n, points, C]`` from the solution that is known, NaN where that is."""
    sides = torch.diag(torch.tensor(steps, dtype=moved.dtype))
    found = [(solve(moved + s) - here) / size for s, size in zip(sides, steps, strict=True)]
    return torch.stack(found)


def _choose_tolerance(forward: ForwardModel, observed: Tensor, misfits: Tensor) -> None:
    """Ask of solutions no more than the noise makes worth while."""
    size, count = observed.square().nanmean((0, 1)).sqrt(), observed.isfinite().sum((0, 1))
    worth = SOLVER_ERROR_FRACTION * _noise(misfits, 1) / (size * count.sqrt()).clamp(min=1e-300)
    forward.tolerance = max(forward.least, min(LARGEST_TOLERANCE, float(worth.min())))
    forward.error = 0.0


def _noise(misfits: Tensor, parameters: int) -> Tensor:
    """Standard deviation of each channel ``[C]``, with the degrees of freedom of the fit."""
    known = misfits.isfinite().sum((0, 1))
    free = (known - parameters / len(known)).clamp(min=1)
    return (misfits.square().nansum((0, 1)) / free).sqrt().clamp(min=1e-300)


def _inverse(normal: Tensor) -> Tensor | None:
    """Invert the normal matrix; None where the parameters are not identifiable."""
    size = normal.diagonal().sqrt()
    if not bool((size > 0).all()) or not bool(normal.isfinite().all()):
        return None
    if float(torch.linalg.eigvalsh(_scaled(normal))[0]) < SMALLEST_EIGENVALUE:
        return None
    return torch.linalg.inv(_scaled(normal)) / (size[:, None] * size)


def _scaled(matrix: Tensor) -> Tensor:
    """Scale rows and columns so that the diagonal is one."""
    size = matrix.diagonal().sqrt()
    return matrix / (size[:, None] * size)


def _scale(start: float, trained: float) -> ParameterScale:
    if start != 0:
        return ParameterScale(trained, True, DIFFERENCE_STEP)
    return ParameterScale(trained, False, DIFFERENCE_STEP * (abs(trained) or 1.0))


def _warnings(
    found: LeastSquaresFit, forward: ForwardModel, names: Sequence[str], size: Tensor
) -> list[str]:
    warnings, what = [], ", ".join(names)
    if found.covariance is None:
        apart = " apart" if len(names) > 1 else ""
        warnings.append(f"the data do not tell {' and '.join(names)}{apart}")
    elif not found.settled:
        warnings.append(f"the search for {what} had not settled after {found.rounds} steps")
    beside = neighbour_correlation(found.misfits, forward.data)
    chance = BY_CHANCE / math.sqrt(max(1, int(found.misfits.isfinite().sum())))
    if beside is not None and abs(beside) > max(CORRELATED, chance):
        warnings.append(
            f"the misfits of neighbouring points are correlated ({beside:.2f}): the uncertainty of "
            f"{what} holds for independent noise and equations that hold"
        )
    count = found.misfits[..., 0].isfinite().sum()
    if bool((forward.error * size * count.sqrt() > found.noise).any()):
        warnings.append(
            f"the classical solution errs by up to {forward.error:.1e}, which is not small beside "
            f"the noise: the uncertainty of {what} leaves that out"
        )
    return warnings
