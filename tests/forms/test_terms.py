"""What expressions contain: unknowns and their derivatives."""

import sympy

from piop.forms.terms import unknown_derivatives

T, X = sympy.symbols("t x", real=True)
U, V = (sympy.Function(n, real=True)(T, X) for n in "uv")


def test_unknowns_are_listed_by_expression_with_derivatives_first():
    found = unknown_derivatives([U + U.diff(X, 2) * X, U * V], [T, X], ["u", "v"])
    assert list(found.items()) == [(U.diff(X, 2), (0, (0, 2))), (U, (0, (0, 0))), (V, (1, (0, 0)))]
