"""Orders of convergence, by kind of condition, on solutions made up beforehand."""

import math

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.reference.solution import Limits

from .cases import X, Y, Z, exact, manufactured, on_one_grid, relative, solve

FACES = ("x.min", "x.max", "y.min", "y.max")


def nodes(*shape):
    return [torch.linspace(0, 1, n, dtype=torch.float64) for n in shape]


def order(problem, u, coarse, shape, axes=None):
    truth = exact(u, axes or nodes(*shape))
    sizes = [tuple(k * n for n in coarse) for k in (1, 2)]
    errors = [relative(on_one_grid(problem, {}, s, shape)[0], truth) for s in sizes]
    return math.log2(errors[0] / errors[1]), errors[1]


@pytest.mark.parametrize("kind", ["dirichlet", "neumann", "robin"])
@pytest.mark.parametrize("face", FACES)
def test_second_order_for_each_kind_on_each_face(kind, face):
    """u has no symmetry, so exchanged axes, faces or signs of normals show."""
    u = sympy.exp(X - 2 * Y) + sympy.sin(3 * X + Y)
    kinds = dict.fromkeys(FACES, "dirichlet") | {face: kind}
    problem = manufactured(u, 1 + X + Y**2, 1, kinds)
    found, error = order(problem, u, (16, 16), (17, 17))
    assert 1.9 < found < 2.15
    assert error < 2e-3


def test_second_order_with_a_coefficient_for_each_axis():
    u = sympy.cos(2 * X) * sympy.exp(Y)
    a = (1 + X * Y, 5 + sympy.sin(3 * X))
    problem = manufactured(u, a, X + 2, dict.fromkeys(FACES, "robin"))
    found, error = order(problem, u, (16, 20), (9, 11))
    assert 1.9 < found < 2.15
    assert error < 2e-3


def test_second_order_on_a_periodic_axis():
    u = sympy.sin(2 * sympy.pi * X) * sympy.exp(Y) + Y
    kinds = {"x": "periodic", "y.min": "robin", "y.max": "neumann"}
    problem = manufactured(u, 2 + sympy.cos(2 * sympy.pi * X), 0, kinds)
    x, y = torch.arange(16, dtype=torch.float64) / 16, nodes(17)[0]
    found, error = order(problem, u, (16, 16), (16, 17), axes=[x, y])
    assert 1.9 < found < 2.15
    assert error < 1e-2


def test_second_order_in_three_dimensions():
    u = sympy.exp(X - Y) * sympy.cos(Z + X)
    faces = [f"{a}.{e}" for a in "xyz" for e in ("min", "max")]
    kinds = dict(zip(faces, ["robin", "dirichlet", "neumann"] * 2, strict=True))
    problem = manufactured(u, 1 + X * Y + Z, 1, kinds)
    found, error = order(problem, u, (12, 8, 16), (5, 5, 5))
    assert 1.85 < found < 2.2
    assert error < 1e-3


@pytest.mark.parametrize("shape", [(14, 20), (17, 17)])
def test_nodes_anywhere_are_met_with_second_order(shape):
    """At 14 × 20 nodes, the cells of 16² and 32² lie anyhow."""
    u = sympy.exp(X - 2 * Y) + sympy.sin(3 * X + Y)
    problem = manufactured(u, 1 + X, 0, dict.fromkeys(FACES, "dirichlet"))
    found, error = order(problem, u, (16, 16), shape)
    assert 1.8 < found < 2.3
    assert error < 2e-3


number = st.floats(-1, 1).map(lambda v: round(v, 3))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    a=st.tuples(number, number, number),
    u=st.tuples(number, number, number),
    kinds=st.tuples(*[st.sampled_from(["dirichlet", "neumann", "robin"])] * 4),
    sign=st.sampled_from([1, -1]),
)
def test_made_up_solutions_with_random_coefficients_are_found_within_the_estimate(
    a, u, kinds, sign
):
    """The error stays below the estimate, that below 1e-5."""
    truth = sympy.cos(2 * u[0] * X + 3 * u[1] * Y + u[2]) + X * Y
    coefficient = sign * sympy.exp(a[0] * sympy.sin(3 * X + a[1] * Y) + a[2] * Y)
    problem = manufactured(truth, coefficient, sign * 0.5, dict(zip(FACES, kinds, strict=True)))
    solution = solve(problem, tolerance=1e-5)
    assert bool(solution.accepted.all())
    error = relative(solution.values["u"][0], exact(truth, solution.axes))
    assert error <= float(solution.error_estimate) <= 1e-5


@pytest.mark.parametrize("kind", ["dirichlet", "neumann", "robin"])
def test_third_order_after_extrapolation(kind):
    """Walls leave a term of third order; the estimate credits the second."""
    u = sympy.exp(X - 2 * Y) + sympy.sin(3 * X + Y)
    problem = manufactured(u, 1 + X + Y**2, 1, dict.fromkeys(FACES, kind))
    errors = []
    for most in (128, 256):
        limits = Limits(modes=(most, most, most))
        solution = solve(problem, tolerance=1e-11, limits=limits)
        errors.append(relative(solution.values["u"][0], exact(u, solution.axes)))
        assert errors[-1] < float(solution.error_estimate)
    assert 2.9 < math.log2(errors[0] / errors[1]) < 4.2


def test_a_tolerance_out_of_reach_is_reported():
    u = sympy.sin(9 * X) * sympy.exp(Y)
    problem = manufactured(u, 1 + X, 0, dict.fromkeys(FACES, "dirichlet"))
    solution = solve(problem, (9, 9), 1e-9, Limits(modes=(64, 64, 64)))
    assert not bool(solution.accepted.any())
    assert solution.modes.tolist() == [[64, 64]]
    error = relative(solution.values["u"][0], exact(u, solution.axes))
    assert error <= float(solution.error_estimate)
    assert (
        "tolerance 1.0e-09 not met; refinement ended at 64 × 64 cells with an estimated error of"
        in solution.notes[0]
    )
