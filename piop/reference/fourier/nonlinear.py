"""The nonlinear half of a split system: auxiliary unknowns first, then the products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast, final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.forms.evolution import Split
from piop.reference.fourier.etdrk import Multiplier
from piop.reference.fourier.grid import power
from piop.reference.fourier.symbols import Symbols, Table, nonlinear_auxiliaries
from piop.reference.fourier.transforms import Stage


@final
@dataclass
class Nonlinear:
    """F(w, t) of a split system: auxiliary unknowns first, then the products.

    Attributes:
        split: The split system.
        symbols: Its linear half on the grid.
        main: Products of the evolution equations; None where there are none.
        auxiliary: Products of the auxiliary equations; None where there are none.
    """

    split: Split
    symbols: Symbols
    main: Stage | None
    auxiliary: Stage | None
    _late: list[int] = field(init=False)
    _sum: Multiplier | None = field(init=False)
    _base: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._late = nonlinear_auxiliaries(self.split, self.symbols.means)
        products, states = len(self.split.right.products), self.split.states
        self._sum = None
        if products > states and not self._late:
            self._sum = Multiplier(self.symbols.places, states, products)

    @property
    def products(self) -> int:
        """P: spectra that ``evaluate`` returns."""
        if self._sum is not None:
            return self.split.states
        return len(self.split.right.products) + len(self._late)

    @property
    def places(self) -> Table:
        """(state, spectrum that ``evaluate`` returns) → symbol in front of it."""
        if self._sum is None:
            return self.symbols.places
        one = torch.ones((1,) * (1 + len(self.symbols.grid.sizes)), dtype=torch.complex128)
        return {(i, i): one.to(self.symbols.grid.device) for i in range(self.split.states)}

    def channels(self, w: Tensor, t: float) -> list[Tensor]:
        """Spectra of states and auxiliary unknowns, each ``[B, *modes]``."""
        states = self.split.states
        channels = list(w.unbind(1))
        count = len(self.split.channels) - states
        if not count:
            return channels
        extra = None
        for i in range(count):
            total = torch.zeros_like(channels[0])
            for (row, source), symbol in self.symbols.auxiliary.items():
                if row == i:
                    total.addcmul_(channels[source], symbol)
            rows = [(p, s) for (r, p), s in self.symbols.auxiliary_places.items() if r == i]
            if rows:
                # Products of an auxiliary equation see states and the auxiliary unknowns before it.
                known = [*channels, *(torch.zeros_like(total),) * (count - i)]
                extra = self.auxiliary(known, w, t)  # type: ignore[misc]
                for p, symbol in rows:
                    total.addcmul_(extra[:, p], symbol)
            if self.symbols.free[i]:
                total[(slice(None), *(0,) * (total.ndim - 1))] = self.symbols.means[i]
            channels.append(total)
        return channels

    def evaluate(self, w: Tensor, t: float) -> Tensor:
        """Spectra at ``w [B, states, *modes]``: ``[B, P, *modes]``.

        They are those of the products; of more products than states, of what the products add to
        each state, so that a step carries fewer of them about.
        """
        if self.main is not None and not self._late and not self.main.needs_auxiliary:
            channels = () if self.main.straight else w.unbind(1)
            return self.main(channels, w, t) if self._sum is None else self._total(channels, w, t)
        channels = self.channels(w, t)
        if self.main is not None and self._sum is not None:
            return self._total(channels, w, t)
        late = [channels[self.split.states + i] for i in self._late]
        if self.main is None:
            return torch.stack(late, 1)
        spectra = self.main(channels, w, t)
        return torch.cat([spectra, torch.stack(late, 1)], 1) if late else spectra

    def _total(self, channels: Sequence[Tensor], w: Tensor, t: float) -> Tensor:
        """What the products add to each state ``[B, states, *modes]``."""
        stage, places = cast("Stage", self.main), cast("Multiplier", self._sum)
        if self._base is None or len(self._base) != len(w):
            self._base, still = torch.zeros_like(w), stage.still(w, t)
            if still is not None:
                places.add(still, self._base, stage.pointwise.products)
        moving = stage.moving(channels, w, t)
        return self._base.clone() if moving is None else places.plus(self._base, moving)

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
            for p, product in enumerate(self.split.auxiliary.products):
                places = [(r, c) for r, order, c in product.places if not any(order)]
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
