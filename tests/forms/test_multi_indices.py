"""The product rules of higher order against SymPy's differentiation."""

import pytest
import sympy

from piop.forms.multi_indices import below, composition_terms, is_below, minus, product_terms

X, Y = sympy.symbols("x y")
INDICES = [(0, 1), (1, 1), (2, 0), (2, 1), (0, 3), (2, 2), (4, 0), (3, 1)]


def _diff(expression: sympy.Expr, index: tuple[int, ...]) -> sympy.Expr:
    counts = [(s, n) for s, n in zip((X, Y), index, strict=True) if n]
    return expression.diff(*counts) if counts else expression


@pytest.mark.parametrize("index", INDICES)
def test_composition_terms_are_faa_di_brunos(index) -> None:
    inner = sympy.Function("g")(X, Y)
    outer = sympy.exp(2 * inner)  # f⁽ᵏ⁾ = 2ᵏ f
    total = 2 * _diff(inner, index)
    for count, blocks in composition_terms(index):
        total += 2 ** len(blocks) * count * sympy.prod(_diff(inner, b) for b in blocks)
    assert sympy.expand(_diff(outer, index) / outer - total) == 0


@pytest.mark.parametrize("index", INDICES)
def test_product_terms_are_leibnizs(index) -> None:
    a, b = sympy.Function("a")(X, Y), sympy.Function("b")(X, Y)
    total = a * _diff(b, index) + b * _diff(a, index)
    for count, (left, right) in product_terms(index):
        total += count * _diff(a, left) * _diff(b, right)
    assert sympy.expand(_diff(a * b, index) - total) == 0


def test_order_of_multi_indices() -> None:
    assert list(below((1, 1))) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert minus((2, 1), (1, 1)) == (1, 0)
    assert is_below((1, 0), (1, 1))
    assert not is_below((2, 0), (1, 1))
