"""Steady residuals on boxes: for linear problems the value is the error itself."""

import math

import pytest
import torch

from piop.problem import Problem
from piop.residual import Lattice, LinearisedSteady
from piop.residual.linearised.base import BOUND
from piop.sampling import Draws, collocation

SIZES = {"amplitude": [0.5, 1], "wavenumber": [1, 2]}
X, Y = [-1.0, 1.0], [0.0, 2.5]
DIRICHLET = {"x": {"dirichlet": {"u": 0}}, "y": {"dirichlet": {"u": 0}}}

PERIODIC = {"x": "periodic", "y": "periodic"}


def steady(*equations, unknowns=("u",), **changes):
    words = {
        "name": "example",
        "space": {"x": X, "y": Y},
        "unknowns": list(unknowns),
        "equations": list(equations),
        "boundary": DIRICHLET,
    }
    return Problem(**{**words, **changes})


def error_of(queries, phase=0.4):
    """A smooth function that vanishes nowhere on the walls."""
    x, y = queries[..., 0], queries[..., 1]
    return torch.cos(0.9 * x + 0.7 * y + phase) + 0.3 * torch.sin(1.1 * x * y)


def waves_of(queries, phase=0.4):
    """A function that is periodic along y."""
    x, y = queries[..., 0], queries[..., 1]
    return torch.cos(0.9 * x) * torch.sin(2 * torch.pi * y / Y[1] + phase)


def evaluate(problem, field, points=(17, 19), functions=None, seed=0, size=1e3):
    lattice = Lattice(1, points)
    residual = LinearisedSteady(problem, lattice, [size] * len(problem.channels))
    draws = Draws(seed, 0, torch.arange(3))
    queries = residual.place(lambda: collocation(problem, draws, 64)).double()
    inputs = residual.evaluate_inputs(functions or {}, queries)
    return residual, queries, residual(field, queries, inputs).values


@pytest.mark.parametrize(
    ("equation", "changes"),
    [
        ("-dxx(u) - 0.5*dyy(u) = 0", {}),
        ("-div((2 + x*y)*grad(u)) + 3*u = 0", {}),
        ("-dxx(u) - dyy(u) + 2*dx(u) + dxy(u) = 0", {}),
        (
            "-lap(u) + u = 0",
            {
                "boundary": {
                    "x.min": {"robin": {"u": [1, 0.5, 0]}},
                    "x.max": {"neumann": {"u": 0}},
                    "y": {"dirichlet": {"u": 0}},
                }
            },
        ),
    ],
)
def test_of_a_linear_problem_it_is_the_error(equation, changes):
    """The solution is zero, so a field is its own error, whatever it does on the walls."""
    problem = steady(equation, **changes)
    _, queries, found = evaluate(problem, lambda q: error_of(q)[..., None])
    torch.testing.assert_close(found[..., 0], error_of(queries), rtol=0, atol=1e-7)


@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_on_periodic_axes_a_gauge_fixes_the_constant(constant):
    """The solution is m, the mean of the gauge."""
    problem = steady("-lap(u) = 0", boundary=PERIODIC, gauge={"u": {"mean": constant}})

    def error(q):
        x, y = torch.pi * (q[..., 0] - X[0]), 2 * torch.pi * q[..., 1] / Y[1]
        return torch.sin(x) * torch.cos(2 * y) + 0.3

    _, queries, found = evaluate(problem, lambda q: constant + error(q)[..., None], (17, 15))
    torch.testing.assert_close(found[..., 0], error(queries), rtol=0, atol=1e-8)


def test_walls_and_periodic_axes_go_together():
    problem = steady("-lap(u) + u = 0", boundary={"x": {"neumann": {"u": 0}}, "y": "periodic"})
    _, queries, found = evaluate(problem, lambda q: waves_of(q)[..., None], (17, 15))
    torch.testing.assert_close(found[..., 0], waves_of(queries), rtol=0, atol=1e-8)


def test_random_inputs_of_equations_and_conditions_enter():
    """Of the field zero the error is minus the solution, which meets both."""
    problem = steady(
        "-dxx(u) - dyy(u) = f",
        boundary={"x.min": {"dirichlet": {"u": "g"}}, "rest": {"dirichlet": {"u": 0}}},
        inputs={
            "f": {"of": ["x", "y"], "law": "fourier_series", "terms": 2, **SIZES},
            "h": {"of": ["y"], "law": "fourier_series", "terms": 1, **SIZES, "hidden": True},
            "g": {"of": ["y"], "expression": "h*(y*(2.5 - y))**2"},
        },
    )
    functions = problem.sample(3, seed=0)
    residual, queries, found = evaluate(
        problem, lambda q: torch.zeros_like(q[..., :1]), (25, 27), functions
    )
    truth = problem.solve_reference(functions, shape=(33, 33)).values["u"]
    ends = torch.linspace(0, 1, 33, dtype=torch.float64)
    places = [X[0] + (X[1] - X[0]) * ends, Y[0] + (Y[1] - Y[0]) * ends]
    for own, at, solution in zip(found, queries, truth, strict=True):
        in_x, in_y = residual.interpolation_weights(at, places)
        values = -torch.einsum("xi,yj,ij->xy", in_x, in_y, own[..., 0].unflatten(0, (25, 27)))
        assert (values - solution.squeeze()).abs().max() < 2e-3 * solution.abs().max()


