"""Small narrow parts of data count for what they do to the solution, not for their size."""

import math
from itertools import combinations

import numpy as np
import pytest
import sympy
import torch
from scipy.special import erf

from piop.errors import SolverError
from piop.problem import Problem
from piop.reference import Limits, solve_reference
from piop.reference.chebyshev.solve import POINTS, CollocationSolver
from piop.reference.features import Features, resistances
from piop.reference.features.missed import AtStart, InEquation, NodalFunction, with_missed
from piop.reference.fourier.solve import SpectralSolver
from piop.reference.input_values import Sources
from piop.reference.solution import BatchProgress, Request

from .cases import Scalars

SPIKE = "exp(-(sin(pi*(x - 0.3123))/(pi*{w}))**2)"


def chain(width, size=1e-4):
    """One heat equation drives another by what it is above 1."""
    return Problem(
        name="chain",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u", "v"],
        equations=["dt(u) = 0.01*dxx(u)", "dt(v) = 0.01*dxx(v) + u - 1"],
        initial={"u": f"1 + {size}*{SPIKE.format(w=width)}", "v": 0},
        boundary={"x": "periodic"},
        save={"t": 3, "x": 64},
    )


def driven(t, x, width, size=1e-4):
    """The second unknown of a chain: the images of a Gaussian that spreads, times t."""
    wide = width**2 + 0.04 * t
    images = sum(np.exp(-((x - 0.3123 - k) ** 2) / wide) for k in range(-4, 5))
    return t * size * width / np.sqrt(wide) * images


def test_an_unknown_that_follows_from_a_spike_alone_is_resolved():
    solution = solve_reference(chain(1e-3), {}, tolerance=1e-4)
    t, x = solution.times.numpy()[:, None], solution.axes[0].numpy()
    truth = driven(t, x, 1e-3)
    error = np.linalg.norm(solution.values["v"][0].numpy() - truth) / np.linalg.norm(truth)
    assert bool(solution.accepted[0])
    assert error < 1e-4


def test_an_unknown_that_follows_from_an_unseen_spike_is_not_accepted():
    solution = solve_reference(chain(1e-5), {}, tolerance=1e-4)
    assert not bool(solution.accepted[0])
    assert float(solution.error_estimate[0]) > 0.3
    assert "data vary between its points" in solution.notes[0]


def test_no_solution_with_what_is_missed_leaves_no_estimate(monkeypatch):
    solve = SpectralSolver.solve

    def refused(self, *arguments):
        if any(i.name.startswith("_missed") for i in self.problem.inputs):
            raise SolverError("nothing balances this")
        return solve(self, *arguments)

    monkeypatch.setattr(SpectralSolver, "solve", refused)
    solution = solve_reference(chain(1e-3), {}, tolerance=1e-2, limits=Limits(levels=2))
    assert float(solution.error_estimate[0]) == math.inf
    assert "data vary between its points" in solution.notes[0]


def test_what_a_grid_misses_is_found_for_each_grid(monkeypatch):
    missed, sizes = Features.missed, []

    def counted(self, nodes):
        sizes.append(len(nodes["x"]))
        return missed(self, nodes)

    monkeypatch.setattr(Features, "missed", counted)
    solution = solve_reference(chain(1e-5), {}, tolerance=1e-4)
    assert sizes == sorted(set(sizes))
    assert len(sizes) > 1
    assert sizes[-1] == int(solution.modes[0, 0])


def test_smooth_data_are_solved_once():
    problem = chain(0.2)
    solution = solve_reference(problem, {}, tolerance=1e-4)
    assert int(solution.modes[0, 0]) == 64


def walled(equation, low=0, high=0):
    return Problem(
        name="walled",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=[equation],
        boundary={"x.min": {"dirichlet": {"u": low}}, "x.max": {"dirichlet": {"u": high}}},
        save={"x": 33},
    )


def test_a_source_beside_a_resonance_counts_for_its_effect():
    """The mean of the source along the first mode, times what the resonance makes of it."""
    r, size, c = 2e-4, 1e-5, 0.4424
    equation = f"-dxx(u) - (pi**2 - {r})*u = sin(2*pi*x) + {size}*exp(-((x - {c})/1e-4)**2)/1e-4"
    solution = solve_reference(walled(equation), {}, tolerance=1e-3)
    x = solution.axes[0].numpy()
    part = 2 * size * math.sqrt(math.pi) * math.sin(math.pi * c)
    rest = np.sin(2 * np.pi * x) / (3 * np.pi**2 + r)
    truth = rest + part * np.sin(np.pi * x) / r
    error = np.linalg.norm(solution.values["u"][0].numpy() - truth) / np.linalg.norm(truth)
    assert error > 0.5
    assert not bool(solution.accepted[0])
    assert error < float(solution.error_estimate[0]) < 5 * error


