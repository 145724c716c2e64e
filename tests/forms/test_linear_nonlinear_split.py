"""The split L·u + N(u) comes from the symbols, term by term."""

import pytest
import sympy
from sympy import Rational

from piop.errors import NotSupportedError
from piop.forms.linear_nonlinear_split import Channel, split_linear
from piop.problem import Problem

HALF = Rational(1, 2)
LAW = {"law": "fourier_series", "terms": 2, "amplitude": [-1, 1], "wavenumber": [1, 2]}


def problem(equations, unknowns=("u",), space=("x",), inputs=("coef",), **words):
    equations = [equations] if isinstance(equations, str) else equations
    return Problem(
        name="case",
        time={"t": [0, 1]},
        space={s: [0, 1] for s in space},
        unknowns=list(unknowns),
        inputs={n: {"of": list(space), **LAW} for n in inputs if any(n in e for e in equations)},
        equations=equations,
        initial=words.pop("initial", dict.fromkeys(unknowns, "0")),
        boundary=dict.fromkeys(space, "periodic"),
        save={"t": 3, **dict.fromkeys(space, 8)},
        **words,
    )


def split(*args, **words):
    return split_linear(problem(*args, **words).pde)


def products(system):
    return {(str(p.expression), *p.places) for p in system.products}


def test_constant_coefficients_are_linear():
    found = split("dt(u) + 3*dx(u) = 0.5*dxx(u) - dxxxx(u)/4 + 2*u")
    assert found.mass == {(0, 0): {(0,): 1}}
    assert found.right.linear == {(0, 0): {(1,): -3, (2,): HALF, (4,): -HALF / 2, (0,): 2}}
    assert found.right.products == ()


def test_burgers_is_written_in_flux_form_to_save_a_transform():
    found = split("dt(u) + u*dx(u) = 0.01*dxx(u)")
    assert products(found.right) == {("u(t, x)**2", (0, (1,), -HALF))}
    assert list(found.unknown_atoms.values()) == [(0, (0,))]


@pytest.mark.parametrize(
    ("equation", "product"),
    [
        ("dt(u) = u*dxxx(u)", "u(t, x)*Derivative(u(t, x), (x, 3))"),
        ("dt(u) = coef*dx(coef)", "coef(x)*Derivative(coef(x), x)"),
    ],
)
def test_only_first_derivatives_of_unknowns_are_written_in_flux_form(equation, product):
    assert products(split(equation).right) == {(product, (0, (0,), 1))}


def test_flux_in_the_spec_is_kept():
    found = split("dt(u) + d(u**3 + 2*u, x) = 0")
    assert products(found.right) == {("u(t, x)**3", (0, (1,), -1))}
    assert found.right.linear == {(0, 0): {(1,): -2}}


def test_coordinates_and_inputs_make_a_term_not_linear():
    found = split("dt(u) = cos(2*pi*x)*u + coef*dxx(u) + t*u + coef")
    assert found.right.linear == {}
    (product,) = found.right.products
    assert product.places == ((0, (0,), 1),)
    assert {str(a) for a in found.input_atoms} == {"coef(x)"}
    assert sorted(found.unknown_atoms.values()) == [(0, (0,)), (0, (2,))]


def test_scalar_inputs_stay_linear():
    nu = {"nu": {"law": "uniform", "low": 1, "high": 2}}
    found = split("dt(u) = nu*dxx(u)", parameters=nu)
    assert found.right.linear == {(0, 0): {(2,): sympy.Symbol("nu", real=True)}}


def test_functions_of_unknowns_do_not_disturb_the_split():
    found = split("dt(u) = sin(u) + exp(-u**2)*dx(u) + dxx(u)")
    assert found.right.linear == {(0, 0): {(2,): 1}}
    assert len(found.right.products) == 1


def test_reactions_share_their_product():
    found = split(["dt(u) = dxx(u) - u*v**2 + 0.1*(1 - u)", "dt(v) = u*v**2 - 0.3*v"], ("u", "v"))
    (shared, constant) = found.right.products
    assert shared.places == ((0, (0,), -1), (1, (0,), 1))
    assert constant.expression == 1
    assert constant.places == ((0, (0,), pytest.approx(0.1)),)
    assert found.right.linear[1, 1] == {(0,): pytest.approx(-0.3)}


def test_time_derivative_may_stand_anywhere():
    found = split("2*dxx(u) = 3*dt(u) - d(u, t, x, x)")
    assert found.mass == {(0, 0): {(0,): 3, (2,): -1}} or found.mass == {
        (0, 0): {(0,): -3, (2,): 1}
    }
    sign = found.mass[0, 0][0,] / 3
    assert found.right.linear == {(0, 0): {(2,): 2 * sign}}


