"""The exact solution of the linear part of an evolution, as part of hard initial conditions.

u0 becomes u0 + (exp((t − t0)·R) − 1) u0, R the linear part: what a network adds is then the effect
of everything else, and zero for a linear problem without sources (``docs/math.md``, 17).

Source: own; exp(t·R) is the integrating factor of exponential integrators, Cox & Matthews 2002,
sec. 2 (doi:10.1006/jcph.2002.6995).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self, cast, final

import torch
from torch import Tensor

from piop.domain import Coordinate
from piop.fields import Device, InputFunction, chunks
from piop.forms.linear_evolution import linear_evolution
from piop.problem import Problem
from piop.reference.fourier.grid import PeriodicGrid, Symbols, Table
from piop.reference.input_values import Sources
from piop.residual import DerivedFunctions, KnownField
from piop.training.loss.linear_inversion import derived_input

POINTS = {1: 256, 2: 64, 3: 32}
"""Points per axis, by their number, at which initial data are transformed; higher waves stay."""
NEGLECTED = 1e-8
"""Size of a wave relative to the largest of a batch below which it stays as it is."""
DEFECT = 1e-8
"""What is added, about, to the entries of a symbol without a basis of eigenvectors, in units of the
time axis: the solution over its length T moves by as much, relatively."""
MOST_VALUES = 2**17
"""Values of waves at points held in memory at once."""
GOLDEN = (math.sqrt(5) - 1) / 2
BASIS_CONDITION = 1e6
"""Condition number from which on eigenvectors count as no basis."""


@final
@dataclass(frozen=True)
class Waves(InputFunction):
    """Re Σ_j a_j exp(μ_j s + i k_j·(x − x0)) less its Taylor polynomial at s = 0; s = t − t0.

    Attributes:
        amplitudes: a ``[B, J]`` complex.
        rates: μ ``[J]`` complex, inverse units of t.
        wave_vectors: k ``[J, d]``, inverse units of x.
        origin: t0, x0 ``[1 + d]``.
        order: Terms of the polynomial that are taken away.
    """

    amplitudes: Tensor
    rates: Tensor
    wave_vectors: Tensor
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
        """Evaluate several derivatives, whose waves are the same: see the base class."""
        moved = points.double() - self.origin
        total = moved.new_zeros(len(orders), max(self.batch, len(points)), points.shape[1])
        for part in chunks(len(self.rates), points.shape[0] * points.shape[1], MOST_VALUES):
            total = total + self._sums(moved, orders, part)
        return [*total.to(points.dtype).unbind()]

    def _sums(self, moved: Tensor, orders: Sequence[Sequence[int]], part: slice) -> Tensor:
        """Sum some of the waves at points relative to the origin: ``[orders, B, N]``."""
        rates, waves = self.rates[part], self.wave_vectors[part]
        in_space = unit_waves(moved[..., 1:] @ waves.mT)
        in_time = growth(moved[..., :1], rates, {order[0] for order in orders}, self.order)
        moving = {times: values * in_space for times, values in in_time.items()}
        found = []
        for times, *others in orders:
            weights = differentiated(self.amplitudes[:, part], waves, others)
            found.append((moving[times] @ weights[..., None])[..., 0].real)
        return torch.stack(found)

    def take(self, index: Tensor) -> Self:
        """See the base class."""
        return replace(self, amplitudes=self.amplitudes[index])

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device; the precision stays double, since phases grow with time."""
        names = ("amplitudes", "rates", "wave_vectors", "origin")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def unit_waves(phase: Tensor) -> Tensor:
    """Return exp(i phase), in a fifth of the time of a complex exponential."""
    return torch.complex(phase.cos(), phase.sin())


def differentiated(values: Tensor, wave_vectors: Tensor, order: Sequence[int]) -> Tensor:
    """Multiply waves, or their amplitudes, by (i k)^n along each axis.

    Args:
        values: One for each wave ``[…, K]``.
        wave_vectors: k ``[K, d]``.
        order: n, of the derivative along each axis.
    """
    for column, n in enumerate(order):
        values = values * (1j * wave_vectors[:, column]) ** n
    return values


def growth(
    since: Tensor, rates: Tensor, derivatives: Collection[int], order: int
) -> dict[int, Tensor]:
    """Differentiate exp(μs), less the first terms of its Taylor series.

    Args:
        since: s ``[…, 1]``.
        rates: μ ``[J]`` complex.
        derivatives: How often, for each result.
        order: How many terms are taken away, at most 2.

    Returns:
        ``[…, J]`` for each number of ``derivatives``.
    """
    whole, found = (since * rates.real).exp() * unit_waves(since * rates.imag), {}
    for derivative in derivatives:
        values = rates**derivative * whole
        for k in range(derivative, order):  # (μs)^k / k!
            values = values - rates**k * _monomial(since, k - derivative)
        found[derivative] = values
    return found


