"""Auxiliary unknowns whose equations hold products, against exact solutions."""

import pytest
import torch

from piop.problem.reference_methods import first_method
from piop.reference import solve_reference
from piop.reference.fourier.nonlinear import longest_step

from ..cases import periodic, random_waves
from .cases import stepper_of

TAU = {"x": [0, "2*pi"]}
SQUARE = "(1/2 - cos(2*x)/10)*exp(-2*t)"  # w − w_xx of it is (exp(−t)·sin(x))²


def exact_error(problem, wanted, tolerance=1e-9):
    """Largest error of each unknown, and the estimate of the sample."""
    solution = solve_reference(problem, {}, shape=(16,), tolerance=tolerance)
    t, x = solution.times[:, None], solution.axes[0]
    errors = [
        float((solution.values[name][0] - exact(t, x)).abs().max())
        for name, exact in wanted.items()
    ]
    return max(errors), float(solution.error_estimate[0])


def decaying(t, x):
    return torch.exp(-t) * torch.sin(x)


def square(t, x):
    return torch.exp(-2 * t) * (0.5 - torch.cos(2 * x) / 10)


def test_the_second_auxiliary_unknown_adds_to_an_equation_beside_the_first():
    """p follows from u linearly and dissolves into its symbol; q needs its own spectrum."""
    problem = periodic(
        f"dt(u) = dxx(u) + p + q - exp(-t)*sin(x)/2 - {SQUARE}",
        space=TAU,
        auxiliary={"p": {"equation": "p - dxx(p) = u"}, "q": {"equation": "q - dxx(q) = u**2"}},
        initial={"u": "sin(x)"},
    )
    wanted = {"u": decaying, "p": lambda t, x: decaying(t, x) / 2, "q": square}
    error, estimate = exact_error(problem, wanted)
    assert error <= 1e-8
    assert estimate <= 1e-9


def test_an_auxiliary_unknown_of_a_state_and_a_product_enters_products():
    """q − q_xx = u + u²: q is not the multiple of u that its first term alone would make it."""
    both = f"(exp(-t)*sin(x)/2 + {SQUARE})"
    problem = periodic(
        f"dt(u) = dxx(u) + u*q - exp(-t)*sin(x)*{both}",
        space=TAU,
        auxiliary={"q": {"equation": "q - dxx(q) = u + u**2"}},
        initial={"u": "sin(x)"},
    )
    wanted = {"u": decaying, "q": lambda t, x: decaying(t, x) / 2 + square(t, x)}
    error, estimate = exact_error(problem, wanted)
    assert error <= 1e-8
    assert estimate <= 1e-9


@pytest.mark.parametrize(
    ("equations", "why"),
    [
        ({"q": "(2 + cos(x))*q - dxx(q) = u"}, "holds q(t, x)*cos(x); before it"),
        ({"q": "(2 + t)*q - dxx(q) = u"}, "holds t*q(t, x); before it"),
        ({"q": "q - dxx(q) = u + r", "r": "r - dxx(r) = u"}, "by states and earlier ones"),
        ({"q": "q - dxx(q) = u*r", "r": "r - dxx(r) = u"}, "holds r(t, x)*u(t, x); before it"),
    ],
)
def test_an_auxiliary_unknown_that_waves_do_not_fix_one_by_one_has_no_solver(equations, why):
    problem = periodic(
        "dt(u) = dxx(u) + q",
        space=TAU,
        auxiliary={name: {"equation": equation} for name, equation in equations.items()},
        initial={"u": "sin(x)"},
    )
    method, reason = first_method(problem)
    assert method is None
    assert why in reason


def test_the_longest_step_takes_of_each_product_what_stands_before_it():
    """Two waves of their own: the rates at which they drive a mode add up."""
    equations = {"u": "dt(u) = -dx(u**2)/100", "v": "dt(v) = -dx(v**2)"}
    start = {"u": "2 + sin(x)", "v": "0.2 + 0.1*sin(x)"}

    def rate(*unknowns):
        initial = {name: start[name] for name in unknowns}
        own = [equations[name] for name in unknowns]
        problem = periodic(own, unknowns, space=TAU, initial=initial)
        stepper, w = stepper_of(problem, {}, (32,))
        return 1 / float(longest_step(stepper.nonlinear, w, 0.0))

    assert rate("u", "v") == pytest.approx(rate("u") + rate("v"), rel=1e-12)
    assert rate("v") == pytest.approx(10 * rate("u"), rel=1e-12)


def test_the_longest_step_follows_the_speed_of_a_wave():
    """At the shortest wave: a wave equation turns it at c k, a diffusion equation by c² k²."""
    highest, fastest = 15, 1.25  # of 32 points; c² - 1 is at most that

    problem = periodic(
        "d(u, t, 2) = (1 + sin(x)/2)**2*dxx(u)",
        space=TAU,
        initial={"u": "sin(x)", "dt(u)": 0},
    )
    stepper, w = stepper_of(problem, {}, (32,))
    step = float(longest_step(stepper.nonlinear, w, 0.0))
    assert step == pytest.approx(2 / (fastest**0.5 * highest), rel=0.02)


def test_sums_of_products_follow_the_size_of_the_batch():
    """What does not vary in time is kept, but not for samples of another number."""
    problem = periodic("dt(u) = -dx(u**2) + u*cos(x) + sin(x)", space=TAU)
    waves = random_waves(3, [(0, 6.283185307179586)], seed=2)
    stepper, w = stepper_of(problem, {"u0": waves}, (32,))
    every = stepper.nonlinear.evaluate(w, 0.0)
    two = stepper.nonlinear.evaluate(w[:2], 0.0)
    torch.testing.assert_close(two, every[:2], rtol=1e-13, atol=1e-13)
    assert float((every[0] - every[1]).abs().max()) > 1e-3
