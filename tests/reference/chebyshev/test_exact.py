"""Reference solutions between walls against exact ones."""

import math

import pytest
import sympy as sp
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from piop.problem import Problem
from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs
from tests.reference.cases import relative

from .cases import KINDS, T, X, exact_values, manufactured


def evolution(equation, initial, boundary, time=1.0, space=(0, 1), **words):
    return Problem(
        name="case",
        time={"t": [0, time]},
        space={"x": list(space)},
        unknowns=["u"],
        equations=[equation],
        initial=initial,
        boundary={"x": boundary},
        save={"t": 11, "x": 65},
        **words,
    )


def error_of(solution, exact):
    """Largest over save times, as the estimate is meant."""
    return relative(solution.values["u"][0], exact)


@pytest.mark.parametrize(("kind", "sign"), [("dirichlet", -1), ("neumann", 1)])
def test_heat_equals_the_method_of_images(kind, sign):
    """A Gaussian and its images: odd ones make the walls zero, even ones make them flat."""
    nu, width = 0.02, 0.01
    # The start has images too, or it would not meet the conditions.
    images = [f"{sign**n}*exp(-(x - {c})**2/{4 * width})" for n, c in _centres(0.3, 2)]
    problem = evolution(f"dt(u) = {nu}*dxx(u)", {"u": " + ".join(images)}, {kind: {"u": 0}}, 2.0)
    solution = solve_reference(problem, {}, tolerance=1e-8)
    t, x = solution.times[:, None], solution.axes[0]
    spread = width + nu * t
    exact = sum(
        sign**n * torch.sqrt(width / spread) * torch.exp(-((x - c) ** 2) / (4 * spread))
        for n, c in _centres(0.3, 12)
    )
    assert error_of(solution, exact) <= float(solution.error_estimate[0]) <= 1e-8


def _centres(c, count):
    """Images of a point between walls at 0 and 1: the even ones moved, the odd ones mirrored."""
    for k in range(-count, count + 1):
        yield 0, 2 * k + c
        yield 1, 2 * k - c


def test_heat_forgets_walls_that_do_not_fit_the_start():
    """u = 1 at first between walls at zero: a sine series with all odd numbers."""
    problem = evolution("dt(u) = 0.1*dxx(u)", {"u": "1"}, {"dirichlet": {"u": 0}})
    solution = solve_reference(problem, {}, times=[0.02, 0.1, 1.0])
    t, x = solution.times[:, None], solution.axes[0]
    odd = torch.arange(1, 400, 2, dtype=torch.float64)[:, None, None] * math.pi
    exact = (4 / odd * torch.exp(-0.1 * odd**2 * t) * torch.sin(odd * x)).sum(0)
    assert error_of(solution, exact) <= float(solution.error_estimate[0]) <= 1e-6


def test_string_equals_d_alembert():
    """Fixed ends: half the odd extension runs to the left, half to the right."""
    problem = Problem.from_file("wave")
    functions = sample_inputs(problem, Draws(3, 0, torch.arange(3)))
    solution = solve_reference(problem, functions)
    t, x = solution.times[:, None], solution.axes[0]

    def extended(place):
        place = torch.remainder(place + 1, 2) - 1
        values = functions["u0"](place.abs().reshape(1, -1, 1)).reshape(3, *place.shape)
        return torch.sign(place) * values

    exact = (extended(x - t) + extended(x + t)) / 2
    for b in range(3):
        error = relative(solution.values["u"][b], exact[b])
        assert error <= float(solution.error_estimate[b]) <= 1e-6
    speed = solution.time_derivatives["u"]
    step = 1e-5
    slope = (extended(x - t - step) + extended(x + t + step)) - (
        extended(x - t + step) + extended(x + t - step)
    )
    assert relative(speed.flatten(0, 1), (slope / (4 * step)).flatten(0, 1)) < 1e-5


