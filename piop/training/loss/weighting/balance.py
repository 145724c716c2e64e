"""Weights that balance the terms of the loss, by gradient norms or by the tangent kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from piop.problem import Problem
from piop.training.loss.weighting.base import (
    GUARD,
    Measure,
    RunningMean,
    WeightedRun,
    Weighting,
    balanced,
    extent,
)
from piop.training.loss.weighting.tangent_kernel import EQUATIONS, PROBE, queries_of

if TYPE_CHECKING:
    from piop.training.batches.batch import Batch

ONE_TERM = (
    "balances the terms of the loss, and here there is one, the equations, since all conditions "
    "are hard constraints. Make them soft with --set constraints=soft, or weigh times against each "
    "other with --set weighting=ntk_local"
)
"""Obstacle of weights between terms where the loss has one."""


class TermWeighting(Weighting):
    """Weights that balance the parts of the loss, by a running mean of measurements of each.

    Attributes:
        parts: The parts of the loss, in the order of the mean.
    """

    settings: ClassVar[tuple[str, ...]] = ("memory", "weight_every")
    balances_squares: ClassVar[bool] = True
    parts: tuple[str, ...]

    @classmethod
    def obstacle(cls, problem: Problem, parts: Collection[str]) -> str | None:
        """Return why the weights would have no effect: a loss of one term."""
        return ONE_TERM if len(parts) < 2 else None

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor | float:
        """Look up λ of a part."""
        return weights["parts"][self.parts.index(part)] if part in self.parts else 1.0

    def note(self, new: Tensor) -> None:
        """Take a measurement of every part into account."""
        self.mean.update(new.to(self.like), torch.ones_like(new, dtype=torch.bool))


@final
class GradientNormWeighting(TermWeighting):
    """λ_k = mean_j ‖∇L_j‖ / ‖∇L_k‖ over the terms L_k of the loss, as a running mean.

    A measurement takes one gradient per part.

    Attributes:
        fixed: The fixed weight of each part of the loss, by name; those of weight zero, which are
            switched off, take no part.

    Source: Wang, Teng & Perdikaris 2021, Algorithm 1 (2001.04536): gradients and their running
        mean; norms in place of largest and mean entries, for all terms alike, as in Wang, Sankaran,
        Wang & Perdikaris 2023, Algorithm 1 (2308.08468), with the mean over the terms for their
        sum, which is a constant factor.
    """

    name: ClassVar[str] = "gradient_norm"

    def __init__(self, run: WeightedRun) -> None:
        super().__init__(run)
        fixed = run.config.loss.weights
        self.fixed = {t.part: fixed[t.part] for t in run.terms if fixed[t.part] > 0}
        self.parts = tuple(self.fixed)
        self.mean = RunningMean(len(self.parts), self.config.memory, self.like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return λ of each part; one until something was measured."""
        return {"parts": torch.where(self.mean.observed > 0, self.mean.values, 1.0)}

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:
        """Take the gradient of each part alone."""
        fixed = self.like.new_tensor(list(self.fixed.values()))
        squares = [gradient({"parts": alone})[0] for alone in (1 / fixed).diag()]
        self.note(balanced(torch.stack(squares).sqrt()))


