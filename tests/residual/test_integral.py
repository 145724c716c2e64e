"""Residuals integrated over time: for linear equations R is the error itself."""

import math

import pytest
import torch

from piop.errors import UsageError
from piop.problem import Problem
from piop.residual import IntegralResidual, Lattice
from piop.residual.lattice import difference_matrix
from piop.sampling import Draws, collocation
from piop.training.loss.integral_form import integral_residual

LIKE = torch.empty(0, dtype=torch.float64)
SIZES = {"amplitude": [0.5, 1], "wavenumber": [1, 2]}
LOW, LENGTH, TIME = -1.0, 3.0, 0.7


def evolution(*equations, unknowns=("u",), **changes):
    words = {
        "name": "example",
        "time": {"t": [2, 2 + TIME]},
        "space": {"x": [LOW, LOW + LENGTH]},
        "unknowns": list(unknowns),
        "equations": list(equations),
        "initial": dict.fromkeys(unknowns, "sin(2*pi*(x + 1)/3)"),
        "boundary": {"x": "periodic"},
    }
    return Problem(**{**words, **changes})


def placed(residual: IntegralResidual, problem, functions=3, seed=0):
    draws = Draws(seed, 0, torch.arange(functions))
    return residual.place(lambda: collocation(problem, draws, 64))


def error_of(queries, waves=(1, 3), phase=0.4):
    """A smooth function of time and space that vanishes at the start."""
    since, angle = queries[..., 0] - 2, 2 * math.pi * (queries[..., 1] - LOW) / LENGTH
    return sum(since**k * torch.sin(k * angle + phase * k) for k in waves)


@pytest.mark.parametrize(
    "equation",
    [
        "dt(u) = 0.3*dxx(u)",
        "dt(u) + 2*dx(u) = 0.1*dxx(u) - 4*u",
        "dt(u) + dxxx(u) = 0",
        "dt(u) + dxxxx(u) = 0",
        "3*dt(u) = 0.9*dxx(u)",
    ],
)
def test_the_integrated_residual_of_a_linear_equation_is_the_error(equation):
    problem = evolution(equation)
    residual = integral_residual(problem, Lattice(6, (12,)), LIKE)
    queries = placed(residual, problem)
    inputs = residual.evaluate_inputs({}, queries)
    found = residual(lambda q: error_of(q)[..., None], queries, inputs).values[..., 0]
    torch.testing.assert_close(found, error_of(queries) / TIME, rtol=1e-8, atol=1e-8)


def test_unknowns_that_drive_each_other_are_integrated_together():
    problem = evolution(
        "dt(p) = -0.5*dxx(q) + 0.1*dxx(p)", "dt(q) = 0.5*dxx(p) - 2*q", unknowns=("p", "q")
    )
    residual = integral_residual(problem, Lattice(6, (12,)), LIKE)
    queries = placed(residual, problem)

    def field(q):
        return torch.stack([error_of(q), error_of(q, (1, 2), 1.3)], -1)

    found = residual(field, queries, residual.evaluate_inputs({}, queries)).values
    torch.testing.assert_close(found, field(queries) / TIME, rtol=1e-8, atol=1e-8)


def test_in_two_dimensions_with_a_mixed_derivative():
    problem = evolution(
        "dt(u) = 0.2*lap(u) + 0.1*dxy(u) - dy(u)",
        space={"x": [LOW, LOW + LENGTH], "y": [0, 1]},
        boundary={"x": "periodic", "y": "periodic"},
    )
    residual = integral_residual(problem, Lattice(5, (10, 8)), LIKE)
    queries = placed(residual, problem, 2)

    def error(q):
        return error_of(q, (1, 2)) * torch.cos(2 * math.pi * q[..., 2]) + error_of(q, (3,))

    inputs = residual.evaluate_inputs({}, queries)
    found = residual(lambda q: error(q)[..., None], queries, inputs).values[..., 0]
    torch.testing.assert_close(found, error(queries) / TIME, rtol=1e-8, atol=1e-8)


