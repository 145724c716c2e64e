"""The derivatives of elementwise functions against SymPy's, in forty digits."""

import pytest
import sympy
import torch

from piop.residual.rules import elementwise_derivatives as tables

X = sympy.Symbol("x", real=True)
LOGISTIC = 1 / (1 + sympy.exp(-X))
INNER = sympy.sqrt(2 / sympy.pi) * (X + sympy.Rational(44715, 10**6) * X**3)
FORMULAS = {
    "exp": sympy.exp(X),
    "sin": sympy.sin(X),
    "cos": sympy.cos(X),
    "sinh": sympy.sinh(X),
    "cosh": sympy.cosh(X),
    "tanh": sympy.tanh(X),
    "tan": sympy.tan(X),
    "sigmoid": LOGISTIC,
    "silu": X * LOGISTIC,
    "gelu": X * (1 + sympy.erf(X / sympy.sqrt(2))) / 2,
    "gelu_tanh": X * (1 + sympy.tanh(INNER)) / 2,
    "softplus": sympy.log(1 + sympy.exp(X)),
    "erf": sympy.erf(X),
    "log": sympy.log(X),
    "log1p": sympy.log(1 + X),
    "expm1": sympy.exp(X) - 1,
    "atan": sympy.atan(X),
    "reciprocal": 1 / X,
    "sqrt": sympy.sqrt(X),
    "rsqrt": 1 / sympy.sqrt(X),
}
POSITIVE = {"log", "log1p", "reciprocal", "sqrt", "rsqrt"}


def _derivatives(table, x, n):
    return table.derivatives(x, table.basis(x), n)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", FORMULAS)
def test_derivatives_equal_sympys(name, order) -> None:
    places = [0.3, 0.7, 1.1, 2.5] + ([] if name in POSITIVE else [-1.9, -0.4, 0.0])
    x = torch.tensor(places, dtype=torch.float64)
    found = _derivatives(getattr(tables, name), x, order)
    assert len(found) == order + 1
    for k, values in enumerate(found):
        formula = FORMULAS[name].diff(X, k)
        for place, value in zip(places, values.tolist(), strict=True):
            exact = float(formula.subs(X, sympy.Rational(place)).evalf(40))
            assert value == pytest.approx(exact, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 5.0, -2.0, 1.5, -0.5, 0.5, -1.0])
def test_powers_end_where_their_derivatives_vanish(exponent) -> None:
    x = torch.tensor([0.4, 1.7], dtype=torch.float64)
    found = _derivatives(tables.power(exponent), x, 4)
    for k in range(5):
        formula = (X ** sympy.Rational(exponent)).diff(X, k)
        values = torch.as_tensor(found[k] if k < len(found) else 0.0).expand(2).tolist()
        for place, value in zip(x.tolist(), values, strict=True):
            exact = float(formula.subs(X, sympy.Rational(place)).evalf(40))
            assert value == pytest.approx(exact, rel=1e-12, abs=1e-13)


def test_whole_powers_are_finite_at_zero() -> None:
    x = torch.zeros(2, dtype=torch.float64)
    for derivative in _derivatives(tables.power(2.0), x, 4):
        assert torch.isfinite(torch.as_tensor(derivative)).all()
