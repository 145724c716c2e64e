"""Features of a problem's data, found before anything is solved.

Two grids, or two step lengths, that both miss a pulse agree with each other. So the data of a
problem, which are all parts of its equations and conditions without unknowns, are enclosed by
interval arithmetic on boxes of space and time, and boxes are halved where what is inside may differ
from what their corners show (adaptive subdivision: R. E. Moore, Interval Analysis, 1966, ch. 6).
The boxes that are left are as small as the features. Solvers ask how long a step may be, and how
much of the data a grid does not see.

Drawn series, random fields and splines are sampled at corners and centres of boxes: they vary no
faster than their distribution says. Expressions of the spec are enclosed rigorously.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, final

import sympy
import torch
from sympy import Expr
from sympy.core.function import AppliedUndef
from torch import Tensor

from piop.expression.functions import KINKS, is_applied
from piop.expression_functions import CompiledExpression, ExpressionFunction, names_in
from piop.forms.terms import applied, name_of, outermost_atoms
from piop.intervals import Interval
from piop.problem import Coordinate, Problem
from piop.reference.input_values import Sources

_DETAIL = (1e-4, 1e-3, 0.01, 0.02)
"""Part of the largest value by which data may differ from what the corners of a box show, by the
number of coordinates they depend on."""
_NEGLIGIBLE = (1e-10, 1e-7, 1e-6, 1e-6)
"""Part of the integral of the data's size that a box is left with, by the same number."""
_IN_TIME = (1e-6, 1e-14)
"""Both of data of time alone: the stages of a step see little of a kink beside its ends."""
_FIRST = 8
"""Boxes along each axis at the beginning."""
_MOST = 2**13
"""Boxes of a sample that are halved at a time."""
_ROUNDS = 160
_SMALLEST = 1e-12
"""Part of an axis that is not halved any more."""
_TERMS = 8
"""Terms of a sum up to which each is looked at by itself."""
_GROWTH = 0.1
"""Growth of the longest step with the distance from where the data vary faster."""
_HALVED_GROWTH = 0.5
"""The same of steps that are halved from level to level."""
_BETWEEN = 10.0
"""Relative error of a solution per part of the data that its grid does not see: a source that is
missed may stand where it counts most, and an interface lies up to half a gap from where it is taken
to be while a quarter of its jump is missed there on average."""
_BETWEEN_INITIAL = 2.0
"""The same for initial data, in the norm of L2."""
_SHOWN = 4.0
"""Factor on what nodes show of the error of interpolation between them: at three points on a wave
it is three times as large in the middle between two."""


def data_of(problem: Problem) -> tuple[Expr, ...]:
    """Parts of equations and conditions that hold coordinates and no unknown."""
    pde = problem.pde
    unknowns = frozenset(problem.channels)
    found = [part for r in pde.residuals_raw for part in _known_parts(r, unknowns)]
    for face, condition in pde.face_conditions:
        ends = {
            f"{c.name}.{end}": {c.symbol: sympy.Float(position)}
            for c in problem.space
            for end, position in (("min", c.low), ("max", c.high))
        }
        values = condition.values
        if condition.equation:
            values = (pde.condition_residual(face, condition),)
        parts = (part for value in values for part in _known_parts(value, unknowns))
        found += [_substitute(part, ends.get(face, {})) for part in parts]
    factors = [factor for e in found for factor in _separate(problem, e)]
    return tuple(dict.fromkeys(e for e in factors if _may_hide(problem, e)))


def _separate(problem: Problem, expression: Expr) -> Iterator[Expr]:
    """Yield the factor of time alone and the others, if a product has one."""
    if problem.time is None or not expression.is_Mul:
        yield expression
        return
    time, space = problem.time.symbol, [c.symbol for c in problem.space]
    alone = [f for f in expression.args if f.has(time) and not f.has(*space)]
    for factors in (alone, [f for f in expression.args if f not in alone]):
        yield expression.func(*factors)


def initial_data_of(problem: Problem) -> tuple[Expr, ...]:
    """Initial data that hold coordinates."""
    if problem.time is None:
        return ()
    start = {problem.time.symbol: sympy.Float(problem.time.low)}
    found = [_substitute(e, start) for own in problem.initial.values() for e in own]
    return tuple(dict.fromkeys(e for e in found if _may_hide(problem, e)))


