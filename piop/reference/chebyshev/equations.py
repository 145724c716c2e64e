"""Equations and wall conditions as rows ``mass·w' + value(w) = 0`` with their slopes, in symbols.

The state w has one channel for each unknown and each of its time derivatives below the highest.
A condition takes the place of its channel's row at the nodes of its face; for an unknown of second
order in time it is the condition's derivative in time that takes the place of the row of dt(u), so
that the system stays of index one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import sympy
from sympy import Derivative, Expr

from piop.errors import NotSupportedError
from piop.forms.differentiate import partial
from piop.forms.linear_nonlinear_split import Channel, Order
from piop.forms.terms import applied, derivative_counts, multipliers, name_of, outermost_atoms
from piop.problem import Problem

ChannelDerivative = tuple[int, Order]
"""Channel and order of differentiation along each axis of space."""


@dataclass(frozen=True)
class Row:
    """One equation.

    Attributes:
        channel: Whose row it is.
        mass: Coefficient of the time derivative of each (channel, order).
        value: The rest, in the stand-ins of atoms.
        slopes: Derivative of the rest by each (channel, order).
        face: (axis, 0 or −1) of a condition; None for an equation.
        fixes: Whether it gives the value of its channel itself (Dirichlet).
    """

    channel: int
    mass: dict[ChannelDerivative, Expr]
    value: Expr
    slopes: dict[ChannelDerivative, Expr]
    face: tuple[int, int] | None = None
    fixes: bool = False


def face_of(condition: Row) -> tuple[int, int]:
    """Return the axis of a condition's face, and 0 or −1 for the end of that axis.

    Raises:
        ValueError: If the row is an equation, which has no face.
    """
    if condition.face is None:
        raise ValueError(f"the row of channel {condition.channel} is no condition on a face")
    return condition.face


@dataclass(frozen=True)
class Equations:
    """A problem in rows.

    Attributes:
        channels: Components of the state.
        unknowns: Stand-in of each (channel, order) that rows read.
        inputs: Stand-in → atom of an input function, with the order over its arguments.
        rows: One per channel, in their order.
        conditions: Those of all faces; Dirichlet last, so that they hold at corners.
        initial_conditions: What must vanish at the start on each face: the conditions of unknowns
            of second order in time, which are met through their derivative alone.
        multipliers: Channels whose row is a constraint that does not hold them: pressures.
        linear: Whether no slope holds an unknown.
        steady: Whether no slope holds anything that moves in time.
    """

    channels: tuple[Channel, ...]
    unknowns: dict[sympy.Dummy, ChannelDerivative]
    inputs: dict[sympy.Dummy, Expr]
    rows: tuple[Row, ...]
    conditions: tuple[Row, ...]
    initial_conditions: tuple[Row, ...]
    multipliers: tuple[int, ...]
    linear: bool
    steady: bool


def build_equations(problem: Problem) -> Equations:
    """Split a problem's equations and conditions into rows.

    Raises:
        NotSupportedError: If time derivatives do not stand linearly, with coefficients that neither
            move in time nor hold unknowns.
    """
    return _Builder(problem).run()


class _Builder:
    """Splits one problem into rows, with symbols in place of its atoms."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.time = problem.time.symbol if problem.time else None
        self.space = [c.symbol for c in problem.space]
        orders = {u: problem.time_order.get(u, 0) for u in problem.channels}
        self.orders = orders
        self.multipliers = multipliers(problem.pde)
        self.channels = tuple(
            Channel(u, p) for u in problem.channels for p in range(max(orders[u], 1))
        )
        self.index = {(c.name, c.time_order): i for i, c in enumerate(self.channels)}
        self.unknowns: dict[Expr, tuple[sympy.Dummy, ChannelDerivative, bool]] = {}
        self.inputs: dict[Expr, sympy.Dummy] = {}

    def run(self) -> Equations:
        rows: dict[int, Row] = {}
        for residual, name in zip(self.problem.residuals, self._owners(), strict=True):
            order = self.orders[name]
            last = self.index[name, max(order - 1, 0)]
            rows[last] = self._row(last, residual)
            for p in range(order - 1):  # d/dt of a channel is the next one
                rows[self.index[name, p]] = self._next(name, p)
        conditions, start = [], []
        for axis, end, name, residual, fixes in self._conditions():
            channel = self.index[name, max(self.orders[name] - 1, 0)]
            if self.orders[name] == 2 and self._times(residual) == 0:
                start.append(self._row(self.index[name, 0], residual, (axis, end)))
                residual = partial_in_time(residual, self.time)
            conditions.append(self._row(channel, residual, (axis, end), fixes))
        conditions.sort(key=lambda r: r.fixes)
        everything = [*rows.values(), *conditions]
        unknowns = {d: derivative for d, derivative, _ in self.unknowns.values()}
        slopes = [s for r in everything for s in r.slopes.values()]
        moving = self._moving()
        return Equations(
            self.channels,
            unknowns,
            {d: a for a, d in self.inputs.items()},
            tuple(rows[i] for i in range(len(self.channels))),
            tuple(conditions),
            tuple(start),
            tuple(self.index[name, 0] for name in self.multipliers),
            not any(s.free_symbols & set(unknowns) for s in slopes),
            not any(s.free_symbols & moving for s in slopes),
        )

    def _owners(self) -> tuple[str, ...]:
        """The unknown that each residual determines: by its time derivative, else its highest."""
        names = self.problem.channels

        def score(residual: Expr, name: str) -> int:
            atoms = [a for a in outermost_atoms(residual) if name_of(a) == name]
            if bool(atoms) == (name in self.multipliers):  # a multiplier's row is one without it
                return -10_000
            if not atoms:
                return 0
            counts = [derivative_counts(a) for a in atoms]
            if self.orders[name]:
                top = any(c.get(self.time, 0) == self.orders[name] for c in counts)
                return 1000 if top else -10_000
            return max(sum(c.get(s, 0) for s in self.space) for c in counts)

        table = [[score(r, n) for n in names] for r in self.problem.residuals]
        best = max(
            permutations(range(len(names))), key=lambda p: sum(table[i][j] for i, j in enumerate(p))
        )
        return tuple(names[j] for j in best)

    def _row(
        self, channel: int, residual: Expr, face: tuple[int, int] | None = None, fixes: bool = False
    ) -> Row:
        stood: Any = residual.xreplace({a: self._stand_in(a) for a in outermost_atoms(residual)})
        residual = stood
        mass: dict[ChannelDerivative, Expr] = {}
        slopes: dict[ChannelDerivative, Expr] = {}
        value: Any = residual
        for dummy, derivative, top in list(self.unknowns.values()):
            if not residual.has(dummy):
                continue
            slope = partial(residual, dummy)
            if top:
                mass[derivative] = slope
                value = value.xreplace({dummy: sympy.S.Zero})
            else:
                slopes[derivative] = slope
        moving = self._moving() | {d for d, _, _ in self.unknowns.values()}
        if any(m.free_symbols & moving for m in mass.values()) or (mass and face):
            raise NotSupportedError(
                f"{self.problem.name}: a time derivative must stand linearly, its coefficient "
                "without unknowns and constant in time, and not in a condition"
            )
        return Row(channel, mass, value, slopes, face, fixes)

    def _next(self, name: str, p: int) -> Row:
        zero = (0,) * len(self.space)
        here, following = self.index[name, p], self.index[name, p + 1]
        atom = Derivative(self.problem.function(name), (self.time, p + 1))
        dummy = self._stand_in(atom)
        return Row(here, {(here, zero): sympy.S.One}, -dummy, {(following, zero): -sympy.S.One})

    def _stand_in(self, atom: Any) -> sympy.Dummy:
        name = name_of(atom)
        if name not in self.orders:
            return self.inputs.setdefault(atom, sympy.Dummy(str(atom), real=True))
        if atom not in self.unknowns:
            count = derivative_counts(atom)
            times = count.get(self.time, 0)
            top = bool(times) and times == self.orders[name]
            derivative = (self.index[name, times - top], tuple(count.get(s, 0) for s in self.space))
            self.unknowns[atom] = (sympy.Dummy(str(atom), real=True), derivative, top)
        return self.unknowns[atom][0]

    def _moving(self) -> set[Any]:
        """Symbols that depend on time."""
        if self.time is None:
            return set()
        return {self.time} | {d for a, d in self.inputs.items() if self.time in applied(a).args}

    def _times(self, residual: Expr) -> int:
        atoms = [a for a in outermost_atoms(residual) if name_of(a) in self.orders]
        return max((derivative_counts(a).get(self.time, 0) for a in atoms), default=0)

    def _conditions(self) -> Iterator[tuple[int, int, str, Expr, bool]]:
        """Yield (axis, 0 or −1, unknown, residual, whether it fixes the value)."""
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
                    yield axis, end, name, residual, c.prescribed is not None


def partial_in_time(residual: Expr, time: Any) -> Expr:
    """The total derivative in time of a condition."""
    return partial(residual, time)
