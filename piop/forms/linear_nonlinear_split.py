"""Split an evolution problem term by term, M·w_t = L·w + N(w), from its symbols alone.

A term is linear iff it is a coefficient free of unknowns, *coordinates and input functions* times
an unknown or a derivative of one. Everything else is pointwise under an outer derivative, ∂^a F(…);
an outer derivative written in the spec (``d(u*u, x)``) is kept unexpanded, so a pseudo-spectral
solver transforms the flux once and multiplies by its symbol.

A vorticity that its own stream function moves is advected by two fluxes. Where a psi + b w = 0 with
a = c (∂xx + ∂yy) fixes psi, the vorticity is w = −(c/b) Δψ, and

    ∂xψ ∂yΔψ − ∂yψ ∂xΔψ = (∂yy − ∂xx)(∂xψ ∂yψ) + ∂xy((∂xψ)² − (∂yψ)²)

(C. Basdevant, "Technical improvements for direct numerical simulation of homogeneous
three-dimensional turbulence", J. Comput. Phys. 50 (1983), doi:10.1016/0021-9991(83)90075-5): two
transforms to the points and two back, in place of four and one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import sympy
from sympy import Derivative, Expr, Symbol
from sympy.core.function import AppliedUndef

from piop.errors import NotSupportedError
from piop.expression.functions import is_applied
from piop.forms.pde import PDE
from piop.forms.terms import (
    applied,
    argument_order,
    derivative_counts,
    derivative_index,
    outermost_atoms,
    read_term,
    read_terms,
)

Order = tuple[int, ...]
"""How often to differentiate along each space axis."""

Polynomial = dict[Order, Expr]
"""A constant-coefficient operator: coefficient of each space derivative."""

Fluxes = dict[tuple[int, Order], Expr]
"""What stands under the outer derivative of this order, in each row."""

_EXPAND = {"power_base": False, "power_exp": False, "log": False}


@dataclass(frozen=True)
class Channel:
    """One component of the state: the ``time_order``-th time derivative of an unknown."""

    name: str
    time_order: int = 0

    def label(self, time: str) -> str:
        """As a spec writes it: ``u``, ``dt(u)``."""
        return f"d{time * self.time_order}({self.name})" if self.time_order else self.name


@dataclass(frozen=True)
class PolynomialTerm:
    """A pointwise expression (1 for constants) and where it enters, each time as ``c ∂^order``."""

    expression: Expr
    places: tuple[tuple[int, Order, Expr], ...]  # (row, order, coefficient)


@dataclass(frozen=True)
class EvolutionSystem:
    """Rows of right sides: ``linear[row, channel]`` polynomials plus pointwise products."""

    linear: dict[tuple[int, int], Polynomial]
    products: tuple[PolynomialTerm, ...]


@dataclass(frozen=True)
class Split:
    """``mass · w_t = right.linear · w + right.products``; ``auxiliary`` fixes the other unknowns.

    Attributes:
        channels: Components of the state, lower time orders included; auxiliary unknowns last.
        states: How many of the channels are states.
        mass: Operator in front of the time derivatives, by (row, channel), both below ``states``.
        right: Right sides of the evolution equations.
        auxiliary: Residuals of the auxiliary equations; row i belongs to channel ``states + i``.
        unknown_atoms: Every unknown or derivative that products use → (channel, space order).
        input_atoms: Every input function or derivative used → (name, order over its arguments).
    """

    channels: tuple[Channel, ...]
    states: int
    mass: dict[tuple[int, int], Polynomial]
    right: EvolutionSystem
    auxiliary: EvolutionSystem
    unknown_atoms: dict[Expr, tuple[int, Order]] = field(repr=False)
    input_atoms: dict[Expr, tuple[str, Order]] = field(repr=False)

    @property
    def state_orders(self) -> list[int]:
        """Of which derivative in time of an unknown each state is."""
        return [channel.time_order for channel in self.channels[: self.states]]


def split_linear(pde: PDE) -> Split:
    """Split the equations of an evolution.

    Args:
        pde: With a time coordinate.

    Returns:
        The split; coefficients may hold scalar symbols (scalar inputs), never coordinates.

    Raises:
        NotSupportedError: Steady problem, an unknown without a time derivative that no auxiliary
            equation fixes, or the time derivatives do not stand linearly.
    """
    if pde.time is None:
        raise NotSupportedError(f"{pde.name}: a steady problem has no evolution to split")
    if still := [name for name in pde.unknowns if not pde.time_order[name]]:
        raise NotSupportedError(f"no time derivative of {', '.join(still)}")
    return _Splitter(pde, pde.time.symbol).run()


def require_successive_auxiliaries(split: Split) -> None:
    """Require that each auxiliary unknown follows, wave by wave, from states and earlier ones.

    Raises:
        NotSupportedError: If its equation holds a later one, or itself with a coefficient that
            varies.
    """
    for i, channel in enumerate(split.channels[split.states :]):
        own, name = split.states + i, channel.name
        linear = {column for row, column in split.auxiliary.linear if row == i}
        if own not in linear or max(linear) > own:
            raise NotSupportedError(
                f"the auxiliary equation of '{name}' must fix it by states and earlier ones"
            )
        products = [p for p in split.auxiliary.products if any(row == i for row, _, _ in p.places)]
        for term in (t for p in products for t in sympy.Add.make_args(p.expression)):
            known = [split.unknown_atoms.get(atom) for atom in outermost_atoms(term)]
            if any(entry is not None and entry[0] >= own for entry in known):
                raise NotSupportedError(
                    f"the auxiliary equation of '{name}' holds {term}; before it, and before "
                    "later ones, coefficients must not vary"
                )


class _Splitter:
    """Holds the tables that classify atoms; one use per PDE."""

    def __init__(self, pde: PDE, time: Symbol) -> None:
        self.pde = pde
        self.time = time
        self.space = tuple(c.symbol for c in pde.space)
        self.coordinates = {self.time, *self.space}
        states = [Channel(u, p) for u in pde.unknowns for p in range(pde.time_order[u])]
        self.channels = (*states, *(Channel(a.name) for a in pde.auxiliaries))
        self.states = len(states)
        self.names = {*pde.channels}
        self.index = {(c.name, c.time_order): i for i, c in enumerate(self.channels)}
        self.streams = tuple(self._streams()) if len(self.space) == 2 else ()

    def run(self) -> Split:
        unknowns = len(self.pde.unknowns)
        raw = [expand(r) for r in self.pde.residuals_raw]
        mass: dict[tuple[int, int], Polynomial] = {}
        right = self._system(raw[:unknowns], mass, sign=-1)
        extra: dict[tuple[int, int], Polynomial] = {}
        auxiliary = self._system(raw[unknowns:], extra, sign=1)
        if extra:
            raise NotSupportedError("an auxiliary equation must hold no time derivative")
        row, zero = unknowns, (0,) * len(self.space)
        for i, channel in enumerate(self.channels[: self.states]):
            if (channel.name, channel.time_order + 1) in self.index:  # that is d/dt of this one
                mass[row, i] = {zero: sympy.S.One}
                right.linear[row, i + 1] = {zero: sympy.S.One}
                row += 1
        systems = (*right.products, *auxiliary.products)
        atoms = [a for p in systems for a in outermost_atoms(p.expression)]
        return Split(
            self.channels,
            self.states,
            mass,
            right,
            auxiliary,
            {a: known[1:] for a in atoms if (known := self._unknown(a))},
            {a: known for a in atoms if (known := self._input(a))},
        )

    def _streams(self) -> Iterator[tuple[Expr, Expr, Expr]]:
        """Find (psi, w, k) with w = k Δψ by an auxiliary equation alone."""
        for auxiliary in self.pde.auxiliaries:
            psi, residual = self.pde.function(auxiliary.name), auxiliary.equation.doit()
            for name in self.pde.unknowns:
                w = self.pde.function(name)
                factor = stream_function(residual, psi, w, self.space)
                if factor is not None:
                    yield psi, w, factor

    def _system(self, residuals: list[Expr], mass: dict, sign: int) -> EvolutionSystem:
        linear: dict[tuple[int, int], Polynomial] = {}
        outer: Fluxes = {}
        constants: list[tuple[int, Order, Expr]] = []
        zero = (0,) * len(self.space)
        for row, residual in enumerate(residuals):
            for time_order, kind, order, value in self._terms(residual, zero):
                if kind is not None:
                    table, factor = (mass, 1) if time_order else (linear, sign)
                    entry = table.setdefault((row, kind), {})
                    entry[order] = entry.get(order, sympy.S.Zero) + factor * value
                elif value.free_symbols & self.coordinates:
                    outer[row, order] = outer.get((row, order), sympy.S.Zero) + sign * value
                else:
                    constants.append((row, order, sign * value))
        products = self._share(self._cheaper(outer))
        if constants:
            products = (*products, PolynomialTerm(sympy.S.One, tuple(constants)))
        return EvolutionSystem(linear, products)

    def _terms(
        self, expression: Any, order: Order
    ) -> Iterator[tuple[int, int | None, Order, Expr]]:
        """Yield (1 for a time derivative, channel or None, order, coefficient or expression)."""
        for term in read_terms(expression, self.coordinates, _expanded):
            coefficient, rest = term.coefficient, cast("Any", term.held)
            if not term.holders:
                if not any(order) and coefficient != 0:
                    yield 0, None, order, coefficient
                continue
            known = self._unknown(rest)
            if known is not None:
                top, channel, inner = known
                yield top, channel, _add(order, inner), coefficient
            elif _compound(rest) and self.time not in derivative_counts(rest):
                inner = derivative_index(rest, self.space)
                yield from self._terms(coefficient * rest.expr, _add(order, inner))
            elif any(map(_compound, rest.atoms(Derivative))):
                yield from self._terms(coefficient * rest.doit(), order)
            else:
                if any((k := self._unknown(a)) and k[0] for a in outermost_atoms(rest)):
                    raise NotSupportedError(
                        f"a time derivative must stand linearly with a constant factor; got "
                        f"{term.expression}"
                    )
                yield 0, None, order, coefficient * rest

    def _unknown(self, atom: Any) -> tuple[int, int, Order] | None:
        """(1 if it is the highest time derivative, channel, space order) of an unknown's atom."""
        base = applied(atom)
        if not is_applied(base) or base.func.__name__ not in self.names:
            return None
        name, top = base.func.__name__, self.pde.time_order.get(base.func.__name__, 0)
        times, *order = derivative_index(atom, (self.time, *self.space))
        if times > top:
            raise NotSupportedError(
                f"{name} is differentiated {times} times in time; its order is {top}"
            )
        highest = int(0 < times == top)
        return highest, self.index[name, times - highest], tuple(order)

    def _input(self, atom: Any) -> tuple[str, Order] | None:
        base = applied(atom)
        if not is_applied(base) or base.func.__name__ in self.names:
            return None
        return base.func.__name__, argument_order(atom)

    def _cheaper(self, outer: Fluxes) -> Fluxes:
        """Write u^p ∂u as ∂u^(p+1)/(p+1) where that saves transforms (Burgers: 3 become 2).

        The same for a vorticity that its own stream function moves (Navier–Stokes: 5 become 4).
        """
        fluxes = outer
        for psi, w, factor in self.streams:
            apart = partial(as_fluxes, psi=psi, w=w, factor=factor, axes=self.space)
            fluxes = _rewritten(fluxes, apart)
        outer = min((outer, fluxes), key=self._transforms)
        powers = _rewritten(outer, lambda e: map(self._conservative, sympy.Add.make_args(e)))
        tables = [{k: e for k, e in t.items() if e != 0} for t in (outer, powers)]
        return min(tables, key=self._transforms)

    def _transforms(self, outer: Fluxes) -> int:
        """Count transforms of a step's stage; what stands still needs none."""
        moving = [p.expression for p in self._share(outer) if p.expression.has(self.time)]
        atoms = {a for e in moving for a in outermost_atoms(e) if self._unknown(a)}
        return len(atoms) + len(moving)

    def _conservative(self, term: Expr) -> tuple[Order, Expr]:
        zero = (0,) * len(self.space)
        found = read_term(term, self.coordinates)
        coefficient, rest = found.coefficient, found.held
        first = [a for a in outermost_atoms(rest) if a.is_Derivative]
        if len(first) != 1 or (known := self._unknown(first[0])) is None or sum(known[2]) != 1:
            return zero, term
        # Only the function itself may stand beside its derivative, as a power.
        factors, base = sympy.Mul.make_args(rest), first[0].expr
        power, exponent = sympy.Mul(*(f for f in factors if f != first[0])).as_base_exp()
        if first[0] not in factors or power != base:
            return zero, term
        if self._unknown(base) != (0, known[1], zero) or not exponent.is_positive:
            return zero, term
        return known[2], coefficient * base ** (exponent + 1) / (exponent + 1)

    def _share(self, outer: Fluxes) -> tuple[PolynomialTerm, ...]:
        """One product per expression up to a constant factor, those that stand still last."""
        places: dict[Expr, list[tuple[int, Order, Expr]]] = {}
        for (row, order), expression in outer.items():
            term = read_term(sympy.factor_terms(expression), self.coordinates)
            coefficient, rest = term.coefficient, term.held
            if rest.is_Add and rest.could_extract_minus_sign():
                coefficient, rest = -coefficient, -rest
            places.setdefault(rest, []).append((row, order, coefficient))
        products = [PolynomialTerm(e, tuple(p)) for e, p in places.items()]
        return tuple(sorted(products, key=lambda p: not p.expression.has(self.time)))


