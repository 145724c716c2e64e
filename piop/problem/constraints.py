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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, final

import sympy as sp

from piop.expression.functions import KINKS
from piop.forms.hard_constraints import lift_obstacle
from piop.forms.terms import derivative_index, highest_space_order

if TYPE_CHECKING:
    from piop.boundary import BoundaryCondition
    from piop.forms.pde import Input
    from piop.problem.problem import Problem


Mode = Literal["auto", "hard", "soft"]


@dataclass(frozen=True)
class Constraint:
    """One condition of a problem, how it is met, and why.

    Attributes:
        what: The condition in words, such as ``u at t = 0 is u0``.
        hard: True where the ansatz meets it exactly, False where the loss penalises it.
        why: The reason, a clause.
    """

    what: str
    hard: bool
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {'hard' if self.hard else 'soft'} constraint, {self.why}"


@final
@dataclass(frozen=True)
class InitialConstraint(Constraint):
    """An initial datum.

    Attributes:
        unknown: Of which unknown.
        order: Of its derivative in time.
    """

    unknown: str
    order: int


@final
@dataclass(frozen=True)
class PeriodicConstraint(Constraint):
    """The periodicity along an axis.

    Attributes:
        axis: Name of the axis.
    """

    axis: str


@final
@dataclass(frozen=True)
class FaceConstraint(Constraint):
    """A boundary condition on a face.

    Attributes:
        face: Name of the face.
        condition: The boundary condition.
    """

    face: str
    condition: BoundaryCondition


@final
@dataclass(frozen=True)
class Constraints:
    """How every condition of a problem is met.

    Attributes:
        channels: Names of the channels, in their order.
        initial: Initial data.
        periodic: Periodic axes.
        faces: Boundary conditions, in the order of the faces.
    """

    channels: tuple[str, ...]
    initial: tuple[InitialConstraint, ...]
    periodic: tuple[PeriodicConstraint, ...]
    faces: tuple[FaceConstraint, ...]

    def __iter__(self) -> Iterator[Constraint]:
        yield from (*self.initial, *self.periodic, *self.faces)

    @property
    def lift_orders(self) -> tuple[int, ...]:
        """Number of initial data of each channel that are hard constraints.

        0 for none, 1 for u0 + (t − t0)·net, 2 for u0 + (t − t0)·v0 + (t − t0)²·net.
        """
        hard = [c.unknown for c in self.initial if c.hard]
        return tuple(hard.count(channel) for channel in self.channels)

    @property
    def hard_faces(self) -> tuple[tuple[str, ...], ...]:
        """Faces of each channel whose prescribed value is a hard constraint."""
        hard = [(c.condition.unknown, c.face) for c in self.faces if c.hard]
        return tuple(tuple(f for name, f in hard if name == channel) for channel in self.channels)

    @property
    def hard_periodic(self) -> tuple[str, ...]:
        """Axes that are periodic for every weight of the network."""
        return tuple(c.axis for c in self.periodic if c.hard)

    @property
    def soft_initial(self) -> tuple[InitialConstraint, ...]:
        """Initial data left to the loss."""
        return tuple(c for c in self.initial if not c.hard)

    @property
    def soft_periodic(self) -> tuple[PeriodicConstraint, ...]:
        """Axes whose periodicity is left to the loss."""
        return tuple(c for c in self.periodic if not c.hard)

    @property
    def soft_faces(self) -> dict[str, list[BoundaryCondition]]:
        """Conditions left to the loss, by their face."""
        found: dict[str, list[BoundaryCondition]] = {}
        for constraint in self.faces:
            if not constraint.hard:
                found.setdefault(constraint.face, []).append(constraint.condition)
        return found

    def on_grid(self) -> Constraints:
        """Return how a network that is evaluated on a grid meets the conditions.

        Periodicity is a hard constraint, since spectra know nothing else. A slope in time is a soft
        one: beside u0 + (t − t0)·v0, differences in time find as small a residual for any other.
        """
        why = "differences in time do not feel a slope that is a hard constraint"
        initial = tuple(
            replace(c, hard=False, why=why) if c.hard and c.order else c for c in self.initial
        )
        why = "through differentiation by spectra"
        periodic = tuple(replace(c, hard=True, why=why) for c in self.periodic)
        return replace(self, initial=initial, periodic=periodic)


