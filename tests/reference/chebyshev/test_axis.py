"""What is linear in nodal values is exact for polynomials, and for waves along periodic axes."""

import math

import pytest
import torch

from piop.reference.chebyshev.mesh import chebyshev_axis, fourier_axis

CPU = torch.device("cpu")


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_polynomials_are_exact(order):
    axis = chebyshev_axis(-1.0, 3.0, 13, CPU)
    coefficients = torch.linspace(1, -1, 13, dtype=torch.float64)  # degree 12: the highest one
    s = (axis.nodes - 1) / 2
    exact = torch.zeros_like(s)
    for p, a in enumerate(coefficients):
        if p >= order:
            exact += a * math.perm(p, order) * s ** (p - order) / 2**order
    values = sum(a * s**p for p, a in enumerate(coefficients))
    error = (axis.derivative(order) @ values - exact).abs().max() / exact.abs().max()
    assert float(error) < 1e-11


def test_walls_are_nodes_and_quadrature_is_exact():
    axis = chebyshev_axis(0.5, 2.0, 8, CPU)
    assert axis.nodes[0] == 0.5
    assert axis.nodes[-1] == 2.0
    assert bool((axis.nodes.diff() > 0).all())
    for p in range(8):
        exact = (2.0 ** (p + 1) - 0.5 ** (p + 1)) / (p + 1)
        assert float(axis.weights @ axis.nodes**p) == pytest.approx(exact, rel=1e-13)


def test_interpolation_meets_nodes_and_polynomials_between_them():
    axis = chebyshev_axis(0.0, 1.0, 9, CPU)
    points = torch.tensor([0.0, 0.1234, float(axis.nodes[3]), 0.9, 1.0], dtype=torch.float64)
    values = axis.nodes**8 - axis.nodes
    assert torch.allclose(axis.interpolate(points) @ values, points**8 - points, atol=1e-14, rtol=0)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_waves_along_a_periodic_axis_are_exact(order):
    axis = fourier_axis(-1.0, 4.0, 9, CPU)
    k = 2 * math.pi / 4 * 4  # the highest of nine points
    wave = lambda x, n=0: k**n * torch.sin(k * x + 0.3 + n * math.pi / 2)  # noqa: E731
    assert torch.allclose(
        axis.derivative(order) @ wave(axis.nodes), wave(axis.nodes, order), atol=1e-10
    )
    points = torch.linspace(-1, 3, 7, dtype=torch.float64)
    assert torch.allclose(axis.interpolate(points) @ wave(axis.nodes), wave(points), atol=1e-13)
    assert float(axis.weights.sum()) == pytest.approx(4.0)
