"""Finite volumes of a problem in divergence form: matrices, and values between centres.

The flux between the centres of two neighbouring cells is the difference of their values times a
conductance. Along the line between the centres the coefficient acts as resistors in series do (the
harmonic mean, exact in one dimension where the flux is constant: A. A. Samarskii, The Theory of
Difference Schemes, 2001, ch. 3), across it as resistors side by side. The coefficient is taken at
the middles of half cells: an interface that passes through a cell acts on its side.

Values on faces follow from the flux that passes them, values on walls from the condition. Where the
coefficient jumps on a face the slope does too, and the flux does not: the value on the face is then
the mean of its neighbours weighted by their conductances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from sympy import Expr
from torch import Tensor

from piop.boundary import RobinForm
from piop.errors import SolverError
from piop.forms.linear_forms import DivergenceForm
from piop.reference.elliptic.cells import (
    StencilOperator,
    at_nodes,
    between,
    every_other,
    half_steps,
    interleave,
)
from piop.reference.elliptic.sub_cells import SubCells, sub_cells
from piop.reference.features import Features
from piop.reference.input_values import Sources
from piop.reference.levels import refuse

if TYPE_CHECKING:
    from piop.problem import Coordinate


Pair = Sequence[Tensor]
"""Of the low and of the high side."""


@final
@dataclass(frozen=True)
class WallValue:
    """The value on a wall as it follows from the cell beside it, u_wall = constant + factor·u_cell.

    Both ``[B, …]``, of size 1 along the axis, and at every half step along the others.
    """

    constant: Tensor
    factor: Tensor

    def at_centres(self, axes: Iterable[int], space: Sequence[Coordinate]) -> WallValue:
        """Keep the centres of cells along some axes."""
        constant, factor = self.constant, self.factor
        for i in axes:
            first = 0 if space[i].periodic else 1
            constant, factor = (every_other(v, i + 1, first) for v in (constant, factor))
        return WallValue(constant, factor)


@final
class CellSystem:
    """Matrices and right sides of a batch on a grid of cells, and data for values between centres.

    Args:
        form: Divergence form of the problem.
        sources: The problem with its inputs.
        samples: Number of each sample, for messages.
        sizes: Cells along each axis.
        features: Of the data of the whole batch, of which these are ``samples``.

    Attributes:
        operator: The matrices.
        right: Right sides ``[B, *sizes]``.
        halves: Per axis, conductances from a cell's centre to its low and its high face.
        walls: Per axis, low and high; None where it is periodic.
        bends: Of the low and the high halves of cells, see :meth:`SubCells.bends`.

    Raises:
        SolverError: If a coefficient changes its sign, or anything is not finite.
    """

    def __init__(
        self,
        form: DivergenceForm,
        sources: Sources,
        samples: Sequence[int],
        sizes: Sequence[int],
        features: Features,
    ) -> None:
        self.form, self.sources, self.samples, self.sizes = form, sources, samples, sizes
        self.space = sources.problem.space
        half_cells = sub_cells(sources, features, samples, sizes)
        volume = math.prod(c.length / n for c, n in zip(self.space, sizes, strict=True))
        fields = {a: sources.field(a, half_cells.middles) for a in dict.fromkeys(form.diffusion)}
        sign = self._sign(list(fields.values()))
        self.right = sign * volume * self._cell_mean(form.source, half_cells)
        mass = sign * volume * self._cell_mean(form.reaction, half_cells)
        bends = half_cells.bends(form.diffusion[0], form.source)
        self.bends = None if bends is None else bends.unflatten(1, (-1, 2)).unbind(2)
        self.halves: list[Pair] = []
        self.walls: list[Sequence[WallValue] | None] = []
        links, ground = [], []
        for axis, a in enumerate(form.diffusion):
            step = self.space[axis].length / sizes[axis]
            whole = fields[a] if a.is_number else half_cells.in_series(a, fields[a], axis)
            low, high = half_conductances(whole.abs(), axis, step, volume / step)
            links.append(join(low, high, axis, self.space[axis].periodic))
            if self.bends is not None:
                below, above = self.bends
                moved = links[0] * (above - below.roll(-1, 1))
                self.right += moved.roll(1, 1) - moved
            low, high = (mean_of_halves(half, axis) for half in (low, high))
            self.halves.append((low, high))
            found = through = None
            if (pair := form.walls[axis]) is not None:
                ends = low.narrow(axis + 1, 0, 1), high.narrow(axis + 1, sizes[axis] - 1, 1)
                slopes = [end / (volume / step) for end in ends]
                found = [self._wall(pair[k], axis, k, slopes[k]) for k in (0, 1)]
                through = self._through_walls(found, ends, axis)
            self.walls.append(found)
            ground.append(through)
        parts = [self.right, *links, *(w for pair in ground if pair is not None for w in pair)]
        bad = torch.stack([~torch.isfinite(part).flatten(1).all(1) for part in parts]).any(0)
        refuse(bad, samples, "a coefficient, the source or a wall's condition is not finite")
        self.operator = StencilOperator(tuple(links), tuple(ground), mass)

    def _sign(self, fields: Sequence[Tensor]) -> Tensor:
        """The sign that makes every coefficient positive ``[B, 1, …]``."""
        low = torch.stack([f.flatten(1).amin(1) for f in fields]).amin(0)
        high = torch.stack([f.flatten(1).amax(1) for f in fields]).amax(0)
        mixed = ~((low > 0) | (high < 0))
        if bool(mixed.any()):
            sample = int(mixed.nonzero()[0])
            raise SolverError(
                f"sample {self.samples[sample]}: the coefficients of the second derivatives must "
                f"all be of one sign, and lie in [{low[sample]:.4g}, {high[sample]:.4g}]; the "
                "equation is not elliptic"
            )
        return torch.where(low > 0, 1.0, -1.0).to(low).reshape(-1, *[1] * len(self.space))

    def _cell_mean(self, expression: Expr, half_cells: SubCells) -> Tensor:
        """Means over cells ``[B, *sizes]``."""
        if expression.is_number:
            size = (self.sources.batch, *self.sizes)
            value = float(expression)
            return torch.full(size, value, dtype=torch.float64, device=self.sources.device)
        return mean_of_halves(half_cells.mean(expression))

    def _wall(self, wall: RobinForm, axis: int, end: int, slope: Tensor) -> WallValue:
        """Solve αu + β∂u/∂n = g for the value on the wall.

        The flux from the cell's centre is a ∂u/∂n = slope·(u_wall − u_cell).
        """
        device = self.sources.device
        along = [half_steps(c, n, device) for c, n in zip(self.space, self.sizes, strict=True)]
        position = self.space[axis].high if end else self.space[axis].low
        along[axis] = torch.tensor([position], dtype=torch.float64, device=device)
        alpha, beta, value, a = (
            self.sources.field(e, along)
            for e in (wall.alpha, wall.beta, wall.value, self.form.diffusion[axis])
        )
        for i, c in enumerate(self.space):
            if i != axis:
                slope = between(slope, i + 1, c.periodic)
        beta = beta * slope / a.abs()
        return WallValue(value / (alpha + beta), beta / (alpha + beta))

    def _through_walls(self, walls: Sequence[WallValue], ends: Sequence[Tensor], axis: int) -> Pair:
        """Add the contributions of walls to right sides; return the conductances through them."""
        found = []
        for k, (wall, conductance) in enumerate(zip(walls, ends, strict=True)):
            own = wall.at_centres((i for i in range(len(self.space)) if i != axis), self.space)
            beside = self.right.narrow(axis + 1, k * (self.sizes[axis] - 1), 1)
            beside.add_(conductance * (own.constant + (own.factor - 1) * self._beside(k)))
            found.append(conductance * (1 - own.factor))
        return found

    def _beside(self, end: int) -> Tensor | float:
        """The part of ``bends`` beside the low or the high wall."""
        return 0.0 if self.bends is None else self.bends[end][:, -end, None]

    def reconstruct(self, cells: Tensor, shape: Sequence[int]) -> Tensor:
        """Interpolate the solution at the nodes of an output.

        Args:
            cells: Values at centres ``[B, *sizes]``.
            shape: Points of the output along each axis.

        Returns:
            ``[B, *shape]``, of second order where the coefficient is smooth, exact on Dirichlet
            walls.
        """
        for axis in range(len(self.space)):
            cells = self._refine(cells, axis)
        return at_nodes(cells, self.space, shape)

    def _refine(self, values: Tensor, axis: int) -> Tensor:
        """Add faces along an axis, after those before it."""
        dim, n = axis + 1, values.shape[axis + 1]
        low, high = self.halves[axis]
        for i in range(axis):  # these axes have been refined already
            low, high = (between(h, i + 1, self.space[i].periodic) for h in (low, high))
        low = low.roll(-1, dim)
        below, above = (values, values) if self.bends is None else (values + b for b in self.bends)
        faces = (high * above + low * below.roll(-1, dim)) / (low + high)
        pair = self.walls[axis]
        if pair is None:
            return torch.stack([values, faces], dim + 1).flatten(dim, dim + 1)
        ends = []
        for k, wall in enumerate(pair):  # later axes are still at centres
            own = wall.at_centres(range(axis + 1, len(self.space)), self.space)
            inside = values.narrow(dim, k * (n - 1), 1) + self._beside(k)
            ends.append(own.constant + own.factor * inside)
        outer = torch.cat([ends[0], faces.narrow(dim, 0, n - 1), ends[1]], dim)
        return interleave(values, outer, dim)

    @property
    def imbalance(self) -> Tensor:
        """Sum of the right side relative to that of its absolute values ``[B]``."""
        flat = self.right.flatten(1)
        return flat.sum(1).abs() / flat.abs().sum(1).clamp_min(1e-300)


def half_conductances(a: Tensor, axis: int, step: float, area: float) -> Pair:
    """Conductances from centres to low and high faces, ``[B, …, n, …]`` along the axis.

    Along the other axes there is one for each half of the cells, as if it had the whole area.

    Args:
        a: At the middles of half cells along every axis.
        axis: Along which.
        step: Of cells along the axis.
        area: Of a face.
    """
    low, high = a.unflatten(axis + 1, (-1, 2)).unbind(axis + 2)
    factor = area / (0.5 * step)
    return factor * low, factor * high


def join(low: Tensor, high: Tensor, axis: int, periodic: bool) -> Tensor:
    """Links from each cell to the next along an axis: two halves in series, then side by side."""
    following = low.roll(-1, axis + 1)
    link = high * following / (high + following)
    if not periodic:
        link.narrow(axis + 1, link.shape[axis + 1] - 1, 1).zero_()
    return mean_of_halves(link, axis)


def mean_of_halves(values: Tensor, skip: int | None = None) -> Tensor:
    """Means over both halves of each cell along all axes but one."""
    for axis in range(values.ndim - 1):
        if axis != skip:
            values = values.unflatten(axis + 1, (-1, 2)).mean(axis + 2)
    return values
