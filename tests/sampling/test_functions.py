"""Functions on product bases: derivatives against autograd, grids against points."""

import math

import pytest
import torch

from piop.sampling.functions import (
    PiecewiseConstantFunction,
    ProductFunction,
    ScalarFunction,
    SplineBasis,
    TrigonometricBasis,
)

PERIODIC = TrigonometricBasis.periodic(torch.arange(4), -1.0, 2.0, unit=True)
COSINES = TrigonometricBasis.half_waves(5, 0.0, 2.0, "cos")
SINES = TrigonometricBasis.half_waves(5, 0.5, 2.0, "sin")
SPLINES = SplineBasis(
    torch.tensor([0.0, 0.0, 0.0, 0.0, 0.4, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0]).double(), 3
)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def function(*bases, kind=ProductFunction, batch=3):
    return kind(random(batch, *[b.size for b in bases]), bases, random(batch, seed=1))


CASES = {
    "periodic": function(PERIODIC),
    "neumann": function(COSINES),
    "dirichlet": function(SINES),
    "2d": function(PERIODIC, COSINES),
    "3d": function(SINES, PERIODIC, COSINES),
    "spline": function(SPLINES, kind=ProductFunction),
    "spline and periodic": function(SPLINES, PERIODIC, kind=ProductFunction),
}


def points_for(f, count=11):
    u = torch.rand(f.batch, count, f.dimension, generator=torch.Generator().manual_seed(2))
    return 0.5 + 1.4 * u.double()


@pytest.mark.parametrize("name", CASES)
def test_every_first_and_second_derivative_equals_autograd(name):
    f = CASES[name]
    points = points_for(f).requires_grad_()
    for axis in range(f.dimension):
        for times in (0, 1):
            low = [0] * f.dimension
            low[axis] = times
            (slope,) = torch.autograd.grad(
                f.derivative(points, low).sum() + 0 * points.sum(), points
            )
            low[axis] += 1
            torch.testing.assert_close(
                f.derivative(points, low), slope[..., axis], atol=1e-9, rtol=1e-9
            )


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 2), (1, 3), (4, 4)])
def test_a_grid_holds_the_same_values_as_its_points(order):
    f = CASES["2d"]
    axes = (torch.linspace(-1, 2, 7).double(), torch.linspace(0, 2, 5).double())
    mesh = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, 2)
    slow = f.derivative(mesh, order).reshape(3, 7, 5)
    torch.testing.assert_close(f.on_grid(axes, order), slow, atol=1e-9, rtol=1e-12)


def test_a_3d_grid_holds_the_same_values_as_its_points():
    f = CASES["3d"]
    axes = [torch.linspace(0.5, 2, n).double() for n in (4, 3, 5)]
    mesh = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, 3)
    torch.testing.assert_close(f.on_grid(axes), f(mesh).reshape(3, 4, 3, 5))


def test_many_points_in_pieces_equal_few_points_at_once(monkeypatch):
    f, points = CASES["3d"], points_for(CASES["3d"], 50)
    whole = f(points)
    monkeypatch.setattr("piop.sampling.functions._CHUNK", 500)
    torch.testing.assert_close(f(points), whole)


def test_basis_functions_are_orthonormal():
    x = (torch.arange(4000).double() + 0.5) / 4000  # midpoint rule: exact for these waves
    for basis, low, high in ((PERIODIC, -1.0, 2.0), (COSINES, 0.0, 2.0), (SINES, 0.5, 2.0)):
        table = basis.table(low + (high - low) * x)
        gram = table.mT @ table * (high - low) / 4000
        torch.testing.assert_close(gram, torch.eye(basis.size).double(), atol=1e-10, rtol=0)
        torch.testing.assert_close(basis.mean_square, (table**2).mean(0), atol=1e-10, rtol=0)


