"""Weights that balance the terms of the loss, by gradient norms or by the tangent kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Self, final

import torch
from torch import Tensor

from piop.problem import Problem
from piop.training.loss.weighting.base import (
    GUARD,
    NO_TIME,
    Cells,
    Measure,
    RunningMean,
    WeightedRun,
    Weighting,
    balanced,
    only,
)
from piop.training.loss.weighting.tangent_kernel import EQUATIONS, PROBE, Probes, queries_of

if TYPE_CHECKING:
    from piop.training.batches.batch import Batch

ONE_TERM = (
    "balances the terms of the loss, and here there is one, the equations, since all conditions "
    "are hard constraints. Make them soft with --set constraints=soft, or weigh times against each "
    "other with --set weighting=ntk_local"
)
"""Obstacle of weights between terms where the loss has one."""


@final
class GradientNormWeighting(Weighting):
    """λ_k = mean_j ‖∇L_j‖ / ‖∇L_k‖ over the terms L_k of the loss, as a running mean.

    Args:
        fixed: The fixed weight of each part of the loss, by name; those of weight zero, which are
            switched off, take no part.
        every: Steps between measurements; each takes one gradient per part.
        memory: Fraction of the running mean that a measurement keeps.
        like: A tensor of the device and precision of the step.

    Source: Wang, Teng & Perdikaris 2021, Algorithm 1 (2001.04536): gradients and their running
        mean; norms in place of largest and mean entries, for all terms alike, as in Wang, Sankaran,
        Wang & Perdikaris 2023, Algorithm 1 (2308.08468), with the mean over the terms for their
        sum, which is a constant factor.
    """

    name: ClassVar[str] = "gradient_norm"
    settings: ClassVar[tuple[str, ...]] = ("memory", "weight_every")

    @classmethod
    def obstacle(cls, problem: Problem, parts: Collection[str]) -> str | None:
        """Return why the weights would have no effect: a loss of one term."""
        return ONE_TERM if len(parts) < 2 else None

    @classmethod
    def build(cls, run: WeightedRun) -> Self:
        """Build the weights of a run."""
        config, fixed = run.config.adaptive, run.config.loss.weights
        parts = {term.part: fixed[term.part] for term in run.terms}
        return cls(parts, config.weight_every, config.memory, run.like)

    def __init__(self, fixed: Mapping[str, float], every: int, memory: float, like: Tensor) -> None:
        self.fixed = {part: weight for part, weight in fixed.items() if weight > 0}
        self.parts = tuple(self.fixed)
        self.every, self.like = every, like
        self.mean = RunningMean(len(self.parts), memory, like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return λ of each part; one until something was measured."""
        return {"parts": torch.where(self.mean.observed > 0, self.mean.values, 1.0)}

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor | float:
        """Look up λ of a part."""
        return weights["parts"][self.parts.index(part)] if part in self.parts else 1.0

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:
        """Take the gradient of each part alone, every so many steps."""
        if step % self.every:
            return
        squares = []
        for k, part in enumerate(self.parts):
            alone = only(k, len(self.parts), self.like) / self.fixed[part]
            squares.append(gradient({"parts": alone})[0])
        new = balanced(torch.stack(squares).sqrt()).to(self.like)
        self.mean.update(new, torch.ones_like(new, dtype=torch.bool))


