"""One text per expression, in the words of the language."""

import pytest
import sympy
from sympy import Derivative, Function, Symbol

from piop.expression import write

x, y = sympy.symbols("x y", real=True)
u = Function("u", real=True)(x, y)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (x - y, "x - y"),
        (-x - 1, "-1 - x"),
        (u * 0.1, "1/10*u"),
        (-u / x**2, "-(u)*x**(-2)".replace("(u)", "u")),
        ((x + y) ** 2, "(x + y)**2"),
        (sympy.Rational(2, 3) ** x, "(2/3)**x"),
        (Derivative(u, (x, 2), y), "d(u, x, 2, y)"),
        (sympy.Max(y, x), "max(x, y)"),
        (sympy.exp(1) * sympy.pi, "exp(1)*pi"),
        (sympy.Piecewise((x, x < y), (0, True)), "where(x < y, x, 0)"),
    ],
)
def test_expressions_are_written_in_the_language(expr, text):
    assert write(expr) == text


def test_order_of_building_does_not_matter():
    assert write(y * x + u) == write(u + x * y)


@pytest.mark.parametrize(
    "expr",
    [
        sympy.besselj(0, x),
        sympy.I * x,
        x / sympy.Integer(10) ** 5000,
        sympy.Piecewise((x, x < y)),
        sympy.Piecewise((x, sympy.Eq(x, y)), (0, True)),
    ],
)
def test_what_the_language_cannot_say_is_refused(expr):
    with pytest.raises(TypeError):
        write(expr)


def test_a_name_can_stand_for_an_expression():
    assert write(x * Symbol("c"), {Symbol("c"): "speed"}) == "speed*x"
