"""The patterns of the guide: residual and reference, derived apart, agree on each."""

from __future__ import annotations

import pytest
import torch

from piop.problem import Problem
from piop.problem.capabilities import choose_method
from piop.problem.reference_methods import Chebyshev, FiniteElements, Fourier
from piop.residual import compile_residual
from tests.docs.pages import DOCS, blocks
from tests.test_pdes import DEGREE, check_residual

PAGE = DOCS / "guide" / "your_own_pde.md"
SPECS = {b.title: b.text for b in blocks(PAGE) if b.language == "yaml" and b.directive != "error"}
METHOD = {name: type(choose_method(Problem.from_yaml(text))) for name, text in SPECS.items()}
SMOOTH = [name for name, method in METHOD.items() if method in (Fourier, Chebyshev)]


def test_there_are_twelve_patterns_each_with_a_reference():
    headings = [line for line in PAGE.read_text().splitlines() if line.startswith("## ")]
    assert sum(line[3].isdigit() for line in headings) == 12
    assert len(SPECS) == 13
    assert all(Problem.from_yaml(t).capabilities.equations for n, t in SPECS.items())
    assert {*METHOD.values()} >= {Fourier, Chebyshev, FiniteElements}


@pytest.mark.parametrize("name", SMOOTH)
def test_the_reference_of_the_pattern_put_through_its_residual_vanishes(name, tmp_path):
    path = tmp_path / name
    path.write_text(SPECS[name])
    if Problem.from_file(path).space:
        check_residual(path)
        return
    check_ordinary(Problem.from_file(path))


def check_ordinary(problem):
    """The polynomial in time through values of the reference has no residual."""
    low, length = problem.time.low, problem.time.length
    nodes = torch.cos(torch.pi * torch.arange(DEGREE, -1, -1, dtype=torch.float64) / DEGREE)
    middle, reach = low + 0.1 * length, 2e-3 * length
    functions = problem.sample(2)
    solution = problem.solve_reference(functions, times=middle + reach * nodes, tolerance=1e-9)
    values = torch.stack([solution.values[name] for name in problem.channels], -1)
    powers = torch.stack([((solution.times - middle) / reach) ** p for p in range(DEGREE + 1)], -1)
    coefficients = torch.einsum("pt,btc->bpc", torch.linalg.inv(powers), values)
    residual = compile_residual(problem)
    queries = middle + reach * (torch.rand(2, 20, 1, dtype=torch.float64) - 0.5)

    def field(points, bend=0.0):
        phase, total = (points - middle) / reach, 0.0
        for p in reversed(range(DEGREE + 1)):
            total = total * phase + coefficients[:, p, None]
        return total * (1 + bend * phase)

    known = residual.evaluate_inputs(functions, queries)
    right = residual(field, queries, known).values
    wrong = residual(lambda q: field(q, bend=0.1), queries, known).values
    assert (right.square().mean((0, 1)) < 1e-12 * wrong.square().mean((0, 1))).all()


@pytest.mark.parametrize("name", [n for n, m in METHOD.items() if m is FiniteElements])
def test_the_reference_on_a_shape_meets_its_tolerance(name):
    problem = Problem.from_yaml(SPECS[name])
    solution = problem.solve_reference(problem.sample(1))
    assert solution.accepted.all()
    assert (solution.error_estimate < 1e-3).all()
