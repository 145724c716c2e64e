"""Pointwise products: compiled, and evaluated pseudo-spectrally on a grid.

What does not change in time is taken out of the products and computed once.

On a grid with (p + 1)/2 times as many points the product of degree p is free of aliasing in the
modes kept. Where the spectrum's tail is resolved the plain grid gives the same and costs less; the
2/3 rule is not offered, because it throws away modes that were resolved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import sympy
import torch
from torch import Tensor

from piop.forms.linear_nonlinear_split import EvolutionSystem, Order, Split
from piop.lowering import compile_expressions
from piop.problem import Problem
from piop.reference.fourier.grid import PeriodicGrid, Symbols, embed
from piop.reference.input_values import moves


@final
class PointwiseProducts:
    """The products of one system, compiled; parts without unknowns and time are computed once.

    Args:
        problem: An evolution problem, periodic along every space axis.
        split: Its linear and nonlinear half.
        system: Its evolution equations, or its auxiliary ones.

    Attributes:
        unknowns: (channel, space order) of each unknown atom.
        known: Input atoms, scalars, and coordinates with time last.
        static: The parts that do not change in time, computed once from everything but unknowns.
        compute: Products that vary in time, from unknowns, what ``static`` reads, and its results.
        steady: Products that do not vary, from the same; they come after the others.
        products: Number of products that vary.
        steady_count: Number of products that do not vary and are no constants.
        constants: Number of products that are the constant 1; they come last.
        time_dependent: Whether an input or time itself enters.
        square: Whether the one that varies is the square of an unknown: done in place.
        degrees: Polynomial degree in the unknowns; None where a product is not a polynomial.
    """

    def __init__(self, problem: Problem, split: Split, system: EvolutionSystem) -> None:
        time, expressions = problem.coordinates[0], [p.expression for p in system.products]
        used = set().union(*(set(sympy.preorder_traversal(e)) for e in expressions))
        unknown = [a for a in split.unknown_atoms if a in used]
        inputs = [a for a in split.input_atoms if a in used]
        stands = {a: sympy.Dummy(real=True) for a in (*unknown, *inputs)}
        bare: list[Any] = [e.xreplace(stands) for e in expressions]
        states, timed = [stands[a] for a in unknown], [a for a in inputs if moves(problem, a)]
        moving: set[Any] = {*states, *(stands[a] for a in timed), time.symbol}
        hoisted: dict[Any, sympy.Dummy] = {}
        short = [_hoist(e, moving, hoisted) for e in bare if e.free_symbols & moving]
        fixed = [e for e in bare if not e.free_symbols & moving and e != 1]
        scalars = [i.symbol for i in problem.inputs if not i.of]
        self.unknowns: list[tuple[int, Order]] = [split.unknown_atoms[a] for a in unknown]
        self.known = (*inputs, *scalars, *(c.symbol for c in problem.space), time.symbol)
        known = [stands.get(a, a) for a in self.known]
        self.static = compile_expressions(tuple(hoisted), known)
        self.compute = compile_expressions(short, [*states, *known, *hoisted.values()])
        self.steady = compile_expressions(fixed, known)
        self.products, self.steady_count = len(short), len(fixed)
        self.constants = len(bare) - len(short) - len(fixed)
        self.time_dependent = bool(timed) or any(time.symbol in e.free_symbols for e in bare)
        self.square = len(short) == len(states) == 1 and short[0] == states[0] ** 2
        self.degrees = [_degree(e, states) for e in bare]


def _hoist(expression: Any, moving: set[Any], hoisted: dict[Any, sympy.Dummy]) -> Any:
    """Replace the largest parts that do not vary in time by symbols to be computed once."""
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
    if not expression.args:
        return expression
    if expression.is_Piecewise:  # its conditions are no numbers
        cases = [(_hoist(value, moving, hoisted), test) for value, test in expression.args]
        return sympy.Piecewise(*cases)
    return expression.func(*(_hoist(a, moving, hoisted) for a in expression.args))


def _degree(expression: Any, unknowns: list[Any]) -> int | None:
    if not unknowns or not expression.is_polynomial(*unknowns):
        return 0 if not expression.free_symbols & set(unknowns) else None
    return int(sympy.Poly(expression, *unknowns).total_degree())


@final
class NonlinearTerm:
    """Evaluates one system's products on one grid.

    Args:
        pointwise: Compiled products.
        symbols: The system's symbols on the grid of the coefficients.
        fine: Grid of the points: that grid itself, or a padded one.
    """

    def __init__(self, pointwise: PointwiseProducts, symbols: Symbols, fine: PeriodicGrid) -> None:
        self.pointwise, self.fine, states = pointwise, fine, symbols.split.states
        self.grid, self.sources = symbols.grid, symbols.sources
        self.readers = [_reader(c, o, symbols) for c, o in pointwise.unknowns]
        self.needs_auxiliary = any(c >= states for c, _ in self.readers)
        plain = [(i, None) for i in range(states)]
        self.direct = self.readers == plain  # the states themselves, in order: nothing to copy
        # (product, argument, coefficient) of stabilise
        self.shifts: list[tuple[int, int, Tensor]] = []
        # an inverse transform pads by itself
        self._flat = len(fine.sizes) == 1 or fine is self.grid
        self._axes = fine.axes()
        self._cached: tuple[float, list[Tensor], list[Tensor]] | None = None
        self._steady: Tensor | None = None

    def _inputs_and_static(self, t: float) -> tuple[list[Tensor], list[Tensor]]:
        """Inputs, scalars, space and time; products of them. Only what depends on t is renewed."""
        if self._cached is None:
            values = [self.sources.value(a, self._axes, t) for a in self.pointwise.known]
            self._cached = t, values, list(self.pointwise.static(values))
        elif self._cached[0] != t and self.pointwise.time_dependent:
            values = [
                self.sources.value(a, self._axes, t) if moves(self.sources.problem, a) else kept
                for a, kept in zip(self.pointwise.known, self._cached[1], strict=True)
            ]
            self._cached = t, values, self._cached[2]
        return self._cached[1:]

    def atoms(self, channels: Sequence[Tensor], whole: Tensor) -> list[Tensor]:
        """Unknown atoms at the points, each ``[B, *fine.sizes]``."""
        if not self.readers:
            return []
        spectra = whole
        if not self.direct:
            spectra = whole.new_empty((len(whole), len(self.readers), *self.grid.modes))
            for i, (channel, symbol) in enumerate(self.readers):
                if symbol is None:
                    spectra[:, i].copy_(channels[channel])
                else:
                    torch.mul(channels[channel], symbol, out=spectra[:, i])
        if self.fine is not self.grid and len(self.grid.sizes) > 1:
            spectra = embed(spectra, self.grid, self.fine)
        return list(self.fine.backward(spectra).unbind(1))

    def products(self, atoms: list[Tensor], t: float, batch: int) -> Tensor:
        """Products that vary in time, at the points ``[B, P, *fine.sizes]``."""
        known, static = self._inputs_and_static(t)
        values = list(self.pointwise.compute([*atoms, *known, *static]))
        for product, argument, coefficient in self.shifts:
            values[product] = values[product] - coefficient * atoms[argument]
        return self._stacked(values, batch)

    def _stacked(self, values: Sequence[Tensor], batch: int) -> Tensor:
        values = [v.expand(batch, *self.fine.sizes) for v in values]
        return values[0].unsqueeze(1) if len(values) == 1 else torch.stack(values, 1)

    def __call__(self, channels: Sequence[Tensor], whole: Tensor, t: float) -> Tensor:
        """Spectra of the products times ``fine.points`` ``[B, P, *modes]``; Nyquist not cleared."""
        every = self.varying(channels, whole, t), self.steady(whole, t)
        parts = [p for p in every if p is not None]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def varying(self, channels: Sequence[Tensor], whole: Tensor, t: float) -> Tensor | None:
        """Return the products that vary in time, which come first; None where none does."""
        if self.pointwise.square and self.direct and not self.shifts and self._flat:
            values = self.fine.backward(whole)
            return self._cut(self.fine.sums(values.square_()))
        if not self.pointwise.products:
            return None
        points = self.products(self.atoms(channels, whole), t, len(whole))
        return self._cut(self.fine.sums(points))

    def steady(self, whole: Tensor, t: float) -> Tensor | None:
        """Return the products that do not vary, computed once; None where all do."""
        if self._steady is None or len(self._steady) != len(whole):
            parts = []
            if self.pointwise.steady_count:
                values = self.pointwise.steady(self._inputs_and_static(t)[0])
                parts.append(self._cut(self.fine.sums(self._stacked(values, len(whole)))))
            ones = whole.new_zeros((len(whole), self.pointwise.constants, *self.grid.modes))
            ones[(..., *(0,) * len(self.grid.sizes))] = self.fine.points
            self._steady = torch.cat([*parts, ones], 1)
        return self._steady if self._steady.shape[1] else None

    def _cut(self, spectra: Tensor) -> Tensor:
        if self.fine is self.grid:
            return spectra
        if len(self.grid.sizes) == 1:
            return spectra[..., : self.grid.modes[-1]]
        return embed(spectra, self.fine, self.grid)


def _reader(channel: int, order: Order, symbols: Symbols) -> tuple[int, Tensor | None]:
    """Return the channel that an atom is computed from, and the symbol to multiply it by."""
    symbol = symbols.grid.derivative(order) if any(order) else None
    states = symbols.split.states
    i = channel - states
    sources = [c for row, c in symbols.auxiliary if row == i]
    products = any(row == i for row, _ in symbols.auxiliary_prefactors)
    alone = len(sources) == 1 and sources[0] < states and not products
    # An auxiliary unknown that is a multiple of one state need not be formed first.
    if i >= 0 and alone and not symbols.means[i]:
        own = symbols.auxiliary[i, sources[0]]
        return sources[0], own if symbol is None else own * symbol
    return channel, symbol
