"""Fluxes, sources, wave speeds, gas dynamics and mirror images are read from the symbols."""

import pytest
import sympy

from piop.errors import NotSupportedError
from piop.forms.conservation import forms_shocks, mirror, read_conservation_law
from piop.forms.wave_speeds import find_gas, wave_speeds
from piop.problem.capabilities import choose_method
from tests.reference.hyperbolic import EULER, EULER_2D, law

SQUARE = {"space": {"x": [0, 1], "y": [0, 1]}, "save": {"t": 2, "x": 8, "y": 8}}
BOX = SQUARE | {"boundary": {"x": "periodic", "y": "periodic"}}
REST = {"rho": 1, "m": 0, "n": 0, "E": 2}


def gas_2d(**words):
    return law(**EULER_2D | {"initial": REST} | BOX | words)


def test_coefficients_masses_and_sources_find_their_places():
    problem = law("2*dt(u) + cos(2*pi*x)*dx(u**2) + 3*dx(u) = u - 4")
    found = read_conservation_law(problem.pde)
    u, angle = problem.function("u"), 2 * sympy.pi * problem.space[0].symbol
    assert sympy.expand(found.fluxes[0][0] - (sympy.cos(angle) * u**2 + 3 * u) / 2) == 0
    rest = (u - 4 - 2 * sympy.pi * sympy.sin(angle) * u**2) / 2
    assert sympy.expand(found.source[0] - rest) == 0


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("dt(u) + dx(u**2) = dx(sin(2*pi*x))", "dt(u) + dx(u**2) = 2*pi*cos(2*pi*x)"),
        ("dt(u) + dx(sin(2*pi*x))*dx(u**2) = 0", "dt(u) + 2*pi*cos(2*pi*x)*dx(u**2) = 0"),
    ],
)
def test_derivatives_of_what_is_known_are_carried_out(written, plain):
    found, expected = (read_conservation_law(law(e).pde) for e in (written, plain))
    assert (found.fluxes, found.source) == (expected.fluxes, expected.source)


@pytest.mark.parametrize(
    ("equation", "reason"),
    [
        ("dt(u) + d(u**2/2, x) = dxx(u)", "of an order above one"),
        ("dt(u) + d(u*dx(u), x) = 0", "of an order above one"),
        ("dt(u) = -u + 0*dx(u)", "nothing is transported"),
        ("d(u + u**3, t) + dx(u) = 0", "u_t must stand with a constant factor"),
    ],
)
def test_what_is_no_first_order_law_in_flux_form_is_refused(equation, reason):
    problem = law(equation)
    with pytest.raises(NotSupportedError, match=reason):
        read_conservation_law(problem.pde)
    assert not forms_shocks(problem.pde)


def test_a_gas_is_known_by_its_fluxes_and_not_by_its_names():
    equations = [
        "dt(a) + div(((a + p)*c/r, (a + p)*b/r)) = 0",
        "dt(b) + div((c*b/r, b**2/r + p)) = 0",
        "dt(c) + div((c**2/r + p, c*b/r)) = 0",
        "dt(r) + div((c, b)) = 0",
        "dt(q) + div((q*c/r, q*b/r)) = 0",
    ]
    problem = law(
        equations,
        unknowns=["a", "b", "c", "r", "q"],
        definitions={"p": "0.4*(a - (c**2 + b**2)/(2*r))"},
        initial={"a": 2, "b": 0, "c": 0, "r": 1, "q": 0},
        **BOX,
    )
    gas = find_gas(read_conservation_law(problem.pde))
    assert (gas.density, gas.momenta, gas.energy, gas.carried) == (3, (2, 1), 0, (4,))


def test_other_pressures_are_gases_too_but_not_all_fluxes():
    euler = {n: v for n, v in EULER.items() if n != "parameters"}
    stiff = euler | {"definitions": {"p": "3.4*(E - m**2/(2*rho)) - 4.4*2"}}
    start = {"rho": 1, "m": 0, "E": 10}
    assert find_gas(read_conservation_law(law(**stiff, initial=start).pde)) is not None
    wrong = euler | {"definitions": {"p": "0.4*(E - m**2/rho) + rho*m/9"}}
    equations = [*EULER["equations"][:2], "dt(E) + d((E + 2*p)*m/rho, x) = 0"]
    problem = law(**wrong | {"equations": equations}, initial=start)
    assert find_gas(read_conservation_law(problem.pde)) is None
    assert find_gas(read_conservation_law(law().pde)) is None


def test_the_speed_of_one_unknown_is_the_slope_of_its_flux():
    found = read_conservation_law(law("dt(u) + dx(u**3) = 0").pde)
    assert wave_speeds(found, 0, None) == ((3 * found.state[0] ** 2,) * 2,)


def test_speeds_of_a_gas_are_velocity_and_sound():
    problem = gas_2d()
    found = read_conservation_law(problem.pde)
    values = dict(zip(found.state, (sympy.Rational(2), 3, -1, 5), strict=True))
    pressure = sympy.Rational(2, 5) * (5 - sympy.Rational(10, 4))
    sound = sympy.sqrt(sympy.Rational(7, 5) * pressure / 2)
    for axis, velocity in enumerate((sympy.Rational(3, 2), -sympy.Rational(1, 2))):
        ((low, high),) = wave_speeds(found, axis, find_gas(found))
        assert float(low.subs(values)) == pytest.approx(float(velocity - sound))
        assert float(high.subs(values)) == pytest.approx(float(velocity + sound))


def test_speeds_without_a_gas_are_factors_of_the_characteristic_polynomial():
    """Shallow water in two dimensions: v, v − √h and v + √h."""
    equations = [
        "dt(h) + div((m, n)) = 0",
        "dt(m) + div((m**2/h + h**2/2, m*n/h)) = 0",
        "dt(n) + div((m*n/h, n**2/h + h**2/2)) = 0",
    ]
    start = {"h": 1, "m": 0, "n": 0}
    found = read_conservation_law(law(equations, unknowns=[*start], initial=start, **BOX).pde)
    values = dict(zip(found.state, (4, 2, 6), strict=True))
    pairs = wave_speeds(found, 1, None)
    assert sorted(float(s.subs(values)) for pair in pairs for s in pair) == [-0.5, 1.5, 1.5, 3.5]


def test_walls_turn_the_normal_momentum_round():
    found = read_conservation_law(gas_2d().pde)
    assert mirror(found, 0) == (1, -1, 1, 1)
    assert mirror(found, 1) == (1, 1, -1, 1)
    assert mirror(read_conservation_law(law().pde), 0) == (-1,)


def test_walls_that_mean_nothing_or_two_things_are_refused():
    with pytest.raises(NotSupportedError, match="no mirror symmetry"):
        mirror(read_conservation_law(law("dt(u) + dx(u) = 0").pde), 0)
    sound = ["dt(p) + dx(v) = 0", "dt(v) + dx(p) = 0"]
    problem = law(sound, unknowns=["p", "v"], initial={"p": 1, "v": 0}, boundary={"x": "wall"})
    with pytest.raises(NotSupportedError, match="do not tell which unknown vanishes"):
        choose_method(problem)


def test_shocks_are_solved_for_but_not_trained_on():
    law().capabilities.reference.require()
    law().capabilities.data.require()
    with pytest.raises(NotSupportedError, match="derivatives do not exist at shocks"):
        law().capabilities.equations.require()
