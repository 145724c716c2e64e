"""The lattice of linearised equations is as fine as solutions ask for."""

import math

import pytest
import torch

from piop.errors import SolverError
from piop.problem import Problem
from piop.problem.residual_form import FormDecision
from piop.residual import Lattice
from piop.training import linearised_lattice
from piop.training.coarse_references import solve_coarsely
from piop.training.linearised_lattice import (
    LatticeChoice,
    choose_linearised_lattice,
    find_linearised_lattice,
    find_steady_lattice,
    solve_for_linearised_lattice,
)


def between_walls(function):
    """Values at even times and places of [0, 1], both ends among them."""
    t = torch.linspace(0, 1, 241, dtype=torch.float64)[:, None]
    x = torch.linspace(0, 1, 256, dtype=torch.float64)
    return function(t, x).expand(241, 256)[None]


def test_elements_and_nodes_between_walls_follow_the_solutions():
    smooth = {"u": between_walls(lambda t, x: (1 + t**4) * x**2)}
    assert find_linearised_lattice(smooth, periodic=False) == Lattice(6, (16,))
    fast = {"u": between_walls(lambda t, x: torch.sin(12 * t) * x**2)}
    assert find_linearised_lattice(fast, periodic=False) == Lattice(21, (16,))
    fine = {"u": between_walls(lambda t, x: (1 + t) * torch.cos(20 * x))}
    lattice = find_linearised_lattice(fine, periodic=False)
    assert lattice.times == 6
    assert 24 <= lattice.points[0] <= 32
    both = {"u": fast["u"], "v": 1e-6 * fine["u"]}  # each unknown relative to itself
    assert find_linearised_lattice(both, periodic=False) == Lattice(21, lattice.points)


def test_solutions_that_no_lattice_between_walls_resolves_say_why():
    rough = {"u": between_walls(lambda t, x: torch.tanh(200 * (x - t)))}
    assert "points in space" in find_linearised_lattice(rough, periodic=False)
    fast = {"u": between_walls(lambda t, x: torch.sin(120 * t) * x**2)}
    assert "8 elements of time" in find_linearised_lattice(fast, periodic=False)


def test_the_finest_lattice_that_is_small_enough_is_taken():
    problem = Problem.from_file("fisher_kpp")
    fine = solve_for_linearised_lattice(problem, unresolved=1e-7)
    assert fine.points[0] > 40
    small = solve_for_linearised_lattice(problem, most=200, unresolved=1e-7)  # 40 points at most
    assert 30 < small.points[0] <= 40
    assert small.times > 6


def test_a_lattice_between_walls_needs_reference_solutions(monkeypatch):
    problem = Problem.from_file("fisher_kpp")
    found = choose_linearised_lattice(problem, FormDecision(True, ""))
    lattice, why = found.shape, found.why
    assert lattice[0] % 5 == 1
    assert "resolve reference solutions" in why
    assert choose_linearised_lattice(problem, FormDecision(False, "no reason")) == LatticeChoice(
        (), "no reason"
    )

    def fail(*args):
        raise SolverError("it blows up")

    monkeypatch.setattr(linearised_lattice, "solve_coarsely", fail)
    found = choose_linearised_lattice(problem, FormDecision(True, ""))
    assert found == LatticeChoice((), "there is no reference solution (it blows up)")
    with pytest.raises(ValueError, match=r"form: integral is not possible: .*it blows up"):
        choose_linearised_lattice(problem, FormDecision(True, "", requested=True))


def on_a_box(function, count=65):
    """Values at even places of [0, 1]², both ends among them."""
    x = torch.linspace(0, 1, count, dtype=torch.float64)
    return function(x[:, None], x).expand(count, count)[None]


def test_nodes_of_steady_problems_follow_the_solutions_along_each_axis():
    space = Problem.from_file("stokes_channel").space
    smooth = {"u": on_a_box(lambda x, y: x**2 * y)}
    assert find_steady_lattice(smooth, space, 700) == Lattice(1, (9, 9))
    fine = {"u": smooth["u"], "v": 1e-6 * on_a_box(lambda x, y: x * torch.cos(20 * y))}
    lattice = find_steady_lattice(fine, space, 700)
    assert lattice.points[0] == 9
    assert 24 <= lattice.points[1] <= 32
    finer = find_steady_lattice(fine, space, 1000, 1e-5)
    assert finer.points[1] > lattice.points[1]
    why = find_steady_lattice(fine, space, 400)
    assert why == f"solutions need 9 × {lattice.points[1]} points or more, too many"


def test_periodic_axes_of_steady_problems_have_odd_numbers_of_points():
    space = Problem.from_file("heat2d").space
    assert all(axis.periodic for axis in space)
    x = torch.arange(64, dtype=torch.float64) / 64
    waves = torch.sin(2 * math.pi * 7 * x[:, None]) * torch.cos(2 * math.pi * x)
    assert find_steady_lattice({"u": waves[None]}, space, 700) == Lattice(1, (21, 9))


def test_steady_problems_are_solved_for_their_lattice_and_the_sizes_of_unknowns():
    found = choose_linearised_lattice(Problem.from_file("stokes_channel"), FormDecision(True, ""))
    assert found.shape[0] == 1
    assert found.shape[1] >= found.shape[2] >= 9
    u, v, p = found.sizes
    assert v < u / 20  # the inflow is nearly a parabola
    assert p > u
    problem = Problem.from_file("stokes_channel")
    solution = problem.solve_reference(problem.sample(8, seed=5))
    assert u == pytest.approx(float(solution.values["u"].std()), rel=0.3)


def test_a_lattice_of_three_unknowns_resolves_a_cavity_in_full():
    problem = Problem.from_file("cavity_cvit")
    shape = choose_linearised_lattice(problem, FormDecision(True, "")).shape
    solved = solve_coarsely(problem)
    assert find_steady_lattice(solved, problem.space, 10**6) == Lattice(shape[0], shape[1:])


def test_a_steady_lattice_that_would_be_too_large_may_resolve_less(monkeypatch):
    problem = Problem.from_file("stokes_channel")
    full = choose_linearised_lattice(problem, FormDecision(True, "")).shape
    most = 3 * full[1] * full[2] - 1
    monkeypatch.setattr(linearised_lattice, "MOST_STEADY", most)
    less = choose_linearised_lattice(problem, FormDecision(True, "")).shape
    assert 81 <= less[1] * less[2] < full[1] * full[2]
    monkeypatch.setattr(linearised_lattice, "MOST_STEADY", 200)
    assert choose_linearised_lattice(problem, FormDecision(True, "")).shape == ()
