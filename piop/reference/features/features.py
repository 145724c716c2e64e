"""The features of a problem's data: the steps that resolve them, and what a grid misses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, final

import sympy
import torch
from sympy import Expr
from sympy.core.function import AppliedUndef
from torch import Tensor

from piop.domain import Outline
from piop.forms.terms import additive_terms
from piop.problem import Coordinate
from piop.reference.features.between_nodes import unseen_part
from piop.reference.features.boxes import SMALLEST, Boxes, KnownValues, first_of_each
from piop.reference.features.cells import Overlaps
from piop.reference.features.data import (
    coefficients_in,
    data_of,
    diffusion_in,
    initial_data_of,
    initial_in,
    may_hide,
    stored_data_of,
    terms_of,
)
from piop.reference.features.missed import AtStart, InEquation, content_at_nodes
from piop.reference.features.stored import StoredValues
from piop.reference.features.support import Face, Region, Support
from piop.reference.input_values import Sources

_ROUNDING = 1e-12
"""Relative to the largest value of a coefficient: below it, it is zero."""
_GROWTH = 0.1
"""Growth of the longest step with the distance from where the data vary faster."""
_AT_KINKS = 16.0
"""Sizes of a box around a kink that a step over it may have: its error is of their square."""
_HALVED_GROWTH = 0.5
"""The same of steps that are halved from level to level."""
_BETWEEN = 10.0
"""Relative error of a solution per part of the data that its grid does not see: a source that is
missed may stand where it counts most, and an interface lies up to half a gap from where it is taken
to be while a quarter of its jump is missed there on average."""
_BETWEEN_INITIAL = 2.0
"""The same for initial data, in the norm of L2."""


@final
class Features:
    """The features of the data of a batch.

    Args:
        sources: The problem with its inputs.
        others: What else to look at, without unknowns.
        by_means: Data whose means over cells a grid takes.
        outline: Boundary of the region that all samples have, for methods on meshes.
        cell: Length of the cells of the coarsest of these.
    """

    def __init__(
        self,
        sources: Sources,
        others: Sequence[Expr] = (),
        by_means: Sequence[Expr] = (),
        outline: Outline | None = None,
        cell: float = 0.0,
    ) -> None:
        self.sources, self._written = sources, dict[Expr, Expr]()
        self.by_means = {self._written_out(e) for e in by_means}
        problem = sources.problem
        given = [*data_of(problem), *(("", e) for e in others if may_hide(problem, e))]
        self.data: list[KnownValues] = []
        if outline is not None:
            self.data = [*_on_region(sources, given, outline, cell)]
            return
        parts = [(e, False) for _, e in given] + [(e, True) for e in initial_data_of(problem)]
        for expression, initial in dict.fromkeys(parts):
            whole = KnownValues(sources, expression, initial)
            for term in terms_of(problem, expression):
                self.data.append(KnownValues(sources, term, initial, whole))
            self.data.append(whole)
        stored = dict.fromkeys((atom, initial) for _, atom, initial in stored_data_of(sources))
        self.data += [StoredValues(sources, *own) for own in stored]

    @cached_property
    def found(self) -> list[tuple[KnownValues, Boxes]]:
        """Each part of the data with its boxes, the terms of a sum before the sum."""
        return [(values, values.boxes()) for values in self.data]

    @cached_property
    def integrals(self) -> dict[KnownValues, Tensor]:
        """Integrals ``[B]`` of the size of data on a region, which only their terms have boxes of.

        The boxes of the term that has most resolve the sum well enough.
        """
        batch, found = self.sources.batch, {}
        for values, boxes in sorted(self.found, key=lambda own: len(own[1]) / own[0].batch):
            if values.support is None or values.whole is None:
                continue
            weight, points = values.locate(boxes)
            sample = boxes.sample
            if values.batch == 1:
                sample = torch.arange(batch, device=sample.device).repeat_interleave(len(boxes))
                weight, points = weight.repeat(batch), points.repeat(batch, 1)
            size = weight * values.whole(sample, points).nan_to_num().abs()
            found[values.whole] = size.new_zeros(batch).index_add_(0, sample, size)
        return found

    @cached_property
    def unresolved(self) -> dict[KnownValues, Tensor]:
        """Parts ``[B]`` of the data whose means a grid takes that boxes do not resolve."""
        found = {}
        for values, boxes in self.found if self.by_means else ():
            whole = self._written_out((values.whole or values).expression)
            if whole in self.by_means or -whole in self.by_means:
                found[values] = unseen_part(values, boxes, {}, 1)[0]
        return found

    def longest_step(
        self, samples: Sequence[int], halvings: int = 0
    ) -> Callable[[float, float], float]:
        """Bound the steps that resolve the data of some samples.

        They grow with the distance from a feature, whose tails are lower than the detail.

        Args:
            samples: Positions in the batch.
            halvings: Of the steps over values between points, which bend at every one of them:
                steps of two levels that are alike would err alike.

        Returns:
            Start and end of an interval of time → the longest step in it.
        """
        spans = [torch.empty(0, 4, dtype=torch.float64, device=self.sources.device)]
        for values, boxes in self._of(samples):
            for i in (i for i, c in enumerate(values.axes) if c == self.sources.problem.time):
                kink = boxes.at_points() & (len(values.axes) == 1)
                length = torch.where(kink, _AT_KINKS * boxes.size[:, i], boxes.reach[:, i])
                growth = torch.where(kink, _HALVED_GROWTH, _GROWTH)
                if values.smooth_inside:
                    length = length / 2**halvings
                own = torch.stack([boxes.low[:, i], boxes.high[:, i], length, growth], 1)
                spans.append(torch.unique(own, dim=0))
        low, high, length, growth = torch.cat(spans).T.contiguous()

        def bound(start: float, end: float) -> float:
            distance = torch.maximum(low - end, start - high).clamp_min(0)
            return float((length + growth * distance).min()) if len(length) else math.inf

        return bound

    def step_lengths(
        self, samples: Sequence[int], axis: Coordinate
    ) -> Callable[[Tensor], Tensor] | None:
        """Bound steps along an axis that resolve the data, of each sample by itself.

        They are for methods that halve them from level to level. Steps grow with the distance from
        a feature, so that none passes over one, and are as short as the boxes at jumps. Initial
        data are left out.

        Args:
            samples: Positions in the batch.
            axis: Time, or the one axis of space.

        Returns:
            Positions ``[B, n]`` → the longest step from there on; None where no data depend on the
            axis.
        """
        smallest = SMALLEST * float(axis.length)
        nothing = torch.empty(0, dtype=torch.float64, device=self.sources.device)
        rows, points, lengths = [nothing.long()], [nothing], [nothing]
        for values, boxes in self._of(samples):
            if axis in values.axes and not values.initial:
                i = values.axes.index(axis)
                size = boxes.size[:, i]
                rows.append(boxes.sample)
                points.append(boxes.centre[:, i])
                lengths.append(torch.where(size > 2 * smallest, boxes.reach[:, i], size))
        row, point, length = (torch.cat(own) for own in (rows, points, lengths))
        if not len(row):
            return None
        order = torch.argsort(point)
        order = order[torch.argsort(row[order], stable=True)]
        row, point, length = row[order], point[order], length[order]
        count = torch.bincount(row, minlength=len(samples))
        column = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        size = (len(samples), int(count.max()) + 1)
        at, below, above = (point.new_full(size, math.inf) for _ in range(3))
        at[row, column] = point
        below[row, column + 1] = length - _HALVED_GROWTH * point
        above[row, column] = length + _HALVED_GROWTH * point
        below, above = below.cummin(1)[0], above.flip(1).cummin(1)[0].flip(1)

        def bound(position: Tensor) -> Tensor:
            upper = torch.searchsorted(at, position).clamp(max=size[1] - 1)
            reach = _HALVED_GROWTH * position
            own = torch.minimum(below.gather(1, upper) + reach, above.gather(1, upper) - reach)
            return own.clamp_min(1e-3 * smallest)

        return bound

    def peak_times(self, samples: Sequence[int]) -> list[float]:
        """Times at which the data of some samples are largest, of each part and sample one."""
        wanted = torch.tensor(samples, device=self.sources.device)
        found: set[float] = set()
        for values, boxes in self.found:
            for i in (i for i, c in enumerate(values.axes) if c == self.sources.problem.time):
                own = boxes.take(torch.isin(boxes.sample, wanted) | (values.batch == 1))
                size = values(own.sample, own.centre).abs().nan_to_num()
                found.update(own.centre[first_of_each(own.sample, size, 1), i].tolist())
        return sorted(found)

    def rough_cells(self, samples: Sequence[int], edges: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Find cells of a grid of space that hold boxes much smaller than they are.

        Args:
            samples: Positions in the batch.
            edges: Ascending, of the cells along each axis of space ``[n_i + 1]``.

        Returns:
            Number in ``samples``, and index along each axis, of every such cell.
        """
        sizes = [len(samples), *(len(e) - 1 for e in edges)]
        found = [torch.empty(0, dtype=torch.int64, device=self.sources.device)]
        for values, boxes in self._of(samples):
            found.append(Overlaps(values, boxes, self.sources.problem.space, edges).rough)
        return torch.unravel_index(torch.cat(found).unique(), sizes)

    def means(
        self, expression: Expr, samples: Sequence[int], edges: Sequence[Tensor]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Means of data over the cells that hold boxes much smaller than they are.

        Args:
            expression: One of the data, or its negative.
            samples: Positions in the batch.
            edges: As for :meth:`rough_cells`.

        Returns:
            Number in ``samples``, and index along each axis, of every such cell; and the means.
        """
        sizes = [len(samples), *(len(e) - 1 for e in edges)]
        index = torch.empty(0, dtype=torch.int64, device=self.sources.device)
        means = index.double()
        wanted = self._written_out(expression)
        for values, boxes in self._of(samples):
            if values.whole is not None:
                continue
            own = self._written_out(values.expression)
            if own not in (wanted, -wanted):
                continue
            overlaps = Overlaps(values, boxes, self.sources.problem.space, edges)
            if bool(overlaps.small.any()):
                index, means = overlaps.means(torch.tensor(samples, device=index.device))
                means = means if own == wanted else -means
        return torch.unravel_index(index, sizes), means

    def cuts(self, samples: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Ends of boxes and of polynomials along the one axis: number in ``samples``, position."""
        own = []
        for values, boxes in self._of(samples):
            number = torch.arange(len(samples), device=boxes.sample.device)
            own.append((boxes.sample, boxes.low[:, 0]))
            own.append(
                (number.repeat_interleave(len(values.knots)), values.knots.repeat(len(samples)))
            )
        nothing = torch.empty(0, dtype=torch.float64, device=self.sources.device)
        return (
            torch.cat([nothing.long(), *(sample for sample, _ in own)]),
            torch.cat([nothing, *(position for _, position in own)]),
        )

    def _of(self, samples: Sequence[int]) -> Iterator[tuple[KnownValues, Boxes]]:
        """Data, and boxes of some samples, numbered as in ``samples``."""
        row = torch.full((self.sources.batch,), -1, device=self.sources.device)
        row[list(samples)] = torch.arange(len(samples), device=row.device)
        for values, boxes in self.found:
            if values.batch == 1:
                again = torch.arange(len(samples), device=row.device)
                same = boxes.take(torch.arange(len(boxes), device=row.device).repeat(len(samples)))
                yield values, replace(same, sample=again.repeat_interleave(len(boxes)))
            else:
                own = boxes.take(row[boxes.sample] >= 0)
                yield values, replace(own, sample=row[own.sample])

    def unseen(
        self,
        nodes: Mapping[str, Tensor],
        means: bool = False,
        part: float = 0.0,
        cells: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Bound the error of a solution by the part of the data that its grid does not see.

        That is ∫|d − d_h| / ∫|d|, the largest of all data d (of initial data, whose spikes a
        solution may carry to a point of the output, in the norm of L2 over these points). In cells
        of the grid that hold boxes much smaller than they are, d_h is multilinear. Elsewhere only
        what the nodes near a box smaller than its cell do not show counts, and what boxes
        themselves do not resolve in time.

        Args:
            nodes: Of the grid, by the name of their coordinate; ends of axes are taken as nodes.
            means: Whether the grid takes initial data by their means over cells, so that it is
                their shape alone that it may miss: in the norm of L1.
            part: Of the domain that a point of the output stands for.
            cells: Edges of the cells over which the grid takes the means of data, by the name of
                their coordinate. What is narrower than a cell may stand anywhere in it; what boxes
                do not resolve of it counts once: along a jump it is as often too much as too
                little.

        Returns:
            Relative errors ``[B]``.
        """
        worst = torch.zeros(self.sources.batch, dtype=torch.float64, device=self.sources.device)
        terms: dict[KnownValues, Tensor] = {}
        for values, boxes in self.found:
            kept, by_means = values.initial and not means, values in self.unresolved
            own = cells if cells and by_means else nodes
            missed, total = unseen_part(values, boxes, own, 1 + kept, kept * part)
            if by_means:
                cell = 1 / (min(map(len, own.values())) - 1)
                missed = cell * missed + self.unresolved[values] / _BETWEEN
            if values.whole is not None:
                before = terms.get(values.whole, torch.zeros_like(worst))
                terms[values.whole] = before + values.factor * missed
                continue
            missed = torch.maximum(missed, terms.get(values, missed))
            factor = _BETWEEN_INITIAL if values.initial else _BETWEEN
            worst = torch.maximum(worst, factor * missed / total.clamp_min(1e-300))
        for whole, total in self.integrals.items():
            worst = torch.maximum(worst, _BETWEEN * terms[whole] / total.clamp_min(1e-300))
        return worst

    def missed(self, nodes: Mapping[str, Tensor]) -> dict[InEquation | AtStart, Tensor]:
        """What a grid does not see of sources, coefficients and initial data, at its nodes.

        Means over time. Data within derivatives, auxiliary equations and conditions are left out.

        Args:
            nodes: Of the grid, by the name of their coordinate.

        Returns:
            Values ``[B, *sizes]`` by where they are to be added; none where nothing is missed.
        """
        problem, found = self.sources.problem, dict[InEquation | AtStart, Tensor]()
        for unknown, order, expression in initial_in(problem):
            found[AtStart(unknown, order)] = self._missed(expression, True, nodes)
        for number, before, (*alone, rest) in coefficients_in(problem):
            place = InEquation(number, before)
            found[place] = self._missed(rest, False, nodes)
            for factor in alone:
                size = self._mean_size(factor)
                found[place] = found[place] * size.reshape(-1, *[1] * len(problem.space))
        sizes = [len(nodes[c.name]) for c in problem.space]
        every = {p: v.expand(self.sources.batch, *sizes) for p, v in found.items() if bool(v.any())}
        if problem.pde.auxiliaries and problem.pde.periodic:  # which may balance no means
            dims = tuple(range(1, 1 + len(sizes)))
            return {place: values - values.mean(dims, True) for place, values in every.items()}
        return {place: values.contiguous() for place, values in every.items()}

    def _missed(self, expression: Expr, initial: bool, nodes: Mapping[str, Tensor]) -> Tensor:
        own = [
            (values, boxes)
            for values, boxes in self.found
            if values.initial == initial and (values.whole or values).expression == expression
        ]
        terms = [(values, boxes) for values, boxes in own if values.whole is not None] or own
        space = self.sources.problem.space
        total = torch.zeros([1] * (1 + len(space)), dtype=torch.float64, device=self.sources.device)
        for values, boxes in terms:
            total = total + content_at_nodes(values, boxes, nodes, space)
        return total

    def _mean_size(self, expression: Expr) -> Tensor:
        """Mean of the size of a function of time ``[B or 1]``."""
        values = KnownValues(self.sources, expression)
        boxes = values.boxes()
        return unseen_part(values, boxes, {}, 1)[1]

    def _written_out(self, expression: Expr) -> Expr:
        """Write equal data alike: expanded, and comparisons one way round."""
        if expression not in self._written:
            alike: Any = expression.replace(lambda e: e.is_Relational, lambda e: e.canonical)
            self._written[expression] = sympy.Add(*additive_terms(alike))
        return self._written[expression]


def resistances(sources: Sources) -> list[Expr]:
    """Inverses of diffusion coefficients: where one dips, a solution rises.

    Those of coefficients that are zero somewhere, up to rounding, are left out.
    """
    found = []
    for coefficient in diffusion_in(sources.problem):
        values = KnownValues(sources, coefficient)
        inside = values.enclose(values.boxes())
        least = _ROUNDING * float(inside.size.max())
        if not bool((inside.low <= least).logical_and(inside.high >= -least).any()):
            found.append(1 / coefficient)
    return found


def _on_region(
    sources: Sources, data: Sequence[tuple[str, Expr]], outline: Outline, cell: float
) -> Iterator[KnownValues]:
    """Yield the terms of data on a region and its faces, without their factors of scalars."""
    curves = {f: tuple(c for c in outline.curves if c.face == f) for f in outline.faces}
    supports: dict[str, Support] = {f: Face(Outline(own, ()), cell) for f, own in curves.items()}
    supports[""] = Region(outline, cell)
    dependent: Any = [*(c.symbol for c in sources.problem.space), AppliedUndef]
    for face, expression in dict.fromkeys(data):
        if face in supports:
            whole = KnownValues(sources, expression, support=supports[face])
            for term in terms_of(sources.problem, expression) or [expression]:
                factor, rest = term.as_independent(*dependent, as_Add=False)
                size = abs(sources.scalar(factor))
                yield KnownValues(sources, rest, False, whole, supports[face], size)
    for face, atom, _ in stored_data_of(sources):
        if face in supports:
            yield StoredValues(sources, atom, support=supports[face])
