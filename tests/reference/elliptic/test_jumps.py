"""Coefficients with jumps: exact solutions, symmetry, error estimates."""

import numpy as np
import pytest
import torch

from piop.fields import InputFunction
from piop.problem import Problem
from piop.reference import Limits, solve_reference
from piop.reference.elliptic.linear_solve import solve_directly
from piop.sampling import Draws, sample_inputs

from .cases import at_centres, on_one_grid, relative, steady

JUMPS = {"a": {"of": ["x"], "law": "piecewise_constant", "cells": 10, "low": 0.1, "high": 10}}


def resistors(values, x):
    """u of −(a u')' = 0, u(0) = 0, u(1) = 1, with a constant on equal pieces: ∫ 1/a, scaled."""
    edges = np.linspace(0, 1, len(values) + 1)
    total = np.concatenate([[0], np.cumsum(1 / values)])
    return np.interp(x, edges, total / total[-1])


@pytest.mark.parametrize("nodes", [11, 41, 37])
def test_one_dimension_without_source_is_exact_at_the_nodes(nodes):
    """Whatever the jumps, and also where nodes lie between centres (37)."""
    boundary = {"x.min": {"dirichlet": {"u": 0}}, "x.max": {"dirichlet": {"u": 1}}}
    problem = steady("-d(a*dx(u), x) = 0", boundary=boundary, inputs=JUMPS)
    functions = sample_inputs(problem, Draws(3, 0, torch.arange(4)))
    solution = solve_reference(problem, functions, shape=(nodes,))
    values = functions["a"].on_grid([(torch.arange(10, dtype=torch.float64) + 0.5) / 10])
    for found, a in zip(solution.values["u"], values, strict=True):
        exact = resistors(a.numpy(), solution.axes[0].numpy())
        assert np.abs(found.numpy() - exact).max() < 1e-9
    assert bool(solution.accepted.all())


@pytest.mark.parametrize("cells", [32, 64])
def test_one_dimension_with_a_constant_source_is_exact_at_the_nodes(cells):
    """−(a u')' = 1, slope 2 outwards at 0, u(1) = 0, a = 1 then 5 from a face on.

    The flux is −a u' = x + 2. Values at centres err by h²/(8a), which values on faces take back.
    """
    boundary = {"x.min": {"neumann": {"u": 2}}, "x.max": {"dirichlet": {"u": 0}}}
    inputs = {"a": {"of": ["x"], "expression": "where(x < 0.25, 1, 5)", "smooth": False}}
    problem = steady("-d(a*dx(u), x) = 1", boundary=boundary, inputs=inputs)
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(1)))
    x = torch.linspace(0, 1, 33, dtype=torch.float64)
    total = x**2 / 2 + 2 * x
    jump, end = 0.25**2 / 2 + 0.5, 2.5
    exact = torch.where(x < 0.25, (jump - total) + (end - jump) / 5, (end - total) / 5)
    found = on_one_grid(problem, functions, (cells,), (33,))[0]
    assert (found - exact).abs().max() < 1e-11


@pytest.mark.parametrize("lengths", [(20, 1), (1, 8, 1)])
def test_a_box_much_longer_than_wide_has_levels_to_compare(lengths):
    """Two layers on the last axis, as in series: slopes of 2 and a third of that."""
    *along, across = "xyz"[: len(lengths)]
    problem = Problem(
        name="channel",
        space={name: [0, length] for name, length in zip("xyz", lengths, strict=False)},
        unknowns=["u"],
        equations=[f"-div(where({across} < 0.25, 1, 3)*grad(u)) = 0"],
        boundary={
            **{axis: {"neumann": {"u": 0}} for axis in along},
            f"{across}.min": {"dirichlet": {"u": 0}},
            f"{across}.max": {"dirichlet": {"u": 1}},
        },
    )
    solution = solve_reference(problem, {}, shape=(5,) * len(lengths))
    at = solution.axes[-1]
    exact = 2 * torch.where(at < 0.25, at, 0.25 + (at - 0.25) / 3)
    error = relative(solution.values["u"][0], exact.expand(solution.values["u"][0].shape))
    assert error <= float(solution.error_estimate[0]) <= 0.05


def test_a_jump_across_the_flow_and_one_along_it_in_two_dimensions():
    """A slab in series, u broken at x = 1/2; slabs side by side, u straight."""
    sides = {"x.min": {"dirichlet": {"u": 0}}, "x.max": {"dirichlet": {"u": 1}}}
    boundary = {**sides, "y": {"neumann": {"u": 0}}}
    axis = torch.linspace(0, 1, 9, dtype=torch.float64)
    broken = torch.where(axis < 0.5, 2 * 0.9 * axis, 0.9 + 0.2 * (axis - 0.5))
    for condition, exact in (("x < 0.5", broken), ("y < 0.5", axis)):
        inputs = {"a": {"of": ["x", "y"], "expression": f"where({condition}, 1, 9)"}}
        problem = steady("-div(a*grad(u)) = 0", "xy", boundary, inputs=inputs)
        functions = sample_inputs(problem, Draws(0, 0, torch.arange(1)))
        found = on_one_grid(problem, functions, (16, 24), (9, 9))[0]
        assert (found - exact[:, None]).abs().max() < 1e-9


