"""The exact solution of a linear evolution whose coefficients vary in space, as part of the lift.

Waves exchange energy where coefficients vary, so initial data are taken apart into the modes of the
operator on a grid instead: u0 becomes u0 + (exp((t − t0)·R) − 1) u0 with R the matrix of the right
side over all points, diagonalised once for a problem (``docs/math.md``, 17).

Source: own; modes of collocated operators as in Trefethen 2000, ch. 9
(doi:10.1137/1.9780898719598).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from hashlib import sha256
from typing import Self, cast, final

import torch
from torch import Tensor

from piop import user_cache
from piop.domain import Coordinate
from piop.errors import NotSupportedError
from piop.fields import Device, InputFunction, chunks
from piop.forms.varying_evolution import VaryingEvolution, varying_evolution
from piop.problem import Problem
from piop.reference.fourier.grid import PeriodicGrid
from piop.residual import DerivedFunctions, KnownField
from piop.training.loss.linear_inversion import derived_input
from piop.training.loss.linear_propagation import (
    DEFECT,
    MOST_VALUES,
    NEGLECTED,
    differentiated,
    growth,
    unit_waves,
)

LARGEST_CONDITION = 1e8
"""Condition number of the modes from which on rounding would show in single precision."""
MOST_GROWTH = 20.0
"""Largest exponent of a mode over the time axis: more is taken for an instability of the grid."""
LARGE = 512
"""Rows of a matrix from which on its eigenvectors, which take up to seconds, are kept."""
ROUNDING = 1e-10
"""Imaginary part of an eigenvalue, relative to the largest eigenvalue, that counts as rounding."""
KEPT_PROBLEMS = 4
"""Problems whose modes are kept in memory."""


@final
@dataclass(frozen=True)
class ModeShapes:
    """Functions of space, φ_j(x) = Σ_k cos(k·x) c_kj − sin(k·x) s_kj.

    Attributes:
        wave_vectors: k ``[K, d]``, inverse units of x.
        real: c over s, of the real parts of the functions ``[2K, J]``.
        imaginary: Of their imaginary parts; None where all are real.
    """

    wave_vectors: Tensor
    real: Tensor
    imaginary: Tensor | None

    def waves(
        self, positions: Tensor, orders: Collection[Sequence[int]], dtype: torch.dtype
    ) -> list[Tensor]:
        """Evaluate derivatives of the waves that all functions are sums of.

        Args:
            positions: ``[…, d]`` float64.
            orders: Of each derivative, along each axis.
            dtype: float32 takes half the time of float64.

        Returns:
            For each order the cosines and minus the sines ``[…, 2K]``.
        """
        waves, found = unit_waves(positions @ self.wave_vectors.mT), []
        for order in orders:
            own = differentiated(waves, self.wave_vectors, order)
            found.append(torch.cat([own.real, -own.imag], -1).to(dtype))
        return found

    def at(self, positions: Tensor, order: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Evaluate a derivative of all functions at ``positions […, d]``: ``[…, J]``."""
        (waves,) = self.waves(positions, [order], dtype)
        found = waves @ self.real.to(dtype)
        if self.imaginary is None:
            return found
        return torch.complex(found, waves @ self.imaginary.to(dtype))

    def combined(self, weights: Tensor, shape_of: Tensor, dtype: torch.dtype) -> Tensor:
        """Sum functions, in terms of :meth:`waves`: the real part.

        Args:
            weights: Complex ``[…, W]``.
            shape_of: Which function has which weight ``[W]``.
            dtype: Of the result.

        Returns:
            Coefficients of the waves ``[…, 2K]``.
        """

        def sums(each: Tensor) -> Tensor:  # in double precision, since many weights cancel
            zeros = each.new_zeros(*each.shape[:-1], self.real.shape[1])
            return zeros.index_add(-1, shape_of, each).to(dtype)

        found = sums(weights.real) @ self.real.mT.to(dtype)
        if self.imaginary is None:
            return found
        return found - sums(weights.imag) @ self.imaginary.mT.to(dtype)

    def choose(self, index: Tensor) -> ModeShapes:
        """Choose some of the functions."""
        other = None if self.imaginary is None else self.imaginary[:, index]
        return replace(self, real=self.real[:, index], imaginary=other)

    def to(self, device: Device) -> ModeShapes:
        """Move to a device."""
        other = None if self.imaginary is None else self.imaginary.to(device)
        return ModeShapes(self.wave_vectors.to(device), self.real.to(device), other)


