"""A periodic evolution: split and compiled once, discretised for time stepping on each level."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from piop.forms.linear_nonlinear_split import split_linear
from piop.reference.fourier.grid import Pairs, PeriodicGrid
from piop.reference.fourier.nonlinear import Nonlinear, stabilise
from piop.reference.fourier.products import NonlinearTerm, compile_products
from piop.reference.fourier.symbols import Symbols, build_symbols
from piop.reference.fourier.time_stepping import (
    ETDRK4,
    SpectralLevel,
    SpectralStepper,
    coupled_coefficients,
    pairs_of,
    scalar_coefficients,
)
from piop.reference.input_values import Sources

_DEFAULT_DEGREE = 3  # padding for products that are no polynomial: twice the points


@final
class Discretisation:
    """A problem, split and compiled.

    Args:
        sources: An evolution problem, periodic along every space axis, with its inputs.
    """

    def __init__(self, sources: Sources) -> None:
        self.problem = problem = sources.problem
        self.split = split_linear(problem.pde)
        self.main = compile_products(problem, self.split, self.split.right)
        self.auxiliary = compile_products(problem, self.split, self.split.auxiliary)
        self.means = tuple(float(a.mean or 0.0) for a in problem.auxiliaries)
        self.sources, self.start = sources, sources.start
        lows = tuple(float(c.low) for c in problem.space)
        lengths = tuple(float(c.high - c.low) for c in problem.space)
        self.box = PeriodicGrid(lows, lengths, (2,) * len(lows), sources.device)

    def label(self, channel: int) -> str:
        """Return the name of the time derivative of a state."""
        return self.split.channels[channel].label(self.problem.coordinates[0].name)

    @property
    def order_in_time(self) -> float:
        """Order to credit: 3.5, or 2 where a product holds second derivatives in all (stiff)."""
        inner = max((sum(o) + self._lift(c) for c, o in self.main.unknowns), default=0)
        places = [o for p in self.split.right.products for _, o, _ in p.places]
        outer = max((sum(o) for o in places), default=0)
        return 3.5 if inner + outer <= 1 else 2.0

    def _lift(self, channel: int) -> int:
        """Derivatives of a state that a channel stands for: −2 for ψ where −Δψ = w."""
        row, split = channel - self.split.states, self.split.auxiliary
        if row < 0 or any(r == row for p in split.products for r, _, _ in p.places):
            return 0
        orders = {c: max(map(sum, p)) for (r, c), p in split.linear.items() if r == row}
        own = orders.pop(channel, 0)
        states = all(c < self.split.states for c in orders)
        return max(orders.values()) - own if orders and states else 0

    def initial(self, grid: PeriodicGrid, sources: Sources) -> Tensor:
        """Spectra of the initial state ``[B, states, *modes]``, zero at Nyquist."""
        fields = [
            sources.field(self.problem.initial[c.name][c.time_order], grid.axes(), self.start)
            for c in self.split.channels[: self.split.states]
        ]
        return grid.forward(torch.stack(fields, 1)) * grid.interior()

    def stepper(self, level: SpectralLevel, sources: Sources) -> SpectralStepper:
        """Discretise at a level for the instances in ``sources``."""
        grid = self.box.with_sizes(level.sizes)
        fine = grid.with_sizes(self._padded(level.sizes)) if level.padded else grid
        n = self.split.states
        symbols = build_symbols(self.split, self.means, grid, fine.points, sources)
        main = NonlinearTerm(self.main, symbols, fine, n) if self.split.right.products else None
        extra = (
            NonlinearTerm(self.auxiliary, symbols, fine, n)
            if self.split.auxiliary.products
            else None
        )
        nonlinear = Nonlinear(self.split, symbols, main, extra)
        if main is not None:
            stabilise(nonlinear, self.initial(grid, sources), self.start)
        return SpectralStepper(grid, nonlinear, lambda h: self._scheme(symbols, nonlinear, grid, h))

    def _padded(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        degrees = [_DEFAULT_DEGREE if d is None else d for d in self.main.degrees]
        factor = (max([1, *degrees]) + 1) / 2
        return tuple(2 * -(-round(n * factor) // 2) for n in sizes)

    def _scheme(
        self, symbols: Symbols, nonlinear: Nonlinear, grid: PeriodicGrid, h: float
    ) -> ETDRK4:
        n, products = self.split.states, nonlinear.products
        linear, keep = symbols.linear, grid.interior()
        if all(r == c for r, c in linear):
            zero = torch.zeros((1, *grid.modes), dtype=torch.complex128, device=grid.device)
            entries = torch.broadcast_tensors(*(linear.get((i, i), zero) for i in range(n)))
            raw = scalar_coefficients(torch.stack(entries, 1), h)
            tables = {k: pairs_of(v, scalar=True) for k, v in raw.items()}
        else:
            batch = max(len(s) for s in linear.values())
            shape = (batch, *grid.modes, n, n)
            blocks = torch.zeros(shape, dtype=torch.complex128, device=grid.device)
            for (r, c), symbol in linear.items():
                blocks[..., r, c] = symbol
            tables = {
                k: pairs_of(v, scalar=False) for k, v in coupled_coefficients(blocks, h).items()
            }
        folded: dict[str, Pairs] = {
            k: {i: s * keep for i, s in tables[k].items()} for k in ("E", "E2")
        }
        for name in ("Q", "f1", "f2", "f3"):
            out: dict[tuple[int, int], Tensor] = {}
            for (r, m), a in tables[name].items():
                for (state, p), b in nonlinear.prefactors.items():
                    if m == state:
                        out[r, p] = out[r, p] + a * b if (r, p) in out else a * b
            folded[name] = out
        return ETDRK4(folded, n, products, h)
