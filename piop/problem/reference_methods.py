"""Classical methods for reference solutions, and the problems that each covers.

A new method is one class here, in ``METHODS``, its solver, and its case in `piop.reference.solve`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, final

from piop.domain import ENDS
from piop.errors import NotSupportedError
from piop.expression import write
from piop.expression.functions import JUMPS
from piop.forms.conservation import forms_shocks, mirror, read_conservation_law
from piop.forms.constant_mass import require_constant_mass
from piop.forms.linear_forms import divergence_form, jumps, transport_form
from piop.forms.linear_nonlinear_split import require_successive_auxiliaries, split_linear
from piop.forms.pde import PDE
from piop.forms.terms import highest_space_order, multipliers, orders, split_terms
from piop.forms.weak import recovered_unknowns, weak_form
from piop.problem.constraints import expression_smoothness

if TYPE_CHECKING:
    from piop.problem.problem import Problem


class Method:
    """A classical method and the problems that it covers.

    Attributes:
        name: In the words of the field.
        why: The class of problems that it is chosen for.
        form: Reads the equations in the form that the method solves; for methods that ask for
            nothing else.
        spatial: Whether it is for problems with axes of space, or for those without.
    """

    spatial: ClassVar[bool] = True
    name: ClassVar[str]
    why: ClassVar[str]
    form: ClassVar[staticmethod[[PDE], object]]

    def refuse(self, problem: Problem) -> str | None:
        """Say why a problem is outside of the class; None where it is inside.

        Args:
            problem: With equations, and nothing to infer.
        """
        try:
            outside = ", ".join(dict.fromkeys(self.obstacles(problem)))
            return outside or next(_no_error_estimate(problem), None)
        except NotSupportedError as error:
            return str(error)

    def nearest(self, problem: Problem) -> bool:
        """Whether domain and boundary are those of the method, whatever the equations are."""
        return False

    def obstacles(self, problem: Problem) -> Iterator[str]:
        """Yield what of a problem the method does not cover, each a clause.

        Raises:
            NotSupportedError: If the equations cannot be read in the form that the method solves.
        """
        self.form(problem.pde)
        yield from ()

    def tolerance(self, problem: Problem) -> float:
        """Return the error estimate to stay below where nothing else is given (relative L2)."""
        return 1e-6


def _jumps_at_unknowns(problem: Problem) -> list[Any]:
    """What jumps at a value of an unknown, as dry friction does."""
    unknowns = [problem.pde.function(name) for name in problem.channels]
    found: set[Any] = {e for r in problem.pde.residuals_raw for e in r.atoms(*JUMPS)}
    tests = {e: [t for _, t in e.args] if e.is_Piecewise else [e] for e in found}
    return sorted((e for e in found if any(t.has(*unknowns) for t in tests[e])), key=str)


def _no_error_estimate(problem: Problem) -> Iterator[str]:
    """Refuse what jumps at a value of an unknown.

    There steps of any length hold the unknown still, so that two of them agree on what is wrong.
    """
    if jumping := ", ".join(map(write, _jumps_at_unknowns(problem))):
        yield (
            f"jumps at a value of an unknown ({jumping}), where step after step crosses it: give "
            "them slopes, as by tanh(u/0.01), or write min, max, abs"
        )


@final
class Fourier(Method):
    """Spectral in space, exponential in time."""

    name = "Fourier pseudo-spectral, ETDRK4"
    why = "an evolution with every space axis periodic"

    def nearest(self, problem: Problem) -> bool:
        """Ask for an evolution on a periodic box."""
        return problem.time is not None and problem.pde.periodic

    def obstacles(self, problem: Problem) -> Iterator[str]:
        """Ask for an evolution that splits into a linear and a nonlinear part."""
        outside = [*self._outside(problem)]
        yield from outside
        if not outside:
            require_successive_auxiliaries(split_linear(problem.pde))

    def _outside(self, problem: Problem) -> Iterator[str]:
        """Ask for an evolution on a periodic box, of order two in time at most, without shocks."""
        if problem.time is None:
            yield "a steady problem has no evolution in time"
        if walls := [c.name for c in problem.space if not c.periodic]:
            yield f"boundaries along {', '.join(walls)}, and it needs every axis periodic"
        if problem.time is not None and 0 in problem.pde.time_order.values():
            names = ", ".join(n for n, order in problem.pde.time_order.items() if order == 0)
            yield f"{names} without a time derivative"
        if max(problem.pde.time_order.values(), default=0) > 2:
            yield "an order in time above two"
        if not problem.domain.is_box:
            yield "the domain is no box"
        if forms_shocks(problem.pde):
            yield "the flux is nonlinear and nothing smooths: shocks form"


@final
class OrdinaryEquations(Method):
    """An implicit step in time."""

    spatial = False
    name = "Radau IIA of order nine"
    why = "ordinary differential equations"

    def nearest(self, problem: Problem) -> bool:
        """Return True: it is the only one."""
        return True

    def obstacles(self, problem: Problem) -> Iterator[str]:
        """Ask for orders in time up to two, and for data without jumps."""
        jumping = {e for r in problem.residuals for e in r.atoms(*JUMPS)}
        known = sorted(jumping - {*_jumps_at_unknowns(problem)}, key=str)
        rough = [i.name for i in problem.inputs if i.of and not i.smooth]
        if known or rough:
            what = ", ".join([*rough, *map(write, known)])
            yield f"jumps in time ({what}), at which no step ends: give them slopes, as by tanh"
        if max(problem.pde.time_order.values(), default=0) > 2:
            yield "an order in time above two"
        require_constant_mass(problem.pde)


@final
class Characteristics(Method):
    """Values are followed along the curves that carry them."""

    name = "characteristics, Runge-Kutta of fourth order"
    why = "linear transport along one axis with an inlet"
    form = staticmethod(transport_form)


@final
class Chebyshev(Method):
    """Collocation with polynomials in space, an implicit step in time."""

    name = "Chebyshev collocation, Radau IIA in time"
    why = "smooth data on a box with walls"
    derivatives: ClassVar[int] = 3
    """That data of a steady problem must have."""

    def nearest(self, problem: Problem) -> bool:
        """Ask for a box."""
        return problem.domain.is_box

    def obstacles(self, problem: Problem) -> Iterator[str]:
        """Ask for a box with walls, smooth data, and orders up to two."""
        yield from self._unresolved(problem)
        walled = [problem.coordinates.index(c) for c in problem.space if not c.periodic]
        for name in problem.channels:
            found = [o for r in problem.residuals for o in orders(problem.pde, r, name)]
            highest = max((o[i] for o in found for i in walled), default=0)
            if highest > 2:
                yield f"{name} of order {highest} along a walled axis, and it goes up to two"
            if highest == 1:
                yield from self._first_order(problem, name)
        if max(problem.pde.time_order.values(), default=0) > 2:
            yield "an order in time above two"
        require_constant_mass(problem.pde)

    def _unresolved(self, problem: Problem) -> Iterator[str]:
        """Yield what polynomials on a box do not resolve."""
        if not problem.domain.is_box:
            yield "the domain is no box"
        if problem.time is not None and problem.pde.periodic:
            yield "no walls"
        given = problem.pde.face_conditions
        for keyword in sorted({c.keyword for _, c in given if c.conservation_law}):
            yield f"faces with {keyword}, which are for conservation laws"
        rough = [i.name for i in problem.inputs if not i.smooth]
        if rough:
            yield f"inputs with jumps ({', '.join(rough)}), which polynomials do not resolve"
        elif problem.time is None:  # diffusion smooths what an evolution holds, nothing does here
            smoothness, why = min(expression_smoothness(problem, r) for r in problem.residuals)
            if smoothness < self.derivatives:
                yield f"data with fewer than {self.derivatives} derivatives ({why})"

    def _first_order(self, problem: Problem, name: str) -> Iterator[str]:
        """Yield why an unknown of order one along a walled axis is not covered."""
        alone = len(problem.channels) == 1
        if problem.pde.time_order.get(name, 0) > 0:
            if not alone:
                yield "a first-order system, whose characteristics must be told apart at walls"
            elif _steepens(problem):
                yield "a nonlinear first-order equation, whose solutions may jump"
        elif not alone and name not in multipliers(problem.pde):
            yield f"{name} has no derivative of second order and no evolution of its own"
        elif not alone and any(c.unknown == name for _, c in problem.pde.face_conditions):
            yield f"a condition on {name}, which takes none: it is there for a constraint"


@final
class EllipticFiniteVolumes(Method):
    """Fluxes between cells, also where coefficients jump."""

    name = "cell-centred finite volumes with harmonic means, conjugate gradients with multigrid"
    why = "a steady linear equation in divergence form on a box"
    form = staticmethod(divergence_form)

    def tolerance(self, problem: Problem) -> float:
        """Return 1e-2 where data of the equations jump."""
        jumping = any(jumps(problem.pde, r) for r in problem.residuals)
        return 1e-2 if jumping else super().tolerance(problem)


@final
class FiniteVolumes(Method):
    """Fluxes between cells, also at shocks."""

    name = "finite volumes, MUSCL and SSP-RK3"
    why = (
        "a first-order conservation law in flux form: what leaves a cell enters the next, also at "
        "a shock"
    )

    def obstacles(self, problem: Problem) -> Iterator[str]:
        """Ask for a conservation law on a box in one or two dimensions."""
        if not problem.domain.is_box:
            yield "the domain is no box"
        if len(problem.space) > 2:
            yield "it covers one and two axes of space"
        try:
            law = read_conservation_law(problem.pde)
            given = problem.pde.face_conditions
            if others := {c.keyword for _, c in given if not c.ghost_cells}:
                yield f"the boundary conditions {', '.join(sorted(others))}"
            mirrored = {face for face, c in given if c.mirrored}
            for axis, coordinate in enumerate(problem.space):
                if mirrored & {f"{coordinate.name}.{end}" for end in ENDS}:
                    mirror(law, axis)
        except NotSupportedError as error:
            yield str(error)
        except ArithmeticError:
            yield "a flux that cannot be differentiated"

    def tolerance(self, problem: Problem) -> float:
        """Return 2e-2, as shocks allow."""
        return 2e-2


@final
class FiniteElements(Method):
    """Piecewise polynomials on a mesh of the shape."""

    name = "finite elements of second order on triangles"
    why = "a steady problem on a shape, in weak form"
    form = staticmethod(weak_form)

    def nearest(self, problem: Problem) -> bool:
        """Ask for a shape."""
        return not problem.domain.is_box

    def tolerance(self, problem: Problem) -> float:
        """Return 1e-3, or 3e-2 where unknowns follow from slopes of others."""
        return 3e-2 if recovered_unknowns(problem.pde) else 1e-3


METHODS: tuple[Method, ...] = (
    Fourier(),
    OrdinaryEquations(),
    Characteristics(),
    Chebyshev(),
    EllipticFiniteVolumes(),
    FiniteVolumes(),
    FiniteElements(),
)
"""All methods, the preferred one first."""


def first_method(problem: Problem) -> tuple[Method | None, str]:
    """Find the first method that covers a problem.

    Parameters to infer count at the values that they start from.

    Returns:
        The method, or None; and why others do not cover the problem, the nearest first.
    """
    if not problem.residuals:
        return None, "it has no equations, being known from data alone"
    problem, reasons = problem.at(), {}
    methods = [m for m in METHODS if m.spatial == bool(problem.space)]
    for method in methods:
        reason = method.refuse(problem)
        if reason is None:
            return method, "; ".join(reasons.values())
        reasons[method.name] = f"({method.name}) {reason}"
    nearest = next(m.name for m in methods if m.nearest(problem))
    return None, "; ".join([reasons.pop(nearest), *reasons.values()])


def _steepens(problem: Problem) -> bool:
    """Whether a nonlinear term holds a derivative in space."""
    terms = [t for r in problem.residuals for t in split_terms(problem.pde, r)[1]]
    return highest_space_order(problem.pde, terms, problem.channels) > 0