@final
@dataclass(frozen=True)
class Modes(InputFunction):
    """Re Σ_j a_j exp(μ_j s) φ_j(x − x0) less its Taylor polynomial at s = 0; s = t − t0.

    Attributes:
        amplitudes: a ``[B, J]`` complex.
        rates: μ ``[J]`` complex, inverse units of t.
        shapes: φ.
        shape_of: Which of the shapes is that of j ``[J]``.
        origin: t0, x0 ``[1 + d]``.
        order: Terms of the polynomial that are taken away.
    """

    amplitudes: Tensor
    rates: Tensor
    shapes: ModeShapes
    shape_of: Tensor
    origin: Tensor
    order: int

    @property
    def batch(self) -> int:
        """See the base class."""
        return self.amplitudes.shape[0]

    @property
    def dimension(self) -> int:
        """See the base class."""
        return len(self.origin)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """See the base class."""
        return self.derivatives(points, [order])[0]

    def derivatives(self, points: Tensor, orders: Sequence[Sequence[int]]) -> list[Tensor]:
        """Evaluate several derivatives, whose modes are the same: see the base class."""
        moved, dtype = points.double() - self.origin, points.dtype
        if len(moved) == 1 and not torch.compiler.is_exporting():
            grid = _as_grid(moved[0])
            if grid is not None:
                return [self._sum_on_grid(grid, order, dtype).to(dtype) for order in orders]
        batch = max(self.batch, len(points))
        parts = [
            self._sums(moved[:, part], orders, dtype)
            for part in chunks(points.shape[1], batch * len(self.rates), MOST_VALUES)
        ]
        shape = len(orders), batch, points.shape[1]
        total = torch.cat(parts, 2) if parts else moved.new_zeros(shape)
        return [*total.expand(shape).to(dtype).unbind()]

    def _sum_on_grid(
        self, grid: tuple[Tensor, ...], order: Sequence[int], dtype: torch.dtype
    ) -> Tensor:
        """Sum all modes at points of few times and positions: ``[B, N]``; see :func:`_as_grid`."""
        times, at, places, where = grid
        in_time = growth(times[:, None], self.rates, order[:1], self.order)[order[0]]
        weights = self.amplitudes[:, None] * in_time
        shapes = self.shapes.at(places, order[1:], dtype)[:, self.shape_of].mT
        whole = weights.real.to(dtype) @ shapes.real
        if shapes.is_complex():
            whole = whole - weights.imag.to(dtype) @ shapes.imag
        return whole[:, at, where]

    def _sums(self, moved: Tensor, orders: Sequence[Sequence[int]], dtype: torch.dtype) -> Tensor:
        """Sum all modes at points relative to the origin: ``[orders, B, N]``."""
        in_time = growth(moved[..., :1], self.rates, {order[0] for order in orders}, self.order)
        coefficients = {
            times: self.shapes.combined(self.amplitudes[:, None] * grown, self.shape_of, dtype)
            for times, grown in in_time.items()
        }
        waves = self.shapes.waves(moved[..., 1:], [order[1:] for order in orders], dtype)
        found = [
            (coefficients[order[0]] * own).sum(-1) for order, own in zip(orders, waves, strict=True)
        ]
        return torch.stack(found)

    def take(self, index: Tensor) -> Self:
        """See the base class."""
        return replace(self, amplitudes=self.amplitudes[index])

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device; the precision stays double, since phases grow with time."""
        names = ("amplitudes", "rates", "shapes", "shape_of", "origin")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def _as_grid(points: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """Find the times and positions that points ``[N, 1 + d]`` share; None where they share few.

    Returns:
        The times ``[T]`` and which of them each point has ``[N]``; the positions ``[P, d]`` and
        which of them it has ``[N]``.
    """
    times, at = points[:, 0].unique(return_inverse=True)
    if 2 * len(times) > len(points):
        return None
    places, where = points[:, 1:].unique(dim=0, return_inverse=True)
    if len(times) * len(places) > 2 * len(points):
        return None
    return times, at, places, where


@final
@dataclass(frozen=True)
class ModeTables:
    """The modes of an operator on a grid.

    Attributes:
        grid: The grid.
        shapes: Of each unknown or state, in the order of the operator's rows.
        rates: μ ``[J]``; a mode of second order in time has two of them.
        shape_of: Which shape has which rate ``[J]``.
        data: What each initial value contributes to the amplitudes, by time order: matrices
            ``[J, values]`` of the values of all rows on the grid.
    """

    grid: PeriodicGrid
    shapes: tuple[ModeShapes, ...]
    rates: Tensor
    shape_of: Tensor
    data: tuple[Tensor, ...]

    def to(self, device: torch.device) -> ModeTables:
        """Move to a device."""
        return ModeTables(
            replace(self.grid, device=device),
            tuple(shapes.to(device) for shapes in self.shapes),
            self.rates.to(device),
            self.shape_of.to(device),
            tuple(table.to(device) for table in self.data),
        )


@final
class VaryingPropagation(DerivedFunctions):
    """What a linear evolution with coefficients that vary in space makes of its initial data.

    Args:
        problem: An evolution; all of its initial data are hard constraints.

    Attributes:
        inputs: One function of time and space per channel.
        needs: The names of the inputs of the problem that the initial data contain.
        kept: Numbers of the modes that are summed; None for those that the initial data have.

    Raises:
        NotSupportedError: If its modes are too ill-conditioned, or it is not of this kind.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self.kept = problem, cast("Tensor | None", None)
        evolution, tables = varying_evolution(problem.pde), mode_tables(problem)
        self._tables = {tables.grid.device: tables}
        self._time = cast("Coordinate", problem.time)
        channels = evolution.split.channels
        if evolution.second:
            rows = [(name, p) for p in (0, 1) for name in problem.channels]
        else:
            rows = [(c.name, c.time_order) for c in channels]
        self._rows = [rows.index((name, 0)) for name in problem.channels]
        data = [problem.initial[name][p] for name, p in rows]
        self._initial = KnownField(data, problem.inputs, [c.symbol for c in problem.coordinates])
        self.needs = self._initial.names
        self.inputs = tuple(derived_input(problem, name) for name in problem.channels)

    def __call__(
        self, functions: Mapping[str, InputFunction], device: torch.device
    ) -> dict[str, InputFunction]:
        """Propagate the initial data that functions give: see the base class."""
        amplitudes, tables = self._amplitudes(functions, device), self._on(device)
        kept = self._large(amplitudes) if self.kept is None else self.kept.to(device)
        amplitudes, rates = amplitudes[:, kept], tables.rates[kept]
        chosen, shape_of = tables.shape_of[kept].unique(return_inverse=True)
        low = [c.low for c in self._problem.coordinates]
        origin = torch.tensor(low, dtype=torch.float64, device=device)
        found = {}
        for entry, name, row in zip(self.inputs, self._problem.channels, self._rows, strict=True):
            shapes = tables.shapes[row].choose(chosen)
            order = len(self._problem.initial[name])
            found[entry.name] = Modes(amplitudes, rates, shapes, shape_of, origin, order)
        return found

    @contextmanager
    def fixed_for(self, *batches: Mapping[str, InputFunction]) -> Iterator[None]:
        """Propagate the modes that any of these functions has: see the base class."""
        device = torch.device("cpu")
        kept = [self._large(self._amplitudes(functions, device)) for functions in batches]
        self.kept = torch.cat(kept).unique()
        try:
            yield
        finally:
            self.kept = None

    def _large(self, amplitudes: Tensor) -> Tensor:
        """Number the modes of a batch ``[B, J]`` that are not negligible."""
        # what a mode adds is exp(μs) − 1: of nearly zero rates amplitudes are large and cancel
        rates = self._on(amplitudes.device).rates
        moved = (rates.abs() * self._time.length).clamp(max=1)
        sizes = amplitudes.abs().amax(0) * moved
        return (sizes > NEGLECTED * sizes.max()).nonzero()[:, 0]

    def _amplitudes(self, functions: Mapping[str, InputFunction], device: torch.device) -> Tensor:
        """Take the initial data apart into modes: ``[B, J]``."""
        tables = self._on(device)
        axes = [torch.full((1,), self._time.low, dtype=torch.float64, device=device)]
        axes += tables.grid.axes()
        values = self._initial.on_grid(functions, axes)[:, 0]
        values = values.expand(-1, *map(len, axes[1:]), -1).movedim(-1, 1)
        parts = values.flatten(2).chunk(len(tables.data), 1)
        products = (
            part.flatten(1).to(table.dtype) @ table.mT
            for part, table in zip(parts, tables.data, strict=True)
        )
        return reduce(torch.add, products)

    def _on(self, device: torch.device) -> ModeTables:
        """Return the modes on a device, moved once."""
        if device not in self._tables:
            self._tables[device] = next(iter(self._tables.values())).to(device)
        return self._tables[device]


