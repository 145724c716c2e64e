"""Conservation laws in potential form: fluxes, and equations of the potential."""

import re

import pytest
import sympy
from sympy import Derivative, Function, cos, sin

from piop.errors import NotSupportedError
from piop.forms.differentiate import differentiate
from piop.forms.potential import conserved_fluxes, equations_of_slopes, potential_equations
from piop.problem import Problem


def example(*equations, unknowns=("u",), **changes):
    """A problem with what its equations name: the number nu, the input a, which v starts from."""
    text = " ".join(equations)
    words = {
        "name": "law",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 2]},
        "parameters": {"nu": 0.1} if re.search(r"\bnu\b", text) else None,
        "unknowns": [*unknowns],
        "inputs": {
            name: {"of": ["x"], "law": "gaussian_random_field", "tau": 3, "alpha": 6}
            for name in ("u0", "a")
            if name == "u0" or re.search(r"\ba\b", text) or "v" in unknowns
        },
        "equations": [*equations],
        "initial": {name: "u0" if name == "u" else "a" for name in unknowns},
        "boundary": {"x": "periodic"},
    }
    return Problem(**{k: v for k, v in {**words, **changes}.items() if v is not None})


LAWS = {
    "convection": ["dt(u) + u*dx(u) = nu*dxx(u)"],
    "a product of derivatives": ["dt(u) + u**2*dx(u) + dx(u)*dxx(u) = nu*dxx(u)"],
    "two orders": ["dt(u) + 6*u*dx(u) + dxxx(u) = 0"],
    "by parts": ["dt(u) + u*dxx(u) + dx(u)**2 = nu*dxx(u)"],
    "a flux as written": ["dt(u) + dx(exp(u)) = dx(nu*(1 + u**2)*dx(u))"],
    "a coefficient in time": ["dt(u) + sin(t)*u*dx(u) = nu*dxx(u)"],
    "an input in the flux": ["2*dt(u) + a*dx(u) + u*dx(a) = nu*dxx(u)"],
    "two unknowns": ["dt(u) + v*dx(u) + u*dx(v) = 0", "3*dt(v) + dx(u**2 + v**2) = nu*dxx(v)"],
}


def problem_of(name):
    equations = LAWS[name]
    return example(*equations, unknowns=("u", "v")[: len(equations)])


def carried_out(expression, values):
    """Put functions in the place of unknowns and inputs, and carry out all derivatives."""
    return expression.replace(lambda e: e in values, lambda e: values[e]).doit()


def vanishes(expression, t, x):
    places = ({t: 0.3, x: 0.7}, {t: 0.9, x: 1.6}, {t: 0.5, x: 0.1})
    return all(abs(expression.subs(place).evalf()) < 1e-12 for place in places)


@pytest.mark.parametrize("name", LAWS)
def test_the_flux_gives_the_equation_back(name):
    pde = problem_of(name).pde
    t, x = (c.symbol for c in pde.coordinates)
    for law, residual in zip(conserved_fluxes(pde), pde.residuals, strict=True):
        slope = differentiate(Derivative(law.flux, x))
        rate = law.mass * Derivative(pde.function(law.unknown), t)
        assert sympy.expand(rate + slope - residual) == 0


@pytest.mark.parametrize("name", LAWS)
def test_the_equations_of_potentials_are_those_of_the_unknowns(name):
    """With functions for u0 and W: ∂/∂x of the one is the other, at u = u0 + ∂W/∂x."""
    pde = problem_of(name).pde
    t, x = (c.symbol for c in pde.coordinates)
    inputs = {i.symbol: {"u0": sin(x), "a": cos(2 * x)}[i.name] for i in pde.inputs}
    starts = {"u": sin(x), "v": cos(2 * x)}
    potentials = {"u": t * cos(x + t), "v": t**2 * sin(2 * x)}
    as_potential = inputs | {pde.function(n): potentials[n] for n in pde.unknowns}
    as_unknown = inputs | {
        pde.function(n): starts[n] + sympy.diff(potentials[n], x) for n in pde.unknowns
    }
    of_potential = potential_equations(pde).residuals
    of_slopes = equations_of_slopes(pde).residuals
    for i, residual in enumerate(pde.residuals):
        wanted = carried_out(residual, as_unknown)
        found = sympy.diff(carried_out(of_potential[i], as_potential), x)
        assert vanishes(found - wanted, t, x)
        assert vanishes(carried_out(of_slopes[i], as_potential) - wanted, t, x)


def test_the_potential_starts_from_zero_and_has_the_name_of_its_unknown():
    problem = problem_of("convection")
    found = potential_equations(problem.pde)
    assert found.initial == {"u": (0,)}
    t, x = (c.symbol for c in problem.coordinates)
    u, u0 = Function("u", real=True)(t, x), problem.pde.function("u0")
    flux = (u0 + Derivative(u, x)) ** 2 / 2 - (Derivative(u, x, x) + Derivative(u0, x)) / 10
    assert sympy.expand(found.residuals[0] - Derivative(u, t) - flux) == 0


ONE = {"u0": {"of": ["x"], "law": "gaussian_random_field", "tau": 3, "alpha": 6}}


@pytest.mark.parametrize(
    ("equations", "changes", "why"),
    [
        (["dt(u) = nu*dxx(u) - u**3"], {}, "no conservation law"),
        (["dt(u) + u*dx(u) = nu*dxx(u) + a"], {}, "no conservation law"),
        (["dt(u) + a*dx(u) = nu*dxx(u)"], {}, "no conservation law"),
        (["dt(u) + u*dx(u)**2 = nu*dxx(u)"], {}, "no conservation law"),
        (["dt(u) + sin(u)*dx(u) = nu*dxx(u)"], {}, "not written as dx(flux)"),
        (["dt(u) + dx(sin(pi*x)*u) = nu*dxx(u)"], {}, "a flux names x"),
        (["a*dt(u) + u*dx(u) = nu*dxx(u)"], {}, "the coefficient of Derivative(u(t, x), t) is a"),
        (["dt(u) + u*dx(u) = nu*dxx(u) + nu*dtxx(u)"], {}, "a flux holds a derivative in time"),
        (["d(u, t, 2) = dxx(u)"], {"initial": {"u": "u0", "dt(u)": 0}}, "first order in time"),
        (
            ["dt(u) + u*dx(u) = nu*dxx(u)"],
            {"boundary": {"x": {"neumann": {"u": 0}}}},
            "no periodic interval",
        ),
        (
            ["dt(u) = nu*dxx(u) - dx(u*dx(psi))"],
            {"auxiliary": {"psi": {"equation": "psi - dxx(psi) = u"}}},
            "psi does not evolve",
        ),
        (
            ["dt(u) + dx(u*v) = 0", "v - dxx(v) = u**2"],
            {"unknowns": ["u", "v"], "initial": {"u": "u0"}, "inputs": ONE},
            "other than one first derivative in time",
        ),
    ],
)
def test_what_has_no_potential_is_refused_with_a_reason(equations, changes, why):
    with pytest.raises(NotSupportedError, match=re.escape(why)):
        conserved_fluxes(example(*equations, **changes).pde)


def test_the_order_of_streams_limits_the_equations_themselves():
    pde = example("dt(u) + u*dx(u) + dxx(u) + dxxxx(u) = 0").pde
    assert potential_equations(pde).residuals
    with pytest.raises(NotSupportedError, match="of order 4"):
        equations_of_slopes(pde)