def test_the_residual_of_an_exact_solution_vanishes_with_the_times():
    """Burgers' equation by Cole and Hopf: u = −2ν φ_x/φ, φ = 2 + exp(−νt) cos x."""
    nu, errors = 0.2, []
    problem = evolution(
        "dt(u) + u*dx(u) = 0.2*dxx(u)",
        space={"x": [0, 2 * math.pi]},
        time={"t": [0, 1]},
        initial={"u": "sin(x)"},
    )

    def exact(q):
        decay = torch.exp(-nu * q[..., 0])
        return (2 * nu * decay * torch.sin(q[..., 1]) / (2 + decay * torch.cos(q[..., 1])))[
            ..., None
        ]

    for times in (3, 5, 7):
        residual = integral_residual(problem, Lattice(times, (48,)), LIKE)
        queries = placed(residual, problem)
        found = residual(exact, queries, residual.evaluate_inputs({}, queries)).values
        errors.append(float(found.abs().max()))
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 50


def test_known_functions_of_the_equations_are_evaluated_on_the_lattice():
    problem = evolution(
        "dt(u) = 0.3*dxx(u) + u*f + cos(t)",
        inputs={"f": {"of": ["x"], "law": "fourier_series", "terms": 2, **SIZES}},
    )
    residual = integral_residual(problem, Lattice(8, (12,)), LIKE)
    queries = placed(residual, problem)
    functions = problem.sample(3, seed=0)
    inputs = residual.evaluate_inputs(functions, queries)
    zero = residual(lambda q: torch.zeros_like(q[..., :1]), queries, inputs).values[..., 0]
    since = queries[..., 0]
    driven = -(torch.sin(since) - math.sin(2.0)) / TIME  # of the mean wave, which nothing damps
    torch.testing.assert_close(zero, driven, rtol=1e-7, atol=1e-7)
    one = residual(lambda q: torch.ones_like(q[..., :1]), queries, inputs).values[..., 0]
    f = functions["f"](queries[..., 1:])
    assert float((one - zero).abs().max()) > 0.1 * float(f.abs().max())


def test_lattices_move_but_keep_both_ends_of_the_time():
    problem = evolution("dt(u) = 0.3*dxx(u) + u**2")
    residual = integral_residual(problem, Lattice(7, (16,)), LIKE)
    one, two = (placed(residual, problem, 50, seed).reshape(50, 7, 16, 2) for seed in (0, 1))
    times = one[:, :, 0, 0]
    assert (times[:, 0] == 2).all()
    torch.testing.assert_close(times[:, -1], torch.full((50,), 2 + TIME, dtype=torch.float64))
    assert (times.diff(dim=1) > 0).all()
    assert times[:, 1:-1].std(0).min() > 0.01
    assert (one[..., 0] == times[..., None]).all()
    steps = one[..., 1].diff(dim=-1)
    torch.testing.assert_close(steps, torch.full_like(steps, LENGTH / 16))
    first = one[:, 0, 0, 1] - LOW
    assert 0 <= first.min() < first.max() < LENGTH / 16
    assert not torch.equal(one, two)


def test_missing_input_values_are_named():
    problem = evolution("dt(u) = 0.3*dxx(u) + u**2")
    residual = integral_residual(problem, Lattice(5, (16,)), LIKE)
    queries = placed(residual, problem)
    with pytest.raises(UsageError, match="evaluate_inputs"):
        residual(lambda q: q[..., :1], queries)


def test_steady_problems_are_refused():
    problem = Problem(
        name="steady",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["-dxx(u) = sin(2*pi*x)"],
        boundary={"x": "periodic"},
        gauge={"u": {"mean": 0}},
    )
    empty = torch.empty(0, dtype=torch.complex128)
    with pytest.raises(ValueError, match="steady"):
        IntegralResidual(problem, Lattice(5, (16,)), empty, empty, empty, LIKE)


def test_differences_of_polynomials_are_exact():
    nodes = torch.tensor([[0.1, 0.4, 0.7, 1.5], [-1.0, 0.0, 0.5, 2.0]], dtype=torch.float64)
    found = difference_matrix(nodes) @ (nodes**3 - nodes)[..., None]
    torch.testing.assert_close(found[..., 0], 3 * nodes**2 - 1)


def test_nodes_are_those_of_lobatto():
    """The extrema of the Legendre polynomial P₄ and both ends."""
    found = 2 * Lattice(5, ()).nodes() - 1
    truth = [-1.0, -math.sqrt(3 / 7), 0.0, math.sqrt(3 / 7), 1.0]
    torch.testing.assert_close(found, torch.tensor(truth, dtype=torch.float64), atol=1e-12, rtol=0)