@final
class NtkWeighting(Weighting):
    """λ_k = mean_j k̄_j / k̄_k, with k̄ the mean of the diagonal of a part's tangent kernel.

    The traces are running means of Hutchinson's estimate, which is unbiased; the weights are not
    averaged themselves, since the mean of 1/k̄ is not the inverse of the mean.

    Args:
        probes: The terms of the loss, and their signs.
        every: Steps between measurements; each takes one gradient per part.
        memory: Fraction of the running mean that a measurement keeps.
        like: A tensor of the device and precision of the step.

    Source: Wang, Yu & Perdikaris 2022, Algorithm 1 (2007.14527): λ_k = tr K / tr K_k, here per
        point, which is the same for parts with equally many points up to a common factor.
    """

    name: ClassVar[str] = "ntk"
    settings: ClassVar[tuple[str, ...]] = ("memory", "weight_every")

    @classmethod
    def obstacle(cls, problem: Problem, parts: Collection[str]) -> str | None:
        """Return why the weights would have no effect: a loss of one term."""
        return ONE_TERM if len(parts) < 2 else None

    @classmethod
    def build(cls, run: WeightedRun) -> Self:
        """Build the weights of a run."""
        config = run.config.adaptive
        return cls(run.probes, config.weight_every, config.memory, run.like)

    def __init__(self, probes: Probes, every: int, memory: float, like: Tensor) -> None:
        self.probes, self.every, self.like = probes, every, like
        self.parts = tuple(dict.fromkeys(term.part for term in probes.terms))
        self.mean = RunningMean(len(self.parts), memory, like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return λ of each part, one until something was measured, and signs that are zero."""
        known = bool(self.mean.observed.all())
        factors = balanced(self.mean.values) if known else torch.ones_like(self.mean.values)
        return {"parts": factors, **self.probes.zeros(batch)}

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor:
        """Look up λ of a part."""
        return weights["parts"][self.parts.index(part)]

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:
        """Estimate the trace of each part, every so many steps."""
        if step % self.every:
            return
        off = {"parts": torch.zeros_like(self.mean.values)}
        along = [self.probes.along(part, batch, step) for part in self.parts]
        found = [gradient({**off, **signs})[0] for signs in along]
        new = torch.stack(found).to(self.like)
        self.mean.update(new, torch.ones_like(new, dtype=torch.bool))


@final
class LocalNtkWeighting(Weighting):
    """λ_g = (max_h k̄_h / k̄_g)^½, k̄_g the mean diagonal of the tangent kernel over a group.

    The groups are the time bins of the equations and, where there are other terms, each of the
    other parts of the loss. Groups without a point yet have weight one.

    Args:
        cells: The time bins.
        probes: The terms of the loss, and their signs; the first are the equations.
        every: Steps between measurements; each takes one gradient per group.
        memory: Fraction of the running mean that a measurement keeps.
        like: A tensor of the device and precision of the step.

    Source: Wang, Wang & Perdikaris 2022, "Improved architectures and training algorithms for deep
        operator networks" (10.1007/s10915-022-01881-0, 2110.01654): the moderate local weights,
        there from the kernel's diagonal at every point, here from groups, since each point of a
        step is new and one gradient per point too dear.
    """

    name: ClassVar[str] = "ntk_local"
    settings: ClassVar[tuple[str, ...]] = ("bins", "memory", "weight_every")

    @classmethod
    def obstacle(cls, problem: Problem, parts: Collection[str]) -> str | None:
        """Return why the weights would have no effect: a problem without time."""
        return NO_TIME if problem.time is None else None

    @classmethod
    def build(cls, run: WeightedRun) -> Self:
        """Build the weights of a run."""
        config = run.config.adaptive
        return cls(run.cells(), run.probes, config.weight_every, config.memory, run.like)

    def __init__(
        self, cells: Cells, probes: Probes, every: int, memory: float, like: Tensor
    ) -> None:
        self.cells, self.probes, self.every, self.like = cells, probes, every, like
        parts = dict.fromkeys(t.part for t in probes.terms if t.name != EQUATIONS)
        self.others = tuple(parts)
        self.mean = RunningMean(cells.count + len(self.others), memory, like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return λ of bins and of parts, and signs that are zero."""
        traces, seen = self.mean.values, self.mean.observed > 0
        most = traces.max()
        factors = (most / traces.clamp(min=GUARD * most)).sqrt().nan_to_num(nan=1.0)
        factors = torch.where(seen, factors, 1.0)
        bins, parts = factors[: self.cells.count], factors[self.cells.count :]
        return {"bins": bins, "parts": torch.cat([torch.ones_like(most)[None], parts])} | (
            self.probes.zeros(batch)
        )

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
        """Estimate the mean diagonal of each group, every so many steps."""
        if step % self.every:
            return
        signs = self.probes.along("residual", batch, step)
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
            along = self.probes.along(part, batch, step)
            found.append(gradient({**off, **along})[0].to(points))
        present = torch.cat([points > 0, torch.ones(len(self.others)).to(points) > 0])
        self.mean.update(torch.stack(found).to(self.like), present)
