"""The linear half of a split system as symbols: one number, or one small matrix, per wavenumber."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from piop.errors import NotSupportedError
from piop.forms.linear_nonlinear_split import Polynomial, Split
from piop.linalg import invert
from piop.reference.fourier.grid import PeriodicGrid, Table
from piop.reference.input_values import Sources


@dataclass(frozen=True)
class Symbols:
    """Symbols of the linear operators of a system on one grid.

    Attributes:
        linear: (state, state) → symbol of the right side, mass removed.
        points: Points of the grid where products are formed; their spectra come times this number
            (``Grid.sums``), and ``prefactors`` and ``auxiliary_prefactors`` take it out again.
        prefactors: (state, product) → symbol in front of each product, mass removed. Products that
            are the spectrum of an auxiliary unknown come after the pointwise ones.
        auxiliary: (auxiliary, channel) → symbol that fixes it from states and earlier ones.
        auxiliary_prefactors: (auxiliary, auxiliary product) → symbol.
        means: Mean of each auxiliary unknown (its k = 0 mode where the equation leaves it free).
        free: Which auxiliary unknowns have that freedom.
    """

    linear: Table
    points: int
    prefactors: Table
    auxiliary: Table
    auxiliary_prefactors: Table
    means: tuple[float, ...]
    free: tuple[bool, ...]
    grid: PeriodicGrid
    sources: Sources


def polynomial_symbol(polynomial: Polynomial, grid: PeriodicGrid, sources: Sources) -> Tensor:
    """Symbol ``[B or 1, *modes]`` of a constant-coefficient operator, zero at Nyquist."""
    total = torch.zeros((1, *grid.modes), dtype=torch.complex128, device=grid.device)
    for order, coefficient in polynomial.items():
        value = sources.scalar(coefficient)
        shaped = value.reshape(-1, *(1,) * len(grid.sizes)) if isinstance(value, Tensor) else value
        total = total + shaped * grid.derivative(order)
    return total * grid.interior()


def build_symbols(
    split: Split, means: tuple[float, ...], grid: PeriodicGrid, points: int, sources: Sources
) -> Symbols:
    """Evaluate a split's operators on a grid.

    Args:
        split: From ``split_linear``.
        means: Gauge of each auxiliary unknown.
        grid: Resolution.
        points: Points of the grid where products are formed.
        sources: Scalar inputs' values.

    Raises:
        NotSupportedError: A mass matrix or auxiliary operator that cannot be solved.
    """
    n = split.states
    auxiliary, auxiliary_prefactors, free = _auxiliary(split, grid, points, sources)
    inverse = _inverse_mass(split, grid, sources)
    rows = {k: polynomial_symbol(p, grid, sources) for k, p in split.right.linear.items()}
    # An auxiliary unknown that is linear in the states dissolves into their symbols.
    late = nonlinear_auxiliaries(split, means)
    for i in reversed(range(len(split.channels) - n)):
        if i in late:
            continue
        for (row, column), symbol in list(rows.items()):
            if column == n + i:
                del rows[row, column]
                for (a, source), s in auxiliary.items():
                    if a == i:
                        _accumulate(rows, (row, source), symbol * s)
    products = len(split.right.products)
    prefactors: Table = {}
    for p, product in enumerate(split.right.products):
        for row, order, coefficient in product.places:
            symbol = polynomial_symbol({order: coefficient}, grid, sources)
            _accumulate(prefactors, (row, p), symbol / points)
    for row, column in list(rows):
        if column >= n:
            prefactors[row, products + late.index(column - n)] = rows.pop((row, column))
    return Symbols(
        multiply(inverse, rows),
        points,
        multiply(inverse, prefactors),
        auxiliary,
        auxiliary_prefactors,
        means,
        free,
        grid,
        sources,
    )


def nonlinear_auxiliaries(split: Split, means: tuple[float, ...]) -> list[int]:
    """Auxiliary unknowns that cannot dissolve into symbols: they hold products or a mean."""
    late: list[int] = []
    for i, mean in enumerate(means):
        rows = any(row == i for p in split.auxiliary.products for row, _, _ in p.places)
        earlier = any(r == i and c - split.states in late for r, c in split.auxiliary.linear)
        if rows or mean or earlier:
            late.append(i)
    return late


def _auxiliary(
    split: Split, grid: PeriodicGrid, points: int, sources: Sources
) -> tuple[Table, Table, tuple[bool, ...]]:
    n = split.states
    solved: Table = {}
    prefactors: Table = {}
    free: list[bool] = []
    for i in range(len(split.channels) - n):
        row = {c: p for (r, c), p in split.auxiliary.linear.items() if r == i}
        name = split.channels[n + i].name
        if n + i not in row or any(c > n + i for c in row):
            raise NotSupportedError(f"the auxiliary equation of '{name}' must fix it by itself")
        operator = polynomial_symbol(row.pop(n + i), grid, sources)
        zero = (operator == 0) & grid.interior()
        origin = (slice(None), *(0,) * len(grid.sizes))
        free.append(bool(zero[origin].any()))
        zero[origin] = False
        if zero.any():
            raise NotSupportedError(
                f"the operator on '{name}' vanishes at a wavenumber other than 0"
            )
        inverse = torch.where(operator == 0, 0, 1 / torch.where(operator == 0, 1, operator))
        for column, polynomial in row.items():
            solved[i, column] = -inverse * polynomial_symbol(polynomial, grid, sources)
        for p, product in enumerate(split.auxiliary.products):
            for r, order, coefficient in product.places:
                if r == i:
                    symbol = polynomial_symbol({order: coefficient}, grid, sources)
                    _accumulate(prefactors, (i, p), -inverse * symbol / points)
    return solved, prefactors, tuple(free)


def _inverse_mass(split: Split, grid: PeriodicGrid, sources: Sources) -> Table:
    mass = {k: polynomial_symbol(p, grid, sources) for k, p in split.mass.items()}
    rows = [r for r, _ in mass]
    keep = grid.interior()
    if len(set(rows)) == len(rows) == split.states == len({c for _, c in mass}):
        for (row, column), symbol in mass.items():
            if bool(((symbol == 0) & keep).any()):
                name = split.channels[column].name
                raise NotSupportedError(
                    f"equation {row + 1} does not fix the time derivative of {name}"
                )
        return {(c, r): keep / torch.where(keep, s, 1) for (r, c), s in mass.items()}
    n = split.states
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
