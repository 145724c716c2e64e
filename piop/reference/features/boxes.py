"""Boxes that are as small as the features of the data in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import ClassVar, final

import torch
from sympy import Expr
from sympy.core.function import AppliedUndef
from torch import Tensor

from piop.expression_functions import CompiledExpression, ExpressionFunction, names_in
from piop.forms.linear_forms import jumps
from piop.forms.terms import name_of
from piop.intervals import Interval
from piop.reference.features.support import Support
from piop.reference.input_values import Sources

_DETAIL = (1e-4, 1e-3, 0.01, 0.02)
"""Part of the largest value by which data may differ from what the corners of a box show, by the
number of coordinates they depend on."""
_NEGLIGIBLE = (1e-10, 1e-7, 1e-6, 1e-6)
"""Part of the integral of the data's size that a box is left with, by the same number."""
_IN_TIME = (1e-5, 1e-6, 1e-14)
"""The same of data of time alone, at kinks of them, whose steps see little of one beside its ends,
and what a box is left with."""
_ON_SUPPORT = (0.01, 1e-5, 1e-4)
"""Detail of data in a region or on its faces, and what a box is left with, without and with jumps:
meshes reach about 1e-3."""
_KINK = 4.0
"""Ratio of what two halves of a box hide from which on there is a kink in one of them."""
_HIGHEST = 1e6
"""Times the largest value seen so far: the highest peak that is looked for between corners."""
_FIRST = 8
"""Boxes along each axis at the beginning."""
_MOST = (2**15, 2**13, 2**13, 2**13)
"""Boxes of a sample that are halved at a time, by the number of coordinates."""
_ROUNDS = 160
_SHIFTS = (0.0, 0.0), (0.5, 0.25), (-0.25, 0.5)
"""Of corners in parts of a box in the plane: a line across, up or along a diagonal that holds some
of the first corners holds none of the others."""
_AROUND = 3
"""Boxes from one at a kink to one of four times its size: each halving leaves one, on one side."""
SMALLEST = 1e-12
"""Part of an axis that is not halved any more."""


@final
@dataclass(frozen=True)
class Boxes:
    """Boxes of several samples, in one list.

    Attributes:
        sample: Number of each box's sample ``[n]``.
        low: Low ends ``[n, k]`` along the k coordinates of the data.
        high: High ends ``[n, k]``.
        reach: Gaps between points that resolve the data there ``[n, k]``; empty while boxes are
            halved.
    """

    sample: Tensor
    low: Tensor
    high: Tensor
    reach: Tensor = field(default_factory=lambda: torch.empty(0))

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
        reach = self.reach[index] if len(self.reach) else self.reach
        return Boxes(self.sample[index], self.low[index], self.high[index], reach)

    def halve(self, axis: Tensor) -> Boxes:
        """Halve each along one of its axes ``[n]``: the low halves, then the high ones."""
        own = torch.nn.functional.one_hot(axis, self.low.shape[1]).bool()
        low = torch.where(own, self.centre, self.low)
        high = torch.where(own, self.centre, self.high)
        return Boxes(
            self.sample.repeat(2), torch.cat([self.low, low]), torch.cat([high, self.high])
        )

    def at_points(self) -> Tensor:
        """Whether boxes of one axis are around a kink or a jump, halved on and on ``[n]``."""
        order = torch.argsort(self.low[:, 0])
        order = order[torch.argsort(self.sample[order], stable=True)]
        size, beyond = self.size[order, 0], self.low.new_full((_AROUND,), math.inf)
        below, above = torch.cat([beyond, size]), torch.cat([size, beyond])
        alone = torch.minimum(below[: len(size)], above[_AROUND:]) >= 4 * size
        return torch.zeros_like(alone).index_put((order,), alone)

    @classmethod
    def join(cls, parts: Sequence[Boxes]) -> Boxes:
        """All boxes of several lists."""
        names = ("sample", "low", "high", "reach")
        return cls(*(torch.cat([getattr(p, n) for p in parts]) for n in names))