def test_a_potential_beside_a_resonance_counts_for_its_effect():
    """It moves the resonance by its mean along the square of the first mode."""
    r, size, c = 2e-4, 1e-5, 0.4424
    equation = f"-dxx(u) - (pi**2 - {r} + {size}*exp(-((x - {c})/1e-4)**2)/1e-4)*u = sin(pi*x)"
    solution = solve_reference(walled(equation), {}, tolerance=1e-3)
    x = solution.axes[0].numpy()
    moved = 2 * size * math.sqrt(math.pi) * math.sin(math.pi * c) ** 2
    truth = np.sin(np.pi * x) / (r - moved)
    error = np.linalg.norm(solution.values["u"][0].numpy() - truth) / np.linalg.norm(truth)
    assert error > 0.1
    assert not bool(solution.accepted[0])
    assert error < float(solution.error_estimate[0]) < 5 * error


def test_a_spike_that_a_grid_sees_too_much_of_is_not_all_of_the_solution():
    """A node stands at its peak, for more than its width: the true solution is far smaller."""
    size, width = 1e-2, 1e-3
    problem = Problem(
        name="heat",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = 0.1*dxx(u)"],
        initial={"u": f"sin(8*pi*x) + {size}*exp(-((x - 0.5)/{width})**2)"},
        boundary={"x": {"dirichlet": {"u": 0}}},
        save={"t": 4, "x": 33},
    )
    times, limits = [1 / 3, 2 / 3, 1], Limits(levels=5)
    solution = solve_reference(problem, {}, times=times, tolerance=1e-5, limits=limits)
    t, x = np.array(times)[:, None], solution.axes[0].numpy()
    wide = width**2 + 0.4 * t
    images = sum((-1) ** k * np.exp(-((x - 0.5 - k) ** 2) / wide) for k in range(-9, 10))
    truth = size * width / np.sqrt(wide) * images  # the wave is 1e-9 of it
    gaps = np.sqrt(np.mean((solution.values["u"][0].numpy() - truth) ** 2, 1))
    error = gaps.max() / np.sqrt(np.mean(truth**2))
    assert error > 10
    assert error < float(solution.error_estimate[0]) < 2 * error


@pytest.mark.parametrize(
    ("method", "boundary"),
    [(CollocationSolver, {"neumann": {"u": 0}}), (SpectralSolver, "periodic")],
)
def test_effects_are_relative_to_the_smaller_of_two_solutions(method, boundary):
    """Those with what a grid misses added, and taken away."""
    problem = Problem(
        name="heat",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"c": {"law": "uniform", "low": 1, "high": 4}},
        equations=["dt(u) = 0.1*dxx(u)"],
        initial={"u": "c*cos(2*pi*x)"},
        boundary={"x": boundary},
    )
    cpu, drawn = torch.device("cpu"), {"c": Scalars([1.0, 2.0, 3.0, 4.0])}
    request = Request((0.5, 1.0), (16,), 1e-6, cpu, Limits(), BatchProgress(4))
    with torch.no_grad():
        solver = method(Sources(problem, drawn, cpu), request)
        level = solver.first([0])[0]
        one, two, three, four = solver.solve(level, range(4), [[]] * 4).results
        above, below = solver.effect(two, three), solver.effect(two, one)
        assert above == pytest.approx(below, rel=1e-9)
        assert above == pytest.approx(2 * solver.effect(three, four), rel=1e-9)


@pytest.mark.parametrize("width", [1e-4, 3e-5])
def test_a_dip_of_a_coefficient_is_an_insulating_layer(width):
    equation = f"dx(dx(u)/(1 + 0.05*exp(-((x - 0.734)/{width})**2)/{width})) = 0"
    solution = solve_reference(walled(equation, 0, 1), {}, tolerance=2e-3)
    x = solution.axes[0].numpy()
    truth = x + 0.025 * math.sqrt(math.pi) * (erf((x - 0.734) / width) + 1)
    truth /= truth[-1]
    error = np.linalg.norm(solution.values["u"][0].numpy() - truth) / np.linalg.norm(truth)
    assert not bool(solution.accepted[0])
    assert error < float(solution.error_estimate[0])


