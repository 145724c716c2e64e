"""Equations and wall conditions as rows ``mass·w' + value(w) = 0`` with their slopes, in symbols.

The state w has one channel for each unknown and each of its time derivatives below the highest.
A condition takes the place of its channel's row at the nodes of its face; for an unknown of second
order in time it is the condition's derivative in time that takes the place of the row of dt(u), so
that the system stays of index one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import sympy
from sympy import Derivative, Expr
from torch import Tensor

from piop.forms.differentiate import differentiate, partial, substitute
from piop.forms.linear_nonlinear_split import Channel, Order
from piop.forms.terms import applied, derivative_counts, multipliers, name_of, outermost_atoms
from piop.lowering import compile_expressions
from piop.problem import Problem
from piop.reference.features.along_paths import narrow_terms

ChannelDerivative = tuple[int, Order]
"""Channel and order of differentiation along each axis of space."""
Face = tuple[int, int]
"""Axis of a face, and 0 or −1 for the end of that axis."""
Terms = Mapping[ChannelDerivative, Expr]
"""Coefficients of derivatives."""
Compiled = Callable[[Sequence[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class LinearTerms:
    """Coefficients of derivatives of channels.

    Attributes:
        derivatives: Which.
        compute: The coefficient of each, from what the row needs.
    """

    derivatives: tuple[ChannelDerivative, ...]
    compute: Compiled


@dataclass(frozen=True)
class Row:
    """One equation, or the condition that takes its place on a face.

    Attributes:
        channel: Whose row it is.
        needs: Symbols of the values that its functions take.
        value: The row without its time derivatives.
        slopes: Derivative of that by each (channel, order).
        mass: Coefficient of the time derivative of each (channel, order).
    """

    channel: int
    needs: tuple[Any, ...]
    value: Compiled
    slopes: LinearTerms
    mass: LinearTerms


@final
class Equations:
    """A problem in rows, compiled once for all meshes.

    Args:
        problem: One that the method covers, so that factors of time derivatives are constant.

    Attributes:
        channels: Components of the state.
        unknowns: Stand-in of each (channel, order) that rows read.
        known: Stand-ins of input functions, scalars and coordinates → what they stand for.
        rows: One per channel, in their order.
        conditions: Those of all faces; Dirichlet last, so that they hold at corners.
        initial_conditions: Face, channel and what must vanish there at the start: the conditions of
            unknowns of second order in time, which are met through their derivative alone, with the
            initial data in place of unknowns.
        narrow: Terms of equations that may be narrow in an unknown.
        multipliers: Channels whose row is a constraint that does not hold them: pressures.
        linear: Whether no slope holds an unknown.
        steady: Whether no slope holds anything that moves in time.
        moving: Whether anything but unknowns moves in time.
        shared: Whether no slope holds an unknown or an input, so that all samples share a matrix.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.time: Any = problem.time.symbol if problem.time else None
        self.space = [c.symbol for c in problem.space]
        self.orders = {u: problem.pde.time_order.get(u, 0) for u in problem.channels}
        self.channels = tuple(
            Channel(u, p) for u in problem.channels for p in range(max(self.orders[u], 1))
        )
        self.index = {(c.name, c.time_order): i for i, c in enumerate(self.channels)}
        constraints = multipliers(problem.pde)
        self.multipliers = tuple(self.index[name, 0] for name in constraints)
        # Atom → its stand-in, what it is of a channel, and whether that is the mass matrix's.
        self._atoms: dict[Expr, tuple[sympy.Dummy, ChannelDerivative, bool]] = {}
        self._inputs: dict[Expr, sympy.Dummy] = {}
        self._in_slopes: set[Any] = set()
        self._used: set[Any] = set()
        rows: dict[int, Row] = {}
        for residual, name in zip(problem.residuals, self._owners(constraints), strict=True):
            order = self.orders[name]
            last = self.index[name, max(order - 1, 0)]
            rows[last] = self._row(last, residual)
            for p in range(order - 1):  # d/dt of a channel is the next one
                rows[self.index[name, p]] = self._next(name, p)
        self.rows = tuple(rows[i] for i in range(len(self.channels)))
        self.narrow = narrow_terms(problem)
        self.conditions: list[tuple[Face, Row]] = []
        self.initial_conditions: list[tuple[Face, int, Expr]] = []
        for face, name, residual, _ in sorted(self._conditions(), key=lambda c: c[-1]):
            channel = self.index[name, max(self.orders[name] - 1, 0)]
            if self.orders[name] == 2 and self._times(residual) == 0:
                if (start := self._at_start(residual)) is not None:
                    self.initial_conditions.append((face, self.index[name, 0], start))
                residual = partial(residual, self.time)
            self.conditions.append((face, self._row(channel, residual)))
        self.unknowns = {d: derivative for d, derivative, top in self._atoms.values() if not top}
        self.known = {d: atom for atom, d in self._inputs.items()}
        self.known |= {symbol: symbol for symbol in self._symbols()}
        self.linear = not self._in_slopes & set(self.unknowns)
        self.steady = not self._in_slopes & self._moving()
        self.moving = bool(self._used & self._moving())
        scalars = {i.symbol for i in problem.inputs if not i.of}
        self.shared = self.linear and not self._in_slopes & (scalars | {*self._inputs.values()})

    def derivative_of(self, atom: Any) -> ChannelDerivative | None:
        """The channel and order of an unknown or a derivative of it; None of anything else."""
        if atom.is_Symbol or name_of(atom) not in self.orders:
            return None
        count = derivative_counts(atom)
        channel = self.index[name_of(atom), count.get(self.time, 0)]
        return channel, tuple(count.get(s, 0) for s in self.space)

    def _symbols(self) -> list[Any]:
        """Scalar inputs and coordinates."""
        scalars = [i.symbol for i in self.problem.inputs if not i.of]
        return [*scalars, *(c.symbol for c in self.problem.coordinates)]

    def _owners(self, constraints: Sequence[str]) -> tuple[str, ...]:
        """The unknown that each residual determines: by its time derivative, else its highest."""
        from scipy.optimize import linear_sum_assignment  # slow to import, and few runs need it

        names = self.problem.channels

        def score(residual: Expr, name: str) -> int:
            atoms = [a for a in outermost_atoms(residual) if name_of(a) == name]
            if bool(atoms) == (name in constraints):  # a multiplier's row is one without it
                return -10_000
            if not atoms:
                return 0
            counts = [derivative_counts(a) for a in atoms]
            if self.orders[name]:
                top = any(c.get(self.time, 0) == self.orders[name] for c in counts)
                return 1000 if top else -10_000
            return max(sum(c.get(s, 0) for s in self.space) for c in counts)

        table = np.array([[score(r, n) for n in names] for r in self.problem.residuals])
        in_order = 1e-3 * np.eye(len(names))  # of several ways, that in the order of the spec
        _, best = linear_sum_assignment(table + in_order, maximize=True)
        return tuple(names[j] for j in best)

    def _row(self, channel: int, residual: Expr) -> Row:
        atoms = outermost_atoms(residual)
        stood: Any = residual.xreplace({a: self._stand_in(a) for a in atoms})
        own = [(d, derivative, top) for d, derivative, top in self._atoms.values() if stood.has(d)]
        mass = {derivative: partial(stood, d) for d, derivative, top in own if top}
        slopes = {derivative: partial(stood, d) for d, derivative, top in own if not top}
        value = stood.xreplace({d: sympy.S.Zero for d, _, top in own if top})
        return self._compile(channel, value, slopes, mass)

    def _next(self, name: str, p: int) -> Row:
        zero = (0,) * len(self.space)
        here, following = self.index[name, p], self.index[name, p + 1]
        value = -self._stand_in(Derivative(self.problem.function(name), (self.time, p + 1)))
        slopes: dict[ChannelDerivative, Expr] = {(following, zero): -sympy.S.One}
        return self._compile(here, value, slopes, {(here, zero): sympy.S.One})

    def _compile(self, channel: int, value: Expr, slopes: Terms, mass: Terms) -> Row:
        in_slopes = set().union(*(s.free_symbols for s in slopes.values()))
        self._in_slopes |= in_slopes
        used = in_slopes.union(*(e.free_symbols for e in (value, *mass.values())))
        self._used |= used
        used.add(self.time)
        dummies = [*(d for d, _, _ in self._atoms.values()), *self._inputs.values()]
        needs = tuple(s for s in (*dummies, *self._symbols()) if s in used)
        of_slopes, of_mass = (
            LinearTerms(tuple(part), compile_expressions(tuple(part.values()), needs))
            for part in (slopes, mass)
        )
        return Row(channel, needs, compile_expressions((value,), needs), of_slopes, of_mass)

    def _stand_in(self, atom: Any) -> sympy.Dummy:
        name = name_of(atom)
        if name not in self.orders:
            return self._inputs.setdefault(atom, sympy.Dummy(str(atom), real=True))
        if atom not in self._atoms:
            count = derivative_counts(atom)
            times = count.get(self.time, 0)
            top = bool(times) and times == self.orders[name]
            derivative = (self.index[name, times - top], tuple(count.get(s, 0) for s in self.space))
            self._atoms[atom] = (sympy.Dummy(str(atom), real=True), derivative, top)
        return self._atoms[atom][0]

    def _moving(self) -> set[Any]:
        """Symbols that depend on time."""
        if self.time is None:
            return set()
        return {self.time} | {d for a, d in self._inputs.items() if self.time in applied(a).args}

    def _times(self, residual: Expr) -> int:
        atoms = [a for a in outermost_atoms(residual) if name_of(a) in self.orders]
        return max((derivative_counts(a).get(self.time, 0) for a in atoms), default=0)

    def _at_start(self, residual: Expr) -> Expr | None:
        """A condition with the initial data in place of unknowns; None where it has no value."""
        data: dict[Any, Any] = {}
        for atom in outermost_atoms(residual):
            if (own := self.derivative_of(atom)) is not None:
                channel, orders = self.channels[own[0]], own[1]
                given = self.problem.initial.get(channel.name)
                if given is None:
                    return None
                known = given[channel.time_order]
                by = [(s, n) for s, n in zip(self.space, orders, strict=True) if n]
                data[atom] = Derivative(known, *by) if by else known
        try:
            return differentiate(substitute(residual, data))
        except ArithmeticError:
            return None

    def _conditions(self) -> Iterator[tuple[Face, str, Expr, bool]]:
        """Yield face, unknown, residual, and whether it fixes the value (Dirichlet)."""
        for axis, coordinate in enumerate(self.problem.space):
            for end, word in ((0, "min"), (-1, "max")):
                face = f"{coordinate.name}.{word}"
                given = self.problem.boundary.get(face, ())
                named = {c.unknown for c in given}
                waiting = [u for u in self.problem.channels if u not in named]
                for c in given:
                    residual = self.problem.pde.condition_residual(face, c)
                    name = c.unknown
                    if not name:
                        name = next(u for u in waiting if residual.has(self.problem.function(u)))
                        waiting.remove(name)
                    yield (axis, end), name, residual, c.prescribed is not None
