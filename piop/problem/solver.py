"""Which classical method gives a problem its reference solution, by what its symbols are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from piop.errors import NotSupportedError
from piop.forms.conservation import forms_shocks, mirror, read_conservation_law
from piop.forms.divergence import divergence_form, jumps
from piop.forms.pde import PDE
from piop.forms.recovered import recovered_unknowns
from piop.forms.terms import multipliers, orders, space_order, split_terms
from piop.forms.transport import transport_form
from piop.forms.weak import weak_form
from piop.problem.conditions import expression_smoothness
from piop.problem.problem import Problem

_DERIVATIVES = 3


@dataclass(frozen=True)
class Method:
    """A classical method and what it covers.

    Attributes:
        name: In the words of the field.
        why: The class of problems that it is chosen for.
        refuse: Why a problem is outside that class; None where it is inside.
        tolerance: Error estimate that it is asked to stay below where nothing else is said.
        jumping: The same where data of the equations jump, if that is another.
        recovering: The same where unknowns follow from slopes of others, if that is another.
    """

    name: str
    why: str
    refuse: Callable[[Problem], str | None]
    tolerance: float = 1e-6
    jumping: float | None = None
    recovering: float | None = None


def usual_tolerance(problem: Problem) -> float:
    """Error estimate that references are asked to stay below where nothing else is said.

    Raises:
        NotSupportedError: If no method covers the problem.
    """
    method = METHODS[choose_method(problem)]
    if method.recovering is not None and recovered_unknowns(problem.at().pde):
        return method.recovering
    if method.jumping is None:
        return method.tolerance
    jumping = any(jumps(problem.pde, r) for r in problem.residuals)
    return method.jumping if jumping else method.tolerance


def choose_method(problem: Problem) -> str:
    """Choose the method of a problem: the first of ``METHODS`` that covers it.

    Parameters to infer count at the values that they start from.

    Raises:
        NotSupportedError: If none does, with the reason of each.
    """
    if not problem.residuals:
        reason = "it has no equations, being known from data alone"
        raise NotSupportedError(f"{problem.name}: no solver covers it, because {reason}")
    found, reasons = _first_method(problem)
    if found is None:
        raise NotSupportedError(f"{problem.name}: no solver covers it, because {reasons}")
    return found


@lru_cache(maxsize=8)
def _first_method(problem: Problem) -> tuple[str | None, str]:
    """The first method that covers a problem, and why those before it do not.

    Kept, since a refusal differentiates the equations and every command asks several times.
    """
    problem, reasons = problem.at(), []
    for key, method in METHODS.items():
        reason = method.refuse(problem)
        if reason is None:
            return key, "; ".join(reasons)
        reasons.append(f"({method.name}) {reason}")
    return None, "; ".join(reasons)


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
    if forms_shocks(problem.pde):
        reasons.append("the flux is nonlinear and nothing smooths: shocks form")
    return ", ".join(reasons) or None


def _outside_finite_volume(problem: Problem) -> str | None:
    reasons = []
    if problem.spec.domain is not None:
        reasons.append("the domain is no box")
    if len(problem.space) > 2:
        reasons.append("it covers one and two axes of space")
    try:
        law = read_conservation_law(problem.pde)
        given = [c for conditions in problem.boundary.values() for c in conditions]
        if others := {c.keyword for c in given if not c.ghost_cells}:
            reasons.append(f"the boundary conditions {', '.join(sorted(others))}")
        for axis, coordinate in enumerate(problem.space):
            faces = [problem.boundary.get(f"{coordinate.name}.{end}", ()) for end in ("min", "max")]
            if any(c.mirrored for conditions in faces for c in conditions):
                mirror(law, axis)
    except NotSupportedError as error:
        reasons.append(str(error))
    except ArithmeticError:
        reasons.append("a flux that cannot be differentiated")
    return ", ".join(reasons) or None


def _unless_read(read: Callable[[PDE], object]) -> Callable[[Problem], str | None]:
    """Refuse what cannot be read in the form that a method solves."""

    def refuse(problem: Problem) -> str | None:
        try:
            read(problem.pde)
        except NotSupportedError as error:
            return str(error)
        return None

    return refuse


def _outside_shapes(problem: Problem) -> str | None:
    try:
        weak_form(problem.pde)
    except NotSupportedError as error:
        return str(error)
    return None


def _outside_chebyshev(problem: Problem) -> str | None:
    reasons = list(_unresolved_by_polynomials(problem))
    walled = [i for i, c in enumerate(problem.coordinates) if c in problem.space and not c.periodic]
    for name in problem.channels:
        found = [o for r in problem.residuals for o in orders(problem.pde, r, name)]
        highest = max((o[i] for o in found for i in walled), default=0)
        if highest > 2:
            reasons.append(f"{name} of order {highest} along a walled axis, and it goes up to two")
        evolving = problem.time_order.get(name, 0) > 0
        if highest == 1 and evolving and len(problem.channels) > 1:
            reasons.append(
                "a first-order system, whose characteristics must be told apart at walls"
            )
        elif highest == 1 and evolving and _steepens(problem):
            reasons.append("a nonlinear first-order equation, whose solutions may jump")
        if not evolving and highest == 1 and len(problem.channels) > 1:
            if name not in multipliers(problem.pde):
                reasons.append(
                    f"{name} has no derivative of second order and no evolution of its own"
                )
            elif any(c.unknown == name for given in problem.boundary.values() for c in given):
                reasons.append(
                    f"a condition on {name}, which takes none: it is there for a constraint"
                )
    if max(problem.time_order.values(), default=0) > 2:
        reasons.append("an order in time above two")
    return ", ".join(dict.fromkeys(reasons)) or None


def _unresolved_by_polynomials(problem: Problem) -> Iterator[str]:
    if problem.spec.domain is not None:
        yield "the domain is no box"
    if problem.time is not None and problem.periodic:
        yield "no walls"
    given = [c for conditions in problem.boundary.values() for c in conditions]
    for keyword in sorted({c.keyword for c in given if c.conservation_law}):
        yield f"faces with {keyword}, which are for conservation laws"
    rough = [i.name for i in problem.inputs if not i.smooth]
    if rough:
        yield f"inputs with jumps ({', '.join(rough)}), which polynomials do not resolve"
    elif problem.time is None:  # diffusion smooths what an evolution holds, nothing does here
        smoothness, why = min(expression_smoothness(problem, r) for r in problem.residuals)
        if smoothness < _DERIVATIVES:
            yield f"data with fewer than {_DERIVATIVES} derivatives ({why})"


def _steepens(problem: Problem) -> bool:
    """Whether a nonlinear term holds a derivative in space."""
    terms = [t for r in problem.residuals for t in split_terms(problem.pde, r)[1]]
    return any(
        space_order(problem.pde, o)
        for t in terms
        for u in problem.channels
        for o in orders(problem.pde, t, u)
    )


METHODS: Mapping[str, Method] = {
    "fourier": Method(
        "Fourier pseudo-spectral, ETDRK4",
        "an evolution with every space axis periodic",
        _outside_fourier,
    ),
    "characteristics": Method(
        "characteristics, Runge-Kutta of fourth order",
        "linear transport along one axis with an inlet",
        _unless_read(transport_form),
    ),
    "chebyshev": Method(
        "Chebyshev collocation, Radau IIA in time",
        "smooth data on a box with walls",
        _outside_chebyshev,
    ),
    "elliptic": Method(
        "cell-centred finite volumes with harmonic means, conjugate gradients with multigrid",
        "a steady linear equation in divergence form on a box",
        _unless_read(divergence_form),
        jumping=1e-2,
    ),
    "finite_volume": Method(
        "finite volumes, MUSCL and SSP-RK3",
        "a first-order law in flux form: what leaves a cell enters the next, also at a shock",
        _outside_finite_volume,
        tolerance=2e-2,
    ),
    "fem": Method(
        "finite elements of second order on triangles",
        "a steady problem on a shape, in weak form",
        _outside_shapes,
        tolerance=1e-3,
        recovering=3e-2,
    ),
}
"""Key → method, the preferred one first. ``piop.reference.solve`` has the solver of each key."""
