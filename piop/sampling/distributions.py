"""Random inputs: one class per distribution, with its draws, mean and deviation, and covariance.

A new distribution is a class of :mod:`piop.spec.distributions` and one here, listed in
``SAMPLERS``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Generic, TypeVar, cast, final

import torch
from sympy import Expr
from torch import Tensor

from piop.errors import NotSupportedError
from piop.expression_functions import CompiledExpression, ExpressionFunction, names_in
from piop.fields import FunctionSamples, InputFunction
from piop.sampling.collocation import box_points
from piop.sampling.functions import NearestFunction, PiecewiseConstantFunction, ScalarFunction
from piop.sampling.kriging import krige
from piop.sampling.random import Draws
from piop.sampling.random_fields import Prior, draw_series, gaussian_prior, series_prior
from piop.sampling.stored_functions import stored_functions
from piop.spec import distributions as spec

if TYPE_CHECKING:
    from piop.problem import Coordinate, Input, Problem

_FUNCTIONS, _POINTS = 256, 64  # of estimates from draws: seed 0, steps and samples from 0
_SMOOTHNESS, _LENGTH = 2.5, 0.2  # of the substitute field, the length as a fraction of each axis

Drawn = Mapping[str, InputFunction]
Distribution = TypeVar("Distribution")


def input_axes(problem: Problem, item: Input) -> tuple[Coordinate, ...]:
    """Coordinates that an input depends on, in its own order."""
    return tuple(problem.coordinate(name) for name in item.of)


class Sampler(ABC, Generic[Distribution]):
    """The distribution of one input.

    Args:
        problem: The problem.
        item: The input.

    Attributes:
        axes: The coordinates that the input depends on.
        depends_on: Names of the inputs that must be drawn before.
        distribution: As the spec states it; None for an expression.
        stream: Name of the stream of random numbers that the input is drawn from.
    """

    def __init__(self, problem: Problem, item: Input) -> None:
        self.problem, self.item = problem, item
        self.axes = input_axes(problem, item)
        self.depends_on: frozenset[str] = frozenset()
        self.distribution = cast("Distribution", item.distribution)
        self.stream = f"input/{item.name}"

    @abstractmethod
    def draw(self, draws: Draws, drawn: Drawn) -> InputFunction:
        """Draw functions in float64.

        Args:
            draws: The random numbers.
            drawn: Functions of the inputs that this one depends on.

        Raises:
            NotSupportedError: If the distribution cannot be drawn from.
        """

    @abstractmethod
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation over all draws and the whole domain."""

    def spectrum(self) -> Prior | None:
        """Mean and variance in a basis of waves, where the distribution is stated by them."""
        return None

    def prior(self) -> Prior:
        """Mean and covariance under which the input is interpolated.

        Those of the distribution where it has them; otherwise those of a substitute: a Matérn field
        of smoothness 2.5 with the input's own mean and variance, its length a fifth of each axis,
        stationary, with no condition at walls.

        Raises:
            NotSupportedError: For the distributions ``history`` and ``data``.
        """
        mean, std = self.moments()
        matern = spec.Matern(_SMOOTHNESS, _LENGTH, std**2 if std > 0 else 1.0)
        # On axes of length 1; a wall's axis is periodic over twice its length, never seen whole.
        ends = [(0.0, 1.0) if a.periodic else (-0.5, 1.5) for a in self.axes]
        pairs = zip(self.axes, ends, strict=True)
        units = [replace(a, low=low, high=high, periodic=True) for a, (low, high) in pairs]
        prior = gaussian_prior(spec.GaussianRandomField(matern=matern, mean=mean), units)
        bases = tuple(
            replace(b, frequency=b.frequency / a.length, origin=a.low)
            for b, a in zip(prior.bases, self.axes, strict=True)
        )
        return replace(prior, bases=bases)

    @cached_property
    def _fixed_prior(self) -> Prior:
        """The prior, computed once: its size depends on values, which no graph may capture."""
        return self.prior()

    def interpolate(self, points: Tensor, values: Tensor, mask: Tensor | None) -> InputFunction:
        """Interpolate values ``[B, M]`` observed at points ``[B, M, d]``, all in float64.

        Of a number without coordinates, the mean of the observed values is taken.
        """
        if self.axes:
            return krige(self._fixed_prior.to(points.device), points, values, mask)
        if mask is None:
            return ScalarFunction(values.mean(1))
        return ScalarFunction(torch.where(mask, values, 0.0).sum(1) / mask.sum(1).clamp_min(1))