class Turned(InputFunction):
    """A function of (x, y) with its axes exchanged, or one of them turned round."""

    batch, dimension = 0, 2

    def __init__(self, function, how):
        self.function, self.how, self.batch = function, how, function.batch

    def derivative(self, points, order):
        x, y = points.unbind(-1)
        return self.function(torch.stack((y, x) if self.how == "exchanged" else (1 - x, y), -1))

    def take(self, index):
        return Turned(self.function.take(index), self.how)

    def to(self, device=None, dtype=None):
        return self


@pytest.mark.parametrize("how", ["exchanged", "turned"])
def test_darcy_turns_with_its_permeability(how):
    problem = Problem.from_file("darcy_fno")
    functions = sample_inputs(problem, Draws(1, 0, torch.arange(2)))
    turned_a = Turned(functions["a"], how)
    for position, tolerance in (("centres", 1e-9), ("nodes", 1e-9 if how == "turned" else 5e-3)):
        # between centres one axis comes after the other, which tells at corners of interfaces
        found, turned = (_values(problem, a, position) for a in (functions["a"], turned_a))
        back = turned.transpose(1, 2) if how == "exchanged" else turned.flip(1)
        assert torch.allclose(found, back, rtol=0, atol=tolerance * float(found.max()))
        assert relative(turned, found) > 0.01


def _values(problem, a, position):
    if position == "nodes":
        return on_one_grid(problem, {"a": a}, (40, 40), (21, 21))
    return at_centres(problem, {"a": a}, (40, 40))[1]


def test_darcy_converges_to_what_a_plain_scheme_converges_to():
    """Against finite volumes that sample the permeability once per cell, sharing no code.

    Both are of first order, so their difference at equal cells falls as these do.
    """
    problem = Problem.from_file("darcy_fno")
    functions = sample_inputs(problem, Draws(2, 0, torch.arange(1)))
    gaps = []
    for n in (60, 240):
        found = on_one_grid(problem, {"a": functions["a"]}, (n, n), (n + 1, n + 1))[0]
        centres = (torch.arange(n, dtype=torch.float64) + 0.5) / n
        other = plain_finite_volumes(functions["a"].on_grid([centres, centres])[0].numpy())
        corners = (other[1:, 1:] + other[1:, :-1] + other[:-1, 1:] + other[:-1, :-1]) / 4
        gaps.append(relative(found[1:-1, 1:-1], torch.from_numpy(corners)))
    assert gaps[1] < 3e-3
    assert gaps[0] / gaps[1] > 3


def plain_finite_volumes(a):
    """−div(a grad u) = 1, u = 0 on the walls: five points, harmonic means, a sparse solve."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import spsolve

    n = len(a)
    cell = np.arange(n * n).reshape(n, n)
    diagonal, matrix = np.zeros((n, n)), sp.coo_matrix((n * n, n * n))
    for turn in (lambda v: v, lambda v: v.T):
        one, other, d = turn(a)[:-1], turn(a)[1:], turn(diagonal)
        face = 2 * one * other / (one + other)
        d[1:] += face
        d[:-1] += face
        d[0] += 2 * turn(a)[0]
        d[-1] += 2 * turn(a)[-1]
        position = (turn(cell)[:-1].ravel(), turn(cell)[1:].ravel())
        half = sp.coo_matrix((-face.ravel(), position), (n * n, n * n))
        matrix = matrix + half + half.T
    matrix = sp.csc_matrix(matrix + sp.diags(diagonal.ravel()))
    return spsolve(matrix, np.full(n * n, 1 / n**2)).reshape(n, n)


@pytest.mark.parametrize("contrast", [4, 1e6])
def test_multigrid_and_factorisation_agree(contrast):
    """At 1e6 conjugate gradients give up, and the solution is the factorisation's."""
    inputs = {
        "g": {"of": ["x", "y"], "law": "gaussian_random_field", "tau": 3, "alpha": 2,
              "zero_mean": True, "hidden": True},
        "a": {"of": ["x", "y"], "expression": f"where(g > 0, {contrast}, 1)", "smooth": False},
    }  # fmt: skip
    problem = steady("-div(a*grad(u)) = 1", "xy", inputs=inputs)
    functions = sample_inputs(problem, Draws(1, 0, torch.arange(2)))
    system, found = at_centres(problem, functions, (48, 40))
    direct = solve_directly(system.operator, system.right, singular=False)
    residual = system.operator.apply(found) - system.right
    assert relative(found, direct) < 1e-8
    assert float(residual.norm() / system.right.norm()) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["darcy", "darcy_fno"])
def test_error_estimates_of_rough_problems_hold(name):
    """On grids up to 128², against 512² cells, whose own error is about a quarter as large."""
    problem = Problem.from_file(name)
    functions = sample_inputs(problem, Draws(5, 0, torch.arange(16)))
    fine = solve_reference(problem, functions, shape=(33, 33), tolerance=1e-6)
    limits = Limits(modes=(128, 128, 128))
    coarse = solve_reference(problem, functions, shape=(33, 33), tolerance=1e-6, limits=limits)
    assert coarse.modes.max() == 128
    gap = (coarse.values["u"] - fine.values["u"]).flatten(1).norm(dim=1)
    error = gap / fine.values["u"].flatten(1).norm(dim=1)
    assert bool((error < coarse.error_estimate).all())
    assert bool((coarse.error_estimate < 20 * error).all())
    assert not bool(coarse.accepted.any())
    assert "its coefficient has jumps" in coarse.notes[0]
