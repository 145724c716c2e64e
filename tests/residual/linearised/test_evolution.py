"""Residuals between walls: for linear problems the value is the error itself."""

import math

import pytest
import torch

from piop.errors import UsageError
from piop.problem import Problem
from piop.residual import Lattice, LinearisedEvolution
from piop.residual.linearised.base import BOUND
from piop.residual.linearised.evolution import DEGREE, element_times
from piop.sampling import Draws, collocation

LOW, LENGTH, START, TIME = -1.0, 3.0, 2.0, 0.7
SIZES = {"amplitude": [0.5, 1], "wavenumber": [1, 2]}


def evolution(*equations, unknowns=("u",), walls=None, **changes):
    words = {
        "name": "example",
        "time": {"t": [START, START + TIME]},
        "space": {"x": [LOW, LOW + LENGTH]},
        "unknowns": list(unknowns),
        "equations": list(equations),
        "initial": dict.fromkeys(unknowns, 0),
        "boundary": walls or {"x": {"neumann": dict.fromkeys(unknowns, 0)}},
    }
    return Problem(**{**words, **changes})


def residual_of(problem, times=2, points=18, size=1e3):
    lattice = Lattice(1 + times * DEGREE, (points,))
    return LinearisedEvolution(problem, lattice, [size] * len(problem.channels))


def placed(residual, problem, functions=3, seed=0):
    draws = Draws(seed, 0, torch.arange(functions))
    return residual.place(lambda: collocation(problem, draws, 64))


def error_of(queries, powers=(1, 3), phase=0.4):
    """A polynomial of time and a smooth function of space that vanishes at the start."""
    since, x = queries[..., 0] - START, queries[..., 1]
    return sum(since**k * torch.cos(0.4 * k * x + phase) for k in powers)


def evaluate(residual, problem, field, functions=None, **kwargs):
    queries = placed(residual, problem, **kwargs)
    inputs = residual.evaluate_inputs(functions or {}, queries)
    return queries, residual(field, queries, inputs).values


@pytest.mark.parametrize(
    ("equation", "walls"),
    [
        ("dt(u) = 0.3*dxx(u)", {"x": {"neumann": {"u": 0}}}),
        ("dt(u) + 2*dx(u) = 0.1*dxx(u) - 4*u", {"x": {"neumann": {"u": 0}}}),
        ("dt(u) = 0.3*dxx(u)", {"x": {"dirichlet": {"u": 0}}}),
        (
            "3*dt(u) + dx(u) = 0.9*dxx(u)",
            {"x.min": {"robin": {"u": [1, 0.5, 0]}}, "x.max": {"neumann": {"u": 0}}},
        ),
        ("dt(u) + (2 + x)*dx(u) = 0", {"x.min": {"dirichlet": {"u": 0}}}),
    ],
)
def test_of_a_linear_problem_it_is_the_error(equation, walls):
    """The solution is zero, so a field is its own error, whatever it does on the walls."""
    problem = evolution(equation, walls=walls)
    queries, found = evaluate(
        residual_of(problem), problem, lambda q: error_of(q)[..., None], functions=None
    )
    torch.testing.assert_close(found[..., 0], error_of(queries) / TIME, rtol=1e-6, atol=1e-7)


def test_prescribed_functions_of_time_and_sources_enter():
    """u = sin(t) is the solution; what differs from it is the error."""
    problem = evolution(
        "dt(u) + dx(u) = 0.1*dxx(u) + cos(t)",
        walls={"x.min": {"robin": {"u": [1, 0.1, "sin(t)"]}}, "x.max": {"neumann": {"u": 0}}},
        initial={"u": "sin(2)"},
    )

    def field(q):
        return (torch.sin(q[..., 0]) + error_of(q))[..., None]

    queries, found = evaluate(residual_of(problem), problem, field)
    torch.testing.assert_close(found[..., 0], error_of(queries) / TIME, rtol=1e-6, atol=1e-6)


