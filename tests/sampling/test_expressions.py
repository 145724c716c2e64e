"""Inputs by expression: values, derivatives and grids follow from those of the parts."""

import pytest
import sympy
import torch

from piop.errors import NotSupportedError
from piop.sampling import sample_inputs
from piop.sampling.functions import ScalarFunction
from piop.spec import distributions as laws

x, y = sympy.symbols("x y", real=True)
g = sympy.Function("g", real=True)(x, y)
h = sympy.Function("h", real=True)(y)
c = sympy.Symbol("c", real=True)
FIELD = laws.GaussianRandomField(tau=3.0, alpha=4.0, modes=3)


@pytest.fixture
def make(item, problem, axis):
    def build(expression, of=("x", "y")):
        return problem(
            item("a", of, expression=sympy.sympify(expression)),
            item("g", ["x", "y"], FIELD, hidden=True),
            item("h", ["y"], FIELD, hidden=True),
            item("c", [], laws.Uniform(1.0, 2.0)),
            space=[axis("x"), axis("y", periodic=False)],
        )

    return build


def places(count=7, d=2):
    return torch.rand(3, count, d, generator=torch.Generator().manual_seed(0)).double()


def test_an_expression_is_that_of_its_parts(make, many):
    drawn = sample_inputs(make(c * sympy.exp(g) + x * h), many(3))
    p = places()
    parts = drawn["g"](p), drawn["h"](p[..., 1:]), drawn["c"].values[:, None]
    expected = parts[2] * parts[0].exp() + p[..., 0] * parts[1]
    torch.testing.assert_close(drawn["a"](p), expected)
    assert list(drawn) == ["a", "g", "h", "c"]


@pytest.mark.parametrize("expression", [c * sympy.exp(g) + x * h, g * h**2, sympy.sin(x) * y**3])
def test_its_derivatives_equal_autograd(expression, make, many):
    a = sample_inputs(make(expression), many(3))["a"]
    p = places().requires_grad_()
    for order, axis_index in (((0, 0), 0), ((0, 0), 1), ((1, 0), 1), ((0, 1), 1)):
        (slope,) = torch.autograd.grad(a.derivative(p, order).sum(), p)
        higher = tuple(n + (i == axis_index) for i, n in enumerate(order))
        torch.testing.assert_close(
            a.derivative(p, higher), slope[..., axis_index], atol=1e-8, rtol=1e-8
        )


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 2)])
@pytest.mark.parametrize("of", [("x", "y"), ("y", "x")])
def test_a_grid_holds_the_same_values_as_its_points(of, order, make, many):
    a = sample_inputs(make(c * g + x * h + y, of), many(3))["a"]
    axes = [torch.linspace(0, 1, 4).double(), torch.linspace(0, 1, 5).double()]
    mesh = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, 2)
    torch.testing.assert_close(a.on_grid(axes, order), a.derivative(mesh, order).reshape(3, 4, 5))


def test_a_threshold_takes_its_two_values_and_has_no_slope_between(make, many):
    a = sample_inputs(make(sympy.Piecewise((12, g > 0), (3, True))), many(3))["a"]
    p = places(200)
    assert set(a(p).flatten().tolist()) == {3.0, 12.0}
    assert a.derivative(p, (1, 0)).abs().max() == 0
    assert a.on_grid([torch.rand(3), torch.rand(4)]).shape == (3, 3, 4)


def test_expressions_of_expressions_and_of_scalars_alone_work(make, item, problem, many):
    b = sympy.Symbol("b", real=True)
    p = problem(
        item("d", [], expression=b + 1),
        item("b", [], expression=2 * c),
        item("c", [], laws.Uniform(1.0, 2.0)),
        item("e", [], expression=sympy.Integer(7)),
    )
    drawn = sample_inputs(p, many(4))
    one = torch.zeros(4, 1, 0)
    torch.testing.assert_close(drawn["d"](one), 2 * drawn["c"](one) + 1)
    assert drawn["d"].on_grid([]).shape == (4,)
    assert drawn["e"](one).tolist() == [[7.0]] * 4


def test_an_expression_of_scalars_alone_is_computed_once(item, problem, many):
    p = problem(item("b", [], expression=2 * c), item("c", [], laws.Uniform(1.0, 2.0)))
    drawn = sample_inputs(p, many(4))
    assert isinstance(drawn["b"], ScalarFunction)
    torch.testing.assert_close(drawn["b"].values, 2 * drawn["c"].values)


def test_scalars_of_an_expression_are_evaluated_at_one_point(make, many, monkeypatch):
    a = sample_inputs(make(c * sympy.exp(g)), many(3))["a"]
    evaluated = []
    at_points = ScalarFunction.derivative

    def observed(self, points, order):
        evaluated.append(tuple(points.shape))
        return at_points(self, points, order)

    monkeypatch.setattr(ScalarFunction, "derivative", observed)
    assert a(places(7)).shape == (3, 7)
    assert evaluated == [(3, 1, 0)]


def test_taking_and_moving_apply_to_the_parts(make, many):
    a = sample_inputs(make(c * g), many(3))["a"]
    p = places()
    torch.testing.assert_close(a.take(torch.tensor([2]))(p[2:]), a(p)[2:])
    single = a.to(dtype=torch.float32)(p.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single, a(p).float(), atol=1e-5, rtol=1e-4)


def test_an_expression_of_what_is_not_drawn_is_refused(item, problem, many):
    p = problem(item("b", [], expression=2 * c))
    with pytest.raises(
        NotSupportedError, match=r"inputs\.b: its expression uses c, which is no input"
    ):
        sample_inputs(p, many(1))