class NumberSampler(Sampler[Distribution]):
    """A random number per function, which depends on no coordinate."""

    @abstractmethod
    def numbers(self, draws: Draws) -> Tensor:
        """Draw numbers ``[B]``."""

    def draw(self, draws: Draws, drawn: Drawn) -> ScalarFunction:
        """Draw numbers, as functions without coordinates."""
        return ScalarFunction(self.numbers(draws))


@final
class UniformSampler(NumberSampler[spec.Uniform | spec.Constant]):
    """Uniform between the least and the greatest value, which are the same for a constant."""

    def numbers(self, draws: Draws) -> Tensor:
        """Draw numbers ``[B]``."""
        low, high = self.distribution.extremes[0], self.distribution.extremes[-1]
        return low + (high - low) * draws.uniform(self.stream)

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        return _uniform_moments(self.distribution.extremes)


@final
class IntegerSampler(NumberSampler[spec.Integer]):
    """Whole numbers, all as likely."""

    def numbers(self, draws: Draws) -> Tensor:
        """Draw numbers ``[B]``."""
        low, high = map(int, self.distribution.extremes)
        return draws.integers(self.stream, low, high).double()

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        low, high = self.distribution.low, self.distribution.high
        count = high - low + 1
        return (low + high) / 2, math.sqrt((count**2 - 1) / 12)


@final
class LogUniformSampler(NumberSampler[spec.LogUniform]):
    """Numbers whose logarithm is uniform."""

    def numbers(self, draws: Draws) -> Tensor:
        """Draw numbers ``[B]``."""
        low, high = self.distribution.low, self.distribution.high
        return low * (high / low) ** draws.uniform(self.stream)

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        low, high = self.distribution.low, self.distribution.high
        if low == high:
            return low, 0.0
        width = math.log(high) - math.log(low)
        mean = low * math.expm1(width) / width
        half = width / 2
        relative = half / math.tanh(half) - 1 if half > 1e-3 else half**2 / 3  # of the variance
        return mean, mean * math.sqrt(relative)


@final
class NormalSampler(NumberSampler[spec.Normal]):
    """Normally distributed numbers."""

    def numbers(self, draws: Draws) -> Tensor:
        """Draw numbers ``[B]``."""
        return self.distribution.mean + self.distribution.std * draws.normal(self.stream)

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        return self.distribution.mean, self.distribution.std


@final
class PiecewiseConstantSampler(Sampler[spec.PiecewiseConstant]):
    """Equal cells, each with its own uniform value."""

    def draw(self, draws: Draws, drawn: Drawn) -> PiecewiseConstantFunction:
        """Draw a value for each cell."""
        low, high = self.distribution.low, self.distribution.high
        shape = self.distribution.per_axis(len(self.axes))
        return self._function(low + (high - low) * draws.uniform(self.stream, *shape))

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        return _uniform_moments(self.distribution.extremes)

    def interpolate(self, points: Tensor, values: Tensor, mask: Tensor | None) -> InputFunction:
        """Average the sensors of each cell; a cell without any takes the mean of all draws."""
        shape = (len(values), *self.distribution.per_axis(len(self.axes)))
        mean, _ = self.moments()
        empty = self._function(torch.full(shape, mean, dtype=torch.float64, device=values.device))
        cells, flat = empty.cells(points), empty.values.flatten(1)
        real = torch.ones_like(values) if mask is None else mask.to(values)
        count = torch.zeros_like(flat).scatter_add(1, cells, real)
        total = torch.zeros_like(flat).scatter_add(1, cells, torch.where(real > 0, values, 0.0))
        filled = torch.where(count > 0, total / count.clamp_min(1.0), flat)
        return replace(empty, values=filled.reshape(empty.values.shape))

    def _function(self, values: Tensor) -> PiecewiseConstantFunction:
        return PiecewiseConstantFunction(
            values,
            low=tuple(axis.low for axis in self.axes),
            high=tuple(axis.high for axis in self.axes),
            periodic=tuple(axis.periodic for axis in self.axes),
        )