def test_the_pressure_of_a_flow_needs_no_condition_on_walls():
    """Stokes flow at rest: velocities and pressure of the field are their own errors."""
    problem = steady(
        "-lap(u) + dx(p) = 0",
        "-lap(v) + dy(p) = 0",
        "dx(u) + dy(v) = 0",
        unknowns=("u", "v", "p"),
        boundary={
            "y": {"dirichlet": {"u": 0, "v": 0}},
            "x.min": {"dirichlet": {"u": 0, "v": 0}},
            "x.max": ["dx(u) - p = 0", {"dirichlet": {"v": 0}}],
        },
    )

    def field(q):
        return torch.stack([error_of(q), error_of(q, 1.3), error_of(q, -0.5)], -1)

    _, queries, found = evaluate(problem, field, (14, 15))
    torch.testing.assert_close(found, field(queries), rtol=0, atol=1e-5)


def test_of_a_nonlinear_problem_it_is_the_error_to_first_order():
    """−Δu + u³ = 1 with u = 1 on all walls has the solution 1; an error ε is found up to ε²."""
    problem = steady(
        "-lap(u) + u**3 = 1", boundary={"x": {"dirichlet": {"u": 1}}, "y": {"dirichlet": {"u": 1}}}
    )
    left = []
    for size in (0.1, 0.01):
        _, queries, found = evaluate(
            problem, lambda q, size=size: (1 + size * error_of(q))[..., None]
        )
        left.append(float((found[..., 0] - size * error_of(queries)).abs().max()))
    assert left[0] < 0.02
    assert left[1] < left[0] / 80


def test_systems_with_a_condition_for_each_equation_hold_inside():
    problem = steady(
        "-lap(u) + v = 0",
        "-lap(v) + u = 0",
        unknowns=("u", "v"),
        boundary={"x": {"dirichlet": {"u": 0, "v": 0}}, "y": {"neumann": {"u": 0, "v": 0}}},
    )

    def field(q):
        return torch.stack([error_of(q), error_of(q, 1.3)], -1)

    _, queries, found = evaluate(problem, field)
    torch.testing.assert_close(found, field(queries), rtol=0, atol=1e-7)


def test_in_one_dimension_and_in_three():
    one = steady("-dxx(u) + u = 0", space={"x": X}, boundary={"x": {"dirichlet": {"u": 0}}})
    _, queries, found = evaluate(one, lambda q: torch.exp(q), (15,))
    torch.testing.assert_close(found, torch.exp(queries), rtol=0, atol=1e-9)
    walls = {axis: {"dirichlet": {"u": 0}} for axis in "xyz"}
    three = steady("-lap(u) = 0", space={axis: [0, 1] for axis in "xyz"}, boundary=walls)
    _, queries, found = evaluate(three, lambda q: torch.exp(q.sum(-1, keepdim=True)), (7, 8, 9))
    torch.testing.assert_close(found, torch.exp(queries.sum(-1, keepdim=True)), rtol=0, atol=1e-4)


def test_points_stand_for_fractions_of_the_box():
    problem = steady("-lap(u) + u = 0", boundary={"x": {"neumann": {"u": 0}}, "y": "periodic"})
    residual, queries, _ = evaluate(problem, lambda q: q[..., :1], (13, 15))
    found = (residual.fractions(queries) * torch.exp(queries[..., 0])).sum(1)
    mean = torch.full_like(found, (math.exp(X[1]) - math.exp(X[0])) / (X[1] - X[0]))
    torch.testing.assert_close(found, mean, rtol=0, atol=1e-8)


def test_errors_are_bounded_far_from_the_solution():
    _, queries, found = evaluate(steady("-lap(u) = 0"), lambda q: error_of(q)[..., None], size=0.01)
    assert float(found.abs().max()) == pytest.approx(BOUND * 0.01)
    assert float(error_of(queries).abs().max()) > BOUND * 0.01


def test_what_it_is_not_for_is_refused():
    problem = Problem.from_file("heat")
    with pytest.raises(ValueError, match="steady"):
        LinearisedSteady(problem, Lattice(1, (8,)), [1.0])
    with pytest.raises(ValueError, match="even number of periodic nodes"):
        LinearisedSteady(steady("-lap(u) + u = 0", boundary=PERIODIC), Lattice(1, (9, 8)), [1.0])
