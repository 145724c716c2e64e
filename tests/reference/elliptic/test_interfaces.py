"""Interfaces anywhere between the faces of cells: exact, and within the estimate."""

import numpy as np
import pytest
import torch
from scipy.interpolate import make_interp_spline

from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs
from piop.sampling.stored_functions import interpolate

from .cases import relative, steady

WALLS = {"x.min": {"dirichlet": {"u": 0}}, "x.max": {"dirichlet": {"u": 0}}}
LAYERS = {
    "c": {"law": "uniform", "low": 0.02, "high": 0.98},
    "k": {"law": "log_uniform", "low": 1e-3, "high": 1e3},
}


def layers(c, k, x):
    """u of −(a u')' = 1, zero at both ends, with a = 1 below c and k above."""
    resistance = c + (1 - c) / k
    flux = (c**2 / 2 + (1 - c**2) / (2 * k)) / resistance
    above = flux * c - c**2 / 2 + (flux * (x - c) - (x**2 - c**2) / 2) / k
    return np.where(x < c, flux * x - x**2 / 2, above)


def drawn(problem, count, names):
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(count)))
    return functions, zip(*(functions[n].on_grid(()).tolist() for n in names), strict=True)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_two_layers_are_exact_wherever_they_meet(tolerance):
    inputs = LAYERS | {"a": {"of": ["x"], "expression": "where(x < c, 1, k)", "smooth": False}}
    problem = steady("-d(a*d(u, x), x) = 1", boundary=WALLS, inputs=inputs)
    functions, numbers = drawn(problem, 40, "ck")
    solution = solve_reference(problem, functions, tolerance=tolerance)
    x = solution.axes[0].numpy()
    for (c, k), found, estimate in zip(
        numbers, solution.values["u"], solution.error_estimate, strict=True
    ):
        error = relative(found, torch.tensor(layers(c, k, x)))
        assert error < 1e-8
        assert error < estimate
    assert bool(solution.accepted.all())


def test_upright_layers_in_the_plane_are_within_the_estimate():
    inputs = LAYERS | {"a": {"of": ["x", "y"], "expression": "where(x < c, 1, k)", "smooth": False}}
    boundary = WALLS | {"y": {"neumann": {"u": 0}}}
    problem = steady("-div(a*grad(u)) = 1", space="xy", boundary=boundary, inputs=inputs)
    functions, numbers = drawn(problem, 12, "ck")
    solution = solve_reference(problem, functions, tolerance=1e-2, shape=(17, 17))
    x = solution.axes[0].numpy()
    for (c, k), found, estimate in zip(
        numbers, solution.values["u"], solution.error_estimate, strict=True
    ):
        exact = torch.tensor(layers(c, k, x))[:, None].expand(-1, 17)
        assert relative(found, exact) < estimate


def test_a_source_within_a_circle_is_accepted():
    """The potential of a disk: (s² − r²)/4 inside, −s²/2·log(r/s) outside, shifted by s²/4."""
    square = "((x - c)**2 + (y - 0.53)**2)"
    given = {"dirichlet": {"u": f"-s**2/4*(1 + log({square}/s**2))"}}
    inputs = {
        "c": {"law": "uniform", "low": 0.4, "high": 0.6},
        "s": {"law": "uniform", "low": 0.02, "high": 0.3},
    }
    problem = steady(
        f"-lap(u) = where({square} < s**2, 1, 0)",
        space="xy",
        boundary=dict.fromkeys("xy", given),
        inputs=inputs,
    )
    functions, numbers = drawn(problem, 3, "cs")
    solution = solve_reference(problem, functions, tolerance=1e-2, shape=(17, 17))
    x, y = torch.meshgrid(*solution.axes, indexing="ij")
    for (c, s), found, estimate in zip(
        numbers, solution.values["u"], solution.error_estimate, strict=True
    ):
        ratio = ((x - c) ** 2 + (y - 0.53) ** 2) / s**2
        exact = s**2 / 4 * torch.where(ratio < 1, -ratio, -1 - ratio.clamp_min(1).log())
        assert relative(found, exact) < min(float(estimate), 1e-3)
    assert bool(solution.accepted.all())