def _monomial(base: Tensor, power: int) -> Tensor:
    """Return base^n / n!, n at most 1."""
    return base if power else torch.ones_like(base)


@final
class LinearPropagation(DerivedFunctions):
    """What the linear part of an evolution makes of initial data, less these data.

    Args:
        problem: An evolution; all of its initial data are hard constraints.

    Attributes:
        inputs: One function of time and space per channel.
        needs: The names of the inputs of the problem that the initial data contain.
        kept: Numbers of the waves that are propagated; None for those that the initial data have.

    Raises:
        NotSupportedError: If the waves of its linear part do not evolve independently.
    """

    def __init__(self, problem: Problem) -> None:
        linear = linear_evolution(problem.pde)
        self._problem, self._split, self._extensions = problem, linear.split, linear.extensions
        self.kept: Tensor | None = None
        self._time = cast("Coordinate", problem.time)  # linear_evolution refuses steady problems
        split, coordinates = linear.split, [c.symbol for c in problem.coordinates]
        data = [problem.initial[c.name][c.time_order] for c in split.channels[: split.states]]
        self._initial = KnownField(data, problem.inputs, coordinates)
        self.needs = self._initial.names
        self.inputs = tuple(derived_input(problem, name) for name in problem.channels)
        box = tuple(
            _doubled(c) if e != "periodic" else c
            for c, e in zip(problem.space, linear.extensions, strict=True)
        )
        self._grid = PeriodicGrid(box, (POINTS[len(box)],) * len(box), torch.device("cpu"))
        means = [a.mean for a in problem.pde.auxiliaries]
        sources = Sources(problem, {}, self._grid.device)
        self._symbols = Symbols(split, means, self._grid, 1, sources)
        states = symbol_matrices(self._symbols.linear, self._grid, (split.states, split.states))
        rates, vectors = eigenvectors(states, self._time.length, split.state_orders)
        lifted = torch.cat([vectors, self._auxiliaries() @ vectors], 1)
        row = {(c.name, c.time_order): i for i, c in enumerate(split.channels)}
        self._rows = [row[name, 0] for name in problem.channels]
        self._tables = (rates, lifted, torch.linalg.inv(vectors), self._wave_vectors())

    def __call__(
        self, functions: Mapping[str, InputFunction], device: torch.device
    ) -> dict[str, InputFunction]:
        """Propagate the initial data that functions give: see the base class."""
        spectrum = self._spectrum(functions, device)  # [B, K, S]
        kept = _large_waves(spectrum) if self.kept is None else self.kept.to(device)
        rates, lifted, inverse, waves = (t.to(device)[kept] for t in self._tables)
        parts = torch.einsum("kms,bks->bkm", inverse, spectrum[:, kept])
        waves = waves.repeat_interleave(rates.shape[1], 0)
        low = [c.low for c in self._problem.coordinates]
        origin = torch.tensor(low, dtype=torch.float64, device=device)
        found = {}
        for entry, name, row in zip(self.inputs, self._problem.channels, self._rows, strict=True):
            amplitudes = (lifted[:, row] * parts).flatten(1)
            order = len(self._problem.initial.get(name, ()))
            found[entry.name] = Waves(amplitudes, rates.flatten(), waves, origin, order)
        return found

    @contextmanager
    def fixed_for(self, *batches: Mapping[str, InputFunction]) -> Iterator[None]:
        """Propagate the waves that any of these functions has: see the base class."""
        device = self._grid.device
        kept = [_large_waves(self._spectrum(functions, device)) for functions in batches]
        self.kept = torch.cat(kept).unique()
        try:
            yield
        finally:
            self.kept = None

    def exponents(self, waves: int) -> tuple[float, float]:
        """Return the least and the most damping of a wave over the time axis, as exponents.

        Args:
            waves: Length of the wave vectors of the shortest waves that count, in periods over an
                axis.
        """
        rates, vectors = self._tables[0], self._tables[3]
        lengths = torch.tensor([c.length for c in self._grid.space], dtype=torch.float64)
        periods = torch.linalg.vector_norm(vectors * lengths / (2 * math.pi), dim=-1)
        damping = -rates[periods < waves + 1e-6].real * self._time.length
        return float(damping.min()), float(damping.max())

    def _spectrum(self, functions: Mapping[str, InputFunction], device: torch.device) -> Tensor:
        """Transform the initial data, weighed for a sum over half of the waves: ``[B, K, S]``."""
        axes = [torch.full((1,), self._time.low, dtype=torch.float64, device=device)]
        for axis, extension in zip(self._grid.axes(), self._extensions, strict=True):
            own = axis if extension == "periodic" else axis[: len(axis) // 2 + 1]
            axes.append(own.to(device))
        values = self._initial.on_grid(functions, axes)[:, 0]
        values = values.expand(-1, *map(len, axes[1:]), -1).movedim(-1, 1)
        for dim, extension in enumerate(self._extensions, start=2):
            if extension != "periodic":
                inside = values.narrow(dim, 1, values.shape[dim] - 2).flip(dim)
                values = torch.cat([values, -inside if extension == "odd" else inside], dim)
        found = self._grid.forward(values) * self._grid.interior().to(device)
        weight = torch.full((self._grid.modes[-1],), 2.0, dtype=torch.float64, device=device)
        weight[0] = 1.0  # the conjugates of all others are not in a half spectrum
        return (found * weight).flatten(2).mT

    def _auxiliaries(self) -> Tensor:
        """Return what auxiliary unknowns are of the states: ``[K, auxiliaries, S]``."""
        states, count = self._split.states, len(self._split.channels) - self._split.states
        own = {k: s for k, s in self._symbols.auxiliary.items() if k[1] < states}
        solved = symbol_matrices(own, self._grid, (count, states))
        for (row, column), symbol in self._symbols.auxiliary.items():
            if column >= states:  # an earlier auxiliary unknown
                factor = symbol.expand(1, *self._grid.modes).flatten()[:, None]
                solved[:, row] += factor * solved[:, column - states]
        return solved

    def _wave_vectors(self) -> Tensor:
        """Return the wave vectors of a half spectrum ``[K, d]``."""
        axes = [k.expand(self._grid.modes) for k in self._grid.wavenumbers()]
        return torch.stack(axes, -1).flatten(0, -2)


def _large_waves(spectrum: Tensor) -> Tensor:
    """Number the waves of a batch ``[B, K, S]`` that are not negligible."""
    sizes = spectrum.abs().amax((0, 2))
    return (sizes > NEGLECTED * sizes.max()).nonzero()[:, 0]


def symbol_matrices(table: Table, grid: PeriodicGrid, shape: tuple[int, int]) -> Tensor:
    """Turn a table of symbols into matrices ``[K, rows, columns]`` for the waves of a grid.

    Args:
        table: The symbols.
        grid: The grid.
        shape: Rows and columns.
    """
    full = torch.zeros(math.prod(grid.modes), *shape, dtype=torch.complex128)
    for (row, column), symbol in table.items():
        full[:, row, column] = symbol.expand(1, *grid.modes).flatten()
    return full


def eigenvectors(matrices: Tensor, time: float, orders: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Diagonalise the symbol of a linear part.

    Args:
        matrices: ``[K, S, S]`` complex128, from states to their rates of change.
        time: Length of the time axis.
        orders: Of which derivative in time of an unknown each state is ``[S]``.

    Returns:
        Rates ``[K, S]`` and vectors ``[K, S, S]``.
    """
    rates, vectors = torch.linalg.eig(matrices)
    defective = torch.linalg.cond(vectors) > BASIS_CONDITION
    if defective.any():
        moved = matrices[defective] + _generic_matrix(time, orders).to(matrices)
        rates[defective], vectors[defective] = torch.linalg.eig(moved)
    return rates, vectors


def _generic_matrix(time: float, orders: Sequence[int]) -> Tensor:
    """Return a small matrix ``[S, S]`` that gives any symbol a basis of eigenvectors.

    Whatever states drive whatever others, and however often: its entries, from 1 to 2 times
    :data:`DEFECT`, are multiples n² of the golden ratio modulo one, so that no rows are related.
    """
    count, order = len(orders), torch.tensor(orders, dtype=torch.float64)
    fractions = (torch.arange(1, count**2 + 1, dtype=torch.float64).square() * GOLDEN).remainder(1)
    units = time ** (order - order[:, None] - 1)
    return DEFECT * (1 + fractions.reshape(count, count)) * units


def _doubled(axis: Coordinate) -> Coordinate:
    """Return the period of the extension beyond an axis with walls."""
    return replace(axis, high=axis.high + axis.length, periodic=True)