class KnownValues:
    """Values and enclosures of data at points and on boxes of several samples.

    Args:
        sources: The problem with its inputs.
        expression: Data, without unknowns.
        initial: Whether a solution starts from them, and is no integral of them.
        whole: Data that these are a term of.
        support: Where in the plane they count; None for the whole box of the axes.
        factor: Size of a factor of all of them ``[B]`` that is left out.

    Attributes:
        smooth_inside: Whether data are smooth inside each box, so that steps as long resolve them.
        expression: The data.
        around: Length of boxes up to which points around them show what is inside, too: finite
            elements subdivide the triangles in which they see a jump.
        axes: Coordinates that the data depend on; all on a support.
        batch: Number of samples; 1 where all have the same data.
        detail: Part of the largest value by which data may differ from what corners of boxes show.
        at_kinks: The same where there is a kink.
        negligible: Part of the integral of the data's size that a box is left with.
        knots: Ends along the one axis of the polynomials that data are there, few enough to take
            them all; empty where they are none.
        resolved: Sizes of a box that a gap between points may have and still resolve the data: four
            points on a wave, whose boxes shrink with the root of the detail.
    """

    smooth_inside: ClassVar[bool] = False

    def __init__(
        self,
        sources: Sources,
        expression: Expr,
        initial: bool = False,
        whole: KnownValues | None = None,
        support: Support | None = None,
        factor: Tensor | float = 1.0,
    ) -> None:
        self.expression, self.initial, self.whole = expression, initial, whole
        self.support, self.factor, self.around = support, factor, 0.0
        if support is not None and jumps(sources.problem.pde, expression):
            self.around = support.cell
        held = expression.atoms(AppliedUndef)
        names = {n for f in held for n in sources.arguments[name_of(f)]}
        symbols = expression.free_symbols
        self.axes = [
            c
            for c in sources.problem.coordinates
            if support is not None or c.name in names or c.symbol in symbols
        ]
        rank = len(self.axes) - 1
        self.detail, self.negligible = _DETAIL[rank], _NEGLIGIBLE[rank]
        if support is not None:
            self.detail, smooth, rough = _ON_SUPPORT
            self.negligible = rough if self.around else smooth
        self.at_kinks = self.detail
        if self.axes == [sources.problem.time]:
            self.detail, self.at_kinks, self.negligible = _IN_TIME
        self.resolved = 1.0 if self.around else math.sqrt(0.32 / self.detail)
        self.device = sources.device
        self.knots = torch.empty(0, dtype=torch.float64, device=self.device)
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

    def boxes(self) -> Boxes:
        """Boxes as small as the features of the data, which cover the domain of every sample."""
        return subdivide(self)

    def enclose(self, boxes: Boxes) -> Interval:
        """Enclosures ``[n]`` of the values on boxes."""
        function, sample = self._present(boxes.sample)
        low, rows = _by_sample(sample, boxes.low, function.batch)
        high, _ = _by_sample(sample, boxes.high, function.batch)
        box = [Interval(*ends) for ends in zip(low.unbind(-1), high.unbind(-1), strict=True)]
        found = function.enclosure(box, (0,) * len(box))
        return Interval(found.low[rows], found.high[rows])

    def locate(self, boxes: Boxes) -> tuple[Tensor, Tensor]:
        """Find where boxes of data count.

        Returns:
            The part of it that each holds ``[n]``, zero in those that are off it, and its points
            nearest to their centres ``[n, k]``.
        """
        if self.support is None:
            length = boxes.size.new_tensor([float(c.length) for c in self.axes])
            return (boxes.size / length).prod(1), boxes.centre
        points, distance = self.support.nearest(boxes.centre)
        return self.support.measure(boxes.size, distance), points

    def shown_around(self, boxes: Boxes) -> Interval:
        """Range ``[n]`` of the values at corners of boxes and of those of their size next to them.

        It is widened by a quarter: between these points quadratics exceed it by up to an eighth.
        The corners may lie on a strip by chance, where nodes of a mesh do not: the range is what
        the same corners moved by parts of a box show as well.
        """
        steps = [*product((-1, 0, 1, 2), repeat=len(self.axes))]
        low, high = torch.full_like(boxes.low[:, 0], -math.inf), boxes.low[:, 0] + math.inf
        for shift in _SHIFTS:
            moved = boxes.low + boxes.size * boxes.low.new_tensor(shift)
            points = (moved + moved.new_tensor(own) * boxes.size for own in steps)
            shown = torch.stack([self(boxes.sample, own) for own in points]).nan_to_num()
            own_low, own_high = shown.amin(0), shown.amax(0)
            more = 0.25 * (own_high - own_low)
            low, high = torch.maximum(low, own_low - more), torch.minimum(high, own_high + more)
        return Interval(low, high)

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
        part, points = values.locate(boxes)
        kept = part > 0
        boxes, part = boxes.take(kept), part[kept]
        hidden, size = _hidden(values, boxes)
        if values.support is not None:  # corners may be off it, where data have poles
            size = values(boxes.sample, points[kept]).nan_to_num().abs()
        scale.scatter_reduce_(0, boxes.sample, size, "amax")
        own = total.index_add(0, boxes.sample, size * part)[boxes.sample]
        largest = scale[boxes.sample]
        kink = hidden > _KINK * hidden.roll(len(boxes) // 2)  # than in the other half
        coarse = hidden > torch.where(kink, values.at_kinks, detail) * largest
        hidden = hidden.clamp(max=_HIGHEST * largest) * part
        open_ = coarse & (hidden > negligible * own) & (boxes.size > SMALLEST * length).all(1)
        open_ &= first_of_each(boxes.sample, torch.where(open_, hidden, -1.0), _MOST[len(axes) - 1])
        total.index_add_(0, boxes.sample[~open_], (size * part)[~open_])
        done.append(boxes.take(~open_))
        boxes, enough = boxes.take(open_), (0.5 * detail * largest)[open_]
        if not len(boxes):
            break
        boxes = boxes.halve(_axis_to_halve(values, boxes, length, enough))
    boxes = Boxes.join([*done, boxes])
    return replace(boxes, reach=values.resolved * boxes.size)


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
    bend, size = (middle - shown.mean(0)).abs(), torch.maximum(top.abs(), bottom.abs())
    small = (boxes.size <= values.around).all(1).nonzero()[:, 0]
    if len(small):
        around = values.shown_around(boxes.take(small))
        top[small], bottom[small], bend[small] = around.high, around.low, 0
    inside = values.enclose(boxes)
    beyond = torch.maximum(inside.high - top, bottom - inside.low).nan_to_num(math.inf)
    return torch.maximum(bend, beyond), size


def _axis_to_halve(values: KnownValues, boxes: Boxes, length: Tensor, enough: Tensor) -> Tensor:
    """The axis along which most is hidden on the line through the centre ``[n]``.

    Where nothing is, as beside a feature, it is the longest one.
    """
    longest = (boxes.size / length).argmax(1)
    if len(length) == 1 or (values.support is not None and values.support.thin):
        return longest
    lines = []
    for axis in range(len(length)):
        own = torch.arange(len(length), device=length.device) == axis
        low, high = (torch.where(own, end, boxes.centre) for end in (boxes.low, boxes.high))
        lines.append(_hidden(values, Boxes(boxes.sample, low, high))[0])
    most, best = torch.stack(lines, 1).max(1)
    return torch.where(most > enough, best, longest)


def first_of_each(sample: Tensor, weight: Tensor, most: int) -> Tensor:
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