def test_random_inputs_of_equations_and_conditions_enter():
    problem = evolution(
        "dt(u) = 0.3*dxx(u) + f",
        walls={"x.min": {"dirichlet": {"u": "g"}}, "x.max": {"neumann": {"u": 0}}},
        inputs={
            "f": {"of": ["x"], "law": "fourier_series", "terms": 2, **SIZES},
            "g": {"of": ["t"], "law": "fourier_series", "terms": 1, **SIZES},
        },
    )
    residual, functions = residual_of(problem), problem.sample(3, seed=0)
    queries, zero = evaluate(residual, problem, lambda q: torch.zeros_like(q[..., :1]), functions)
    grid = queries.unflatten(1, (residual.lattice.times, -1))
    wall = grid[:, 1:, 0]
    found = zero[..., 0].unflatten(1, grid.shape[1:3])[:, 1:, 0] * TIME
    torch.testing.assert_close(found, -functions["g"](wall[..., :1]))


def test_unknowns_that_drive_each_other_are_solved_together():
    problem = evolution(
        "dt(p) = 0.5*dxx(q) + 0.4*dxx(p)", "dt(q) = 0.3*dxx(q) - 2*p", unknowns=("p", "q")
    )

    def field(q):
        return torch.stack([error_of(q), error_of(q, (1, 2), 1.3)], -1)

    queries, found = evaluate(residual_of(problem), problem, field)
    torch.testing.assert_close(found, field(queries) / TIME, rtol=1e-6, atol=1e-7)


def test_of_a_nonlinear_problem_it_is_the_error_to_first_order():
    """u' = u(1 − u) from 1/2; an error ε is found up to ε²."""
    problem = evolution("dt(u) = 0.2*dxx(u) + u*(1 - u)", initial={"u": 0.5})
    residual, left = residual_of(problem), []
    for size in (0.1, 0.01):

        def field(q, size=size):
            truth = 1 / (1 + torch.exp(-(q[..., 0] - START)))
            return (truth + size * error_of(q))[..., None]

        queries, found = evaluate(residual, problem, field)
        left.append(float((found[..., 0] * TIME - size * error_of(queries)).abs().max()))
    assert left[0] < 0.02
    assert left[1] < left[0] / 80


def test_its_gradient_pulls_the_field_to_the_corrected_values():
    problem = evolution("dt(u) = 0.2*dxx(u) + u*(1 - u)", initial={"u": 0.5})
    residual = residual_of(problem)
    queries = placed(residual, problem)
    values = (0.5 + error_of(queries))[..., None].requires_grad_()
    found = residual(lambda q: values, queries, residual.evaluate_inputs({}, queries)).values
    (gradient,) = torch.autograd.grad((found**2).sum(), values)
    torch.testing.assert_close(gradient, 2 * found.detach() / TIME)


def test_errors_are_bounded_far_from_the_solution():
    problem = evolution("dt(u) = 0.2*dxx(u)")
    residual = residual_of(problem, size=0.01)
    queries, found = evaluate(residual, problem, lambda q: 5 * error_of(q)[..., None])
    assert float(found.abs().max()) == pytest.approx(BOUND * 0.01 / TIME)
    assert float(error_of(queries).abs().max()) > BOUND * 0.01


def test_lattices_move_but_keep_walls_and_both_ends_of_the_time():
    problem = evolution("dt(u) = 0.3*dxx(u)")
    residual = residual_of(problem)
    one, two = (placed(residual, problem, 50, seed).reshape(50, 11, 18, 2) for seed in (0, 1))
    times, places = one[:, :, 0, 0], one[:, 0, :, 1]
    assert (times[:, 0] == START).all()
    torch.testing.assert_close(times[:, -1], torch.full_like(times[:, -1], START + TIME))
    assert (times.diff(dim=1) > 0).all()
    assert (places.diff(dim=1) > 0).all()
    torch.testing.assert_close(places[:, 0], torch.full_like(places[:, 0], LOW))
    torch.testing.assert_close(places[:, -1], torch.full_like(places[:, 0], LOW + LENGTH))
    assert times[:, 1:-1].std(0).min() > 0.005
    assert places[:, 9].std() > 0.05
    assert (one[..., 1] == places[:, None]).all()
    assert not torch.equal(one, two)