def test_second_order_in_time_becomes_a_first_order_system():
    found = split("d(u, t, 2) + 0.1*dt(u) = dxx(u)", initial={"u": "0", "dt(u)": "0"})
    assert found.channels == (Channel("u", 0), Channel("u", 1))
    assert found.mass == {(0, 1): {(0,): 1}, (1, 0): {(0,): 1}}
    assert found.right.linear == {
        (0, 0): {(2,): 1},
        (0, 1): {(0,): Rational(-1, 10)},
        (1, 1): {(0,): 1},
    }


def test_auxiliary_unknowns_come_last():
    found = split(
        "dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = 0.1*lap(w)",
        ("w",),
        ("x", "y"),
        auxiliary={"psi": {"equation": "-lap(psi) = w", "mean": 0}},
    )
    assert [c.name for c in found.channels] == ["w", "psi"]
    assert found.states == 1
    assert found.auxiliary.linear == {(0, 1): {(2, 0): -1, (0, 2): -1}, (0, 0): {(0, 0): -1}}
    assert set(found.unknown_atoms.values()) == {(1, (0, 1)), (1, (1, 0))}


def test_nonlinear_mass_is_refused():
    with pytest.raises(NotSupportedError, match="stand linearly"):
        split("(1 + u**2)*dt(u) = dxx(u)")


def test_steady_problem_is_refused():
    steady = Problem(
        name="still",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dxx(u) = 1"],
        boundary={"x": {"dirichlet": {"u": 0}}},
        save={"x": 8},
    )
    with pytest.raises(NotSupportedError, match="still: a steady problem"):
        split_linear(steady.pde)


VORTICITY = "dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = 0.1*lap(w) + sin(2*pi*x)"


def vorticity(auxiliary, equation=VORTICITY):
    words = {"auxiliary": {"psi": {"equation": auxiliary, "mean": 0}}, "inputs": ()}
    return split(equation, ("w",), ("x", "y"), **words)


def total(system, psi, w, x, y):
    """What the products of row 0 add up to, derivatives carried out."""
    parts = [
        c * p.expression.diff(x, order[0]).diff(y, order[1])
        for p in system.products
        for row, order, c in p.places
        if row == 0
    ]
    return sympy.expand(sum(parts).doit())


@pytest.mark.parametrize(("auxiliary", "k"), [("-lap(psi) = w", -1), ("3*w = 2*lap(psi)", "2/3")])
def test_vorticity_moved_by_its_stream_function_is_written_as_fluxes(auxiliary, k):
    found = vorticity(auxiliary)
    assert {o for _, o in found.unknown_atoms.values()} == {(1, 0), (0, 1)}
    assert {found.channels[c].name for c, _ in found.unknown_atoms.values()} == {"psi"}
    t, x, y = (sympy.Symbol(n, real=True) for n in "txy")
    psi = sympy.Function("psi", real=True)(t, x, y)
    w = Rational(k) * (psi.diff(x, 2) + psi.diff(y, 2))
    wanted = psi.diff(x) * w.diff(y) - psi.diff(y) * w.diff(x) + sympy.sin(2 * sympy.pi * x)
    assert total(found.right, psi, w, x, y) == sympy.expand(wanted)
    assert found.right.products[-1].expression.free_symbols == {x}  # what stands still comes last


@pytest.mark.parametrize(
    ("auxiliary", "equation"),
    [
        ("-lap(psi) = w + dx(w)", VORTICITY),
        ("-dxx(psi) - 2*dyy(psi) = w", VORTICITY),
        ("-lap(psi) = w", VORTICITY.replace("- dx", "+ dx")),
        (
            "-lap(psi) = w",
            VORTICITY.replace("+ dy(psi)", "+ cos(2*pi*x)*dy(psi)").replace(
                "- dx", "- cos(2*pi*x)*dx"
            ),
        ),
    ],
)
def test_other_advections_keep_their_products(auxiliary, equation):
    found = vorticity(auxiliary, equation)
    assert {found.channels[c].name for c, _ in found.unknown_atoms.values()} == {"psi", "w"}


def test_an_unknown_without_time_derivative_and_auxiliary_equation_is_refused():
    with pytest.raises(NotSupportedError, match="no time derivative of q"):
        split(
            ["dt(u) + dx(q) = 0", "q = u**2/2 - 0.1*dx(u)"],
            unknowns=("u", "q"),
            initial={"u": "0"},
        )