@pytest.mark.parametrize("coefficient", ["x*(1 - x)", "1 - x**2", "(x - 1/2)**2"])
def test_a_coefficient_that_is_zero_somewhere_has_no_inverse(coefficient):
    problem = walled(f"-dx(({coefficient})*dx(u)) + u = 1 + x")
    sources = Sources(problem, {}, torch.device("cpu"))
    assert resistances(sources) == []


def test_what_a_grid_misses_keeps_its_integral_and_its_place():
    """Of a source, a mean over time; of initial data, of each term by itself."""
    problem = Problem(
        name="missed",
        time={"t": [0, 2]},
        space={"x": [0, 1]},
        unknowns=["u", "v"],
        equations=[
            "dt(u) = dxx(u) + exp(-((x - 0.7137)/1e-4)**2)*exp(-((t - 1)/0.1)**2) + 1",
            "dt(v) = u",
        ],
        initial={"u": "1 - 3*exp(-((x - 0.3137)/1e-4)**2)", "v": 0},
        boundary={"x": "periodic"},
    )
    nodes = torch.arange(50, dtype=torch.float64) / 50
    missed = Features(Sources(problem, {}, torch.device("cpu"))).missed({"x": nodes})
    assert set(missed) == {InEquation(0, sympy.S.One), AtStart("u", 0)}
    area = math.sqrt(math.pi) * 1e-4
    for place, content, centre in (
        (InEquation(0, sympy.S.One), area * 0.1 * math.sqrt(math.pi) / 2, 0.7137),
        (AtStart("u", 0), 3 * area, 0.3137),
    ):
        density = missed[place][0]
        assert float(density.sum() / 50) == pytest.approx(content, rel=1e-2)
        assert float((density * nodes).sum() / 50) == pytest.approx(content * centre, rel=1e-2)
        assert int((density.abs() > 1e-3 * density.abs().max()).sum()) <= 2


def test_what_is_missed_is_added_to_the_equations_and_the_initial_data():
    problem = chain(1e-3)
    sources = Sources(problem, {}, torch.device("cpu"))
    nodes = torch.arange(8, dtype=torch.float64) / 8
    more = {
        InEquation(1, sympy.S.One): torch.arange(8.0).double()[None],
        AtStart("u", 0): torch.ones(1, 8, dtype=torch.float64),
    }
    changed = with_missed(sources, more, {"x": nodes}).problem
    first, second = (str(r) for r in changed.residuals)
    assert "missed" not in first
    assert "+ _missed0(x)" in f"+ {second}"
    assert "+ _missed1(x)" in f"+ {changed.initial['u'][0]}"
    assert changed != problem
    assert "missed" not in str(problem.residuals)


def test_values_at_nodes_are_linear_between_them():
    values = torch.tensor([[1.0, 3.0, 2.0]], dtype=torch.float64)
    nodes = torch.tensor([0.0, 0.5, 0.75], dtype=torch.float64)
    at = torch.tensor([[0.0, 0.25, 0.75, 0.875]], dtype=torch.float64)[..., None]
    assert NodalFunction(values, (nodes,), (1.0,))(at).tolist() == [[1.0, 2.0, 2.0, 1.5]]
    assert NodalFunction(values, (nodes,), (0.0,))(at).tolist() == [[1.0, 2.0, 2.0, 1.5]]


@pytest.mark.parametrize("levels", POINTS[1:3])
def test_levels_share_no_points_but_the_centre_and_the_ends(levels):
    halves = [(n - 1) // 2 for n in levels]
    assert all(math.gcd(a, b) == 1 for a, b in combinations(halves, 2))


def test_what_is_missed_of_a_vorticity_has_no_mean():
    """A stream function could not balance one."""
    problem = Problem(
        name="vortex",
        time={"t": [0, 0.1]},
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["w"],
        auxiliary={"psi": {"equation": "-lap(psi) = w", "mean": 0}},
        equations=["dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = 0.01*lap(w)"],
        initial={"w": f"sin(2*pi*x)*cos(2*pi*y) + {SPIKE.format(w=1e-3)}*sin(2*pi*y)/1000"},
        boundary={"x": "periodic", "y": "periodic"},
        save={"t": 2, "x": 16, "y": 16},
    )
    limits = Limits(modes=(64, 64, 64), levels=3)
    solution = solve_reference(problem, {}, tolerance=1e-4, limits=limits)
    assert not bool(solution.accepted[0])
    assert float(solution.error_estimate[0]) < 0.1
