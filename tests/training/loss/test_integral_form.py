"""The linear part by which residuals are integrated."""

import torch

from piop.problem import Problem
from piop.residual import Lattice
from piop.sampling import Draws, collocation
from piop.training.loss.integral_form import integral_residual

TIME = 0.7


def test_waves_that_the_linear_part_lets_grow_count_as_neutral():
    problem = Problem(
        name="growth",
        time={"t": [2, 2 + TIME]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = 1.5*u"],
        initial={"u": "sin(2*pi*x)"},
        boundary={"x": "periodic"},
    )
    residual = integral_residual(problem, Lattice(6, (12,)), torch.empty(0, dtype=torch.float64))
    draws = Draws(0, 0, torch.arange(3))
    queries = residual.place(lambda: collocation(problem, draws, 16))
    inputs = residual.evaluate_inputs({}, queries)
    since = queries[..., 0] - 2
    found = residual(lambda q: (q[..., :1] - 2) ** 2, queries, inputs).values[..., 0]
    truth = (since**2 - 1.5 * since**3 / 3) / TIME  # ∫ (2s − 1.5 s²) ds
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)
