"""The divergence form that is read from the symbols, and what has none."""

import pytest

from piop.errors import NotSupportedError
from piop.forms.linear_forms import divergence_form, transport_form
from piop.problem import Problem
from piop.problem.capabilities import choose_method, usual_tolerance
from piop.problem.reference_methods import EllipticFiniteVolumes
from tests.reference.hyperbolic import law


def steady(*equations, space="x", **words):
    walls = {axis: {"dirichlet": {"u": 0}} for axis in space}
    return Problem(
        **{
            "name": "case",
            "space": {axis: [0, 1] for axis in space},
            "unknowns": ["u"],
            "equations": list(equations),
            "boundary": walls,
            **words,
        }
    )


@pytest.mark.parametrize(
    ("equation", "diffusion", "reaction", "source"),
    [
        ("-dxx(u) = 1", "1", "0", "1"),
        ("-dxx(u) + 3*u - d(2*dx(u), x) = sin(x)", "3", "3", "sin(x)"),
        ("-d((1+x)*(2*dx(u) + x), x) = 1", "2*x + 2", "0", "2*x + 2"),
        ("2*x - u = div(exp(x)*grad(u))", "exp(x)", "-1", "-2*x"),
        ("div(exp(x)*grad(u)) = u", "-exp(x)", "-1", "0"),
        ("-d(where(x < 0.5, 1, 9)*dx(u), x) = 0", "where(x < 0.5, 1, 9)", "0", "0"),
        ("-dxx(u) + dx(x**2)*u = dx(sin(x))", "1", "2*x", "cos(x)"),
    ],
)
def test_terms_are_sorted(equation, diffusion, reaction, source):
    form = divergence_form(steady(equation).pde)
    expected = divergence_form(
        steady(f"-d(({diffusion})*dx(u), x) + ({reaction})*u = {source}").pde
    )
    assert form == expected


def test_axes_keep_their_own_coefficients_and_conditions():
    form = divergence_form(
        steady(
            "-d(2*dx(u), x) - d((1 + x)*dy(u), y) = 0",
            space="xy",
            boundary={
                "x.min": {"robin": {"u": [2, 3, "cos(2*pi*y)"]}},
                "x.max": {"neumann": {"u": 4}},
                "y": "periodic",
            },
        ).pde
    )
    assert [str(a) for a in form.diffusion] == ["2", "x + 1"]
    low, high = form.walls[0]
    assert [str(v) for v in (low.alpha, low.beta, low.value)] == ["2", "3", "cos(2*pi*y)"]
    assert [str(v) for v in (high.alpha, high.beta, high.value)] == ["0", "1", "4"]
    assert form.walls[1] is None


@pytest.mark.parametrize(
    ("equation", "reason"),
    [
        ("-x*dxx(u) = 1", "stands outside the derivative; write it as a flux"),
        ("-dxx(u) + u**2 = 1", r"the term u\(x\)\*\*2 is nonlinear"),
        ("-d(u*dx(u), x) = 1", "is nonlinear"),
        ("-dxx(u) + dx(u) = 1", "not of the form"),
        ("-dxx(x*u) = 1", "holds no flux"),
    ],
)
def test_other_forms_are_named(equation, reason):
    with pytest.raises(NotSupportedError, match=reason):
        divergence_form(steady(equation).pde)


def test_axes_must_be_uncoupled_and_all_there():
    with pytest.raises(NotSupportedError, match="couples two axes"):
        divergence_form(steady("-lap(u) + dxy(u) = 1", space="xy").pde)
    words = {"boundary": {"x": {"dirichlet": {"u": 0}}, "y": "periodic"}}
    with pytest.raises(NotSupportedError, match="no second derivative along y"):
        divergence_form(steady("-dxx(u) = 1", space="xy", **words).pde)


def test_conditions_must_be_of_three_kinds():
    twice = {"x": [{"dirichlet": {"u": 0}}, {"neumann": {"u": 0}}]}
    reason = "one condition of dirichlet, neumann, robin is needed on x.min, not dirichlet, neumann"
    with pytest.raises(NotSupportedError, match=reason):
        divergence_form(steady("dxxxx(u) = 1", boundary=twice).pde)