@pytest.mark.parametrize("order", [1, 2])
def test_waves_in_free_ends_and_moving_walls_are_manufactured(order):
    u = sp.cos(3 * T) * sp.sin(2 * X + 1) + T * X**2
    if order == 1:
        left, text = (
            (lambda v: sp.diff(v, T) + sp.diff(v, X) * (1 + X / 2)),
            "dt(u) + (1 + x/2)*dx(u)",
        )
        problem = manufactured(u, left, text, {"x": ("dirichlet", None)})
    else:
        left, text = (lambda v: sp.diff(v, T, 2) - sp.diff(v, X, 2)), "d(u, t, 2) - dxx(u)"
        problem = manufactured(u, left, text, {"x": ("neumann", "robin")}, order=2)
    solution = solve_reference(problem, {}, tolerance=1e-8)
    exact = exact_values(u, problem, solution.axes, solution.times.tolist())
    assert error_of(solution, exact) <= float(solution.error_estimate[0]) <= 1e-8
    rate = exact_values(sp.diff(u, T), problem, solution.axes, solution.times.tolist())
    assert relative(solution.time_derivatives["u"][0], rate) < 1e-6


def test_a_wave_that_a_wall_starts_from_rest_is_known():
    """u = (t − x)₊⁴."""
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["d(u, t, 2) = dxx(u)"],
        initial={"u": 0, "dt(u)": 0},
        boundary={"x.min": {"dirichlet": {"u": "t**4"}}, "x.max": {"dirichlet": {"u": 0}}},
        save={"t": 5, "x": 33},
    )
    solution = solve_reference(problem, {}, tolerance=1e-3)
    exact = (solution.times[:, None] - solution.axes[0]).clamp_min(0) ** 4
    assert error_of(solution, exact) < float(solution.error_estimate[0]) < 1e-3


def test_a_large_constant_does_not_drift():
    """Of ``u = 1 + 1e-7 cos(πx) …`` another unknown is driven by the small part alone."""
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u", "v"],
        equations=["dt(u) = 0.1*dxx(u)", "dt(v) = 0.1*dxx(v) + u - 1"],
        initial={"u": "1 + 1e-7*cos(pi*x)", "v": 0},
        boundary={"x": {"neumann": {"u": 0, "v": 0}}},
        save={"t": 3, "x": 33},
    )
    solution = solve_reference(problem, {}, tolerance=1e-6)
    t, x = solution.times[:, None], solution.axes[0]
    exact = 1e-7 * t * torch.exp(-0.1 * math.pi**2 * t) * torch.cos(math.pi * x)
    assert bool(solution.accepted[0])
    assert relative(solution.values["v"][0], exact) < 1e-8


def test_fisher_front_runs_as_known():
    """u = (1 + exp(z/√6))^−2, z = x − 5t/√6, solves u_t = u_xx + u(1 − u).

    Source: Ablowitz and Zeppetella 1979, doi:10.1007/BF02462380.
    """
    u = (1 + sp.exp((X - 5 * T / sp.sqrt(6) - 2) / sp.sqrt(6))) ** -2
    problem = evolution(
        "dt(u) = dxx(u) + u*(1 - u)",
        {"u": str(u.subs(T, 0))},
        {"dirichlet": {"u": str(u)}},
        time=4.0,
        space=(-6, 12),
    )
    solution = solve_reference(problem, {}, tolerance=1e-8)
    exact = exact_values(u, problem, solution.axes, solution.times.tolist())
    assert error_of(solution, exact) <= float(solution.error_estimate[0]) <= 1e-8


NUMBERS = st.floats(-1, 1, allow_nan=False).map(lambda v: round(v, 3))


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    a=st.lists(NUMBERS, min_size=3, max_size=3),
    b=st.lists(NUMBERS, min_size=4, max_size=4),
    walls=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
)
def test_random_smooth_coefficients_with_any_walls_are_manufactured(a, b, walls):
    """(e^a u_x)_x with random a, random drift and reaction, any walls that move in time."""
    a0, a1, a2 = map(sp.Float, a)
    stiffness = sp.exp(a0 / 2 + a1 * sp.sin(3 * X) / 2) / 5
    drift = a2 * sp.cos(2 * X + T)
    u = 1 + b[0] * sp.sin(3 * X + b[1] + T) + b[2] * sp.exp(-T) * X**2 + b[3] * sp.cos(5 * X)

    def left(v):
        return (
            sp.diff(v, T) - sp.diff(stiffness * sp.diff(v, X), X) + drift * sp.diff(v, X) + v**2 / 4
        )

    text = f"dt(u) - d(({stiffness})*dx(u), x) + ({drift})*dx(u) + u**2/4"
    problem = manufactured(u, left, text, {"x": walls}, time=0.5)
    solution = solve_reference(problem, {}, tolerance=1e-7)
    exact = exact_values(u, problem, solution.axes, solution.times.tolist())
    assert error_of(solution, exact) <= float(solution.error_estimate[0]) <= 1e-7