def decide_constraints(
    problem: Problem, constraints: Mode = "auto", *, walls: bool = True
) -> Constraints:
    """Decide which conditions are hard constraints.

    Args:
        problem: The problem.
        constraints: ``auto`` makes hard constraints of all conditions that can be, ``hard`` too but
            refuses where one cannot, ``soft`` leaves all of them to the loss (as the papers do).
        walls: Whether conditions on faces are met at all; they are not where only data are trained
            on.

    Raises:
        ValueError: If ``constraints`` is none of these, or is ``hard`` where a condition cannot be
            a hard constraint.
    """
    if constraints not in ("auto", "hard", "soft"):
        raise ValueError(f"constraints: {constraints!r} is not one of auto, hard, soft")
    initial: list[InitialConstraint] = []
    for unknown, data in problem.initial.items():
        texts = [_initial_text(problem, unknown, order) for order in range(len(data))]
        reason = "the initial data are smooth enough"
        obstacles = filter(None, (_roughness(problem, unknown, e) for e in data))
        hard, why = _decide(constraints, texts[0], next(obstacles, None), reason)
        initial += [InitialConstraint(t, hard, why, unknown, k) for k, t in enumerate(texts)]
    periodic = []
    for axis in (c.name for c in problem.space if c.periodic):
        what = f"periodic in {axis}"
        hard, why = _decide(constraints, what, None, f"through harmonics of {axis}")
        periodic.append(PeriodicConstraint(what, hard, why, axis))
    decided = Constraints(problem.channels, tuple(initial), tuple(periodic), ())
    for face, condition in problem.pde.face_conditions if walls else ():
        what = condition.sentence(problem.domain.where(face))
        obstacle = _face_obstacle(problem, face, condition, decided)
        hard, why = _decide(constraints, what, obstacle, problem.domain.distance_text)
        found = FaceConstraint(what, hard, why, face, condition)
        decided = replace(decided, faces=(*decided.faces, found))
    return decided


def _decide(mode: Mode, what: str, obstacle: str | None, reason: str) -> tuple[bool, str]:
    """Decide whether a condition is a hard constraint, and give the reason.

    Args:
        mode: As requested.
        what: The condition.
        obstacle: Why it cannot be one; None where it can.
        reason: How it is met where it is one.

    Raises:
        ValueError: If it has to be one and cannot.
    """
    if mode == "hard" and obstacle is not None:
        advice = "use constraints: auto or soft"
        raise ValueError(f"constraints: hard is not possible for {what}: {obstacle}; {advice}")
    if mode != "soft" and obstacle is None:
        return True, reason
    return False, obstacle or "as requested"


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
    known = item.distribution
    if not item.smooth and (known is None or known.derivatives > 0):
        return 0.0, f"{item.name} is declared smooth: false"
    if item.expression is not None:
        return expression_smoothness(problem, item.expression)
    smoothness = 0.0 if known is None else known.differentiability(len(item.of))
    if not smoothness > 0:
        return 0.0, f"nothing is known of the smoothness of {item.name}, or it has jumps"
    return smoothness, f"{item.name} has fewer than {smoothness:g} derivatives"


def _roughness(problem: Problem, unknown: str, expression: sp.Expr) -> str | None:
    """Say why an expression cannot be part of an unknown; None where it can."""
    order = highest_space_order(problem.pde, problem.residuals, [unknown])
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


def _face_obstacle(
    problem: Problem, face: str, condition: BoundaryCondition, decided: Constraints
) -> str | None:
    """Say why a condition on a face cannot be a hard constraint; None where it can.

    Args:
        problem: The problem.
        face: Where it holds.
        condition: The condition.
        decided: The initial data and the faces before it.
    """
    if condition.prescribed is None:
        return condition.soft_because
    name = condition.unknown
    channel = problem.channels.index(name)
    rough = _roughness(problem, name, condition.prescribed)
    order, faces = decided.lift_orders[channel], decided.hard_faces[channel]
    return rough or lift_obstacle(problem.pde, name, order, faces, face)


def _initial_text(problem: Problem, unknown: str, order: int) -> str:
    start = "" if problem.time is None else f"{problem.time.name} = {problem.time.low:g}"
    quantity = problem.derivative_text(unknown, order)
    return f"{quantity} at {start} is {problem.initial[unknown][order]}"