class RandomFieldSampler(Sampler[Distribution]):
    """A random field with a mean and variance in a trigonometric basis."""

    def spectrum(self) -> Prior:
        """Mean and variance of the coefficients."""
        return self.prior()

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        return self.prior().moments()


@final
class FourierSeriesSampler(RandomFieldSampler[spec.FourierSeries]):
    """Random Fourier series."""

    def draw(self, draws: Draws, drawn: Drawn) -> InputFunction:
        """Draw series."""
        return draw_series(self.distribution, self.axes, draws, self.stream)

    def prior(self) -> Prior:
        """Mean and variance of the coefficients."""
        return series_prior(self.distribution, self.axes)


@final
class GaussianFieldSampler(RandomFieldSampler[spec.GaussianRandomField]):
    """Gaussian random fields."""

    def draw(self, draws: Draws, drawn: Drawn) -> InputFunction:
        """Draw fields."""
        return self.prior().normal(draws, self.stream)

    def prior(self) -> Prior:
        """Mean and variance of the coefficients."""
        return gaussian_prior(self.distribution, self.axes)


@final
class FileSampler(Sampler[spec.FromFile]):
    """Functions stored in a file."""

    def draw(self, draws: Draws, drawn: Drawn) -> InputFunction:
        """Choose functions of the file."""
        stored = self.stored()
        chosen = draws.integers(self.stream, 0, stored.batch - 1).cpu()
        return stored.take(chosen).to(draws.index.device)

    def stored(self) -> InputFunction:
        """Return every function of the file, as one batch."""
        return stored_functions(self.item, self.distribution, self.axes)

    def moments(self) -> tuple[float, float]:
        """Estimate from up to 256 functions at 64 points each."""
        stored = self.stored()
        count = min(_FUNCTIONS, stored.batch)
        return _estimate(stored.take(torch.linspace(0, stored.batch - 1, count).long()), self.axes)


@final
class DataSampler(Sampler[spec.FromData | spec.History]):
    """Functions that come with their solutions in a data set, and are never drawn."""

    @property
    def law(self) -> str:
        """Name of the distribution in the spec."""
        return spec.NAMES[type(self.distribution)]

    def draw(self, draws: Draws, drawn: Drawn) -> InputFunction:
        """Refuse to draw.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            f"inputs.{self.item.name}: its distribution is {self.law}, so it cannot be drawn: "
            "its values come with solutions; give --data FILE"
        )

    def moments(self) -> tuple[float, float]:
        """Refuse: the distribution of data is unknown.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            f"inputs.{self.item.name}: the distribution {self.law} has no moments and no "
            "covariance: they are those of data; give --data FILE"
        )


@final
class ExpressionSampler(Sampler[None]):
    """An input given by an expression of others.

    Args:
        problem: The problem.
        item: The input.
        expression: Of the input's coordinates and of other inputs.
    """

    def __init__(self, problem: Problem, item: Input, expression: Expr) -> None:
        super().__init__(problem, item)
        self.expression = CompiledExpression(expression, [axis.symbol for axis in self.axes])
        self.depends_on = names_in(expression) - set(item.of)

    def draw(self, draws: Draws, drawn: Drawn) -> InputFunction:
        """Put drawn inputs into the expression; a scalar is computed once, now."""
        parts = {name: drawn[name] for name in self.depends_on}
        found = ExpressionFunction(self.expression, parts, draws.batch, draws.index.device)
        return found if self.axes else ScalarFunction(found.on_grid(()))

    def moments(self) -> tuple[float, float]:
        """Estimate from 256 functions at 64 points each."""
        drawn = sample_inputs(self.problem, Draws(0, 0, torch.arange(_FUNCTIONS)))
        return _estimate(drawn[self.item.name], self.axes)

    def interpolate(self, points: Tensor, values: Tensor, mask: Tensor | None) -> InputFunction:
        """Interpolate; where the expression is not smooth, by the nearest sensor."""
        if not self.axes or self.item.smooth:
            return super().interpolate(points, values, mask)
        samples = FunctionSamples(points, values[..., None], mask)
        lengths = tuple(axis.length for axis in self.axes)
        return NearestFunction(samples, lengths, tuple(axis.periodic for axis in self.axes))