def test_elements_share_their_ends():
    found = element_times(3)
    assert len(found) == 3 * DEGREE + 1
    assert found[[0, 5, 10, 15]].tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert found[1:6].diff().tolist() == pytest.approx(found[6:11].diff().tolist())


def test_missing_input_values_are_named():
    problem = evolution("dt(u) = 0.3*dxx(u)")
    residual = residual_of(problem)
    with pytest.raises(UsageError, match="evaluate_inputs"):
        residual(lambda q: q[..., :1], placed(residual, problem))


@pytest.mark.parametrize("points", [18, 19])
@pytest.mark.parametrize(
    "equation",
    [
        "dt(u) + 2*dx(u) = 0.1*dxx(u) - 4*u",
        "dt(u) = -0.05*dx(dxx(u)) + 0.1*dxx(u)",
        "dt(u) + sin(2*pi*x/3)*dx(u) = 0.2*dxx(u) + u",
    ],
)
def test_on_a_circle_it_is_the_error_too(equation, points):
    problem = evolution(equation, boundary={"x": "periodic"})

    def field(q):
        since, x = q[..., 0] - START, q[..., 1]
        wave = torch.sin(2 * math.pi * x / LENGTH + since)
        return (since * wave + since**2 * torch.cos(4 * math.pi * x / LENGTH))[..., None]

    residual = residual_of(problem, points=points)
    queries, found = evaluate(residual, problem, field)
    torch.testing.assert_close(found, field(queries) / TIME, rtol=1e-5, atol=1e-5)
    moved = placed(residual, problem, 50).unflatten(1, (-1, points))[:, 0, :, 1]
    assert (moved >= LOW).all()
    assert (moved < LOW + LENGTH).all()
    assert moved[:, 0].std() > 0.5
    gaps = moved.diff(dim=1) % LENGTH
    torch.testing.assert_close(gaps, torch.full_like(gaps, LENGTH / points), rtol=1e-4, atol=1e-5)


def test_planes_are_refused():
    problem = evolution(
        "dt(u) = dxx(u) + dyy(u)",
        space={"x": [0, 1], "y": [0, 1]},
        boundary={"x": "periodic", "y": "periodic"},
    )
    with pytest.raises(ValueError, match="one axis"):
        residual_of(problem)


def test_a_wave_that_decays_is_found_from_its_start():
    """The field stays at cos(πx), whose solution is exp(−π²t) cos(πx)."""
    problem = evolution(
        "dt(u) = dxx(u)",
        space={"x": [0, 1]},
        time={"t": [0, 0.2]},
        initial={"u": "cos(pi*x)"},
    )

    def field(q):
        return torch.cos(math.pi * q[..., 1:])

    queries, found = evaluate(residual_of(problem, times=3), problem, field)
    t, x = queries.unbind(-1)
    truth = (1 - torch.exp(-(math.pi**2) * t)) * torch.cos(math.pi * x)
    torch.testing.assert_close(found[..., 0] * 0.2, truth, rtol=1e-5, atol=1e-5)


def test_points_stand_for_fractions_of_time_and_space():
    problem = evolution("dt(u) = 0.2*dxx(u)")
    residual = residual_of(problem)
    queries = placed(residual, problem).double()
    t, x = (queries[..., 0] - START) / TIME, (queries[..., 1] - LOW) / LENGTH
    found = (residual.fractions(queries) * t**4 * torch.exp(x)).sum(1)
    expected = torch.full_like(found, (math.e - 1) / 5)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