def test_evolutions_and_systems_are_not_covered():
    heat = Problem.from_file("heat2d")
    with pytest.raises(NotSupportedError, match="it covers steady problems"):
        divergence_form(heat.pde)
    words = {"unknowns": ["u", "v"], "boundary": {"x": {"dirichlet": {"u": 0, "v": 0}}}}
    with pytest.raises(NotSupportedError, match="one equation for one unknown"):
        divergence_form(steady("dxx(u) = v", "dxx(v) = u", **words).pde)


@pytest.mark.parametrize("name", ["darcy", "darcy_fno", "darcy_inverse"])
def test_rough_darcy_problems_are_solved_by_finite_volumes(name):
    problem = Problem.from_file(name)
    assert divergence_form(problem.pde).rough
    assert isinstance(choose_method(problem), EllipticFiniteVolumes)


def test_a_rough_field_without_jumps_is_left_to_the_order_that_is_observed():
    assert not divergence_form(Problem.from_file("darcy_smooth").pde).rough
    inputs = {
        "g": {"of": ["x"], "law": "piecewise_constant", "cells": 3, "low": 1, "high": 2},
        "a": {"of": ["x"], "expression": "1 + g**2"},
    }
    assert divergence_form(steady("-d(a*dx(u), x) = 1", inputs=inputs).pde).rough


def test_the_usual_tolerance_is_one_that_jumps_allow():
    def tolerance(a):
        inputs = {"g": {"of": ["x"], "law": "fourier_series", "terms": 2, "amplitude": [-1, 1],
                        "wavenumber": [1, 2], "hidden": True},
                  "a": {"of": ["x"], **a}}  # fmt: skip
        problem = Problem(name="case", space={"x": [0, 1]}, unknowns=["u"], inputs=inputs,
                          equations=["-d(a*dx(u), x) = 1"], boundary={"x": {"dirichlet": {"u": 0}}},
                          save={"x": 9})  # fmt: skip
        return usual_tolerance(problem)

    assert tolerance({"expression": "where(g > 0, 12, 3)", "smooth": False}) == 1e-2
    assert tolerance({"expression": "exp(g)"}) == 1e-6


ENTERS = {"x.min": {"dirichlet": {"u": 0}}}
TWO = {"x.min": [{"dirichlet": {"u": 0}}, {"dirichlet": {"v": 0}}]}
ROUGH = {
    "inputs": {"a": {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 1, "high": 2}}
}


@pytest.mark.parametrize(
    ("equation", "words", "reason"),
    [
        (
            ["dt(u) + dx(u) = 0", "dt(v) + dx(v) = 0"],
            {"unknowns": ["u", "v"], "initial": {"u": 0, "v": 0}, "boundary": TWO},
            "one unknown along one axis",
        ),
        ("dt(u) + dx(u) = 0", {"boundary": {"x": "periodic"}}, "no wall to enter through"),
        ("dt(u) + d(u**2/2, x) = 0", {"boundary": {"x": "outflow"}}, "is nonlinear"),
        ("dt(u) + dx(u) = dxx(u)", {"boundary": {"x": {"dirichlet": {"u": 0}}}}, "of order .0, 2."),
        ("dt(u) = -u", {"boundary": {}}, "nothing is carried"),
        ("dt(u) + dx(u) = t", {}, "moves in time"),
        ("dt(u) + a*dx(u) = 0", ROUGH, "a coefficient jumps .a."),
        ("dt(u) + dx(u) = 0", {"boundary": {"x": "outflow"}}, "a condition at x.min"),
    ],
)
def test_what_is_no_linear_transport_says_why(equation, words, reason):
    problem = law(equation, **{"initial": {"u": 0}, "boundary": ENTERS} | words)
    with pytest.raises(NotSupportedError, match=reason):
        transport_form(problem.pde)


def test_linear_transport_is_read_with_its_signs():
    form = transport_form(law("2*dt(u) + 6*x*dx(u) + 4*u = 8", boundary=ENTERS).pde)
    x = law().space[0].symbol
    assert (form.unknown, form.speed, form.growth, form.source) == ("u", 3 * x, -2, 4)
    assert form.walls == (0, None)
