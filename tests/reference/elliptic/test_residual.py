"""Residual and reference, derived apart, agree on a problem that has a strong form."""

import operator
from functools import reduce

import torch

from piop.problem import Problem
from piop.reference.elliptic.solve import CellSolver
from piop.reference.input_values import Sources
from piop.reference.solution import Limits, Request
from piop.residual import compile_residual
from piop.sampling import Draws, sample_inputs

NODES, HALF = 129, 4


def lagrange(t):
    """Lagrange polynomials of the nodes −4 … 4 at ``t [N]``: ``[N, 9]``."""
    nodes = torch.arange(-HALF, HALF + 1, dtype=torch.float64)
    factors = ([(t - m) / (n - m) for m in nodes if m != n] for n in nodes)
    return torch.stack([reduce(operator.mul, each) for each in factors], -1)


def test_the_solution_of_darcy_smooth_makes_the_compiled_residual_vanish():
    """u is a polynomial through 9 × 9 nodes about each of 16 places, drawn well off the walls.

    What is left, 5e-6 of the residual of u bent by a tenth, is the solution's error over
    the square of the distance of nodes.
    """
    problem = Problem.from_file("darcy_smooth")
    functions = sample_inputs(problem, Draws(7, 0, torch.arange(2)))
    device = torch.device("cpu")
    request = Request((), (NODES, NODES), 1e-7, device, Limits())
    with torch.no_grad():
        u = CellSolver(Sources(problem, functions, device), request).run().values["u"]
    residual = compile_residual(problem)
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(10, NODES - 10, (16, 2), generator=generator)
    right, wrong = [], []
    for i, j in places.tolist():
        patch = u[:, i - HALF : i + HALF + 1, j - HALF : j + HALF + 1]

        def field(queries, bend=0.0, patch=patch, i=i, j=j):
            x, y = (lagrange(queries[..., k] * (NODES - 1) - n) for k, n in ((0, i), (1, j)))
            value = torch.einsum("bnk,bkl,bnl->bn", x.expand(2, -1, -1), patch, y.expand(2, -1, -1))
            return (value * (1 + bend * torch.sin(6 * queries[..., 0])))[..., None]

        offset = torch.rand(1, 4, 2, generator=generator, dtype=torch.float64) - 0.5
        queries = (torch.tensor([i, j]) + offset).expand(2, -1, -1) / (NODES - 1)
        known = residual.evaluate_inputs(functions, queries)
        right.append(residual(field, queries, known).values)
        wrong.append(residual(lambda q, f=field: f(q, bend=0.1), queries, known).values)
    size, bent = (torch.stack(part).square().mean().sqrt() for part in (right, wrong))
    assert size < 5e-5 * bent
