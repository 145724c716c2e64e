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
from piop.lowering import compile_expression
from piop.problem.split import Order, Split, System
from piop.reference.fourier import Grid, copy_modes, power
from piop.reference.sources import Sources
from piop.reference.symbols import Symbols, nonlinear_auxiliaries


@dataclass(frozen=True)
class Pointwise:
    """The products of one system, compiled: what they read and how to compute them.

    Attributes:
        unknowns: (channel, space order) of each unknown atom, in the order of the arguments.
        inputs: Input atoms with their orders, next in the arguments.
        functions: One callable per product, None for a constant.
        degrees: Polynomial degree in the unknowns; None where a product is not a polynomial.
        timed: Whether anything depends on time explicitly.
    """

    unknowns: tuple[tuple[int, Order], ...]
    inputs: tuple[tuple[Expr, Order], ...]
    functions: tuple[Callable[[Sequence[Tensor]], Tensor] | None, ...]
    degrees: tuple[int | None, ...]
    timed: bool


def compile_products(problem: Any, split: Split, system: System) -> Pointwise:
    """Compile a system's products; arguments are unknown atoms, inputs, scalars, space, time."""
    expressions = [p.expression for p in system.products]
    used = set().union(*(set(sympy.preorder_traversal(e)) for e in expressions))
    unknown = [a for a in split.unknown_atoms if a in used]
    inputs = [a for a in split.input_atoms if a in used]
    scalars = [i.symbol for i in problem.inputs if not i.of]
    coordinates = [c.symbol for c in problem.space]
    atoms = (*unknown, *inputs, *scalars, *coordinates, problem.time.symbol)
    stands = {a: sympy.Dummy() for a in (*unknown, *inputs)}
    bare = [e.xreplace(stands) for e in expressions]
    timed = any(problem.time.symbol in e.free_symbols for e in bare)
    timed |= any(problem.time.name in _of(problem, a) for a in inputs)
    return Pointwise(
        tuple(split.unknown_atoms[a] for a in unknown),
        tuple((a, split.input_atoms[a][1]) for a in inputs),
        tuple(None if e == 1 else compile_expression(e, atoms) for e in expressions),
        tuple(_degree(e, [stands[a] for a in unknown]) for e in bare),
        timed,
    )


def _of(problem: Any, atom: Expr) -> tuple[str, ...]:
    name = (atom.expr if isinstance(atom, sympy.Derivative) else atom).func.__name__
    return next(tuple(i.of) for i in problem.inputs if i.name == name)


def _degree(expression: Expr, unknowns: list[Expr]) -> int | None:
    if not unknowns or not expression.is_polynomial(*unknowns):
        return 0 if not expression.free_symbols & set(unknowns) else None
    return int(sympy.Poly(expression, *unknowns).total_degree())


