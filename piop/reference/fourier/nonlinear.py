"""The nonlinear half of a split system, and the step that keeps it stable.

The stiff part of variable coefficients moves into the linear symbol: for a(x)·u_xx the largest a
goes into L and (a − max a)·u_xx stays in N, which is implicit enough to be stable, and still exact.
The same holds for any product F whose slope ∂F/∂(∂^b u), at the initial state by automatic
differentiation, multiplies derivatives of total order two or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import cast, final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.reference.fourier.grid import Multiplier, Symbols, power
from piop.reference.fourier.products import NonlinearTerm


@final
class Nonlinear:
    """F(w, t) of a split system: auxiliary unknowns first, then the products.

    Args:
        symbols: The linear half of the system on the grid.
        main: Products of the evolution equations; None where there are none.
        auxiliary: Products of the auxiliary equations; None where there are none.

    Attributes:
        products: P, the number of spectra that ``evaluate`` returns.
        prefactors: (state, spectrum that ``evaluate`` returns) → symbol in front of it.
    """

    def __init__(
        self, symbols: Symbols, main: NonlinearTerm | None, auxiliary: NonlinearTerm | None
    ) -> None:
        self.symbols, self.split = symbols, symbols.split
        self.main, self.auxiliary = main, auxiliary
        self._base: Tensor | None = None
        products, states = len(self.split.right.products), self.split.states
        self.products, self.prefactors = products + len(symbols.late), symbols.prefactors
        self._sum: Multiplier | None = None
        if products > states and not symbols.late:
            one = torch.ones((1,) * (1 + len(symbols.grid.sizes)), dtype=torch.complex128)
            self._sum = Multiplier(symbols.prefactors, states, products)
            self.products = states
            self.prefactors = {(i, i): one.to(symbols.grid.device) for i in range(states)}

    def channels(self, w: Tensor, t: float) -> list[Tensor]:
        """Spectra of states and auxiliary unknowns, each ``[B, *modes]``."""
        channels = list(w.unbind(1))
        count = len(self.split.channels) - self.split.states
        for i in range(count):
            total = torch.zeros_like(channels[0])
            for (row, source), symbol in self.symbols.auxiliary.items():
                if row == i:
                    total.addcmul_(channels[source], symbol)
            rows = [(p, s) for (r, p), s in self.symbols.auxiliary_prefactors.items() if r == i]
            if rows and self.auxiliary is not None:
                # Products of an auxiliary equation hold states and earlier auxiliary unknowns.
                known = [*channels, *(torch.zeros_like(total),) * (count - i)]
                extra = self.auxiliary(known, w, t)
                for p, symbol in rows:
                    total.addcmul_(extra[:, p], symbol)
            if self.symbols.free[i]:
                total[(slice(None), *(0,) * (total.ndim - 1))] = self.symbols.means[i]
            channels.append(total)
        return channels

    def evaluate(self, w: Tensor, t: float) -> Tensor:
        """Spectra at ``w [B, states, *modes]``: ``[B, P, *modes]``.

        They are those of the products; of more products than states, of what the products add to
        each state, so that a step handles fewer of them.
        """
        main = self.main
        if main is not None and not self.symbols.late and not main.needs_auxiliary:
            channels = () if main.direct else w.unbind(1)
            return main(channels, w, t) if self._sum is None else self._total(channels, w, t)
        channels = self.channels(w, t)
        if self._sum is not None:
            return self._total(channels, w, t)
        spectra = [] if main is None else [main(channels, w, t)]
        if self.symbols.late:
            late = [channels[self.split.states + i] for i in self.symbols.late]
            spectra.append(torch.stack(late, 1))
        return spectra[0] if len(spectra) == 1 else torch.cat(spectra, 1)

    def _total(self, channels: Sequence[Tensor], w: Tensor, t: float) -> Tensor:
        """Sum of the products' contributions to each state ``[B, states, *modes]``."""
        term, prefactors = cast("NonlinearTerm", self.main), cast("Multiplier", self._sum)
        if self._base is None or len(self._base) != len(w):
            self._base, steady = torch.zeros_like(w), term.steady(w, t)
            if steady is not None:
                prefactors.add(steady, self._base, term.pointwise.products)
        varying = term.varying(channels, w, t)
        return self._base.clone() if varying is None else prefactors.plus(self._base, varying)

    def check_means(self, w: Tensor, t: float, samples: Sequence[int]) -> None:
        """Refuse an auxiliary equation whose right side has a mean its operator cannot produce.

        Args:
            w: Spectra of the states ``[B, states, *modes]``.
            t: Time.
            samples: What to call each instance of the batch.

        Raises:
            SolverError: Naming the sample and the mean.
        """
        if not any(self.symbols.free):
            return
        channels, zero = self.channels(w, t), (0,) * len(self.symbols.grid.sizes)
        terms = [
            (row, p.get(zero), channels[c]) for (row, c), p in self.split.auxiliary.linear.items()
        ]
        if self.auxiliary is not None:
            known = [*channels, *(torch.zeros_like(channels[0]),) * len(self.split.channels)]
            spectra = self.auxiliary(known, w, t)
            for p, pointwise in enumerate(self.split.auxiliary.products):
                places = [(r, c) for r, order, c in pointwise.places if not any(order)]
                terms += [(row, c, spectra[:, p] / self.symbols.points) for row, c in places]
        for i, free in enumerate(self.symbols.free):
            mean, size = torch.zeros(len(w), device=w.device), torch.zeros(len(w), device=w.device)
            for row, coefficient, spectrum in terms:
                if row == i and coefficient is not None and free:
                    value = self.symbols.sources.scalar(coefficient)
                    mean = mean + value * spectrum[(..., *zero)].real
                    size = size + abs(value) * power(spectrum, self.symbols.grid).sqrt()
            bad = (mean.abs() > 1e-9 * size).nonzero().flatten().tolist()
            if bad:
                name = self.split.channels[self.split.states + i].name
                raise SolverError(
                    f"sample {samples[bad[0]]}: at t = {t:.6g} the right side of the equation of "
                    f"'{name}' has mean {float(mean[bad[0]]):.3e}, which no periodic solution can "
                    "balance; use a law with zero_mean, or take the mean off"
                )