def _may_hide(problem: Problem, expression: Expr) -> bool:
    """Whether data may vary faster than drawn functions do.

    Coordinates in an expression may do anything. Jumps and kinks where drawn functions cross a
    value are looked for along a single coordinate: in more, they lie between the points of every
    grid differently.
    """
    atoms = outermost_atoms(expression)
    rest = expression.xreplace({atom: sympy.Dummy() for atom in atoms})
    if rest.free_symbols & {c.symbol for c in problem.coordinates}:
        return True
    if rest.has(*KINKS) and any(len(applied(atom).args) == 1 for atom in atoms):
        return True
    given = {i.name: i.expression for i in problem.inputs if i.expression is not None and i.of}
    return any(_may_hide(problem, given[name_of(a)]) for a in atoms if name_of(a) in given)


def _terms(problem: Problem, expression: Expr) -> list[Expr]:
    """Terms of a sum that may vary faster than drawn functions do, each by its own size."""
    terms = sympy.Add.make_args(sympy.expand_mul(expression, deep=False))
    return [e for e in terms if _may_hide(problem, e)] if 1 < len(terms) <= _TERMS else []


def _known_parts(node: Any, unknowns: frozenset[str]) -> Iterator[Expr]:
    """Largest parts of an expression without unknowns; of a sum or product, all as one."""

    def known(part: Any) -> bool:
        return not any(name_of(a) in unknowns for a in part.atoms(AppliedUndef))

    if known(node):
        yield node.doit()
    elif node.is_Add or node.is_Mul:
        if own := [a for a in node.args if known(a)]:
            yield node.func(*own).doit()
        for part in node.args:
            if part not in own:
                yield from _known_parts(part, unknowns)
    elif not is_applied(node):
        for part in [node.expr] if node.is_Derivative else node.args:
            if isinstance(part, Expr):
                yield from _known_parts(part, unknowns)


def _substitute(expression: Any, values: Mapping[Any, Expr]) -> Expr:
    """Set coordinates to numbers, but not where they are arguments of functions."""
    expression = sympy.sympify(expression)
    stand_ins = {atom: sympy.Dummy() for atom in outermost_atoms(expression)}
    back = {dummy: atom for atom, dummy in stand_ins.items()}
    return expression.xreplace(stand_ins).xreplace(dict(values)).xreplace(back)


@final
@dataclass(frozen=True)
class Boxes:
    """Boxes of several samples, in one list.

    Attributes:
        sample: Number of each box's sample ``[n]``.
        low: Low ends ``[n, k]`` along the k coordinates of the data.
        high: High ends ``[n, k]``.
    """

    sample: Tensor
    low: Tensor
    high: Tensor

    def __len__(self) -> int:
        """How many there are."""
        return len(self.sample)

    @property
    def centre(self) -> Tensor:
        """Centres ``[n, k]``."""
        return 0.5 * (self.low + self.high)

    @property
    def size(self) -> Tensor:
        """Lengths of their sides ``[n, k]``."""
        return self.high - self.low

    def take(self, index: Tensor) -> Boxes:
        """Keep some of them."""
        return Boxes(self.sample[index], self.low[index], self.high[index])

    def halve(self, axis: Tensor) -> Boxes:
        """Halve each along one of its axes ``[n]``: the low halves, then the high ones."""
        own = torch.nn.functional.one_hot(axis, self.low.shape[1]).bool()
        low = torch.where(own, self.centre, self.low)
        high = torch.where(own, self.centre, self.high)
        return Boxes(
            self.sample.repeat(2), torch.cat([self.low, low]), torch.cat([high, self.high])
        )

    @classmethod
    def join(cls, parts: Sequence[Boxes]) -> Boxes:
        """All boxes of several lists."""
        return cls(*(torch.cat([getattr(p, n) for p in parts]) for n in ("sample", "low", "high")))


