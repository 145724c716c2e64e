"""Orders of convergence, for each kind of wall: spectral in space, that of Radau IIA in time."""

import math
from itertools import product

import pytest
import sympy as sp

from .cases import KINDS, T, X, evolve, exact_values, manufactured, relative

EVEN = sp.exp(-T) * sp.sin(4 * X + 1) + sp.cos(3 * T) * X
# Meromorphic with poles 0.35 from the interval: its interpolants converge at a rate that is known.
POLES = (1 + T / 2) / (sp.Rational(49, 400) + (X - sp.Rational(1, 2)) ** 2)
PAIRS = list(product(KINDS, KINDS))


def heat(u):
    return sp.diff(u, T) - sp.diff(u, X, 2) / 10 + sp.diff(u, X) * (1 + X) / 5 + u**2 / 5


TEXT = "dt(u) - dxx(u)/10 + (1 + x)*dx(u)/5 + u**2/5"


def error(problem, u, n, steps, stages):
    found, mesh = evolve(problem, {}, n, steps, stages)
    return relative(found[0, 0], exact_values(u, problem, mesh.axes(), [problem.time.high])[0])


@pytest.mark.parametrize(("low", "high"), PAIRS)
def test_space_converges_at_the_rate_of_the_nearest_pole(low, high):
    """Errors fall as rho^−n, rho = 0.7 + sqrt(0.49 + 1) = 1.92, times a power of n."""
    problem = manufactured(POLES, heat, TEXT, {"x": (low, high)}, time=0.5)
    errors = [error(problem, POLES, n, 8, 4) for n in (21, 33)]
    rate = (errors[0] / errors[1]) ** (1 / 12)
    assert 1.75 < rate < 2.1, errors


@pytest.mark.parametrize(("low", "high"), [*zip(KINDS, KINDS, strict=True), ("robin", "neumann")])
@pytest.mark.parametrize("stages", [2, 3])
def test_time_converges_at_the_order_of_the_scheme(low, high, stages):
    """Walls that move in time: stiffness leaves s + 1 for certain, the method has 2s − 1."""
    problem = manufactured(EVEN, heat, TEXT, {"x": (low, high)}, time=1.0)
    steps = (8, 16)
    errors = [error(problem, EVEN, 17, m, stages) for m in steps]
    order = math.log(errors[0] / errors[1]) / math.log(steps[1] / steps[0])
    assert stages + 0.8 < order < 2 * stages - 0.8, (order, errors)