def _expanded(expression: Expr) -> tuple[Expr, ...]:
    """The addends of an expression with all products multiplied out."""
    return sympy.Add.make_args(expand(expression))


def expand(expression: Expr) -> Expr:
    """Multiply products out, but leave functions, roots and what is differentiated as they are.

    ((t − c)/w)² in a pulse of width w loses 2 log₁₀ (c/w) digits where it is multiplied out.
    """
    kept: dict[Any, Any] = {}
    nodes: Any = sympy.preorder_traversal(expression)
    for node in nodes:
        function = node.is_Function and not is_applied(node)
        root = node.is_Pow and not node.exp.is_Integer
        inverse = node.is_Pow and node.exp.is_negative and not node.has(AppliedUndef)
        if function or root or inverse or _compound(node):
            kept[node] = sympy.Dummy(real=node.is_real)
            nodes.skip()
    back = {dummy: node for node, dummy in kept.items()}
    return sympy.expand(expression.xreplace(kept), **_EXPAND).xreplace(back)


def _compound(derivative: Any) -> bool:
    """Whether it differentiates anything but an unknown or an input."""
    return derivative.is_Derivative and not is_applied(derivative.expr)


def _rewritten(outer: Fluxes, rewrite: Callable[[Expr], Iterable[tuple[Order, Expr]]]) -> Fluxes:
    """Rewrite every expression as parts under derivatives, and add up those of one place."""
    found: Fluxes = {}
    for (row, order), expression in outer.items():
        for inner, flux in rewrite(expression):
            key = row, _add(order, inner)
            found[key] = found.get(key, sympy.S.Zero) + flux
    return found