@final
class KnownValues:
    """Values and enclosures of data at points and on boxes of several samples.

    Args:
        sources: The problem with its inputs.
        expression: Data, without unknowns.
        initial: Whether a solution starts from them, and is no integral of them.
        whole: Data that these are a term of.

    Attributes:
        expression: The data.
        axes: Coordinates that the data depend on.
        batch: Number of samples; 1 where all have the same data.
        detail: Part of the largest value by which data may differ from what corners of boxes show.
        negligible: Part of the integral of the data's size that a box is left with.
        resolved: Sizes of a box that a gap between points may have and still resolve the data: four
            points on a wave, whose boxes shrink with the root of the detail.
    """

    def __init__(
        self,
        sources: Sources,
        expression: Expr,
        initial: bool = False,
        whole: KnownValues | None = None,
    ) -> None:
        self.expression, self.initial, self.whole = expression, initial, whole
        held = expression.atoms(AppliedUndef)
        names = {n for f in held for n in sources.arguments[name_of(f)]}
        symbols = expression.free_symbols
        self.axes = [
            c for c in sources.problem.coordinates if c.name in names or c.symbol in symbols
        ]
        rank = len(self.axes) - 1
        moving = self.axes == [sources.problem.time]
        self.detail, self.negligible = _IN_TIME if moving else (_DETAIL[rank], _NEGLIGIBLE[rank])
        self.resolved = math.sqrt(0.32 / self.detail)
        self.device = sources.device
        self.batch = sources.batch if held or symbols & sources.scalars.keys() else 1
        first = torch.zeros(self.batch, dtype=torch.int64, device=self.device)
        functions = {n: f for n, f in sources.functions.items() if n in names_in(expression)}
        self.function = ExpressionFunction(
            CompiledExpression(expression, [c.symbol for c in self.axes]),
            {n: f if f.batch == self.batch else f.take(first) for n, f in functions.items()},
            self.batch,
            self.device,
        )

    def __call__(self, sample: Tensor, points: Tensor) -> Tensor:
        """Values ``[n]`` at points ``[n, k]`` of samples ``[n]``."""
        function, sample = self._present(sample)
        at, rows = _by_sample(sample, points, function.batch)
        return function.derivative(at, (0,) * len(self.axes))[rows]

    def enclose(self, boxes: Boxes) -> Interval:
        """Enclosures ``[n]`` of the values on boxes."""
        function, sample = self._present(boxes.sample)
        low, rows = _by_sample(sample, boxes.low, function.batch)
        high, _ = _by_sample(sample, boxes.high, function.batch)
        box = [Interval(*ends) for ends in zip(low.unbind(-1), high.unbind(-1), strict=True)]
        found = function.enclosure(box, (0,) * len(box))
        return Interval(found.low[rows], found.high[rows])

    def _present(self, sample: Tensor) -> tuple[ExpressionFunction, Tensor]:
        """Keep the samples that there are, and number those ``[n]`` among them."""
        if self.batch == 1:
            return self.function, torch.zeros_like(sample)
        present, sample = torch.unique(sample, return_inverse=True)
        every = len(present) == self.function.batch
        return self.function if every else self.function.take(present), sample