@final
class Stage:
    """Evaluates one system's products on one grid.

    Args:
        pointwise: Compiled products.
        grid: Grid of the coefficients.
        fine: Grid of the points: ``grid`` itself, or a padded one.
        sources: Inputs' values.
        scalars: Names of scalar inputs in the order of the arguments.
    """

    def __init__(self, pointwise: Pointwise, grid: Grid, fine: Grid, sources: Sources) -> None:
        self.pointwise = pointwise
        self.grid, self.fine, self.sources = grid, fine, sources
        self.symbols = [grid.derivative(o) if any(o) else None for _, o in pointwise.unknowns]
        self.plain = [c for c, _ in pointwise.unknowns]
        self.shifts: list[tuple[int, int, Tensor]] = []  # (product, argument, coefficient): stabilise
        self._static: list[Tensor] | None = None

    def known(self, t: float) -> list[Tensor]:
        """Arguments that are no unknowns."""
        if self._static is not None and not self.pointwise.timed:
            return self._static
        s, fine = self.sources, self.fine
        pad = (1,) * len(fine.sizes)
        values = [s.on_grid(a, o, fine, t) for a, o in self.pointwise.inputs]
        values += [s._function(n).on_grid(()).reshape(-1, *pad) for n in s.scalars.values()]
        values += [s.coordinate(i, fine) for i in range(len(fine.sizes))]
        values.append(torch.full((1, *pad), t, dtype=torch.float64, device=s.device))
        self._static = values
        return values

    def atoms(self, channels: Sequence[Tensor], whole: Tensor) -> list[Tensor]:
        """Unknown atoms at the points, each ``[B, *fine.sizes]``."""
        if not self.symbols:
            return []
        if self.plain == list(range(whole.shape[1])) and not any(
            s is not None for s in self.symbols
        ):
            spectra = whole
        else:
            spectra = whole.new_empty((len(whole), len(self.symbols), *self.grid.modes))
            for i, ((channel, _), symbol) in enumerate(
                zip(self.pointwise.unknowns, self.symbols, strict=True)
            ):
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
        arguments = [*atoms, *self.known(t)]
        values = []
        for p, function in enumerate(self.pointwise.functions):
            if function is None:
                continue
            value = function(arguments)
            for product, argument, coefficient in self.shifts:
                if product == p:
                    value = value - coefficient * atoms[argument]
            values.append(value.expand(batch, *self.fine.sizes))
        return values[0].unsqueeze(1) if len(values) == 1 else torch.stack(values, 1)

    def __call__(self, channels: Sequence[Tensor], whole: Tensor, t: float) -> Tensor:
        """Coefficients of the products, ``[B, P, *modes]`` (Nyquist not cleared)."""
        functions = self.pointwise.functions
        real = sum(f is not None for f in functions)
        spectra = None
        if real:
            points = self.products(self.atoms(channels, whole), t, len(whole))
            spectra = self._cut(self.fine.forward(points))
        if real == len(functions):
            return spectra  # type: ignore[return-value]
        constant = whole.new_zeros((len(whole), len(functions) - real, *self.grid.modes))
        constant[(..., *(0,) * len(self.grid.sizes))] = 1
        # split_linear puts the constants last
        return constant if spectra is None else torch.cat([spectra, constant], 1)

    def _cut(self, spectra: Tensor) -> Tensor:
        if self.fine is self.grid:
            return spectra
        if len(self.grid.sizes) == 1:
            return spectra[..., : self.grid.modes[-1]]
        out = spectra.new_zeros((*spectra.shape[:2], *self.grid.modes))
        copy_modes(spectra, out, self.fine, self.grid)
        return out


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
        if self.main is not None and len(self.split.channels) == self.split.states:
            return self.main(w.unbind(1) if len(self.main.symbols) else (), w, t)
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
        terms = [(row, p.get(zero), channels[c]) for (row, c), p in self.split.auxiliary.linear.items()]
        if self.auxiliary is not None:
            known = [*channels, *(torch.zeros_like(channels[0]),) * len(self.split.channels)]
            spectra = self.auxiliary(known, w, t)
            for p, product in enumerate(self.split.auxiliary.products):
                places = [(r, c) for r, order, c in product.places if not any(order)]
                terms += [(row, c, spectra[:, p]) for row, c in places]
        for i, free in enumerate(self.symbols.free):
            mean, size = torch.zeros(len(w), device=w.device), torch.zeros(len(w), device=w.device)
            for row, coefficient, spectrum in terms:
                if row == i and coefficient is not None and free:
                    value = self.symbols.sources.scalar(coefficient)
                    mean = mean + value * spectrum[(..., *zero)].real
                    size = size + abs(value) * power(spectrum, self.symbols.grid).flatten(1).sum(1).sqrt()
            bad = (mean.abs() > 1e-9 * size).nonzero().flatten().tolist()
            if bad:
                name = self.split.channels[self.split.states + i].name
                raise SolverError(
                    f"sample {samples[bad[0]]}: at t = {t:.6g} the right side of the auxiliary equation of "
                    f"'{name}' has mean {float(mean[bad[0]]):.3e}, which no periodic solution can "
                    "balance; use a law with zero_mean, or take the mean off"
                )