@final
class NtkWeighting(TermWeighting):
    """λ_k = mean_j k̄_j / k̄_k, with k̄ the mean of the diagonal of a part's tangent kernel.

    The traces are running means of Hutchinson's estimate, which is unbiased; the weights are not
    averaged themselves, since the mean of 1/k̄ is not the inverse of the mean.

    A measurement takes one gradient per part.

    Attributes:
        probes: The terms of the loss, and their signs.

    Source: Wang, Yu & Perdikaris 2022, Algorithm 1 (2007.14527): λ_k = tr K / tr K_k, here per
        point, which is the same for parts with equally many points up to a common factor.
    """

    name: ClassVar[str] = "ntk"

    def __init__(self, run: WeightedRun) -> None:
        super().__init__(run)
        self.probes = run.probes
        self.parts = tuple(dict.fromkeys(term.part for term in run.terms))
        self.mean = RunningMean(len(self.parts), self.config.memory, self.like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return λ of each part, one until something was measured, and signs that are zero."""
        known = bool(self.mean.observed.all())
        factors = balanced(self.mean.values) if known else torch.ones_like(self.mean.values)
        return {"parts": factors, **self.probes.zeros(batch)}

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:
        """Estimate the trace of each part."""
        off = {"parts": torch.zeros_like(self.mean.values)}
        along = [self.probes.signs(batch, step, part) for part in self.parts]
        self.note(torch.stack([gradient({**off, **signs})[0] for signs in along]))


@final
class LocalNtkWeighting(Weighting):
    """λ_g = (max_h k̄_h / k̄_g)^½, k̄_g the mean diagonal of the tangent kernel over a group.

    The groups are the time bins of the equations and, where there are other terms, each of the
    other parts of the loss. Groups without a point yet have weight one.

    A measurement takes one gradient per group.

    Attributes:
        cells: The time bins.
        probes: The terms of the loss, and their signs; the first are the equations.

    Source: Wang, Wang & Perdikaris 2022, "Improved architectures and training algorithms for deep
        operator networks" (10.1007/s10915-022-01881-0, 2110.01654): the moderate local weights,
        there from the kernel's diagonal at every point, here from groups, since each point of a
        step is new and one gradient per point too dear.
    """

    name: ClassVar[str] = "ntk_local"
    settings: ClassVar[tuple[str, ...]] = ("bins", "memory", "weight_every")
    in_time: ClassVar[bool] = True

    def __init__(self, run: WeightedRun) -> None:
        super().__init__(run)
        self.cells, self.probes = run.cells(), run.probes
        self.others = tuple(dict.fromkeys(t.part for t in run.terms if t.name != EQUATIONS))
        count = self.cells.count + len(self.others)
        self.mean = RunningMean(count, self.config.memory, self.like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return λ of bins and of parts, and signs that are zero."""
        bins, parts = self._factors()
        one = torch.ones_like(bins[:1])
        return {"bins": bins, "parts": torch.cat([one, parts])} | self.probes.zeros(batch)

    def _factors(self) -> tuple[Tensor, Tensor]:
        """Return λ of the bins, and of the other parts."""
        traces, seen = self.mean.values, self.mean.observed > 0
        most = traces.max()
        factors = (most / traces.clamp(min=GUARD * most)).sqrt().nan_to_num(nan=1.0)
        factors = torch.where(seen, factors, 1.0)
        return factors[: self.cells.count], factors[self.cells.count :]

    def in_metrics(self) -> dict[str, Tensor]:
        """Return the extent of λ of the bins."""
        return extent(self.name, self._factors()[0])

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor:
        """Look up λ of each point's bin."""
        return weights["bins"][self.cells.of(queries)]

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor:
        """Look up λ of a part; the first, one, is that of the equations."""
        place = 1 + self.others.index(part) if part in self.others else 0
        return weights["parts"][place]

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Count the points of each bin."""
        return {"ntk_local/points": self.cells.sums(squares, queries)[1]}

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:
        """Estimate the mean diagonal of each group."""
        signs = self.probes.signs(batch, step, "residual")
        off = {"parts": self.like.new_zeros(1 + len(self.others))}
        key = PROBE + EQUATIONS
        own = self.cells.of(queries_of(EQUATIONS, batch))[..., None]
        found, points = [], self.like.new_zeros(self.cells.count)
        for number in range(self.cells.count):
            within = {**signs, key: signs[key] * (own == number)}
            square, statistics = gradient({**off, **within})
            points = statistics["ntk_local/points"]
            # The probe divides by all points of the equations: here only those of the bin count.
            found.append(square.to(points) * points.sum() / points[number].clamp(min=1))
        for part in self.others:
            along = self.probes.signs(batch, step, part)
            found.append(gradient({**off, **along})[0].to(points))
        present = torch.cat([points > 0, torch.ones(len(self.others)).to(points) > 0])
        self.mean.update(torch.stack(found).to(self.like), present)
