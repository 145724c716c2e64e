"""The weak form that follows from the symbols, against forms worked out by hand."""

import pytest
import sympy
from sympy import Derivative

from piop.errors import NotSupportedError
from piop.forms.weak import weak_form
from piop.problem import Problem

X, Y = (sympy.Symbol(n, real=True) for n in "xy")
NX, NY = (sympy.Symbol(n, real=True) for n in ("outward x", "outward y"))
U, V = (sympy.Function(n, real=True)(X, Y) for n in "uv")
UX, UY = Derivative(U, X), Derivative(U, Y)
ZERO = {"rest": {"dirichlet": {"u": 0}}}
CAVITY = {"box": [[0, 1], [0, 1]], "holes": {"cavity": {"disk": [0.5, 0.5, 0.2]}}}
FIELD = {"of": ["x", "y"], "law": "gaussian_random_field", "scale": 9, "tau": 3, "alpha": 4}


def problem(equation, cavity=None, **words):
    boundary = {"rest": {"dirichlet": {"u": 0}}, **({"cavity": cavity} if cavity else {})}
    return Problem(
        **{
            "name": "case",
            "space": {"x": [0, 1], "y": [0, 1]},
            "unknowns": ["u"],
            "equations": [equation],
            "boundary": boundary,
            "domain": CAVITY,
            **words,
        }
    )


def volume(found):
    terms = {k: e for i, k, e in found.volume.terms if i == 0}
    return [sympy.expand(terms.get(k, sympy.S.Zero)) for k in range(3)]


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("-lap(u) = 1", [-1, UX, UY]),
        ("-div((1 + x)*grad(u)) + 3*dx(u) = u", [3 * UX - U, (1 + X) * UX, (1 + X) * UY]),
        # a flux without slopes stays where it is
        ("-div(grad(u) - (x*u, y*u)) = 0", [2 * U + X * UX + Y * UY, UX, UY]),
        # outside the divergence: (1 + x) u_xx = ∂((1 + x) u_x) − u_x
        ("-(1 + x)*dxx(u) - dyy(u) = 0", [UX, (1 + X) * UX, UY]),
        ("-div((1 + u**2)*grad(u)) = 0", [0, (1 + U**2) * UX, (1 + U**2) * UY]),
        # u u_xx = ∂(u u_x) − u_x²
        ("-u*dxx(u) - dyy(u) = 0", [UX**2, U * UX, UY]),
        (
            "-d(d(u, x) + d(u, y)/2, x) - d(d(u, y) + d(u, x)/2, y) = 0",
            [0, UX + UY / 2, UY + UX / 2],
        ),
    ],
)
def test_terms_over_the_shape(equation, expected):
    found = weak_form(problem(equation).pde)
    assert volume(found) == [sympy.expand(e) for e in expected]


def test_slopes_are_those_of_the_terms():
    found = weak_form(problem("-div((1 + u**2)*grad(u)) = exp(u)").pde)
    slopes = {s[:4]: s[4] for s in found.volume.slopes}
    assert slopes == {
        (0, 0, 0, 0): -sympy.exp(U),
        (0, 1, 0, 0): 2 * U * UX,
        (0, 1, 0, 1): 1 + U**2,
        (0, 2, 0, 0): 2 * U * UY,
        (0, 2, 0, 2): 1 + U**2,
    }
    assert not found.linear


@pytest.mark.parametrize(
    ("equation", "cavity", "expected"),
    [
        ("-lap(u) = 1", {"neumann": {"u": "sin(x)"}}, -sympy.sin(X)),
        ("-2*lap(u) = 1", {"robin": {"u": [3, 4, "x"]}}, -2 * (X - 3 * U) / 4),
        ("lap(u) = 1", {"neumann": {"u": "y"}}, Y),
        ("-div((1 + x)*grad(u)) = 1", {"neumann": {"u": 5}}, -5 * (1 + X)),
        ("-div((1 + x)*grad(u)) = 1", ["dx(u)*nx + dy(u)*ny = u**3 - 1"], -(1 + X) * (U**3 - 1)),
        ("-lap(u) = 1", ["dx(u)*nx + dy(u)*ny = x*nx - y*ny"], -X * NX + Y * NY),
        ("-div((1 + u**2)*grad(u)) = 1", ["(1 + u**2)*(dx(u)*nx + dy(u)*ny) + u = 0"], U),
        ("-div((1 + u**2)*grad(u)) = 1", {"neumann": {"u": 1}}, -1 - U**2),
    ],
)
def test_what_passes_a_face(equation, cavity, expected):
    found = weak_form(problem(equation, cavity).pde)
    ((i, k, flux),) = found.faces["cavity"].terms
    assert (i, k) == (0, 0)
    assert sympy.expand(flux - expected) == 0
    assert found.values["cavity"] == {}
    assert found.values["x.min"] == {0: 0}