@lru_cache(KEPT_PROBLEMS)
def mode_tables(problem: Problem) -> ModeTables:
    """Find the modes of a linear evolution.

    Raises:
        NotSupportedError: If they are too ill-conditioned or grow too much, or it is not of this
            kind.
    """
    evolution = varying_evolution(problem.pde)
    sizes = (evolution.points,) * len(problem.space)
    grid = PeriodicGrid(problem.space, sizes, torch.device("cpu"))
    matrix = operator_matrix(problem, evolution, grid)
    eigenvalues, vectors = _real_where_possible(*_modes(matrix))
    inverse = torch.linalg.inv(vectors)
    condition = float(vectors.abs().sum(0).max() * inverse.abs().sum(0).max())
    if not condition < LARGEST_CONDITION:
        raise NotSupportedError(f"the modes of the equations are ill-conditioned ({condition:.0e})")
    # of each pair of conjugates one is enough: the solution is the real part of the sum
    one = (eigenvalues.imag >= 0).nonzero()[:, 0]
    weight = torch.where(eigenvalues[one].imag > 0, 2.0, 1.0)
    eigenvalues, vectors = eigenvalues[one], vectors[:, one]
    inverse = inverse[one] * weight[:, None]
    time = cast("Coordinate", problem.time).length
    own = torch.arange(len(one))
    if evolution.second:
        rates = torch.sqrt(eigenvalues)
        small = rates.abs() * time < math.sqrt(DEFECT)
        rates = torch.where(small, math.sqrt(DEFECT) / time, rates)
        # modes ±μ with values a and slopes b: (a ± b/μ)/2; conjugates of each other where μ = iω
        waves = (rates.real == 0) & (weight == 1.0)
        twice = (~waves).nonzero()[:, 0]
        factor = torch.where(waves, 1.0, 0.5)[:, None]
        slopes = inverse / rates[:, None]
        data = (
            torch.cat([factor * inverse, 0.5 * inverse[twice]]),
            torch.cat([factor * slopes, -0.5 * slopes[twice]]),
        )
        rates, own = torch.cat([rates, -rates[twice]]), torch.cat([own, own[twice]])
    else:
        rates, data = eigenvalues, (inverse,)
    growing = float(rates.real.max()) * time
    if growing > MOST_GROWTH:
        raise NotSupportedError(f"a mode of the equations grows by e^{growing:.0f}")
    values = vectors.mT.unflatten(1, (-1, *sizes)).movedim(1, 0)  # [rows, J, n, …]
    return ModeTables(grid, tuple(_shapes(v, grid) for v in values), rates, own, data)


