"""Whether inputs may have been drawn from the distribution that a problem declares.

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
- ``range of NAME``: the largest and the least value of each input.

Deviations below a five-hundredth of an input's standard deviation do not count.

Sources: Monte Carlo tests as in Besag & Diggle 1977 (doi:10.2307/2346974); the least of several
p-values, calibrated by the draws, as in Westfall & Young 1993, ch. 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from piop.errors import NotSupportedError
from piop.fields import FunctionSamples, InputFunction, tensor_grid
from piop.sampling.distributions import sample_inputs
from piop.sampling.functions import ProductFunction
from piop.sampling.random import COMPARISON, Draws

if TYPE_CHECKING:
    from piop.problem import Problem

LEVEL = 0.01
"""p-value below which an input counts as outside the distribution."""
MOST_DRAWS, FEWEST_DRAWS = 10_000, 1000
"""Draws that an input is compared with."""
NUMBERS = 2**24
"""Random numbers of all draws, about, down to the fewest draws: a second or two."""
BASIS = 0.1
"""Further draws, as a part of these, from which principal components come: at least 512."""
RESOLUTION = 2e-3
"""Deviation that does not count, in standard deviations of an input."""
FINE = 0.1
"""Part of the variance that counts as fine structure."""


@dataclass(frozen=True)
class Typicality:
    """How typical B inputs are of a distribution.

    Attributes:
        p_value: Probability that an input of the distribution is as unusual ``[B]``.
        reason: The most unusual statistic of each, such as ``misfit``.
    """

    p_value: Tensor
    reason: tuple[str, ...]

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
        groups = _same_sensors(inputs)
        if not groups.keys() <= self._references.keys():
            self._references = self._refer(inputs, groups)
        p_values = torch.empty(batch, dtype=torch.float64)
        reasons = [""] * batch
        for key, rows in groups.items():
            reference = self._references[key]
            own = {name: samples.take(rows) for name, samples in inputs.items()}
            p_values[rows], which = reference.test(own)
            for row, number in zip(rows.tolist(), which.tolist(), strict=True):
                reasons[row] = reference.names[number]
        return Typicality(p_values, tuple(reasons))

    def _refer(
        self, inputs: Mapping[str, FunctionSamples], groups: Mapping[bytes, Tensor]
    ) -> dict[bytes, _Reference]:
        """Draw inputs, and observe them at the sensors of each group of samples."""
        one = sample_inputs(self.problem, Draws.of(COMPARISON, self.seed, range(1)))
        if unknown := [name for name in inputs if name not in one]:
            raise NotSupportedError(f"inputs.{unknown[0]}: its distribution is not known")
        numbers = sum(f.coefficients.numel() for f in one.values() if _is_sum(f))
        many = min(NUMBERS // max(1, numbers), MOST_DRAWS // len(groups))
        compared = min(max(many, FEWEST_DRAWS), MOST_DRAWS)
        basis = max(512, round(BASIS * compared))
        drawn = sample_inputs(
            self.problem, Draws.of(COMPARISON, self.seed, range(basis + compared))
        )
        return {
            key: _Reference({n: s.take(rows[:1]) for n, s in inputs.items()}, drawn, basis)
            for key, rows in groups.items()
        }


def _is_sum(function: InputFunction) -> TypeGuard[ProductFunction]:
    return isinstance(function, ProductFunction)


def _same_sensors(inputs: Mapping[str, FunctionSamples]) -> dict[bytes, Tensor]:
    """Group samples whose sensors are the same: the numbers of those by what tells them apart."""
    groups: dict[bytes, list[int]] = {}
    batch = len(next(iter(inputs.values())).values)
    for row in range(batch):
        digest = blake2b()
        for samples in inputs.values():
            digest.update(repr(samples.points.shape).encode())
            digest.update(samples.points[row].double().cpu().numpy().tobytes())
            if samples.mask is not None:
                digest.update(samples.mask[row].cpu().numpy().tobytes())
        groups.setdefault(digest.digest(), []).append(row)
    return {key: torch.tensor(rows) for key, rows in groups.items()}


def _observe(function: InputFunction, points: Tensor) -> Tensor:
    """Evaluate functions at ``[M, d]``, axis by axis where the points are a grid: ``[B, M]``."""
    if points.shape[1] > 1:
        axes = [column.unique() for column in points.unbind(-1)]
        if math.prod(map(len, axes)) == len(points) and torch.equal(tensor_grid(axes), points):
            return function.on_grid(axes).flatten(1)
    return function(points[None])


class _Reference:
    """Statistics of draws that are observed at given sensors.

    Args:
        layout: Sensors of one sample of each input.
        drawn: Functions by name.
        basis: How many of them principal components come from; inputs are compared with the rest.

    Attributes:
        names: Of the statistics.
    """

    def __init__(
        self,
        layout: Mapping[str, FunctionSamples],
        drawn: Mapping[str, InputFunction],
        basis: int,
    ) -> None:
        self._real = {
            name: torch.ones_like(samples.values[0, :, 0], dtype=torch.bool)
            if samples.mask is None
            else samples.mask[0]
            for name, samples in layout.items()
        }
        values = {
            name: _observe(drawn[name], samples.points[0, self._real[name]].double())
            for name, samples in layout.items()
        }
        self._mean = {name: v[:basis].mean() for name, v in values.items()}
        self._scale = {
            name: v[:basis].std().clamp(min=1e-12 * float(v.abs().max()) + 1e-300)
            for name, v in values.items()
        }
        parts = {name: self._standard(name, v) for name, v in values.items()}
        vectors = torch.cat(list(parts.values()), 1)
        self._center = vectors[:basis].mean(0)
        _, sizes, rows = torch.linalg.svd(vectors[:basis] - self._center, full_matrices=False)
        variance = sizes**2 / basis
        kept = variance > RESOLUTION**2
        self._components, self._variance = rows[kept], variance[kept]
        beyond = self._variance.sum() - self._variance.cumsum(0)
        self._fine = beyond < FINE * self._variance.sum()
        self.names = ("distance", "component", "fine structure", "misfit")
        self.names += tuple(f"range of {name}" for name in layout for _ in range(2))
        statistics = self._statistics({name: v[basis:] for name, v in parts.items()})
        self._sorted = statistics.mT.sort(1).values
        own = self._p_values(statistics, others=len(statistics) - 1)
        self._least = own.min(1).values.sort().values

    def test(self, inputs: Mapping[str, FunctionSamples]) -> tuple[Tensor, Tensor]:
        """Return the p-values of inputs at these sensors, and their most unusual statistics."""
        parts = {
            name: self._standard(name, samples.values[:, self._real[name], 0].double())
            for name, samples in inputs.items()
        }
        least, which = self._p_values(self._statistics(parts), others=len(self._least)).min(1)
        below = torch.searchsorted(self._least, least.contiguous(), right=True)
        return (1 + below).double() / (1 + len(self._least)), which

    def _standard(self, name: str, values: Tensor) -> Tensor:
        return (values - self._mean[name]) / self._scale[name]

    def _statistics(self, parts: Mapping[str, Tensor]) -> Tensor:
        """Return the statistics of standardised inputs ``[B, M]`` each: ``[B, S]``."""
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
        for values in parts.values():
            columns += [values.amax(1), -values.amin(1)]
        return torch.stack(columns, 1)

    def _p_values(self, statistics: Tensor, others: int) -> Tensor:
        """Compare each statistic ``[B, S]`` with those of so many other draws."""
        below = torch.searchsorted(self._sorted, statistics.mT.contiguous()).mT
        above = others - below
        return (1 + above).double() / (1 + self._sorted.shape[1])
