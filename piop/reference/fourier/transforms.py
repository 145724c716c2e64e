"""Pseudo-spectral evaluation of pointwise products: to points, multiply, back to coefficients.

On a grid with (p + 1)/2 times as many points the product of degree p is free of aliasing in the
modes kept. Where the spectrum's tail is resolved the plain grid gives the same and costs less; the
2/3 rule is not offered, because it throws away modes that were resolved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from piop.forms.evolution import Order
from piop.reference.fourier.grid import PeriodicGrid, copy_modes
from piop.reference.fourier.products import PointwiseProducts
from piop.reference.fourier.symbols import Symbols


@final
class Stage:
    """Evaluates one system's products on one grid.

    Args:
        pointwise: Compiled products.
        symbols: The system's symbols on the grid of the coefficients.
        fine: Grid of the points: that grid itself, or a padded one.
        states: Number of states; channels from there on are auxiliary unknowns.
    """

    def __init__(
        self, pointwise: PointwiseProducts, symbols: Symbols, fine: PeriodicGrid, states: int
    ) -> None:
        self.pointwise, self.fine = pointwise, fine
        self.grid, self.sources = symbols.grid, symbols.sources
        self.readers = [_reader(c, o, symbols, states) for c, o in pointwise.unknowns]
        self.needs_auxiliary = any(c >= states for c, _ in self.readers)
        plain = [(i, None) for i in range(states)]
        self.straight = self.readers == plain  # the states themselves, in order: nothing to copy
        self.shifts: list[
            tuple[int, int, Tensor]
        ] = []  # (product, argument, coefficient): stabilise
        self._flat = (
            len(fine.sizes) == 1 or fine is self.grid
        )  # an inverse transform pads by itself
        self._known: tuple[float, list[Tensor], list[Tensor]] | None = None
        self._still: Tensor | None = None

    def known(self, t: float) -> list[Tensor]:
        """Arguments that are no unknowns; only those that move are evaluated again."""
        if self._known is not None and (self._known[0] == t or not self.pointwise.moving):
            return [*self._known[1], *self._known[2]]
        s, fine, pad = self.sources, self.fine, (1,) * len(self.fine.sizes)
        inputs = zip(self.pointwise.inputs, self.pointwise.timed, strict=True)
        if self._known is None:
            values = [s.on_grid(a, o, fine, t) for (a, o), _ in inputs]
            values += [v.reshape(-1, *pad) for v in s.scalar_values()]
            values += [s.coordinate(i, fine) for i in range(len(fine.sizes))]
            values.append(torch.full((1, *pad), t, dtype=torch.float64, device=s.device))
            static = list(self.pointwise.static(values))
        else:
            values, static = list(self._known[1]), self._known[2]
            for i, ((atom, order), moves) in enumerate(inputs):
                if moves:
                    values[i] = s.on_grid(atom, order, fine, t)
            values[-1] = torch.full_like(values[-1], t)
        self._known = (t, values, static)
        return [*values, *static]

    def atoms(self, channels: Sequence[Tensor], whole: Tensor) -> list[Tensor]:
        """Unknown atoms at the points, each ``[B, *fine.sizes]``."""
        if not self.readers:
            return []
        spectra = whole
        if not self.straight:
            spectra = whole.new_empty((len(whole), len(self.readers), *self.grid.modes))
            for i, (channel, symbol) in enumerate(self.readers):
                if symbol is None:
                    spectra[:, i].copy_(channels[channel])
                else:
                    torch.mul(channels[channel], symbol, out=spectra[:, i])
        if self.fine is not self.grid and len(self.grid.sizes) > 1:
            padded = spectra.new_zeros((*spectra.shape[:2], *self.fine.modes))
            copy_modes(spectra, padded, self.grid, self.fine)
            spectra = padded
        return list(self.fine.backward(spectra).unbind(1))

    def products(self, atoms: list[Tensor], t: float, batch: int) -> Tensor:
        """Products that move, at the points ``[B, P, *fine.sizes]``."""
        values = list(self.pointwise.compute([*atoms, *self.known(t)]))
        for product, argument, coefficient in self.shifts:
            values[product] = values[product] - coefficient * atoms[argument]
        return self._together(values, batch)

    def _together(self, values: Sequence[Tensor], batch: int) -> Tensor:
        values = [v.expand(batch, *self.fine.sizes) for v in values]
        return values[0].unsqueeze(1) if len(values) == 1 else torch.stack(values, 1)

    def __call__(self, channels: Sequence[Tensor], whole: Tensor, t: float) -> Tensor:
        """Spectra of the products times ``fine.points`` ``[B, P, *modes]``; Nyquist not cleared."""
        parts = [self.moving(channels, whole, t), self.still(whole, t)]
        parts = [p for p in parts if p is not None]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def moving(self, channels: Sequence[Tensor], whole: Tensor, t: float) -> Tensor | None:
        """Those of the products that move, which come first; None where all stand still."""
        if self.pointwise.square and self.straight and not self.shifts and self._flat:
            values = self.fine.backward(whole)
            return self._cut(self.fine.sums(values.square_()))
        if not self.pointwise.products:
            return None
        points = self.products(self.atoms(channels, whole), t, len(whole))
        return self._cut(self.fine.sums(points))

    def still(self, whole: Tensor, t: float) -> Tensor | None:
        """Those of the products that stand still, computed once; None where all move."""
        if self._still is None or len(self._still) != len(whole):
            parts = []
            if self.pointwise.stills:
                self.known(t)
                values = self.pointwise.still(self._known[1])  # type: ignore[index]
                parts.append(self._cut(self.fine.sums(self._together(values, len(whole)))))
            ones = whole.new_zeros((len(whole), self.pointwise.constants, *self.grid.modes))
            ones[(..., *(0,) * len(self.grid.sizes))] = self.fine.points
            self._still = torch.cat([*parts, ones], 1)
        return self._still if self._still.shape[1] else None

    def _cut(self, spectra: Tensor) -> Tensor:
        if self.fine is self.grid:
            return spectra
        if len(self.grid.sizes) == 1:
            return spectra[..., : self.grid.modes[-1]]
        out = spectra.new_zeros((*spectra.shape[:2], *self.grid.modes))
        copy_modes(spectra, out, self.fine, self.grid)
        return out


def _reader(channel: int, order: Order, symbols: Symbols, states: int) -> tuple[int, Tensor | None]:
    """Which channel an atom is read from, and times which symbol."""
    symbol = symbols.grid.derivative(order) if any(order) else None
    i = channel - states
    sources = [c for row, c in symbols.auxiliary if row == i]
    places = any(row == i for row, _ in symbols.auxiliary_places)
    # An auxiliary unknown that is a multiple of one state need not be formed first.
    if i >= 0 and not places and not symbols.means[i] and len(sources) == 1 and sources[0] < states:
        own = symbols.auxiliary[i, sources[0]]
        return sources[0], own if symbol is None else own * symbol
    return channel, symbol
