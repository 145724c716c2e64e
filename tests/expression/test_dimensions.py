"""Terms agree exactly if some dimensions of names and numbers make them."""

from fractions import Fraction

import pytest
from sympy import Symbol

from piop.expression import Refusal, Scope, number
from piop.expression.dimensions import DimensionSystem, product, read_terms

t, x, y, z = (Symbol(n, real=True) for n in "txyz")
METRE, SECOND = {"[length]": Fraction(1)}, {"[time]": Fraction(1)}
SPEED = product((METRE, 1), (SECOND, -1))
NUMBERS = Scope({"n": number(1.5), "q": number(-2)})


def scope(**values):
    axes = {"t": t, "x": x, "y": y}
    names = {"t": SECOND, "x": METRE, "y": METRE, "u": SPEED, "v": SPEED}
    free = {name: {name: Fraction(1)} for name in "abcn"}
    return Scope({**names, **free, "V": (SPEED, SPEED), **values}, axes, (x, y))


def agree(*formulas, **values):
    """Let the formulas hold one after the other."""
    system = DimensionSystem()
    for formula in formulas:
        system.agree(read_terms(formula, scope(**values), NUMBERS, system))


CONSISTENT = [
    "dt(u) + u*dx(u) = 0.1*dxx(u)",
    "dt(u) + 3*dx(u) = -(2*u)",
    "u = sin(pi*x)",
    "u = 1 + exp(a)",
    "d(u, t, 2) = a**2*d(u, x, 2)",
    "sqrt(u**2 + v**2) = abs(u) + max(u, v, 0)",
    "x/t = min(u, 0)",
    "u**(1/2)*u**0.5 = v",
    "u**n/u = sqrt(v)",
    "u**q = 1*v**(-2)",
    "where(x < 0.5, u, 1) = v",
    "dt(V) + dot(V, grad(V)) = 0.1*lap(V)",
    "dt(V) = 0",
    "div(V) = curl(V)",
    "dot(curl(u), V) = u*div(V)",
    "d((u, v), t) = (u*dx(u), v*dx(v))",
    "sign(x)*u = v",
    "+u - -v = 0",
    "2*a**b = u",
    "u = sin(pi*x)*v",
    "dt(V) = div(V)*(1*x, 2*u)",
]


@pytest.mark.parametrize("formula", CONSISTENT)
def test_some_dimensions_make_the_terms_agree(formula):
    agree(formula)


INCONSISTENT = [
    ("dt(u) + dx(u) = 0", "dx(u)", "m/s"),
    ("dt(u) + u*dx(u) = dxx(u)", "dxx(u)", "m^2/s"),
    ("dt(u) = -u", "u", "1/s"),
    ("u = sin(x)", "x", "1/m"),
    ("u = 2*exp(-x**2)", "x**2", "1/m^2"),
    ("u = x", "x", "1/s"),
    ("u = sqrt(x)", "sqrt(x)", "m^(1/2)/s"),
    ("u = max(v, x)", "x", "1/s"),
    ("u = where(x < t, 1, 2)", "t", "m/s"),
    ("u = where(x < 1, x, 2)", "where(x < 1, x, 2)", "1/s"),
    ("dt(V) + dot(V, grad(V)) = lap(V)", "lap(V)", "m^2/s"),
    ("u = 2*u*(v - dt(x*v))", "dt(x*v)", "s/m"),
    ("u = x**n", "x**n", "1/m^(1/2)/s"),
    ("u = x**a", "x", "1/m"),
    ("u = 2**t", "t", "1/s"),
    ("u - (v + x) = 0", "x", "1/s"),
    ("dx(2*u) = curl(V) + dot(V, V)", "dot(V, V)", "s/m^2"),
]


@pytest.mark.parametrize(("formula", "term", "factor"), INCONSISTENT)
def test_the_first_term_that_cannot_agree_is_named_with_what_it_lacks(formula, term, factor):
    with pytest.raises(Refusal) as caught:
        agree(formula)
    assert f"'{term}'" in caught.value.message
    assert formula[caught.value.offset :].lstrip("-").startswith(term)
    assert f" in {factor} that" in caught.value.hint
    assert f"as in 1*{term}" in caught.value.hint


def test_a_name_has_one_dimension_in_all_formulas():
    agree("dt(u) + a*dx(u) = 0", "b*dt(u) = a*u")
    with pytest.raises(Refusal, match=r"with a in m/s from what comes before"):
        agree("dt(u) + a*dx(u) = 0", "dt(u) = a*dxx(u)")
    with pytest.raises(
        Refusal, match=r"'a' lacks a factor in m beside 'b\*x', whatever the unit of b"
    ):
        agree("a*x = b*y", "b = a*1", "b*x = a")


def test_numbers_are_each_their_own_and_an_absent_factor_is_none():
    agree("2*u + 2*x = 2*t")
    with pytest.raises(Refusal):
        agree("a*u + a*x = 2*t")


def test_a_unit_has_a_size():
    kilometre = {**METRE, "[scale]": Fraction(3)}
    agree("dt(u) + 2*u*dx(u) = 0", x=kilometre)
    with pytest.raises(Refusal) as caught:
        agree("dt(u) + u*dx(u) = 0", x=kilometre)
    assert "'u*dx(u)' is 0.001 m/s^2, that of 'dt(u)' m/s^2" in caught.value.message
    assert "as in 0.001*u*dx(u)" in caught.value.hint
    degree = {"[scale]": Fraction("-1.758122632")}
    with pytest.raises(Refusal, match=r"'a' is 0\.0174533, that of the argument of sin none"):
        agree("u = 2*sin(a)", a=degree)
    agree("a = 1*b", "b = 2*sin(pi*a/180)", a=degree)


def test_each_component_of_a_curl_has_its_own_dimension():
    slowness = product((SPEED, -1))
    values = {"x": METRE, "y": METRE, "z": SECOND, "a": slowness, "b": slowness, "c": {}}
    space = Scope(values, {"x": x, "y": y, "z": z}, (x, y, z))
    (found,) = read_terms("curl((a, b, c))", space, NUMBERS, DimensionSystem())
    per_metre = product((METRE, -1))
    assert found.value == (per_metre, per_metre, product((slowness, 1), (METRE, -1)))
    with pytest.raises(Refusal, match="another part of curl"):
        read_terms("curl((a, b, a*c))", space, NUMBERS, DimensionSystem())