@pytest.mark.parametrize("kind", ["robin", "equation"])
def test_a_parameter_may_have_the_name_of_a_component_of_the_normal(kind):
    drawn = {"nx": {"law": "uniform", "low": 1, "high": 2}}
    number = sympy.Symbol("nx", real=True)
    cavity = {"robin": {"u": ["nx", 1, 2]}} if kind == "robin" else ["dx(u)*nx + dy(u)*ny = y*nx"]
    expected = number * U - 2 if kind == "robin" else -Y * NX
    found = weak_form(problem("-lap(u) = nx", cavity, parameters=drawn).pde)
    ((_, _, flux),) = found.faces["cavity"].terms
    assert sympy.expand(flux - expected) == 0
    assert volume(found) == [-number, UX, UY]


def test_fluxes_along_the_axes_suffice_on_straight_sides():
    """Different coefficients along x and y: ∂u/∂n gives the flux where n is along an axis."""
    sides = {"x.max": {"neumann": {"u": 3}}, "rest": {"dirichlet": {"u": 0}}}
    found = weak_form(problem("-dxx(u) - 2*dyy(u) = 1", boundary=sides).pde)
    assert found.faces["x.max"].terms == ((0, 0, sympy.Integer(-3)),)
    round_it = problem("-dxx(u) - 2*dyy(u) = 1", {"neumann": {"u": 3}})
    message = r"on cavity no condition gives the flux -nx\*.*, x.* - 2\*ny\*.*, y.* of equation 1"
    with pytest.raises(NotSupportedError, match=message):
        weak_form(round_it.pde)


def test_which_problems_share_one_matrix():
    scalar = {"law": "uniform", "low": 1, "high": 2}
    source = problem("-lap(u) = k*f", inputs={"f": FIELD, "k": scalar})
    assert weak_form(source.pde).shared
    assert not weak_form(problem("-k*lap(u) = f", inputs={"f": FIELD, "k": scalar}).pde).shared
    assert not weak_form(problem("-lap(u) + f*u = 0", inputs={"f": FIELD}).pde).shared
    exchange = problem("-lap(u) = 1", {"robin": {"u": ["k", 1, 0]}}, inputs={"k": scalar})
    assert weak_form(exchange.pde).linear
    assert not weak_form(exchange.pde).shared


def test_a_rough_coefficient_may_stand_inside_the_divergence_alone():
    rough = {"g": {**FIELD, "hidden": True}}
    rough["a"] = {"of": ["x", "y"], "expression": "where(g > 0, 12, 3)", "smooth": False}
    assert volume(weak_form(problem("-div(a*grad(u)) = 1", inputs=rough).pde))[0] == -1
    for equation, message in (
        ("-a*lap(u) = 1", "write it as a flux"),
        ("-lap(u) + div((a*u, u)) = 1", "differentiates a jump"),
    ):
        with pytest.raises(NotSupportedError, match=message):
            weak_form(problem(equation, inputs=rough).pde)


STOKES = {
    "unknowns": ["u", "v", "p"],
    "equations": ["-lap(u) + dx(p) = 0", "-lap(v) + dy(p) = 0", "dx(u) + dy(v) = 0"],
    "boundary": {"rest": {"dirichlet": {"u": 0, "v": 0}}},
    "gauge": {"p": {"mean": 0}},
}
BOX = {"box": [[0, 1], [0, 1]]}
REFUSED = [
    ({"equations": ["-exp(lap(u)) = 1"]}, "is not linear in second derivatives"),
    ({"equations": ["-dxx(u)*dyy(u) = 1"]}, "is not linear in second derivatives"),
    ({"boundary": {"x": "periodic", **ZERO}, "domain": BOX}, "x is periodic"),
    (STOKES, "p has no second derivatives in equation 3"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_has_no_weak_form_here_is_refused(words, message):
    with pytest.raises(NotSupportedError, match=message):
        weak_form(problem("-lap(u) = 1", **words).pde)


def test_a_box_is_left_to_other_methods():
    faces = {"x": {"dirichlet": {"u": 0}}, "y": {"neumann": {"u": 0}}}
    plain = Problem(
        name="case",
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u"],
        equations=["-lap(u) = 1"],
        boundary=faces,
    )
    with pytest.raises(NotSupportedError, match="shapes in the plane"):
        weak_form(plain.pde)


def test_an_evolution_on_a_shape_says_so():
    found = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = lap(u)"],
        initial={"u": 0},
        boundary={"rest": {"dirichlet": {"u": 1}}},
        domain=CAVITY,
    )
    with pytest.raises(NotSupportedError, match="it covers steady problems"):
        weak_form(found.pde)