SAMPLERS: Mapping[type, Callable[[Problem, Input], Sampler]] = {
    spec.FourierSeries: FourierSeriesSampler,
    spec.GaussianRandomField: GaussianFieldSampler,
    spec.PiecewiseConstant: PiecewiseConstantSampler,
    spec.Uniform: UniformSampler,
    spec.LogUniform: LogUniformSampler,
    spec.Integer: IntegerSampler,
    spec.Normal: NormalSampler,
    spec.Constant: UniformSampler,
    spec.FromFile: FileSampler,
    spec.FromData: DataSampler,
    spec.History: DataSampler,
}
"""Distribution of the spec → its sampler."""


def input_sampler(problem: Problem, item: Input) -> Sampler:
    """Return the sampler of an input."""
    if item.expression is not None:
        return ExpressionSampler(problem, item, item.expression)
    return SAMPLERS[type(item.distribution)](problem, item)


@final
class InputSampler:
    """Draws all inputs of a problem; expressions are compiled once.

    Args:
        problem: The problem.

    Raises:
        NotSupportedError: For expressions of what is not an input.
    """

    def __init__(self, problem: Problem) -> None:
        samplers = {item.name: input_sampler(problem, item) for item in problem.inputs}
        for name, sampler in samplers.items():
            if others := sorted(sampler.depends_on - samplers.keys()):
                raise NotSupportedError(
                    f"inputs.{name}: its expression uses {', '.join(others)}, which is no input: a "
                    "parameter to infer has no distribution to be drawn from"
                )
        uses = {name: sampler.depends_on for name, sampler in samplers.items()}
        ordered = [samplers[name] for name in TopologicalSorter(uses).static_order()]
        self._samplers = [s for s in ordered if s.item.history is None]
        self._names = [name for name in samplers if samplers[name] in self._samplers]

    def __call__(
        self, draws: Draws, dtype: torch.dtype = torch.float64
    ) -> dict[str, InputFunction]:
        """Draw, as :func:`sample_inputs` does."""
        drawn: dict[str, InputFunction] = {}
        for sampler in self._samplers:
            drawn[sampler.item.name] = sampler.draw(draws, drawn).to(dtype=dtype)
        return {name: drawn[name] for name in self._names}


def sample_inputs(
    problem: Problem, draws: Draws, dtype: torch.dtype = torch.float64
) -> dict[str, InputFunction]:
    """Draw every input of a problem, hidden ones and those given by an expression included.

    Numbers are drawn in float64 and then rounded to ``dtype``, so that the functions are the same
    in every precision.

    Args:
        problem: Whose inputs to draw.
        draws: Seed, step and sample numbers; functions are made on its device.
        dtype: Of the functions and of what they return.

    Returns:
        One batch of ``draws.batch`` functions for each input, by name, in the order of the problem;
        none for the distribution ``history``, whose values come from a solution.

    Raises:
        NotSupportedError: For the distribution ``data``, and for expressions of what is not an
            input.
        DataError: For ``from_file``, if the file does not fit.
    """
    return InputSampler(problem)(draws, dtype)


def _estimate(functions: InputFunction, axes: Sequence[Coordinate]) -> tuple[float, float]:
    """Estimate mean and deviation at random points, the same ones every time."""
    draws = Draws(0, 0, torch.arange(functions.batch))
    ends = [(axis.low, axis.high) for axis in axes]
    points = box_points(draws, "statistics", ends, _POINTS if axes else 1, "sobol")
    values = functions(points)
    return float(values.mean()), float(values.std(correction=0))


def _uniform_moments(extremes: tuple[float, ...]) -> tuple[float, float]:
    low, high = extremes[0], extremes[-1]
    return (low + high) / 2, (high - low) / math.sqrt(12)