def test_the_constant_is_added_to_values_and_to_no_derivative():
    f = ProductFunction(torch.zeros(2, 7).double(), (PERIODIC,), torch.tensor([1.0, -2.0]).double())
    points = torch.zeros(1, 3, 1).double()
    assert f(points).tolist() == [[1.0] * 3, [-2.0] * 3]
    assert f.derivative(points, (1,)).abs().max() == 0
    assert f.on_grid([torch.zeros(3).double()]).tolist() == [[1.0] * 3, [-2.0] * 3]


def test_taking_functions_keeps_their_values():
    f, points = CASES["2d"], points_for(CASES["2d"])
    index = torch.tensor([2, 0])
    torch.testing.assert_close(f.take(index)(points[index]), f(points)[index])


def test_single_precision_agrees_to_its_rounding():
    f = CASES["2d"]
    single = f.to(dtype=torch.float32)
    points = points_for(f)
    assert single(points.float()).dtype == torch.float32
    torch.testing.assert_close(single(points.float()).double(), f(points), atol=1e-4, rtol=1e-4)


def test_splines_move_to_another_precision():
    f = CASES["spline and periodic"]
    points = points_for(f)
    moved = f.to(dtype=torch.float32)(points.float())
    torch.testing.assert_close(moved.double(), f(points), atol=1e-4, rtol=1e-4)


def test_splines_sum_to_one_and_reproduce_cubics():
    x = torch.linspace(0, 2, 101).double()
    table = SPLINES.table(x)
    torch.testing.assert_close(table.sum(-1), torch.ones(101).double())
    cubic = x**3 - x
    fit = torch.linalg.lstsq(table, cubic).solution
    torch.testing.assert_close(table @ fit, cubic)
    torch.testing.assert_close(SPLINES.table(x, 2) @ fit, 6 * x, atol=1e-9, rtol=1e-9)
    assert SPLINES.table(x, 4).abs().max() == 0


def test_a_scalar_has_one_value_at_its_one_point():
    f = ScalarFunction(torch.tensor([1.0, 2.0]))
    assert f(torch.zeros(2, 1, 0)).tolist() == [[1.0], [2.0]]
    assert f.on_grid([]).tolist() == [1.0, 2.0]
    assert f.take(torch.tensor([1])).to(dtype=torch.float64).values.tolist() == [2.0]


def cells(periodic=(False, True)):
    values = torch.arange(6.0).reshape(1, 2, 3)
    return PiecewiseConstantFunction(values, (0.0, -1.0), (1.0, 2.0), periodic)


def test_a_cell_has_its_value_everywhere_inside():
    points = torch.tensor([[[0.0, -1.0], [0.49, -0.01], [0.5, -1.0], [0.99, 1.99], [0.2, 0.5]]])
    assert cells()(points).tolist() == [[0, 0, 3, 5, 1]]
    assert cells().derivative(points, (1, 0)).abs().max() == 0


def test_cells_are_folded_back_on_periodic_axes_and_continued_on_others():
    points = torch.tensor([[[1.0, 2.0], [-0.1, 1.9], [5.0, -1.1]]])
    assert cells()(points).tolist() == [[3, 2, 5]]


def test_cells_on_a_grid_equal_cells_at_points():
    axes = (torch.tensor([0.1, 0.6]), torch.tensor([-0.9, 0.1, 1.1]))
    torch.testing.assert_close(cells().on_grid(axes), torch.arange(6.0).reshape(1, 2, 3))
    assert cells().take(torch.tensor([0, 0])).batch == 2
    assert cells().to(dtype=torch.float64).values.dtype == torch.float64


def test_derivatives_of_high_order_keep_their_accuracy():
    basis = TrigonometricBasis.periodic(torch.tensor([3]), 0.0, 2 * math.pi, unit=False)
    x = torch.linspace(0, 6, 13).double()
    exact = [torch.cos, lambda a: -torch.sin(a), lambda a: -torch.cos(a), torch.sin]
    for order in range(9):
        expected = 3.0**order * exact[order % 4](3 * x)
        torch.testing.assert_close(basis.table(x, order)[:, 0], expected, atol=1e-9, rtol=1e-12)
