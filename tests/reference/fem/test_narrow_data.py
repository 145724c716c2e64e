"""Data finer than the meshes: the estimate says so, and poles outside the region do not count."""

import numpy as np
import pytest
import torch

from piop.reference import solve_reference
from piop.reference.features import Features
from piop.reference.input_values import Sources
from piop.reference.solution import Limits

from .cases import CAVITY, on_shape

L_SHAPE = {"polygon": [[0, 0], [1, 0], [1, 0.5], [0.5, 0.5], [0.5, 1], [0, 1]]}
DISK = {"disk": [0.5, 0.5, 0.5]}
STAR = {"star": {"centre": [0.5, 0.5], "angle": "phi", "radius": "r + 0.05*sin(3*phi)"}}
RADIUS = {"r": {"law": "uniform", "low": 0.3, "high": 0.4}}
ZERO = {"dirichlet": {"u": 0}}
ROUND = "((x - 0.31)**2 + (y - 0.43)**2 + 1e-6)"
BELOW = "((x - 0.47)**2 + (y + 1e-3)**2)"
BESIDE = "((x + 0.001)**2 + (y - 0.5)**2)"  # a thousandth from the disk
COARSE = Limits(modes=(8192, 48, 48))


@pytest.mark.parametrize(
    ("domain", "equation", "given"),
    [
        (L_SHAPE, f"-lap(u) = 1 + 1e-3/{ROUND}**2", ZERO),
        (CAVITY, "-lap(u) = where(abs(x + y/3 - 0.4) < 1e-4, 1e4, 0)", ZERO),
        (L_SHAPE, "-div(grad(u)/(1 + where(abs(x - 0.3) < 1e-4, 1e4, 0))) = 1", ZERO),
        (L_SHAPE, "-lap(u) = 0", {"dirichlet": {"u": f"1 + (y + 1e-3)/{BELOW}"}}),
        (DISK, "-lap(u) = 0", {"dirichlet": {"u": f"1 + 1e-3/{BESIDE}"}}),
        (DISK, "-lap(u) + u = 0", f"dx(u)*nx + dy(u)*ny = 1 + 1e-3*nx/{BESIDE}"),
        (STAR, f"-lap(u) = 1 + 1e-3/{ROUND}**2", ZERO),
    ],
    ids=["peak", "strip", "layer", "values", "values on a curve", "slopes", "own shapes"],
)
def test_data_between_the_points_of_meshes_are_not_accepted(domain, equation, given):
    words = {"inputs": RADIUS} if domain is STAR else {}
    words |= {"save": {"points": 60}} if domain is STAR else {}
    problem = on_shape(equation, {"rest": given}, domain, **words)
    functions = problem.sample(1, 0) if domain is STAR else {}
    solution = solve_reference(problem, functions, tolerance=1e-2, limits=COARSE)
    assert float(solution.error_estimate) > 0.1
    assert "data vary between its points" in solution.notes[0]


def test_the_estimate_bounds_the_error_by_a_peak_that_no_point_sees():
    values = {"dirichlet": {"u": f"log({ROUND})"}}
    problem = on_shape(f"-lap(u) = -4e-6/{ROUND}**2", {"rest": values}, L_SHAPE)
    solution = solve_reference(problem, {}, tolerance=1e-2, limits=COARSE)
    x, y = solution.points[0].T.numpy()
    truth = np.log((x - 0.31) ** 2 + (y - 0.43) ** 2 + 1e-6)
    error = np.linalg.norm(solution.values["u"][0].numpy() - truth) / np.linalg.norm(truth)
    assert 0.1 < error < float(solution.error_estimate)


@pytest.mark.parametrize("source", ["1/((x - 0.5)**2 + (y - 0.45)**2)", "exp(x)*sin(3*y)"])
def test_a_pole_in_a_hole_and_smooth_data_are_seen(source):
    problem = on_shape(f"-lap(u) = {source}", {"rest": ZERO})
    sources = Sources(problem, {}, torch.device("cpu"))
    found = Features(sources, outline=problem.domain.outline)
    nodes = torch.linspace(0, 1, 33, dtype=torch.float64)
    assert float(found.unseen({"x": nodes, "y": nodes})) < 1e-3


@pytest.mark.parametrize("place", ["171/256", "0.668"])
def test_a_strip_along_corners_of_boxes_or_nodes_is_not_seen_by_them(place):
    problem = on_shape(f"-lap(u) = where(abs(x - {place}) < 6e-5, 1e4, 0)", {"rest": ZERO}, DISK)
    sources = Sources(problem, {}, torch.device("cpu"))
    found = Features(sources, outline=problem.domain.outline, cell=1 / 19)
    for count in (97, 257):  # 171/256 is a node of the second
        nodes = torch.linspace(0, 1, count, dtype=torch.float64)
        assert float(found.unseen({"x": nodes, "y": nodes})) > 1


@pytest.mark.parametrize(
    ("source", "count"), [("a*where({disk}, 1, 0) + b*sin(9*x)*exp(y)", 50), ("rho", 1)]
)
def test_interfaces_and_factors_of_drawn_numbers_take_few_boxes(source, count):
    disk = "(x - 0.3)**2 + (y - 0.4)**2 < 0.005"
    rho = {"of": ["x", "y"], "expression": f"where({disk}, 1, 0)", "smooth": False}
    number = {"law": "uniform", "low": -1, "high": 1}
    inputs = {"rho": rho} if source == "rho" else {"a": number, "b": number}
    problem = on_shape(f"-lap(u) = {source.format(disk=disk)}", {"rest": ZERO}, inputs=inputs)
    sources = Sources(problem, problem.sample(count, 0), torch.device("cpu"))
    found = Features(sources, outline=problem.domain.outline, cell=1 / 16)
    assert sum(len(boxes) for _, boxes in found.found) < 500
    nodes = torch.linspace(0, 1, 17, dtype=torch.float64)
    assert float(found.unseen({"x": nodes, "y": nodes}).max()) < 1e-2
