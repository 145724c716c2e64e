"""Test of inputs against the distribution that a problem declares.

A test by simulation, for any distribution: inputs are drawn, observed at the given sensors, and a
few statistics of the given inputs are compared with those of the draws. The least of the p-values
of the statistics is compared with that of the draws again, so that there is one p-value, and a
level of 1 % alarms on 1 % of the distribution's own inputs.

Values of all inputs, each in units of its standard deviation, form one vector. Its principal
components under the distribution come from draws of their own. Statistics:

- ``distance``: Mahalanobis distance from the mean, over all components;
- ``component``: the largest component, in its own standard deviations;
- ``fine structure``: the part in the components that hold the last tenth of the variance;
- ``misfit``: the part that no component explains, as of noise, spikes, or other waves;
- ``neighbours``, ``sensor``: how far sensors are from what those nearest to them predict, the root
  mean square and the largest, in standard deviations of that prediction: where there are more
  sensors than draws give components, noise and spikes show here alone;
- ``range of NAME``: the largest and the least value of each input.

Deviations below a five-hundredth of an input's standard deviation do not count.

Sources: Monte Carlo tests as in Besag & Diggle 1977 (doi:10.2307/2346974); the least of several
p-values, calibrated by the draws, as in Westfall & Young 1993, ch. 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from piop.errors import NotSupportedError
from piop.fields import FunctionSamples, InputFunction, tensor_grid
from piop.sampling.distributions import sample_inputs
from piop.sampling.functions import ProductFunction
from piop.sampling.random import COMPARISON, Draws
from piop.sampling.sensors import group_by_sensors

if TYPE_CHECKING:
    from piop.problem import Problem

LEVEL = 0.01
"""p-value below which an input counts as outside the distribution."""
MOST_DRAWS, FEWEST_DRAWS = 10_000, 1000
"""Draws that an input is compared with."""
NUMBERS = 2**24
"""Random numbers of all draws, about, down to the fewest draws: a second or two."""
BLOCK = 1024
"""Draws held at once; principal components come from the first so many, comparisons from others."""
MOST_SENSORS = 4096
"""Sensors of all inputs that are tested; of more, an even selection. With BLOCK, bounds memory."""
TAIL = 0.02
"""Part of the draws whose statistics give the tail of their distribution."""
RESOLUTION = 2e-3
"""Deviation that does not count, in standard deviations of an input."""
FINE = 0.1
"""Part of the variance that counts as fine structure."""
NEAREST = 8
"""Sensors that predict one in their midst."""
LARGEST = 4.0
"""Standard deviations that the largest of thousands of Gaussian numbers has."""


@dataclass(frozen=True)
class Typicality:
    """How typical B inputs are of a distribution.

    Attributes:
        p_value: Probability that an input of the distribution is as unusual ``[B]``.
        reason: The most unusual statistic of each, such as ``misfit``.
        distance: Mahalanobis distance from the centre of the distribution, over that which half of
            its inputs stay below ``[B]``.
    """

    p_value: Tensor
    reason: tuple[str, ...]
    distance: Tensor

    @property
    def inside(self) -> Tensor:
        """Whether each input passes at :data:`LEVEL` ``[B]``."""
        return self.p_value >= LEVEL


class TypicalityTest:
    """The test for inputs of one problem; what was drawn for sensors is kept for the next inputs.

    Args:
        problem: The problem.
        seed: Of the draws.
    """

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem, self.seed = problem, seed
        self._references: dict[bytes, _Reference] = {}

    def __call__(self, inputs: Mapping[str, FunctionSamples]) -> Typicality:
        """Test inputs.

        Args:
            inputs: Sensors of B samples of every visible input, one channel each.

        Raises:
            NotSupportedError: Where the distribution is not known, or the problem has no inputs.
        """
        if not inputs:
            raise NotSupportedError(f"{self.problem.name} has no inputs")
        for name, samples in inputs.items():
            if samples.values.shape[-1] != 1:
                raise NotSupportedError(f"inputs.{name}: its distribution is known from data alone")
        batch = max(len(samples.values) for samples in inputs.values())
        inputs = {name: samples.repeat(batch) for name, samples in inputs.items()}
        groups = group_by_sensors(inputs)
        if not groups.keys() <= self._references.keys():
            self._references = self._refer(inputs, groups)
        p_values, distances = torch.empty(2, batch, dtype=torch.float64)
        reasons = [""] * batch
        for key, rows in groups.items():
            reference = self._references[key]
            own = {name: samples.take(rows) for name, samples in inputs.items()}
            p_values[rows], which, distances[rows] = reference.test(own)
            for row, number in zip(rows.tolist(), which.tolist(), strict=True):
                reasons[row] = reference.names[number]
        return Typicality(p_values, tuple(reasons), distances)

    def _refer(
        self, inputs: Mapping[str, FunctionSamples], groups: Mapping[bytes, Tensor]
    ) -> dict[bytes, _Reference]:
        """Draw inputs, and observe them at the sensors of each group of samples."""
        one = self._draw(range(1))
        if unknown := [name for name in inputs if name not in one]:
            raise NotSupportedError(f"inputs.{unknown[0]}: its distribution is not known")
        numbers = sum(f.coefficients.numel() for f in one.values() if _is_sum(f))
        many = min(NUMBERS // max(1, numbers), MOST_DRAWS // len(groups))
        last = BLOCK + min(max(many, FEWEST_DRAWS), MOST_DRAWS)
        basis = self._draw(range(BLOCK))
        found = {
            key: _Reference({n: s.take(rows[:1]) for n, s in inputs.items()}, basis)
            for key, rows in groups.items()
        }
        for first in range(BLOCK, last, BLOCK):
            drawn = self._draw(range(first, min(first + BLOCK, last)))
            for reference in found.values():
                reference.add(drawn)
        for reference in found.values():
            reference.finish()
        return found

    def _draw(self, numbers: range) -> Mapping[str, InputFunction]:
        return sample_inputs(self.problem, Draws.of(COMPARISON, self.seed, numbers))


def _is_sum(function: InputFunction) -> TypeGuard[ProductFunction]:
    return isinstance(function, ProductFunction)


def grid_axes(points: Tensor) -> list[Tensor] | None:
    """Return the axes of points ``[M, d]`` that are a grid of several dimensions, else None."""
    if points.shape[1] < 2:
        return None
    axes = [column.unique() for column in points.unbind(-1)]
    is_grid = math.prod(map(len, axes)) == len(points) and torch.equal(tensor_grid(axes), points)
    return axes if is_grid else None


def _selection(points: Tensor, most: int) -> Tensor:
    """Number the sensors that are tested: all, or every other one until they are few enough."""
    axes = grid_axes(points) or [points[:, :0]]
    numbers = torch.arange(len(points)).reshape([len(axis) for axis in axes])
    while numbers.numel() > most:
        longest = max(range(numbers.ndim), key=numbers.shape.__getitem__)
        numbers = numbers[(slice(None),) * longest + (slice(None, None, 2),)]
    return numbers.flatten()


def _observe(function: InputFunction, points: Tensor) -> Tensor:
    """Evaluate functions at ``[M, d]``, axis by axis where the points are a grid: ``[B, M]``."""
    axes = grid_axes(points)
    return function(points[None]) if axes is None else function.on_grid(axes).flatten(1)


class _Reference:
    """Statistics of draws that are observed at given sensors.

    Args:
        layout: Sensors of one sample of each input.
        basis: Draws that principal components come from. Inputs are compared with others, see
            :meth:`add`.

    Attributes:
        names: Of the statistics.
    """

    def __init__(
        self, layout: Mapping[str, FunctionSamples], basis: Mapping[str, InputFunction]
    ) -> None:
        self._at: dict[str, Tensor] = {}
        self._points: dict[str, Tensor] = {}
        for name, samples in layout.items():
            points = samples.points[0].double()
            real = torch.arange(len(points)) if samples.mask is None else samples.mask[0].nonzero()
            real = real.flatten()
            at = real[_selection(points[real], max(1, MOST_SENSORS // len(layout)))]
            self._at[name], self._points[name] = at, points[at]
        values = self._values(basis)
        self._neighbours = {
            name: _Neighbours(points, values[name])
            for name, points in self._points.items()
            if points.shape[1] and len(points) > NEAREST
        }
        self._mean = {name: v.mean() for name, v in values.items()}
        self._scale = {
            name: v.std().clamp(min=1e-12 * float(v.abs().max()) + 1e-300)
            for name, v in values.items()
        }
        vectors = torch.cat([self._standard(name, v) for name, v in values.items()], 1)
        self._center = vectors.mean(0)
        _, sizes, rows = torch.linalg.svd(vectors - self._center, full_matrices=False)
        variance = sizes**2 / len(vectors)
        kept = variance > RESOLUTION**2
        self._components, self._variance = rows[kept], variance[kept]
        beyond = self._variance.sum() - self._variance.cumsum(0)
        self._fine = beyond < FINE * self._variance.sum()
        self.names = ("distance", "component", "fine structure", "misfit")
        self.names += tuple(k for _ in self._neighbours for k in ("neighbours", "sensor"))
        self.names += tuple(f"range of {name}" for name in layout for _ in range(2))
        self._compared: list[Tensor] = []

    def add(self, drawn: Mapping[str, InputFunction]) -> None:
        """Compare inputs with these draws too."""
        self._compared.append(self._statistics(self._values(drawn)))

    def finish(self) -> None:
        """Sort what the draws have, once all are added."""
        statistics = torch.cat(self._compared)
        self._compared.clear()
        self._sorted = statistics.mT.contiguous().sort(1).values
        self._beyond = max(2, round(TAIL * len(statistics)))
        self._end = self._sorted[:, -self._beyond - 1]
        self._excess = (self._sorted[:, -self._beyond :] - self._end[:, None]).sum(1)
        self._least = self._p_values(statistics, drawn=True).min(1).values.sort().values

    def test(self, inputs: Mapping[str, FunctionSamples]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the p-values of inputs at these sensors, their most unusual statistics, distances.

        Distances are from the mean, in units of the median distance of the draws.
        """
        values = {n: samples.values[:, self._at[n], 0].double() for n, samples in inputs.items()}
        statistics = self._statistics(values)
        least, which = self._p_values(statistics).min(1)
        below = torch.searchsorted(self._least, least.contiguous(), right=True)
        median = self._sorted[0].median().clamp(min=1e-300)
        distance = (statistics[:, 0] / median).sqrt()
        return (1 + below).double() / (1 + len(self._least)), which, distance

    def _values(self, drawn: Mapping[str, InputFunction]) -> dict[str, Tensor]:
        return {name: _observe(drawn[name], points) for name, points in self._points.items()}

    def _standard(self, name: str, values: Tensor) -> Tensor:
        return (values - self._mean[name]) / self._scale[name]

    def _statistics(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the statistics of inputs at the sensors ``[B, M]`` each: ``[B, S]``."""
        parts = {name: self._standard(name, v) for name, v in values.items()}
        away = torch.cat(list(parts.values()), 1) - self._center
        found = away @ self._components.mT
        own = found**2 / (self._variance + RESOLUTION**2)
        misfit = ((away - found @ self._components) ** 2).mean(1).sqrt()
        columns = [
            own.sum(1),
            torch.cat([own, torch.zeros_like(misfit[:, None])], 1).amax(1),
            (found[:, self._fine] ** 2).sum(1),
            misfit.clamp(min=RESOLUTION),
        ]
        for name, neighbours in self._neighbours.items():
            columns += neighbours.statistics(values[name])
        for part in parts.values():
            columns += [part.amax(1), -part.amin(1)]
        return torch.stack(columns, 1)

    def _p_values(self, statistics: Tensor, drawn: bool = False) -> Tensor:
        """Compare each statistic ``[B, S]`` with those of the draws, one of which it may be.

        A value above nearly all of them is compared with an exponential tail, so that the one that
        is furthest out of several statistics has the least p-value.
        """
        count = self._sorted.shape[1]
        below = torch.searchsorted(self._sorted, statistics.mT.contiguous()).mT
        ranks = (1 + count - int(drawn) - below).double() / (1 + count)
        excess = (statistics - self._end).clamp(min=0)
        others = self._excess - excess if drawn else self._excess
        mean = (others / (self._beyond - int(drawn))).clamp(min=1e-300)
        return ranks.where(excess == 0, TAIL * torch.exp(-excess / mean))


class _Neighbours:
    """The best linear prediction of each sensor from those nearest to it.

    Args:
        points: Sensors ``[M, d]``.
        values: Of draws, from which the prediction is learned ``[B, M]``.
    """

    def __init__(self, points: Tensor, values: Tensor) -> None:
        spread = (points.amax(0) - points.amin(0)).clamp(min=1e-300)
        scaled = points / spread
        self._nearest = torch.cat(
            [
                torch.cdist(part, scaled).topk(NEAREST + 1, largest=False).indices[:, 1:]
                for part in scaled.split(BLOCK)
            ]
        )
        self._mean = values.mean(0)
        away = values - self._mean
        floor = RESOLUTION * values.std()
        weights, deviations = [], []
        for sensors in torch.arange(len(points)).split(BLOCK // NEAREST):
            near = away[:, self._nearest[sensors]].movedim(0, -2)  # [m, B, NEAREST]
            own = away[:, sensors].mT[..., None]
            gram = near.mT @ near / len(values) + floor**2 * torch.eye(NEAREST).to(near)
            found = torch.linalg.solve(gram, near.mT @ own / len(values))
            weights.append(found[..., 0])
            left = (own - near @ found).square().mean((1, 2))
            deviations.append((left + floor**2 * (1 + found.square().sum((1, 2)))).sqrt())
        self._weights, self._deviation = torch.cat(weights), torch.cat(deviations)

    def statistics(self, values: Tensor) -> list[Tensor]:
        """Return the root mean square, and the largest, deviation of values ``[B, M]``.

        Smaller ones than of noise at the resolution do not count.
        """
        away = values - self._mean
        left = away.clone()
        for nearest, weight in zip(self._nearest.mT, self._weights.mT, strict=True):
            left -= weight * away[:, nearest]
        left /= self._deviation.clamp(min=1e-300)
        return [left.square().mean(1).sqrt().clamp(min=1), left.abs().amax(1).clamp(min=LARGEST)]
