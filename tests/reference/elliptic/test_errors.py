"""What has no solution, or is not elliptic, and how it is said."""

import math

import pytest
import sympy
import torch

from piop.errors import SolverError

from .cases import X, Y, exact, relative, solve, steady

FREE = {"x": {"neumann": {"u": 0}}, "y": {"neumann": {"u": 0}}}


def test_a_coefficient_that_changes_its_sign():
    problem = steady("-div((x - 0.3)*grad(u)) = 1", "xy")
    with pytest.raises(
        SolverError, match=r"sample 0: .*one sign, and lie in \[-0.29.*not elliptic"
    ):
        solve(problem)


def test_a_source_that_is_not_finite():
    with pytest.raises(SolverError, match=r"sample 0: a coefficient, the source or .* not finite"):
        solve(steady("-dxx(u) = log(x - 2)"), (16,))


def test_sources_that_do_not_balance():
    problem = steady("-lap(u) = 1", "xy", FREE, gauge={"u": {"mean": 0}})
    with pytest.raises(SolverError, match=r"no solution: sources and fluxes .* do not balance"):
        solve(problem)


def test_a_free_constant_follows_from_the_mean():
    problem = steady("-lap(u) = 2*pi**2*cos(pi*x)*cos(pi*y)", "xy", FREE, gauge={"u": {"mean": 3}})
    solution = solve(problem)
    truth = exact(sympy.cos(sympy.pi * X) * sympy.cos(sympy.pi * Y) + 3, solution.axes)
    assert bool(solution.accepted.all())
    assert relative(solution.values["u"][0], truth) < 1e-4


def test_waves_are_solved_directly():
    """u'' + k²u = 0, u(0) = 0, u(1) = 1: sin kx / sin k; the matrix is indefinite."""
    walls = {"x.min": {"dirichlet": {"u": 0}}, "x.max": {"dirichlet": {"u": 1}}}
    solution = solve(steady("dxx(u) + 100*u = 0", boundary=walls), (33,), 1e-5)
    truth = torch.sin(10 * solution.axes[0]) / math.sin(10)
    assert bool(solution.accepted.all())
    assert relative(solution.values["u"][0], truth) < float(solution.error_estimate[0])


def test_robin_walls_without_a_value_leave_a_singular_matrix():
    free = {"x": {"robin": {"u": [0, 1, 0]}}}
    with pytest.raises(SolverError, match="sample 0: the equation has no solution, or many"):
        solve(steady("-dxx(u) = 1", boundary=free), (17,))