def test_a_source_narrower_than_any_cell_is_counted_whole():
    """−(a u')' = f with a = 1 then 2: the flux takes up ∫ f wherever the pulse stands."""
    inputs = {
        "c": {"law": "uniform", "low": 0.05, "high": 0.45},
        "w": {"law": "log_uniform", "low": 1e-5, "high": 1e-3},
        "a": {"of": ["x"], "expression": "where(x < 0.5, 1, 2)", "smooth": False},
    }
    equation = "-d(a*d(u, x), x) = exp(-((x - c)/w)**2)/w"
    problem = steady(equation, boundary=WALLS, inputs=inputs)
    functions, numbers = drawn(problem, 12, "cw")
    solution = solve_reference(problem, functions, tolerance=1e-3)
    x = solution.axes[0].numpy()
    for (c, w), found, estimate in zip(
        numbers, solution.values["u"], solution.error_estimate, strict=True
    ):
        content = np.sqrt(np.pi)
        flux = content * (0.75 - c) / 0.75  # into the left wall: ∫ (1/a)(flux − content) = 0
        below = np.minimum(x, c) * flux + (np.clip(x, c, 0.5) - c) * (flux - content)
        exact = below + (np.maximum(x, 0.5) - 0.5) * (flux - content) / 2
        away = torch.tensor(np.abs(x - c) > 6 * w)
        flat = relative(found * away, torch.tensor(exact) * away)
        assert flat < estimate
        error = relative(found, torch.tensor(exact))
        assert error < 2e-3  # the pulse has a width
        assert error < estimate + 2e-3
    assert bool(solution.accepted.all())


@pytest.mark.parametrize("degree", [1, 3])
def test_a_source_with_a_spike_between_points_of_a_file_is_integrated_exactly(degree):
    smooth = degree == 3
    inputs = {"f": {"of": ["x"], "law": "from_file", "path": "none", "smooth": smooth}}
    problem = steady("-dxx(u) = f", boundary=WALLS, inputs=inputs)
    points = np.linspace(0, 1, 1501)
    values = np.sin(6 * points)[None].repeat(3, 0)
    values[[0, 1, 2], [207, 760, 1303]] += [3, 30, 300]
    stored = interpolate("here", torch.tensor(values), [points], problem.space, smooth)
    solution = solve_reference(problem, {"f": stored}, tolerance=1e-5)
    x = solution.axes[0].numpy()
    for own, found in zip(values, solution.values["u"], strict=True):
        integral = make_interp_spline(points, own, degree).antiderivative(2)
        exact = torch.tensor(x * integral(1.0) - integral(x))
        assert relative(found, exact) < 1e-10
    assert bool(solution.accepted.all())


def test_a_source_a_little_narrower_than_cells_stands_anywhere_in_one():
    """Grids of 64 and 128 cells agree to 2e-4 on its place, 5e-3 beside it."""
    inputs = {"f": {"of": ["x"], "law": "from_file", "path": "none"}}
    boundary = WALLS | {"y": {"neumann": {"u": 0}}}
    problem = steady("-lap(u) = f", space="xy", boundary=boundary, inputs=inputs)
    points = np.linspace(0, 1, 2001)
    values = np.sin(2 * np.pi * points) + 93.75 * np.exp(-(((points - 0.6945) / 1.75e-3) ** 2))
    stored = interpolate("here", torch.tensor(values)[None], [points], problem.space[:1])
    solution = solve_reference(problem, {"f": stored}, tolerance=1e-3, shape=(33, 9))
    x = solution.axes[0].numpy()
    integral = make_interp_spline(points, values, 3).antiderivative(2)
    exact = torch.tensor(x * integral(1.0) - integral(x))[:, None].expand(-1, 9)
    assert relative(solution.values["u"][0], exact) < float(solution.error_estimate)


def test_nothing_is_extrapolated_where_the_source_has_a_kink():
    """5u − Δu = f with u = |x − c|³ sin(2y + 1): how the error falls depends on where c lies."""
    u, kink = "abs(x - c)**3*sin(2*y + 1)", "6*abs(x - c)*sin(2*y + 1)"
    problem = steady(
        f"5*u - lap(u) = 9*{u} - {kink}",
        boundary={axis: {"dirichlet": {"u": u}} for axis in "xy"},
        space="xy",
        parameters={"c": 0.40735},
    )
    solution = solve_reference(problem, {}, tolerance=1e-3, shape=(17, 17))
    x, y = torch.meshgrid(*solution.axes, indexing="ij")
    exact = (x - 0.40735).abs() ** 3 * torch.sin(2 * y + 1)
    error = relative(solution.values["u"][0], exact)
    assert error < solution.error_estimate[0] < 1e-3
