"""What a law says about its functions on average: priors and normalisers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import torch

from piop.errors import NotSupportedError
from piop.sampling.collocation import scale_to_box, unit_points
from piop.sampling.distributions import input_axes, sample_inputs
from piop.sampling.files import stored_functions
from piop.sampling.random import Draws
from piop.sampling.random_fields import Prior, gaussian_prior, series_prior
from piop.spec import distributions as laws

if TYPE_CHECKING:
    from piop.problem import Coordinate, Input, Problem

_FUNCTIONS, _POINTS = 256, 64  # of estimates from draws: seed 0, steps and samples from 0
_SMOOTHNESS, _LENGTH = 2.5, 0.2  # of the stand-in law, the length as a share of each axis


def input_statistics(problem: Problem) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of every input, over all draws and the whole domain.

    Exact for the laws themselves; estimated for ``from_file`` and for inputs by expression from
    up to 256 functions at 64 places each. The deviation of an input that never varies is given as
    1, so that one may divide by it.

    Raises:
        NotSupportedError: For the law ``history``.
        DataError: If a file does not fit.
    """
    found = {item.name: _statistics(problem, item) for item in problem.inputs}
    return {name: (mean, std if std > 0 else 1.0) for name, (mean, std) in found.items()}


def _statistics(problem: Problem, item: Input) -> tuple[float, float]:
    law, axes = item.law, input_axes(problem, item)
    match law:
        case laws.FourierSeries() | laws.GaussianRandomField():
            prior = law_prior(law, axes)
            return prior.moments()
        case laws.Uniform() | laws.PiecewiseConstant():
            return (law.low + law.high) / 2, (law.high - law.low) / math.sqrt(12)
        case laws.Integer():
            count = law.high - law.low + 1
            return (law.low + law.high) / 2, math.sqrt((count**2 - 1) / 12)
        case laws.LogUniform():
            return _log_uniform(law.low, law.high)
        case laws.Normal():
            return law.mean, law.std
        case laws.Constant():
            return law.value, 0.0
        case laws.History():
            raise NotSupportedError(f"inputs.{item.name}: a history has the statistics of data")
        case _:
            return _estimate(problem, item)


def _log_uniform(low: float, high: float) -> tuple[float, float]:
    if low == high:
        return low, 0.0
    width = math.log(high / low)
    mean, second = (high - low) / width, (high**2 - low**2) / (2 * width)
    return mean, math.sqrt(second - mean**2)


def _estimate(problem: Problem, item: Input) -> tuple[float, float]:
    """Estimate from functions at random places, the same ones every time."""
    axes = input_axes(problem, item)
    if isinstance(item.law, laws.FromFile):
        functions = stored_functions(item, item.law, axes)
        count = min(_FUNCTIONS, functions.batch)
        functions = functions.take(torch.linspace(0, functions.batch - 1, count).long())
    else:
        draws = Draws(0, 0, torch.arange(_FUNCTIONS))
        functions = sample_inputs(problem, draws)[item.name]
    draws = Draws(0, 0, torch.arange(functions.batch))
    unit = unit_points(draws, "statistics", _POINTS if axes else 1, len(axes), "sobol")
    values = functions(scale_to_box(unit, [a.low for a in axes], [a.high for a in axes]))
    return float(values.mean()), float(values.std(correction=0))


def law_prior(
    law: laws.FourierSeries | laws.GaussianRandomField, axes: tuple[Coordinate, ...]
) -> Prior:
    """Mean and covariance of a law that has them in a trigonometric basis."""
    if isinstance(law, laws.FourierSeries):
        return series_prior(law, axes)
    return gaussian_prior(law, axes)


def interpolation_prior(problem: Problem, item: Input) -> Prior:
    """Mean and covariance under which an input is interpolated.

    Those of its law where it has them; for ``from_file`` and smooth expressions a stand-in: a
    Matérn field of smoothness 2.5 with the input's own mean and variance, its length a fifth of
    each axis, stationary, with no condition at walls.

    Raises:
        NotSupportedError: For the law ``history``.
    """
    axes = input_axes(problem, item)
    if isinstance(item.law, laws.FourierSeries | laws.GaussianRandomField):
        return law_prior(item.law, axes)
    if isinstance(item.law, laws.History):
        raise NotSupportedError(f"inputs.{item.name}: the law history has no covariance")
    mean, std = input_statistics(problem)[item.name]
    law = laws.GaussianRandomField(matern=laws.Matern(_SMOOTHNESS, _LENGTH, std**2), mean=mean)
    # On axes of length 1; a wall's axis is periodic over twice its length, which no point sees.
    units = tuple(_Unit(a.name, *((0.0, 1.0) if a.periodic else (-0.5, 1.5))) for a in axes)
    prior = gaussian_prior(law, cast("tuple[Coordinate, ...]", units))
    bases = tuple(
        replace(b, frequency=b.frequency / (a.high - a.low), origin=a.low)
        for b, a in zip(prior.bases, axes, strict=True)
    )
    return replace(prior, bases=bases)


@dataclass(frozen=True)
class _Unit:
    """A periodic axis without units."""

    name: str
    low: float
    high: float
    periodic: bool = True