def _by_sample(sample: Tensor, points: Tensor, batch: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Sort points ``[n, k]`` into one row per sample ``[B, most, k]``, the last one repeated.

    Returns:
        The rows, and where each point is in them.
    """
    order = torch.argsort(sample, stable=True)
    count = torch.bincount(sample, minlength=batch)
    column = torch.empty_like(sample)
    start = count.cumsum(0) - count
    column[order] = torch.arange(len(sample), device=sample.device) - start[sample[order]]
    table = points[:1].expand(batch * int(count.max()), -1).clone()
    table[sample * int(count.max()) + column] = points
    return table.reshape(batch, int(count.max()), points.shape[1]), (sample, column)


def subdivide(values: KnownValues) -> Boxes:
    """Halve boxes over the whole domain of some data until corners show what is inside.

    Returns:
        The boxes that are left, which cover the domain of every sample.
    """
    axes, batch = values.axes, values.batch
    f64 = {"dtype": torch.float64, "device": values.device}
    ends = [torch.linspace(float(c.low), float(c.high), _FIRST + 1, **f64) for c in axes]
    length = torch.tensor([float(c.length) for c in axes], **f64)
    low = torch.cartesian_prod(*(e[:-1] for e in ends)).reshape(-1, len(axes))
    high = torch.cartesian_prod(*(e[1:] for e in ends)).reshape(-1, len(axes))
    sample = torch.arange(batch, device=values.device).repeat_interleave(len(low))
    boxes = Boxes(sample, low.repeat(batch, 1), high.repeat(batch, 1))
    scale, total = torch.full((batch,), 1e-300, **f64), torch.zeros(batch, **f64)
    detail, negligible = values.detail, values.negligible
    done: list[Boxes] = []
    for _ in range(_ROUNDS):
        hidden, size = _hidden(values, boxes)
        scale.scatter_reduce_(0, boxes.sample, size, "amax")
        part = (boxes.size / length).prod(1)
        own = total.index_add(0, boxes.sample, size * part)[boxes.sample]
        largest = scale[boxes.sample]
        coarse, hidden = hidden > detail * largest, hidden.clamp(max=largest) * part
        open_ = coarse & (hidden > negligible * own) & (boxes.size > _SMALLEST * length).all(1)
        open_ &= _first_of_each(boxes.sample, torch.where(open_, hidden, -1.0), _MOST)
        total.index_add_(0, boxes.sample[~open_], (size * part)[~open_])
        done.append(boxes.take(~open_))
        boxes, enough = boxes.take(open_), (0.5 * detail * largest)[open_]
        if not len(boxes):
            break
        boxes = boxes.halve(_axis_to_halve(values, boxes, length, enough))
    return Boxes.join([*done, boxes])


def _hidden(values: KnownValues, boxes: Boxes) -> tuple[Tensor, Tensor]:
    """How much data on boxes differ from what their corners show, and their size.

    Returns:
        How much they may differ, and largest absolute values ``[n]``.
    """
    corners = []
    for upper in product((False, True), repeat=len(values.axes)):
        which = torch.tensor(upper, device=boxes.low.device)
        corners.append(values(boxes.sample, torch.where(which, boxes.high, boxes.low)))
    shown = torch.stack(corners).nan_to_num()
    middle = values(boxes.sample, boxes.centre).nan_to_num()
    top, bottom = torch.maximum(shown.amax(0), middle), torch.minimum(shown.amin(0), middle)
    inside = values.enclose(boxes)
    beyond = torch.maximum(inside.high - top, bottom - inside.low).nan_to_num(math.inf)
    bend = (middle - shown.mean(0)).abs()
    return torch.maximum(bend, beyond), torch.maximum(top.abs(), bottom.abs())


def _axis_to_halve(values: KnownValues, boxes: Boxes, length: Tensor, enough: Tensor) -> Tensor:
    """The axis along which most is hidden on the line through the centre ``[n]``.

    Where nothing is, as beside a feature, it is the longest one.
    """
    longest = (boxes.size / length).argmax(1)
    if len(length) == 1:
        return longest
    lines = []
    for axis in range(len(length)):
        own = torch.arange(len(length), device=length.device) == axis
        low, high = (torch.where(own, end, boxes.centre) for end in (boxes.low, boxes.high))
        lines.append(_hidden(values, Boxes(boxes.sample, low, high))[0])
    most, best = torch.stack(lines, 1).max(1)
    return torch.where(most > enough, best, longest)


def _first_of_each(sample: Tensor, weight: Tensor, most: int) -> Tensor:
    """Whether each entry is among the ``most`` heaviest of its sample ``[n]``."""
    if len(sample) <= most:
        return torch.ones_like(sample, dtype=torch.bool)
    order = torch.argsort(weight, descending=True)
    order = order[torch.argsort(sample[order], stable=True)]
    count = torch.bincount(sample)
    rank = torch.empty_like(sample)
    rank[order] = (
        torch.arange(len(sample), device=sample.device) - (count.cumsum(0) - count)[sample[order]]
    )
    return rank < most


@final
class Features:
    """The features of the data of a batch.

    Args:
        sources: The problem with its inputs.
        others: What else to look at, without unknowns.
    """

    def __init__(self, sources: Sources, others: Sequence[Expr] = ()) -> None:
        self.sources = sources
        problem = sources.problem
        data = [*data_of(problem), *(e for e in others if _may_hide(problem, e))]
        parts = [(e, False) for e in data] + [(e, True) for e in initial_data_of(problem)]
        self.data: list[KnownValues] = []
        for expression, initial in parts:
            whole = KnownValues(sources, expression, initial)
            for term in _terms(problem, expression):
                self.data.append(KnownValues(sources, term, initial, whole))
            self.data.append(whole)

    @cached_property
    def found(self) -> list[tuple[KnownValues, Boxes]]:
        """Each part of the data with its boxes, the terms of a sum before the sum."""
        return [(values, subdivide(values)) for values in self.data]

    def longest_step(self, samples: Sequence[int]) -> Callable[[float, float], float]:
        """Bound the steps that resolve the data of some samples.

        They grow with the distance from a feature, whose tails are lower than the detail.

        Returns:
            Start and end of an interval of time → the longest step in it.
        """
        spans = [torch.empty(0, 3, dtype=torch.float64, device=self.sources.device)]
        for values, boxes in self._of(samples):
            for i in (i for i, c in enumerate(values.axes) if c == self.sources.problem.time):
                length = values.resolved * (boxes.high[:, i] - boxes.low[:, i])
                own = torch.stack([boxes.low[:, i], boxes.high[:, i], length], 1)
                spans.append(torch.unique(own, dim=0))
        low, high, length = torch.cat(spans).T.contiguous()

        def bound(start: float, end: float) -> float:
            distance = torch.maximum(low - end, start - high).clamp_min(0)
            return float((length + _GROWTH * distance).min()) if len(length) else math.inf

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
        smallest = _SMALLEST * float(axis.length)
        nothing = torch.empty(0, dtype=torch.float64, device=self.sources.device)
        rows, points, lengths = [nothing.long()], [nothing], [nothing]
        for values, boxes in self._of(samples):
            if axis in values.axes and not values.initial:
                i = values.axes.index(axis)
                size = boxes.size[:, i]
                rows.append(boxes.sample)
                points.append(boxes.centre[:, i])
                lengths.append(torch.where(size > 2 * smallest, values.resolved * size, size))
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
                found.update(own.centre[_first_of_each(own.sample, size, 1), i].tolist())
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
            found.append(_Overlaps(values, boxes, self.sources.problem.space, edges).rough)
        return torch.unravel_index(torch.cat(found).unique(), sizes)

    def initial_means(
        self, expression: Expr, samples: Sequence[int], edges: Sequence[Tensor]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Means of initial data over the cells that hold boxes much smaller than they are.

        Args:
            expression: One of the problem's initial data.
            samples: Positions in the batch.
            edges: As for :meth:`rough_cells`.

        Returns:
            Number in ``samples``, and index along each axis, of every such cell; and the means.
        """
        sizes = [len(samples), *(len(e) - 1 for e in edges)]
        index = torch.empty(0, dtype=torch.int64, device=self.sources.device)
        means = index.double()
        for values, boxes in self._of(samples):
            if values.initial and values.whole is None and values.expression == expression:
                overlaps = _Overlaps(values, boxes, self.sources.problem.space, edges)
                index, means = overlaps.means(torch.tensor(samples, device=index.device))
        return torch.unravel_index(index, sizes), means

    def cuts(self, samples: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Ends of all boxes along the one axis of space: number in ``samples``, and position."""
        own = [(boxes.sample, boxes.low[:, 0]) for _, boxes in self._of(samples)]
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
                low, high = (v.repeat(len(samples), 1) for v in (boxes.low, boxes.high))
                yield values, Boxes(again.repeat_interleave(len(boxes)), low, high)
            else:
                own = boxes.take(row[boxes.sample] >= 0)
                yield values, Boxes(row[own.sample], own.low, own.high)

    def unseen(self, nodes: Mapping[str, Tensor], means: bool = False) -> Tensor:
        """Bound the error of a solution by the part of the data that its grid does not see.

        That is ∫|d − d_h| / ∫|d|, the largest of all data d (of initial data, whose spikes a
        solution may keep, in the norm of L2). In cells of the grid that hold boxes much smaller
        than they are, d_h is multilinear. Elsewhere only what the nodes near a box smaller than its
        cell do not show counts, and what boxes themselves do not resolve in time.

        Args:
            nodes: Of the grid, by the name of their coordinate; ends of axes are taken as nodes.
            means: Whether the grid takes initial data by their means over cells, so that it is
                their shape alone that it may miss: in the norm of L1.

        Returns:
            Relative errors ``[B]``.
        """
        worst = torch.zeros(self.sources.batch, dtype=torch.float64, device=self.sources.device)
        terms: dict[KnownValues, Tensor] = {}
        for values, boxes in self.found:
            power = 2 if values.initial and not means else 1
            missed, total = _unseen(values, boxes, nodes, power)
            if values.whole is not None:
                terms[values.whole] = terms.get(values.whole, torch.zeros_like(worst)) + missed
                continue
            missed = torch.maximum(missed, terms.get(values, missed))
            factor = _BETWEEN_INITIAL if values.initial else _BETWEEN
            worst = torch.maximum(worst, factor * missed / total.clamp_min(1e-300))
        return worst


@final
class _Overlaps:
    """Boxes of some samples, and the cells of a grid of space that they overlap.

    Args:
        values: The data.
        boxes: Of all samples.
        space: The axes.
        edges: Ascending, of the cells along each axis ``[n_i + 1]``.
    """

    def __init__(
        self,
        values: KnownValues,
        boxes: Boxes,
        space: Sequence[Coordinate],
        edges: Sequence[Tensor],
    ) -> None:
        self.values, self.boxes, self.edges = values, boxes, edges
        self.columns = [values.axes.index(c) if c in values.axes else None for c in space]
        self.spans: list[tuple[Tensor, Tensor]] = []
        self.small = torch.zeros_like(boxes.sample, dtype=torch.bool)
        for i, own in zip(self.columns, edges, strict=True):
            if i is None:
                every = torch.zeros_like(boxes.sample)
                self.spans.append((every, every + len(own) - 1))
                continue
            first = torch.searchsorted(own, boxes.low[:, i].contiguous(), right=True) - 1
            last = torch.searchsorted(own, boxes.high[:, i].contiguous()).clamp(1, len(own) - 1)
            self.small |= values.resolved * boxes.size[:, i] < own[first + 1] - own[first]
            self.spans.append((first, last - first))

    def pairs(self, which: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers of boxes, and of cells in the samples' grids one after the other."""
        box = which.nonzero()[:, 0]
        flat = self.boxes.sample[box]
        for (start, counts), own in zip(self.spans, self.edges, strict=True):
            count = counts[box]
            again = torch.repeat_interleave(torch.arange(len(box), device=box.device), count)
            offset = torch.arange(len(again), device=box.device)
            offset -= (count.cumsum(0) - count)[again]
            box, flat = box[again], flat[again] * (len(own) - 1)
            flat += start[box] + offset
        return box, flat

    @property
    def rough(self) -> Tensor:
        """Numbers of the cells that hold boxes much smaller than they are."""
        return self.pairs(self.small)[1].unique()

    def means(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Give the numbers of these cells, and the means over them, of samples in the batch."""
        rough = self.rough
        box, flat = self.pairs(torch.ones_like(self.small))
        kept = torch.isin(flat, rough)
        box, flat = box[kept], flat[kept]
        centre, part = self.boxes.centre[box], torch.ones_like(box, dtype=torch.float64)
        rest = flat
        for i, own in reversed([*zip(self.columns, self.edges, strict=True)]):
            cell, rest = rest % (len(own) - 1), rest // (len(own) - 1)
            below, above = own[cell], own[cell + 1]
            if i is None:
                low, high = below, above
            else:
                low = torch.maximum(self.boxes.low[box, i], below)
                high = torch.minimum(self.boxes.high[box, i], above)
                centre[:, i] = 0.5 * (low + high)
            part = part * (high - low) / (above - below)
        seen = self.values(samples[self.boxes.sample[box]], centre)
        own = torch.searchsorted(rough, flat)
        return rough, torch.zeros_like(rough, dtype=seen.dtype).index_add_(0, own, part * seen)


def _unseen(
    values: KnownValues, boxes: Boxes, nodes: Mapping[str, Tensor], power: int
) -> tuple[Tensor, Tensor]:
    """Mean size over the domain of what a grid does not see of some data, and of the data."""
    length = boxes.size.new_tensor([float(c.length) for c in values.axes])
    seen, weight = values(boxes.sample, boxes.centre).nan_to_num(), (boxes.size / length).prod(1)
    total, missed, largest = torch.zeros(3, values.batch, dtype=seen.dtype, device=seen.device)
    largest.scatter_reduce_(0, boxes.sample, seen.abs(), "amax")
    detail = values.detail * largest[boxes.sample]
    key, small = boxes.sample, torch.zeros_like(boxes.sample, dtype=torch.bool)
    corners = [(i, boxes.low[:, i], boxes.high[:, i]) for i in range(len(values.axes))]
    unresolved = (_multilinear(values, boxes, corners) - seen).abs() > 2 * detail
    hidden, cells = torch.zeros_like(seen), []
    for i, c in enumerate(values.axes):
        if c.name not in nodes:
            bend = (_multilinear(values, boxes, corners[i : i + 1]) - seen).abs().nan_to_num()
            hidden += torch.where(unresolved & (bend > detail), bend, 0.0)
            continue
        own = torch.cat([nodes[c.name], nodes[c.name].new_tensor([c.low, c.high])]).unique()
        upper = torch.searchsorted(own, boxes.centre[:, i].contiguous()).clamp(1, len(own) - 1)
        low, high = own[upper - 1], own[upper]
        cells.append((i, low, high))
        small |= values.resolved * boxes.size[:, i] < high - low
        key = key * len(own) + upper
        finer = (boxes.size[:, i] < high - low).nonzero()[:, 0]
        if len(finer):
            beyond = _not_shown(values, boxes.take(finer), i, own)
            hidden[finer] += torch.where(beyond > 0.01 * detail[finer], beyond, 0.0)
    coarse = torch.isin(key, key[small].unique()).nonzero()[:, 0]
    if len(coarse):
        around = [(i, low[coarse], high[coarse]) for i, low, high in cells]
        hidden[coarse] = seen[coarse] - _multilinear(values, boxes.take(coarse), around)
    total.index_add_(0, boxes.sample, weight * seen.abs() ** power)
    missed.index_add_(0, boxes.sample, weight * hidden.abs() ** power)
    return missed ** (1 / power), total ** (1 / power)


def _along(values: KnownValues, boxes: Boxes, axis: int, at: Tensor) -> Tensor:
    """Values ``[n, m]`` at positions ``[n, m]`` on lines along an axis through the centres."""
    points = boxes.centre[:, None].repeat(1, at.shape[1], 1)
    points[..., axis] = at
    sample = boxes.sample.repeat_interleave(at.shape[1])
    return values(sample, points.flatten(0, 1)).reshape(at.shape)


def _not_shown(values: KnownValues, boxes: Boxes, axis: int, nodes: Tensor) -> Tensor:
    """How much more data at centres differ from polynomials than nodes of a grid show ``[n]``.

    On the line through a centre x the polynomial through its six nearest nodes misses Newton's
    remainder d[x₁, …, x₆, x] ∏(x − xᵢ); the next four nodes, in place of x, show how large its
    divided difference is. A small grid has fewer nodes.
    """
    x, count = boxes.centre[:, axis : axis + 1].contiguous(), min(10, len(nodes))
    first = torch.searchsorted(nodes, x) - count // 2
    first = first.clamp(0, len(nodes) - count)
    at = nodes[first + torch.arange(count, device=nodes.device)]
    at = torch.cat([at.gather(1, (at - x).abs().argsort(1)), x], 1)
    table, base = _along(values, boxes, axis, at).nan_to_num(), (count + 2) // 2
    for k in range(base):
        table = (table[:, 1:] - table[:, :1]) / (at[:, k + 1 :] - at[:, k : k + 1])
    beyond = table[:, -1].abs() - _SHOWN * table[:, :-1].abs().amax(1)
    return beyond.clamp_min(0) * (x - at[:, :base]).prod(1).abs()


def _multilinear(
    values: KnownValues, boxes: Boxes, cells: Sequence[tuple[int, Tensor, Tensor]]
) -> Tensor:
    """Interpolate linearly at centres ``[n]`` from the ends ``[n]`` of cells along some axes."""
    linear = torch.zeros_like(boxes.centre[:, 0])
    for upper in product((False, True), repeat=len(cells)):
        points, part = boxes.centre, torch.ones_like(linear)
        for (i, low, high), up in zip(cells, upper, strict=True):
            along = (boxes.centre[:, i] - low) / (high - low)
            part = part * (along if up else 1 - along)
            points[:, i] = high if up else low
        linear += part * values(boxes.sample, points)
    return linear
