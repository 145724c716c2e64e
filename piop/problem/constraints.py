"""Hard and soft constraints: conditions that a network meets exactly, and those left to the loss.

A hard constraint holds for every weight of the network and takes its term out of the loss; it needs
an ansatz that is smooth enough for the residual. A soft constraint, a penalty in the loss, is
always possible. The decision is symbolic, so ``piop check`` prints it without torch.

Source: hard initial data u = u0 + (t − t0)·net as in Lagaris, Likas & Fotiadis 1998, eq. 3
(doi:10.1109/72.712178); periodic axes through harmonics as in Dong & Ni 2021, sec. 2
(doi:10.1016/j.jcp.2021.110242). Prescribed values through the distance to the wall as in Sukumar &
Srivastava 2022, sec. 3 (doi:10.1016/j.cma.2021.114333).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import sympy as sp

from piop.expression.functions import KINKS
from piop.forms.lift import lift_obstacle
from piop.forms.streams import derivative_index

if TYPE_CHECKING:
    from piop.boundary import BoundaryCondition
    from piop.forms.parts import Input
    from piop.problem.problem import Problem


Mode = Literal["auto", "hard", "soft"]


@dataclass(frozen=True)
class Constraint:
    """One condition, how it is met, and why.

    Attributes:
        what: The condition as a reader would write it, such as ``u(t = 0) = u0``.
        built_in: True where the ansatz meets it exactly, False where the loss penalises it.
        why: The reason, a clause.
    """

    what: str
    built_in: bool
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {'built in' if self.built_in else 'penalised'}, {self.why}"


@dataclass(frozen=True)
class Constraints:
    """How every condition of a problem is met.

    Attributes:
        lift: How many initial data of each channel are built in, in the order of the channels:
            0 none, 1 u0 + (t − t0)·net, 2 u0 + (t − t0)·v0 + (t − t0)²·net.
        initial: Initial data left to the loss, as (unknown, order in time).
        periodic: Axes made periodic by harmonics of the coordinate.
        penalised_periodic: Axes whose periodicity is left to the loss.
        decisions: All of it in words.
        walls: Faces on which the value of each channel is built in, in the order of the channels.
        boundary: Conditions on faces that are left to the loss.
    """

    lift: tuple[int, ...]
    initial: tuple[tuple[str, int], ...]
    periodic: tuple[str, ...]
    penalised_periodic: tuple[str, ...]
    decisions: tuple[Constraint, ...]
    walls: tuple[tuple[str, ...], ...] = ()
    boundary: tuple[tuple[str, BoundaryCondition], ...] = ()

    @property
    def lifts(self) -> bool:
        """Whether anything is added to the network."""
        return any(self.lift) or any(self.walls)


def decide_constraints(
    problem: Problem, constraints: Mode = "auto", *, walls: bool = True
) -> Constraints:
    """Decide which conditions are built in.

    Args:
        problem: The problem.
        constraints: ``auto`` builds in what can be, ``hard`` too but refuses where something
            cannot, ``soft`` penalises everything (as the papers do).
        walls: Whether conditions on faces are met at all; they are not where data alone speak.

    Raises:
        ValueError: If ``constraints`` is none of these, or is ``hard`` where a condition cannot be
            built in.
    """
    if constraints not in ("auto", "hard", "soft"):
        raise ValueError(f"constraints: {constraints!r} is not one of auto, hard, soft")
    decisions: list[Constraint] = []
    lift, initial = {}, []
    for unknown, data in problem.initial.items():
        obstacle = _obstacle(problem, unknown, data)
        hard = constraints != "soft" and obstacle is None
        if constraints == "hard" and obstacle is not None:
            raise ValueError(
                f"constraints: hard is not possible for {_initial_text(problem, unknown, 0)}: "
                f"{obstacle}; use constraints: auto or soft"
            )
        lift[unknown] = len(data) if hard else 0
        why = "the initial data are smooth enough" if hard else obstacle or "as asked"
        for order in range(len(data)):
            decisions.append(Constraint(_initial_text(problem, unknown, order), hard, why))
            if not hard:
                initial.append((unknown, order))
    axes = tuple(c.name for c in problem.space if c.periodic)
    soft = constraints == "soft"
    decisions += [
        Constraint(
            f"periodic in {a}", not soft, "as asked" if soft else f"through harmonics of {a}"
        )
        for a in axes
    ]
    orders = tuple(lift.get(channel, 0) for channel in problem.channels)
    built: dict[str, list[str]] = {channel: [] for channel in problem.channels}
    boundary = []
    around = "wall" if problem.domain.is_box else "boundary"
    for face, condition in problem.pde.face_conditions if walls else ():
        what = condition.sentence(problem.domain.where(face))
        found = _wall_obstacle(problem, face, condition, orders, built)
        hard = not soft and found is None
        if constraints == "hard" and found is not None:
            raise ValueError(
                f"constraints: hard is not possible for {what}: {found}; "
                f"use constraints: auto or soft"
            )
        if hard:
            built[condition.unknown].append(face)
        else:
            boundary.append((face, condition))
        why = f"through the distance to the {around}" if hard else found or "as asked"
        decisions.append(Constraint(what, hard, why))
    return Constraints(
        lift=orders,
        initial=tuple(initial),
        periodic=() if soft else axes,
        penalised_periodic=axes if soft else (),
        decisions=tuple(decisions),
        walls=tuple(tuple(faces) for faces in built.values()),
        boundary=tuple(boundary),
    )


def space_order(problem: Problem, unknown: str) -> int:
    """Give the highest spatial derivative of an unknown in any equation."""
    symbols = [c.symbol for c in problem.coordinates]
    first = len(symbols) - len(problem.space)
    orders = [
        sum(derivative_index(atom, symbols)[first:])
        for residual in problem.residuals
        for atom in residual.atoms(sp.Derivative)
        if atom.expr == problem.function(unknown)
    ]
    return max(orders, default=0)


def expression_smoothness(problem: Problem, expression: sp.Expr) -> tuple[float, str]:
    """Count the derivatives that an expression of the inputs has, and name what limits them.

    Returns:
        Derivatives exist for every order strictly below the first number; the second is the
        reason, empty where it is infinite.
    """
    if expression.has(*KINKS):
        return 1.0, "it has a kink or a jump"
    worst, reason = math.inf, ""
    for item in problem.inputs:
        if not expression.has(item.symbol):
            continue
        smoothness, why = _input_smoothness(problem, item)
        symbols = [problem.coordinate(name).symbol for name in item.of]
        own = [d for d in expression.atoms(sp.Derivative) if d.expr == item.symbol]
        taken = max((sum(derivative_index(d, symbols)) for d in own), default=0)
        if smoothness - taken < worst:
            worst, reason = smoothness - taken, why
    return worst, reason


def _input_smoothness(problem: Problem, item: Input) -> tuple[float, str]:
    if not item.of:
        return math.inf, ""
    if item.expression is not None:
        if not item.smooth:
            return 0.0, f"{item.name} is declared smooth: false"
        return expression_smoothness(problem, item.expression)
    smoothness = item.law.differentiability(len(item.of)) if item.law is not None else 0.0
    if not smoothness > 0:
        return 0.0, f"nothing is known of the smoothness of {item.name}, or it has jumps"
    return smoothness, f"{item.name} has fewer than {smoothness:g} derivatives"


def _obstacle(problem: Problem, unknown: str, data: tuple[sp.Expr, ...]) -> str | None:
    """Say why initial data cannot be built in, or None where they can."""
    return next(filter(None, (_roughness(problem, unknown, e) for e in data)), None)


def _roughness(problem: Problem, unknown: str, expression: sp.Expr) -> str | None:
    """Say why an expression cannot be part of an unknown, or None where it can."""
    order = space_order(problem, unknown)
    hidden = [i.name for i in problem.inputs if i.hidden and expression.has(i.symbol)]
    if hidden:
        return f"it depends on {hidden[0]}, which the network does not see"
    moving = [n for n in problem.infer if expression.has(sp.Symbol(n, real=True))]
    if moving:
        return f"it depends on {moving[0]}, which is to be inferred"
    smoothness, reason = expression_smoothness(problem, expression)
    if not smoothness > order:
        return f"the equation needs {order} of its derivatives, but {reason}"
    return None


def _wall_obstacle(
    problem: Problem,
    face: str,
    condition: BoundaryCondition,
    orders: tuple[int, ...],
    built: Mapping[str, Sequence[str]],
) -> str | None:
    """Say why a condition on a face cannot be built in, or None where it can."""
    if condition.soft_because:
        return condition.soft_because
    name = condition.unknown
    rough = _roughness(problem, name, condition.values[0])
    order = orders[problem.channels.index(name)]
    return rough or lift_obstacle(problem.pde, name, order, built[name], face)


def _initial_text(problem: Problem, unknown: str, order: int) -> str:
    assert problem.time is not None  # noqa: S101 - only evolution problems have initial data
    t = problem.time
    quantity = unknown if order == 0 else f"d{t.name * order}({unknown})"
    return f"{quantity} at {t.name} = {t.low:g} is {problem.initial[unknown][order]}"
