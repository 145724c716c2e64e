"""What the language knows but this version cannot run yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from sympy import Derivative, Symbol

from piop.errors import NotSupportedError
from piop.forms.conservation import forms_shocks
from piop.problem.inputs import history_of
from piop.problem.inverse import inverse_obstacles
from piop.problem.problem import Problem
from piop.problem.solver import choose_method
from piop.problem.walls import wall_conditions
from piop.spec.distributions import FromData
from piop.spec.model import AT_POINTS

Purpose = Literal["solve", "reference", "data"]


def require_supported(problem: Problem, for_: Purpose = "solve") -> None:
    """Refuse what cannot be run yet.

    Args:
        problem: Any problem that passed its checks.
        for_: ``solve`` (train on the equations, or as ``learn`` says; without a reference nothing
            but the residual tells how right it is), ``reference`` (the classical solution alone) or
            ``data`` (train on given solutions alone, which asks for neither residual nor
            reference).

    Raises:
        NotSupportedError: ``not supported yet: … because …``, with every reason, and whether data
            alone would do.
    """
    if problem.learn is not None and for_ != "reference":
        if obstacles := list(inverse_obstacles(problem)):
            text = f"{problem.name}: not supported yet: learn, because " + "; ".join(obstacles)
            raise NotSupportedError(text)
        require_supported(problem.inverse(), "data")
        return
    reasons: list[str] = []
    if for_ != "data":
        reasons += _knowing(problem) or (_solving(problem) if for_ == "reference" else [])
    if for_ != "reference":
        reasons += _inverting(problem)
    if for_ == "data" and problem.infer:
        names = ", ".join(problem.infer)
        reasons.append(f"infer {names}, because without the equations nothing says what it does")
    if for_ == "solve" and problem.residuals:
        reasons += [*_remembering(problem), *_seeing(problem), *_meeting(problem)]
        reasons += [*_differentiating(problem), *_breaking(problem)]
    if not reasons:
        return
    text = f"{problem.name}: not supported yet: " + "; ".join(reasons)
    if for_ == "solve" and not list(_inverting(problem)):
        text += (
            ". It can be trained on solutions alone: --data FILE --no-physics (in Python data=..., "
            "physics=False)"
        )
    raise NotSupportedError(text)


def _knowing(problem: Problem) -> list[str]:
    """What only data tell."""
    if not problem.residuals:
        return ["it has no equations, because it is known from data alone (equations: data)"]
    given = [i.name for i in problem.inputs if isinstance(i.law, FromData)]
    if given:
        return [f"inputs {', '.join(given)}, because their law is data: they cannot be drawn"]
    return []


def _solving(problem: Problem) -> Iterator[str]:
    try:
        choose_method(problem)
    except NotSupportedError as error:
        yield str(error).removeprefix(f"{problem.name}: ")


def _inverting(problem: Problem) -> Iterator[str]:
    stated = [i for i in problem.inputs if i.expression is not None]
    for name in problem.infer:
        symbol = Symbol(name, real=True)
        for item in stated:
            if item.expression is not None and item.expression.has(symbol):
                yield (
                    f"infer {name}, because it is part of the input {item.name}, which is drawn "
                    "before the step"
                )


def _remembering(problem: Problem) -> Iterator[str]:
    past = history_of(problem)
    if past is not None:
        yield (
            f"input {past.name}, because its law is history: functions that are drawn to train on "
            "the equations come without a solution, and so without a past"
        )


def _seeing(problem: Problem) -> Iterator[str]:
    there = [i.name for i in problem.visible_inputs if i.place == AT_POINTS]
    if there:
        yield (
            f"input {', '.join(there)}, because it is seen at the points of solutions: functions "
            "that are drawn to train on the equations come without one"
        )


def _meeting(problem: Problem) -> Iterator[str]:
    if max(problem.time_order.values(), default=0) > 2:
        yield "an order in time above two, because no more than two initial data are met yet"
    if problem.varies:
        yield (
            "domain, because its shape differs from sample to sample, and points of the equations "
            "are placed in one shape"
        )
    if problem.shape is not None and any(c.periodic for c in problem.space):
        yield "a periodic axis of a shape, because its sides are not matched with each other yet"
    keywords = {c.keyword for _, c in wall_conditions(problem) if c.conservation_law}
    if keywords:
        yield (
            f"{' and '.join(sorted(keywords))} at a boundary, because conditions of conservation "
            "laws are not trained yet"
        )


def _differentiating(problem: Problem) -> Iterator[str]:
    rough = [i.name for i in problem.inputs if not i.smooth and _is_differentiated(problem, i.name)]
    if rough:
        yield (
            f"div of a flux with the rough coefficient {', '.join(rough)}, because its point-wise "
            "derivatives do not exist and finite volumes are not trained yet"
        )


def _breaking(problem: Problem) -> Iterator[str]:
    if forms_shocks(problem.pde):
        yield (
            "a nonlinear flux that nothing smooths, because derivatives do not exist at shocks and "
            "finite volumes are not trained yet"
        )


def _is_differentiated(problem: Problem, name: str) -> bool:
    symbol = problem.function(name)
    return any(
        derivative.expr.has(symbol)
        for raw in problem.residuals_raw
        for derivative in raw.atoms(Derivative)
    )