def _modes(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors, which an earlier run may have kept if they take long."""
    if len(matrix) < LARGE:
        return torch.linalg.eig(matrix)
    key = user_cache.key_of("modes", sha256(matrix.numpy().tobytes()).hexdigest())
    parts = user_cache.read_tensors(key)
    if parts is None:
        values, vectors = (torch.view_as_real(found) for found in torch.linalg.eig(matrix))
        parts = {"values": values, "vectors": vectors}
        user_cache.write_tensors({key: parts})
    return torch.view_as_complex(parts["values"]), torch.view_as_complex(parts["vectors"])


def _real_where_possible(eigenvalues: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Replace conjugates that rounding alone makes of equal eigenvalues by two real vectors."""
    rounding = ROUNDING * eigenvalues.abs().max()
    first = ((eigenvalues.imag > 0) & (eigenvalues.imag < rounding)).nonzero()[:, 0]
    second = first + 1  # LAPACK puts conjugates side by side
    eigenvalues, vectors = eigenvalues.clone(), vectors.clone()
    eigenvalues[first] = eigenvalues[second] = eigenvalues[first].real.to(eigenvalues.dtype)
    vectors[:, second] = vectors[:, first].imag.to(vectors.dtype)
    vectors[:, first] = vectors[:, first].real.to(vectors.dtype)
    return eigenvalues, vectors


def _shapes(values: Tensor, grid: PeriodicGrid) -> ModeShapes:
    """Interpolate functions on a grid ``[J, n, …]`` by waves."""
    weight = torch.full((grid.modes[-1],), 2.0, dtype=torch.float64)
    weight[0] = 1.0  # the conjugates of all others are not in a half spectrum
    weight = (weight * grid.interior()).flatten()
    held = weight > 0

    def parts(part: Tensor) -> Tensor:
        spectrum = (grid.forward(part.contiguous()).flatten(1) * weight)[:, held]
        return torch.cat([spectrum.real, spectrum.imag], -1).mT.contiguous()

    waves = torch.stack([k.expand(grid.modes) for k in grid.wavenumbers()], -1)
    imaginary = None if not values.imag.any() else parts(values.imag)
    return ModeShapes(waves.flatten(0, -2)[held], parts(values.real), imaginary)


def operator_matrix(problem: Problem, evolution: VaryingEvolution, grid: PeriodicGrid) -> Tensor:
    """Collocate the operator ``[rows·points, rows·points]``, all points of a row together."""
    rows = 1 + max(t.row for t in evolution.terms)
    count = grid.points
    matrix = torch.zeros(rows, count, rows, count, dtype=torch.float64)
    known = KnownField(
        [t.coefficient for t in evolution.terms], (), [c.symbol for c in problem.coordinates]
    )
    axes = [torch.zeros(1, dtype=torch.float64), *grid.axes()]
    found = known.on_grid({}, axes)[0, 0].expand(*grid.sizes, -1).flatten(0, -2)
    for number, term in enumerate(evolution.terms):
        inner = found[:, number, None] * _derivative(grid, term.inner)
        matrix[term.row, :, term.column] += _derivative(grid, term.outer) @ inner
    return matrix.flatten(0, 1).flatten(1)


def _derivative(grid: PeriodicGrid, order: Sequence[int]) -> Tensor:
    """Return the matrix of a derivative of the interpolant through the points of a grid."""
    unit = torch.eye(grid.points, dtype=torch.float64).unflatten(1, grid.sizes)
    symbol = grid.derivative(order).expand(grid.modes)
    if any(n % 2 for n in order):
        symbol = symbol * grid.interior()
    return grid.backward(grid.forward(unit) * symbol).flatten(1).mT