_LIMIT = 2.0  # below 2.8, where RK4 leaves the imaginary axis: slopes grow after the start


def slopes(nonlinear: Nonlinear, w: Tensor, t: float) -> dict[tuple[int, int], Tensor]:
    """∂F_p/∂(argument i) at the points, for each pair that is not zero: ``[B, *fine.sizes]``."""
    term = cast("NonlinearTerm", nonlinear.main)
    atoms = [a.detach().requires_grad_() for a in term.atoms(nonlinear.channels(w, t), w)]
    out: dict[tuple[int, int], Tensor] = {}
    if not atoms:
        return out
    with torch.enable_grad():
        products = term.products(atoms, t, len(w))
        for p in range(products.shape[1]):
            total = products[:, p].sum()
            if not total.requires_grad:
                continue
            grads = torch.autograd.grad(total, atoms, allow_unused=True, retain_graph=True)
            out |= {(p, i): g for i, g in enumerate(grads) if g is not None and bool(g.any())}
    return out


def stabilise(nonlinear: Nonlinear, w: Tensor, t: float) -> None:
    """Shift products and symbols in place (both belong to one discretisation)."""
    symbols, split, term = nonlinear.symbols, nonlinear.split, cast("NonlinearTerm", nonlinear.main)
    for (p, i), slope in slopes(nonlinear, w, t).items():
        channel, inner = term.pointwise.unknowns[i]
        orders = {sum(o) + sum(inner) for _, o, _ in split.right.products[p].places}
        if min(orders) < 2 or {state for state, q in symbols.prefactors if q == p} != {channel}:
            continue  # a wave equation's product enters dt(u): it has nothing to damp
        high, low = slope.flatten(1).amax(1), slope.flatten(1).amin(1)
        largest = torch.where(high.abs() >= low.abs(), high, low)
        value = (high + low) / 2 if next(iter(orders)) % 2 else largest  # dispersion is centred
        value = value.reshape(-1, *(1,) * len(term.grid.sizes))
        inner_symbol = term.grid.derivative(inner)
        moved = symbols.prefactors[channel, p] * (symbols.points * value) * inner_symbol
        if bool((moved.real > 1e-12 * moved.abs().amax()).any()):
            continue  # it would grow: leave it to N
        term.shifts.append((p, i, value))
        key = (channel, channel)
        symbols.linear[key] = symbols.linear[key] + moved if key in symbols.linear else moved


def longest_step(nonlinear: Nonlinear, w: Tensor, t: float) -> Tensor:
    """Step ``[B]`` that keeps the explicit terms stable, as far as the initial state tells (time).

    A mode that L damps faster than N can drive it needs no bound. With dt^j(u) measured in ω^j, a
    slope s of what drives dt^n(u) by u is a rate s^(1/(1 + n)): c² k² u drives dt(u) at c k.
    """
    grid, points = nonlinear.symbols.grid, nonlinear.symbols.points
    unknowns = cast("NonlinearTerm", nonlinear.main).pointwise.unknowns
    channels = nonlinear.split.channels
    rate = torch.zeros((len(w), *grid.modes), dtype=torch.float64, device=w.device)
    for (p, i), slope in slopes(nonlinear, w, t).items():
        channel, inner = unknowns[i]
        largest = slope.flatten(1).abs().amax(1).reshape(-1, *(1,) * len(grid.sizes))
        inner_size = grid.derivative(inner).abs()
        prefactors = [(r, s) for (r, q), s in nonlinear.symbols.prefactors.items() if q == p]
        for (state, prefactor), factor in product(prefactors, _sources(nonlinear, channel)):
            size = largest * inner_size * prefactor.abs() * (points * factor)
            above = max(0, channels[state].time_order - channels[channel].time_order)
            rate = rate + size ** (1 / (1 + above))
    damping, linear = torch.zeros_like(rate), nonlinear.symbols.linear
    if set(linear) == {(i, i) for i in range(nonlinear.split.states)}:
        parts = torch.broadcast_tensors(*(-symbol.real for symbol in linear.values()))
        damping = torch.stack(parts).amin(0).clamp_min(0)
    net = (rate - damping).flatten(1).amax(1)
    return _LIMIT / net.clamp_min(1e-300)


def _sources(nonlinear: Nonlinear, channel: int) -> list[Tensor | float]:
    """Size of the symbols that make a channel from the states."""
    states = nonlinear.split.states
    if channel < states:
        return [1.0]
    table = nonlinear.symbols.auxiliary
    return [
        s.abs() for (row, source), s in table.items() if row == channel - states and source < states
    ]
