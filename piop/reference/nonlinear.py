"""Pseudo-spectral evaluation of pointwise products: to points, multiply, back to coefficients.

On a grid with (p + 1)/2 times as many points the product of degree p is free of aliasing in the
modes kept. Where the spectrum's tail is resolved the plain grid gives the same and costs less; the
2/3 rule is not offered, because it throws away modes that were resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.errors import SolverError
from piop.lowering import compile_expressions
from piop.problem.split import Order, Split, System
from piop.reference.fourier import Grid, copy_modes, power
from piop.reference.symbols import Symbols, nonlinear_auxiliaries


@dataclass(frozen=True)
class Pointwise:
    """The products of one system, compiled: what they read and how to compute them.

    Attributes:
        unknowns: (channel, space order) of each unknown atom.
        inputs: Input atoms with their orders.
        timed: Whether each input atom depends on time.
        static: What does not change in time, computed once from inputs, scalars, space and time.
        compute: Products that are no constants, from unknowns, what ``static`` reads, and that.
        constants: Products that are the constant 1; they come last.
        moving: Whether anything known (input or time itself) moves in time.
        square: Whether the one product is the square of an unknown: done in place.
        degrees: Polynomial degree in the unknowns; None where a product is not a polynomial.
    """

    unknowns: tuple[tuple[int, Order], ...]
    inputs: tuple[tuple[Expr, Order], ...]
    timed: tuple[bool, ...]
    static: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    compute: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    products: int
    constants: int
    moving: bool
    square: bool
    degrees: tuple[int | None, ...]


def compile_products(problem: Any, split: Split, system: System) -> Pointwise:
    """Compile a system's products; what depends on neither unknowns nor time is hoisted out."""
    expressions = [p.expression for p in system.products]
    used = set().union(*(set(sympy.preorder_traversal(e)) for e in expressions))
    unknown = [a for a in split.unknown_atoms if a in used]
    inputs = [a for a in split.input_atoms if a in used]
    timed = tuple(problem.time.name in _of(problem, a) for a in inputs)
    stands = {a: sympy.Dummy(real=True) for a in (*unknown, *inputs)}
    bare = [e.xreplace(stands) for e in expressions]
    moving: set[Any] = {stands[a] for a in unknown} | {problem.time.symbol}
    moving |= {stands[a] for a, t in zip(inputs, timed, strict=True) if t}
    hoisted: dict[Any, sympy.Dummy] = {}
    short = [_hoist(e, moving, hoisted) for e in bare if e != 1]
    scalars = [i.symbol for i in problem.inputs if not i.of]
    known = [*(stands[a] for a in inputs), *scalars, *(c.symbol for c in problem.space)]
    known.append(problem.time.symbol)
    arguments = [*(stands[a] for a in unknown), *known, *hoisted.values()]
    return Pointwise(
        tuple(split.unknown_atoms[a] for a in unknown),
        tuple((a, split.input_atoms[a][1]) for a in inputs),
        timed,
        compile_expressions(tuple(hoisted), tuple(known)),
        compile_expressions(short, tuple(arguments)),
        len(short),
        len(bare) - len(short),
        any(timed) or any(problem.time.symbol in e.free_symbols for e in bare),
        len(bare) == len(unknown) == 1 and bare[0] == stands[unknown[0]] ** 2,
        tuple(_degree(e, [stands[a] for a in unknown]) for e in bare),
    )


def _hoist(expression: Any, moving: set[Any], hoisted: dict[Any, sympy.Dummy]) -> Any:
    """Replace the largest parts that hold nothing moving by symbols to be computed once."""
    if not expression.free_symbols & moving:
        if expression.is_number or expression.is_Symbol:
            return expression
        return hoisted.setdefault(expression, sympy.Dummy(real=True))
    if expression.is_Add or expression.is_Mul:
        fixed, rest = expression.as_independent(*moving, as_Add=expression.is_Add)
        parts = expression.func.make_args(rest)
        parts = [_hoist(p, moving, hoisted) for p in parts] if len(parts) > 1 or fixed else parts
        if fixed == expression.func.identity:
            return expression.func(*parts)
        return expression.func(_hoist(fixed, moving, hoisted), *parts)
    return (
        expression.func(*(_hoist(a, moving, hoisted) for a in expression.args))
        if expression.args
        else expression
    )


def _of(problem: Any, atom: Expr) -> tuple[str, ...]:
    name = (atom.expr if isinstance(atom, sympy.Derivative) else atom).func.__name__
    return next(tuple(i.of) for i in problem.inputs if i.name == name)


def _degree(expression: Any, unknowns: list[Any]) -> int | None:
    if not unknowns or not expression.is_polynomial(*unknowns):
        return 0 if not expression.free_symbols & set(unknowns) else None
    return int(sympy.Poly(expression, *unknowns).total_degree())


@final
class Stage:
    """Evaluates one system's products on one grid.

    Args:
        pointwise: Compiled products.
        symbols: The system's symbols on the grid of the coefficients.
        fine: Grid of the points: that grid itself, or a padded one.
        states: Number of states; channels from there on are auxiliary unknowns.
    """

    def __init__(self, pointwise: Pointwise, symbols: Symbols, fine: Grid, states: int) -> None:
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
        """Products at the points ``[B, P, *fine.sizes]``; constants are left out."""
        values = list(self.pointwise.compute([*atoms, *self.known(t)]))
        for product, argument, coefficient in self.shifts:
            values[product] = values[product] - coefficient * atoms[argument]
        values = [v.expand(batch, *self.fine.sizes) for v in values]
        return values[0].unsqueeze(1) if len(values) == 1 else torch.stack(values, 1)

    def __call__(self, channels: Sequence[Tensor], whole: Tensor, t: float) -> Tensor:
        """Spectra of the products times ``fine.points`` ``[B, P, *modes]``; Nyquist not cleared."""
        if self.pointwise.square and self.straight and not self.shifts and self._flat:
            values = self.fine.backward(whole)
            return self._cut(self.fine.sums(values.square_()))
        parts = []
        if self.pointwise.products:
            points = self.products(self.atoms(channels, whole), t, len(whole))
            parts.append(self._cut(self.fine.sums(points)))
        if self.pointwise.constants:
            ones = whole.new_zeros((len(whole), self.pointwise.constants, *self.grid.modes))
            ones[(..., *(0,) * len(self.grid.sizes))] = self.fine.points
            parts.append(ones)
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

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

    def __post_init__(self) -> None:
        self._late = nonlinear_auxiliaries(self.split, self.symbols.means)

    @property
    def products(self) -> int:
        """P: spectra that ``evaluate`` returns."""
        return len(self.split.right.products) + len(self._late)

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
        """Spectra of the products at ``w [B, states, *modes]``: ``[B, P, *modes]``."""
        if self.main is not None and not self._late and not self.main.needs_auxiliary:
            return self.main(() if self.main.straight else w.unbind(1), w, t)
        channels = self.channels(w, t)
        late = [channels[self.split.states + i] for i in self._late]
        if self.main is None:
            return torch.stack(late, 1)
        spectra = self.main(channels, w, t)
        return torch.cat([spectra, torch.stack(late, 1)], 1) if late else spectra

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
