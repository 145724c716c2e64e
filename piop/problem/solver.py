"""Which classical method gives a problem its reference solution, by what its symbols are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from piop.errors import NotSupportedError
from piop.problem.divergence import divergence_form
from piop.problem.problem import Problem


@dataclass(frozen=True)
class Method:
    """A classical method and what it covers.

    Attributes:
        name: In the words of the field.
        why: The class of problems that it is chosen for.
        refuse: Why a problem is outside that class; None where it is inside.
    """

    name: str
    why: str
    refuse: Callable[[Problem], str | None]


def choose_method(problem: Problem) -> str:
    """Choose the method of a problem: the first of ``METHODS`` that covers it.

    Raises:
        NotSupportedError: If none does, with the reason of each.
    """
    reasons = []
    for key, method in METHODS.items():
        reason = method.refuse(problem)
        if reason is None:
            return key
        reasons.append(f"({method.name}) {reason}")
    raise NotSupportedError(f"{problem.name}: no solver covers it, because {'; '.join(reasons)}")


def _outside_fourier(problem: Problem) -> str | None:
    reasons = []
    if problem.time is None:
        reasons.append("a steady problem has nothing to march")
    walls = [c.name for c in problem.space if not c.periodic]
    if walls:
        reasons.append(f"boundaries along {', '.join(walls)}, and it needs every axis periodic")
    if problem.time is not None and 0 in problem.time_order.values():
        names = ", ".join(n for n, order in problem.time_order.items() if order == 0)
        reasons.append(f"{names} without a time derivative")
    if max(problem.time_order.values(), default=0) > 2:
        reasons.append("an order in time above two")
    if not 1 <= len(problem.space) <= 3:
        reasons.append("it covers one to three axes of space")
    if problem.spec.domain is not None:
        reasons.append("the domain is no box")
    return ", ".join(reasons) or None


def _outside_elliptic(problem: Problem) -> str | None:
    try:
        divergence_form(problem)
    except NotSupportedError as error:
        return str(error)
    return None


METHODS: Mapping[str, Method] = {
    "fourier": Method(
        "Fourier pseudo-spectral, ETDRK4",
        "an evolution with every space axis periodic",
        _outside_fourier,
    ),
    "elliptic": Method(
        "cell-centred finite volumes with harmonic means, conjugate gradients with multigrid",
        "a steady linear equation in divergence form on a box",
        _outside_elliptic,
    ),
}
"""Key → method, the preferred one first. ``piop.reference.solve`` has the solver of each key."""
