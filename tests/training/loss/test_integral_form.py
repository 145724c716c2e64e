"""The linear part by which residuals are integrated."""

import torch

from piop.problem import Problem
from piop.residual import Lattice
from piop.sampling import Draws, collocation
from piop.training.loss.integral_form import integral_residual

TIME = 0.7


def growth(equation, **inputs):
    return Problem(
        name="growth",
        time={"t": [2, 2 + TIME]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs=inputs,
        equations=[equation],
        initial={"u": "sin(2*pi*x)"},
        boundary={"x": "periodic"},
    )


def of_square(problem, functions):
    """The residual of u = s², s = t − 2, and s."""
    residual = integral_residual(problem, Lattice(6, (12,)), torch.empty(0, dtype=torch.float64))
    draws = Draws(0, 0, torch.arange(3))
    queries = residual.place(lambda: collocation(problem, draws, 16))
    inputs = residual.evaluate_inputs(functions, queries)
    found = residual(lambda q: (q[..., :1] - 2) ** 2, queries, inputs).values[..., 0]
    return found, queries[..., 0] - 2


def test_waves_that_the_linear_part_lets_grow_count_as_neutral():
    found, since = of_square(growth("dt(u) = 1.5*u"), {})
    truth = (since**2 - 1.5 * since**3 / 3) / TIME  # ∫ (2s − 1.5 s²) ds
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


def test_a_product_may_have_a_random_factor():
    problem = growth("dt(u) = 1.5*u + c*u**2", c={"law": "uniform", "low": 1, "high": 2})
    functions = problem.sample(3)
    found, since = of_square(problem, functions)
    truth = since**2 - 1.5 * since**3 / 3 - functions["c"].values[:, None] * since**5 / 5
    torch.testing.assert_close(found, truth / TIME, rtol=1e-9, atol=1e-9)
