"""Capabilities of a problem (training, solving, inference, learning), and why others fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from sympy import Derivative, Symbol

from piop.errors import NotSupportedError
from piop.forms.conservation import forms_shocks
from piop.problem.inputs import history_of
from piop.problem.inverse_operator import inverse_obstacles
from piop.problem.reference_methods import Method, first_method
from piop.spec.distributions import FromData
from piop.spec.model import SensorPlacement

if TYPE_CHECKING:
    from piop.problem.problem import Problem

FROM_DATA = (
    ". It can be trained on solutions alone: --data FILE --no-physics (in Python data=..., "
    "physics=False)"
)


@final
@dataclass(frozen=True)
class Capability:
    """One thing to do with a problem.

    Attributes:
        refusal: Why it cannot be done, with every reason; empty where it can.
    """

    refusal: str = ""

    def __bool__(self) -> bool:
        return not self.refusal

    def require(self) -> None:
        """Go on only where it can be done.

        Raises:
            NotSupportedError: ``not supported yet: … because …``, with every reason, and whether
                data alone would do.
        """
        if self.refusal:
            raise NotSupportedError(self.refusal)


@final
@dataclass(frozen=True)
class Capabilities:
    """Everything that can be done with a problem, decided once.

    Attributes:
        equations: Train on the equations, with data or without, or as ``learn`` says; without a
            reference nothing but the residual tells how right the result is.
        data: Train on given solutions alone, which asks for neither residual nor reference.
        reference: Solve for inputs that are drawn, by a classical method.
        solver: Solve for inputs that are given, by the method.
        method: The classical method; None where none covers the problem.
    """

    equations: Capability
    data: Capability
    reference: Capability
    solver: Capability
    method: Method | None

    def training(self, physics: bool) -> Capability:
        """Return that of training on the equations, or on data alone."""
        return self.equations if physics else self.data


def find_capabilities(problem: Problem) -> Capabilities:
    """Decide what can be done with a problem.

    Args:
        problem: One that passed its checks.
    """
    method, reasons = first_method(problem)
    unsolved = "" if method is not None else f"no solver covers it, because {reasons}"
    if problem.learn is None:
        equations, data = _train_on_equations(problem), _train_on_data(problem)
    else:
        equations = data = _learn(problem)
    return Capabilities(
        equations,
        data,
        _unless(problem, _undrawn(problem) or [unsolved] * bool(unsolved)),
        Capability(unsolved and f"{problem.name}: {unsolved}"),
        method,
    )


def choose_method(problem: Problem) -> Method:
    """Return the classical method of a problem: the first of ``METHODS`` that covers it.

    Parameters to infer count at the values that they start from.

    Raises:
        NotSupportedError: If none does, with the reason of each.
    """
    found = problem.capabilities
    if found.method is None:
        raise NotSupportedError(found.solver.refusal)
    return found.method


def usual_tolerance(problem: Problem) -> float:
    """Return the error estimate that references stay below where nothing else is given.

    Raises:
        NotSupportedError: If no method covers the problem.
    """
    return choose_method(problem).tolerance(problem.at())


def _unless(problem: Problem, reasons: list[str], advice: str = "") -> Capability:
    if not reasons:
        return Capability()
    return Capability(f"{problem.name}: not supported yet: {'; '.join(reasons)}{advice}")


def _train_on_equations(problem: Problem) -> Capability:
    inferring = list(_infer_obstacles(problem))
    reasons = [*_undrawn(problem), *inferring]
    if problem.residuals:
        reasons += _physics_obstacles(problem)
    return _unless(problem, reasons, "" if inferring else FROM_DATA)


def _train_on_data(problem: Problem) -> Capability:
    reasons = list(_infer_obstacles(problem))
    if problem.infer:
        names = ", ".join(problem.infer)
        reasons.append(f"infer {names}, because without the equations nothing says what it does")
    return _unless(problem, reasons)


def _learn(problem: Problem) -> Capability:
    """Learn the inverse operator, which is known from data alone."""
    if obstacles := list(inverse_obstacles(problem)):
        return _unless(problem, ["learn, because " + "; ".join(obstacles)])
    return problem.inverse().capabilities.data


def _undrawn(problem: Problem) -> list[str]:
    """Give what is known from data alone, so that no input or solution can be drawn."""
    if not problem.residuals:
        return ["it has no equations, because it is known from data alone (equations: data)"]
    given = ", ".join(i.name for i in problem.inputs if isinstance(i.distribution, FromData))
    reason = f"inputs {given}, because their distribution is data: they cannot be drawn"
    return [reason] if given else []


def _infer_obstacles(problem: Problem) -> Iterator[str]:
    for name in problem.infer:
        for item in problem.inputs:
            if item.expression is not None and item.expression.has(Symbol(name, real=True)):
                yield (
                    f"infer {name}, because it is part of the input {item.name}, which is drawn "
                    "before the step"
                )


def _physics_obstacles(problem: Problem) -> Iterator[str]:
    """Say why a network cannot be trained on the equations and conditions."""
    past = history_of(problem)
    if past is not None:
        yield (
            f"input {past.name}, because its distribution is history: functions that are drawn to "
            "train on the equations come without a solution, and so without a past"
        )
    there = [i.name for i in problem.visible_inputs if i.place is SensorPlacement.POINTS]
    if there:
        yield (
            f"input {', '.join(there)}, because it is given at the points of solutions: functions "
            "that are drawn to train on the equations come without one"
        )
    if max(problem.pde.time_order.values(), default=0) > 2:
        yield "an order in time above two, because no more than two initial data are met yet"
    if problem.domain.varies:
        yield (
            "domain, because its shape differs from sample to sample, and points of the equations "
            "are placed in one shape"
        )
    if not problem.domain.is_box and any(c.periodic for c in problem.space):
        yield "a periodic axis of a shape, because its sides are not matched with each other yet"
    keywords = {c.keyword for _, c in problem.pde.face_conditions if c.conservation_law}
    if keywords:
        yield (
            f"{' and '.join(sorted(keywords))} at a boundary, because conditions of conservation "
            "laws are not trained yet"
        )
    derivatives = {d for raw in problem.pde.residuals_raw for d in raw.atoms(Derivative)}
    rough = [
        i for i in problem.inputs if not i.smooth and any(d.has(i.symbol) for d in derivatives)
    ]
    if rough:
        yield (
            f"div of a flux with the rough coefficient {', '.join(i.name for i in rough)}, because "
            "its point-wise derivatives do not exist and finite volumes are not trained yet"
        )
    if forms_shocks(problem.pde):
        yield (
            "a nonlinear flux that nothing smooths, because derivatives do not exist at shocks and "
            "finite volumes are not trained yet"
        )
