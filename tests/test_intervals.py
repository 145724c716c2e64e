"""Enclosures hold every value, and shrink to them with the box."""

import math

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.expression.functions import BY_SYMBOL
from piop.intervals import Interval
from piop.lowering import compile_expression

x, y = sympy.symbols("x y", real=True)
EXPRESSIONS = [
    x * y - x / (3 + y**2),
    x**2 - x**3 + 2 / (x + 5),
    sympy.sin(3 * x) * sympy.cos(y - x),
    sympy.tan(x / 4) + sympy.exp(-((x / 0.1) ** 2)),
    sympy.sqrt(x**2 + y**2) + sympy.Abs(x - y),
    sympy.log(3 + x) ** 1.5 + 2**y,
    sympy.Piecewise((x, x < y), (y**2, True)),
    sympy.Piecewise((1, (x > 0) & (y > 0)), (2, x + y < -1), (3, True)),
    sympy.Max(x, y, 0.5) - sympy.Min(x, -y),
    sympy.Heaviside(x - 0.3) * y + sympy.sign(y),
    sympy.atan2(y, x) + sympy.erf(x) + sympy.tanh(3 * y),
    sympy.acos(x / 4) + sympy.asin(y / 4) + 1 / sympy.sqrt(x**2 + 1),
]
numbers = st.floats(-2, 2, allow_subnormal=False)
widths = st.floats(0, 2)


def enclosed(expression, *boxes):
    ends = [torch.tensor([[a], [a + w]], dtype=torch.float64) for a, w in boxes]
    found = compile_expression(expression, (x, y)[: len(boxes)])([Interval(*own) for own in ends])
    return float(found.low), float(found.high)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
@settings(max_examples=30)
@given(a=numbers, v=widths, b=numbers, w=widths)
def test_all_values_lie_within(expression, a, v, b, w):
    low, high = enclosed(expression, (a, v), (b, w))
    part = torch.rand(2, 200, generator=torch.Generator().manual_seed(0)).double()
    part[:, :2] = torch.tensor([0.0, 1.0])
    points = (a + v * part[0], b + w * part[1])
    values = compile_expression(expression, (x, y))(points).nan_to_num()
    slack = 1e-12 * (1 + values.abs().max())
    assert low - slack <= values.min()
    assert values.max() <= high + slack


@pytest.mark.parametrize("function", BY_SYMBOL, ids=lambda f: f.__name__)
def test_every_elementary_function_is_enclosed(function):
    two = function in (sympy.Min, sympy.Max, sympy.atan2)
    arguments = (x, y) if two else (x,)
    boxes = [(0.2, 0.3), (0.1, 0.2)][: len(arguments)]
    low, high = enclosed(function(*arguments), *boxes)
    points = [torch.tensor([a + w / 2]) for a, w in boxes]
    inside = float(compile_expression(function(*arguments), arguments)(points))
    assert -math.inf < low <= inside <= high < math.inf


@pytest.mark.parametrize("expression", [x**2, sympy.exp(x), sympy.sin(4 * x), 1 / (3 + x)], ids=str)
def test_a_function_that_reads_its_argument_once_is_enclosed_exactly(expression):
    values = compile_expression(expression, (x,))([torch.linspace(-1, 1, 20001).double()])
    low, high = enclosed(expression, (-1.0, 2.0))
    assert low == pytest.approx(float(values.min()), abs=1e-7)
    assert high == pytest.approx(float(values.max()), abs=1e-7)


def test_a_sine_is_zero_where_it_is():
    assert enclosed(sympy.sin(x), (0.0, 0.5))[0] == 0.0
    assert enclosed(sympy.sin(x), (1.0, 1.0))[1] == 1.0
    assert enclosed(sympy.sin(x), (-2.0, 1.0))[0] == -1.0


def test_a_pole_or_an_unbounded_value_has_no_bound():
    assert enclosed(1 / x, (-1.0, 2.0)) == (-math.inf, math.inf)
    assert enclosed(1 / x, (0.0, 1.0)) == (1.0, math.inf)
    assert enclosed(sympy.tan(x), (1.0, 1.0)) == (-math.inf, math.inf)
    assert enclosed(sympy.log(x), (-1.0, 2.0))[0] == -math.inf
