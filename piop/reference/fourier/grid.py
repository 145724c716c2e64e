"""Periodic grids: transforms between points and Fourier coefficients, operators on spectra.

The linear half of a split system becomes symbols: one number, or one small matrix, per wavenumber.

Conventions: points ``low + j·length/n`` (right end excluded); coefficients of e^{ikx} themselves
(``norm="forward"``), so spectra of different resolutions compare directly; half spectrum along the
last axis; the Nyquist mode, whose odd derivatives are ambiguous, is always zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from piop.errors import NotSupportedError
from piop.forms.linear_nonlinear_split import Polynomial, Split
from piop.linalg import invert
from piop.problem import Coordinate
from piop.reference.input_values import Sources

_HELD = 1e-28
"""Part of the power of a spectrum from which on a mode counts as held: rounding is below it."""


@dataclass(frozen=True)
class PeriodicGrid:
    """A periodic box.

    Attributes:
        space: Its axes.
        sizes: Points along each axis.
        device: Where tensors live.
    """

    space: tuple[Coordinate, ...]
    sizes: tuple[int, ...]
    device: torch.device

    def with_sizes(self, sizes: Sequence[int]) -> PeriodicGrid:
        """The same box with other numbers of points."""
        return replace(self, sizes=tuple(sizes))

    @property
    def dims(self) -> tuple[int, ...]:
        """The trailing tensor dimensions that are space."""
        return tuple(range(-len(self.sizes), 0))

    @property
    def modes(self) -> tuple[int, ...]:
        """Shape of a half spectrum."""
        return (*self.sizes[:-1], self.sizes[-1] // 2 + 1)

    def axes(self) -> tuple[Tensor, ...]:
        """Coordinates along each axis, each ``[n_i]``."""
        return tuple(
            c.low + c.length / n * torch.arange(n, dtype=torch.float64, device=self.device)
            for c, n in zip(self.space, self.sizes, strict=True)
        )

    def indices(self) -> tuple[Tensor, ...]:
        """Signed integer wavenumbers along each axis, broadcastable to ``modes``."""
        rank = len(self.sizes)
        out = []
        for i, n in enumerate(self.sizes):
            make = torch.fft.rfftfreq if i == rank - 1 else torch.fft.fftfreq
            index = make(n, 1 / n, dtype=torch.float64, device=self.device)
            out.append(index.reshape([-1 if j == i else 1 for j in range(rank)]))
        return tuple(out)

    def wavenumbers(self) -> tuple[Tensor, ...]:
        """Angular wavenumbers 2π·index/length along each axis (per unit of length)."""
        pairs = zip(self.space, self.indices(), strict=True)
        return tuple(2 * math.pi / c.length * index for c, index in pairs)

    def derivative(self, order: Sequence[int]) -> Tensor:
        """Symbol (ik)^order, complex, ``modes`` or broadcastable to it."""
        symbol = torch.ones((1,) * len(self.sizes), dtype=torch.complex128, device=self.device)
        for k, n in zip(self.wavenumbers(), order, strict=True):
            if n:
                symbol = symbol * (1j * k) ** n
        return symbol

    def interior(self) -> Tensor:
        """True where a mode is below Nyquist along every axis, ``modes``."""
        keep = torch.ones(self.modes, dtype=torch.bool, device=self.device)
        for index, n in zip(self.indices(), self.sizes, strict=True):
            keep = keep & (2 * index.abs() < n)
        return keep

    @property
    def points(self) -> int:
        """Number of points."""
        return math.prod(self.sizes)

    def forward(self, values: Tensor) -> Tensor:
        """Coefficients ``[..., *modes]`` of values ``[..., *sizes]``."""
        return self.sums(values).div_(self.points)

    def sums(self, values: Tensor) -> Tensor:
        """Coefficients times the number of points: a transform that saves the scaling."""
        if len(self.sizes) == 1:
            return torch.fft.rfft(values)
        return torch.fft.rfftn(values, dim=self.dims)

    def backward(self, spectrum: Tensor) -> Tensor:
        """Values ``[..., *sizes]`` of coefficients ``[..., *modes]``."""
        if len(self.sizes) == 1:
            return torch.fft.irfft(spectrum, n=self.sizes[0], norm="forward")
        return torch.fft.irfftn(spectrum, s=self.sizes, dim=self.dims, norm="forward")


def embed(spectrum: Tensor, source: PeriodicGrid, target: PeriodicGrid) -> Tensor:
    """Move coefficients to a grid with more or fewer points: pad with zeros or cut.

    Args:
        spectrum: ``[..., *source.modes]``.
        source: Grid of the coefficients.
        target: Grid wanted.

    Returns:
        ``[..., *target.modes]``, a copy that is zero at Nyquist.
    """
    out = spectrum.new_zeros((*spectrum.shape[: -len(source.sizes)], *target.modes))
    for block in _blocks(source.sizes, target.sizes):
        out[(..., *block)].copy_(spectrum[(..., *block)])
    return out


def _blocks(left: Sequence[int], right: Sequence[int]) -> list[tuple[slice, ...]]:
    """Index blocks of the shared modes, valid in both layouts (negative ones from the end)."""
    blocks: list[tuple[slice, ...]] = [()]
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        n = min(a, b)
        half = (n + 1) // 2  # 0 … half − 1: strictly below Nyquist
        parts = [slice(0, half)]
        if i < len(left) - 1 and half > 1:
            parts.append(slice(-(half - 1), None))
        blocks = [(*block, part) for block in blocks for part in parts]
    return blocks


def evaluate_on(spectrum: Tensor, source: PeriodicGrid, shape: Sequence[int]) -> Tensor:
    """Values of the trigonometric polynomial at ``shape`` points per axis.

    Points of a coarser grid are a subset of a finer one, so nothing is filtered.

    Args:
        spectrum: ``[..., *source.modes]``.
        source: Grid of the coefficients.
        shape: Points wanted along each axis.

    Returns:
        ``[..., *shape]``.
    """
    strides = [max(1, -(-n // m)) for n, m in zip(source.sizes, shape, strict=True)]
    fine = source.with_sizes([m * s for m, s in zip(shape, strides, strict=True)])
    values = fine.backward(embed(spectrum, source, fine))
    for dim, stride in zip(fine.dims, strides, strict=True):
        values = values[(..., slice(None, None, stride), *(slice(None),) * (-dim - 1))]
    return values.contiguous()


def power(spectrum: Tensor, grid: PeriodicGrid) -> Tensor:
    """Mean square over space, ``[...]`` of coefficients ``[..., *modes]`` (Parseval)."""
    # Half of the spectrum is stored, but all of the plane 0 of the last axis (Nyquist is zero).
    return 2 * _squares(spectrum, grid) - _squares(spectrum[..., :1], grid)


def tail(
    spectrum: Tensor,
    grid: PeriodicGrid,
    low: float = 0.9,
    high: float = 1.0,
    widths: Sequence[int] | None = None,
) -> Tensor:
    """Mean square held by modes in a band of relative wavenumber along each axis.

    Args:
        spectrum: ``[..., *modes]``.
        grid: Its grid.
        low: Lower edge of the band, as a fraction of Nyquist (included).
        high: Upper edge (excluded).
        widths: Least width of the band along each axis, in modes; see :func:`mode_gaps`.

    Returns:
        ``[..., d]``: the part along each axis.
    """
    parts = []
    for dim, n, width in zip(grid.dims, grid.sizes, widths or (0,) * len(grid.sizes), strict=True):
        last = min(math.ceil(high * n / 2), (n + 1) // 2)
        first = max(1, min(math.ceil(low * n / 2), last - width))
        count = max(0, last - first)
        band = spectrum.narrow(dim, first, count)
        if dim == -1:
            parts.append(2 * _squares(band, grid))
        else:  # negative wavenumbers stand at the end
            parts.append(power(band, grid) + power(spectrum.narrow(dim, n - last + 1, count), grid))
    return torch.stack(parts, -1)


def mode_gaps(spectrum: Tensor, grid: PeriodicGrid) -> list[int]:
    """Twice the widest gap between modes that a spectrum holds, along each axis; 0 without gaps.

    A solution of a symmetry may hold every fourth mode alone, so that narrower bands are empty
    wherever the spectrum ends. The next mode is at most twice as far as those that there are.

    Args:
        spectrum: ``[..., *modes]``.
        grid: Its grid.
    """
    gaps, squares = [], torch.view_as_real(spectrum).square().sum(-1)
    for dim, n in zip(grid.dims, grid.sizes, strict=True):
        others = [own for own in grid.dims if own != dim]
        held = squares.sum(others) if others else squares
        if dim != -1:  # negative wavenumbers stand at the end
            held = held[..., : n // 2 + 1] + held.roll(-1, -1).flip(-1)[..., : n // 2 + 1]
        held = held.flatten(0, -2)
        held = held > _HELD * held.sum(-1, keepdim=True)
        k = torch.arange(held.shape[-1], device=held.device)
        last = torch.where(held, k, 0).cummax(-1)[0]
        widest = int(((k[1:] - last[:, :-1]) * held[:, 1:]).amax())
        gaps.append(2 * widest if widest > 1 else 0)
    return gaps


def _squares(spectrum: Tensor, grid: PeriodicGrid) -> Tensor:
    dims = tuple(range(-len(grid.sizes) - 1, 0))
    return torch.linalg.vector_norm(torch.view_as_real(spectrum), dim=dims).square()


Table = dict[tuple[int, int], Tensor]
"""A sparse matrix of symbols: (row, column) → ``[B or 1, *modes]``."""


@final
class Multiplier:
    """A matrix of symbols acting on spectra, ``out[:, r] = Σ_c M[r, c] x[:, c]``.

    Args:
        pairs: Its entries that are not zero.
        rows: Number of rows.
        columns: Number of columns.
    """

    def __init__(self, pairs: Table, rows: int, columns: int) -> None:
        self.pairs, self.rows = pairs, rows
        square = rows == columns and set(self.pairs) == {(i, i) for i in range(rows)}
        self.diagonal = None
        if square and rows:
            entries = torch.broadcast_tensors(*(self.pairs[i, i] for i in range(rows)))
            self.diagonal = torch.stack(entries, 1)

    def __call__(self, x: Tensor) -> Tensor:
        """``M x``."""
        if self.diagonal is not None:
            return x * self.diagonal
        return self.add(x, x.new_zeros((x.shape[0], self.rows, *x.shape[2:])))

    def plus(self, base: Tensor, x: Tensor) -> Tensor:
        """``base + M x``."""
        if self.diagonal is not None:
            return torch.addcmul(base, x, self.diagonal)
        return self.add(x, base.clone())

    def add(self, x: Tensor, out: Tensor, first: int = 0) -> Tensor:
        """``out += M x``, in place; ``x`` holds some columns of it, from ``first`` on."""
        if self.diagonal is not None and not first:
            return out.addcmul_(x, self.diagonal)
        for (row, column), symbol in self.pairs.items():
            if first <= column < first + x.shape[1]:
                out[:, row].addcmul_(x[:, column - first], symbol)
        return out


@final
class Symbols:
    """Symbols of the linear operators of a system on one grid.

    Args:
        split: From ``split_linear``.
        means: Mean of each auxiliary unknown (its k = 0 mode where the equation leaves it free).
        grid: Resolution.
        points: Points of the grid where products are formed; their spectra come times this number
            (``PeriodicGrid.sums``), and prefactors take it out again.
        sources: Scalar inputs' values.

    Attributes:
        linear: (state, state) → symbol of the right side, mass removed.
        prefactors: (state, product) → symbol in front of each product, mass removed. Products that
            are the spectrum of an auxiliary unknown come after the pointwise ones.
        auxiliary: (auxiliary, channel) → symbol that fixes it from states and earlier ones.
        auxiliary_prefactors: (auxiliary, auxiliary product) → symbol.
        free: Which auxiliary unknowns have a free mean.
        late: Auxiliary unknowns that cannot dissolve into symbols.
        inverse_mass: (state, equation) → symbol of the inverse of the mass.

    Raises:
        NotSupportedError: A mass matrix or auxiliary operator that cannot be solved.
    """

    def __init__(
        self,
        split: Split,
        means: Sequence[float],
        grid: PeriodicGrid,
        points: int,
        sources: Sources,
    ) -> None:
        self.split, self.means, self.grid = split, means, grid
        self.points, self.sources = points, sources
        self.auxiliary: Table = {}
        self._inverses: list[Tensor] = []
        auxiliaries = range(len(split.channels) - split.states)
        self.free = [self._solve_auxiliary(i) for i in auxiliaries]
        self.inverse_mass, n = self._inverse_mass(), split.states
        rows = {k: self._symbol(p) for k, p in split.right.linear.items()}
        # An auxiliary unknown that is linear in the states dissolves into their symbols.
        self.late = nonlinear_auxiliaries(split, means)
        for i in reversed([i for i in auxiliaries if i not in self.late]):
            for row, column in list(rows):
                if column == n + i:
                    symbol = rows.pop((row, column))
                    for (a, source), s in self.auxiliary.items():
                        if a == i:
                            _accumulate(rows, (row, source), symbol * s)
        self._of_late = {key: rows.pop(key) for key in list(rows) if key[1] >= n}
        self.linear = multiply(self.inverse_mass, rows)

    @cached_property
    def prefactors(self) -> Table:
        """Those of products, computed when asked for: the linear part needs none of them."""
        products = self.split.right.products
        found: Table = {}
        for p, product in enumerate(products):
            for row, order, coefficient in product.places:
                symbol = self._symbol({order: coefficient}) / self.points
                _accumulate(found, (row, p), symbol)
        for (row, column), symbol in self._of_late.items():
            found[row, len(products) + self.late.index(column - self.split.states)] = symbol
        return multiply(self.inverse_mass, found)

    @cached_property
    def auxiliary_prefactors(self) -> Table:
        """Those of products in the equations of auxiliary unknowns."""
        found: Table = {}
        for p, product in enumerate(self.split.auxiliary.products):
            for i, order, coefficient in product.places:
                symbol = self._symbol({order: coefficient})
                _accumulate(found, (i, p), -self._inverses[i] * symbol / self.points)
        return found

    def _symbol(self, polynomial: Polynomial) -> Tensor:
        """Symbol ``[B or 1, *modes]`` of a constant-coefficient operator, zero at Nyquist."""
        grid, pad = self.grid, (1,) * len(self.grid.sizes)
        total = torch.zeros((1, *grid.modes), dtype=torch.complex128, device=grid.device)
        for order, coefficient in polynomial.items():
            value = self.sources.scalar(coefficient)
            value = torch.as_tensor(value, dtype=torch.float64, device=grid.device)
            total = total + value.reshape(-1, *pad) * grid.derivative(order)
        return total * grid.interior()

    def _solve_auxiliary(self, i: int) -> bool:
        """Solve the equation of an auxiliary unknown for it; return whether its mean is free."""
        split, n = self.split, self.split.states
        row = {c: p for (r, c), p in split.auxiliary.linear.items() if r == i}
        name = split.channels[n + i].name
        operator = self._symbol(row.pop(n + i))
        zero = (operator == 0) & self.grid.interior()
        origin = (slice(None), *(0,) * len(self.grid.sizes))
        free = bool(zero[origin].any())
        zero[origin] = False
        if zero.any():
            raise NotSupportedError(
                f"the operator on '{name}' vanishes at a wavenumber other than 0"
            )
        inverse = torch.where(operator == 0, 0, 1 / torch.where(operator == 0, 1, operator))
        for column, polynomial in row.items():
            self.auxiliary[i, column] = -inverse * self._symbol(polynomial)
        self._inverses.append(inverse)
        return free

    def _inverse_mass(self) -> Table:
        grid, keep = self.grid, self.grid.interior()
        mass = {k: self._symbol(p) for k, p in self.split.mass.items()}
        rows = [r for r, _ in mass]
        if len(set(rows)) == len(rows) == self.split.states == len({c for _, c in mass}):
            for (row, column), symbol in mass.items():
                if bool(((symbol == 0) & keep).any()):
                    name = self.split.channels[column].name
                    raise NotSupportedError(
                        f"equation {row + 1} does not fix the time derivative of {name}"
                    )
            return {(c, r): keep / torch.where(keep, s, 1) for (r, c), s in mass.items()}
        n = self.split.states
        full = torch.zeros((1, *grid.modes, n, n), dtype=torch.complex128, device=grid.device)
        for (r, c), s in mass.items():
            full = full.expand(max(len(full), len(s)), *full.shape[1:]).clone()
            full[..., r, c] = s
        full = torch.where(
            keep[..., None, None], full, torch.eye(n, dtype=full.dtype, device=grid.device)
        )
        inverse, info = invert(full)
        if bool(info.any()) or not bool(torch.isfinite(inverse.real).all()):
            raise NotSupportedError("the equations cannot be solved for the time derivatives")
        return {(r, c): inverse[..., r, c] * keep for r in range(n) for c in range(n)}


def nonlinear_auxiliaries(split: Split, means: Sequence[float]) -> list[int]:
    """Auxiliary unknowns that cannot dissolve into symbols: they hold products or a mean."""
    late: list[int] = []
    for i, mean in enumerate(means):
        rows = any(row == i for p in split.auxiliary.products for row, _, _ in p.places)
        earlier = any(r == i and c - split.states in late for r, c in split.auxiliary.linear)
        if rows or mean or earlier:
            late.append(i)
    return late


def multiply(left: Table, right: Table) -> Table:
    """The product of two matrices of symbols."""
    out: Table = {}
    for (r, m), a in left.items():
        for (k, c), b in right.items():
            if m == k:
                _accumulate(out, (r, c), a * b)
    return out


def _accumulate(table: Table, key: tuple[int, int], value: Tensor) -> None:
    table[key] = table[key] + value if key in table else value