def _add(left: Order, right: Order) -> Order:
    return tuple(a + b for a, b in zip(left, right, strict=True))


Flux = tuple[tuple[int, int], Expr]
"""Derivatives to take along both axes, and of what."""


def stream_function(
    residual: Expr, psi: Expr, w: Expr, axes: Sequence[sympy.Symbol]
) -> Expr | None:
    """Give k of w = k Δψ where an auxiliary equation says just that, k free of coordinates.

    Args:
        residual: The equation, equal to zero, derivatives carried out.
        psi: The auxiliary unknown.
        w: The state that may be its Laplacian.
        axes: Both coordinates of space.
    """
    parts = [psi.diff(a, 2) for a in axes]
    rest, found = sympy.expand(residual), []
    for atom in (*parts, w):
        coefficient = rest.coeff(atom)
        rest = sympy.expand(rest - coefficient * atom)
        found.append(coefficient)
    first, second, own = found
    moving = (first.free_symbols | own.free_symbols) & psi.free_symbols
    return -first / own if rest == 0 and first == second != 0 != own and not moving else None


def as_fluxes(
    expression: Expr, psi: Expr, w: Expr, factor: Expr, axes: Sequence[sympy.Symbol]
) -> Iterator[Flux]:
    """Write c (∂xψ ∂yw − ∂yψ ∂xw), c a number or scalar, as fluxes; the rest stays as it is.

    Args:
        expression: A sum of products.
        psi: The stream function.
        w: ``factor`` times its Laplacian.
        factor: See ``w``.
        axes: Both coordinates of space.

    Yields:
        Parts that add up to the expression; one alone where nothing was found.
    """
    x, y = axes
    expression = sympy.expand(expression)
    one, other = psi.diff(x) * w.diff(y), psi.diff(y) * w.diff(x)
    c: Any = expression.coeff(one)
    rest = sympy.expand(expression - c * (one - other))
    if c == 0 or c.free_symbols & {*psi.free_symbols} or rest.has(one) or rest.coeff(other) != 0:
        yield (0, 0), expression
        return
    if rest != 0:
        yield (0, 0), rest
    mixed = factor * c * psi.diff(x) * psi.diff(y)
    yield (0, 2), mixed
    yield (2, 0), -mixed
    yield (1, 1), factor * c * (psi.diff(x) ** 2 - psi.diff(y) ** 2)
