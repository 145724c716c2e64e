"""The linear part of an evolution, by which its residual is integrated over time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piop.forms.linear_evolution import linear_evolution
from piop.problem import Problem
from piop.reference.fourier.grid import PeriodicGrid, Symbols, Table
from piop.reference.input_values import Sources
from piop.residual import DerivedFunctions, IntegralResidual, Lattice
from piop.training.loss.linear_propagation import eigenvectors


def integral_residual(
    problem: Problem, lattice: Lattice, like: Tensor, derived: DerivedFunctions | None = None
) -> IntegralResidual:
    """Compile the equations of a problem, integrated over time on a lattice.

    Waves that the linear part lets grow count as neutral: the nonlinear part limits their growth,
    so that the exponential of the linear part overestimates the error.

    Args:
        problem: One for which :func:`piop.problem.residual_form.decide_form` allows it.
        lattice: Points of each function.
        like: A tensor of the device and precision of what it is evaluated on.
        derived: Functions that lifts may contain beside the inputs.

    Raises:
        NotSupportedError: If the waves of its linear part do not evolve independently.
    """
    split = linear_evolution(problem.pde).split
    grid = PeriodicGrid(problem.space, lattice.points, torch.device("cpu"))
    symbols = Symbols(split, [], grid, 1, Sources(problem, {}, grid.device))
    rates, vectors = eigenvectors(_matrices(symbols.linear, grid, split.states), _length(problem))
    decaying = torch.complex(rates.real.clamp(max=0), rates.imag)
    mass = _matrices(symbols.inverse_mass, grid, split.states)
    rows = torch.linalg.inv(vectors) @ mass
    return IntegralResidual(problem, lattice, decaying, vectors, rows, like, derived)


def _length(problem: Problem) -> float:
    if problem.time is None:
        raise ValueError("a steady problem cannot be integrated over time")
    return problem.time.length


def _matrices(table: Table, grid: PeriodicGrid, states: int) -> Tensor:
    """Turn a table of symbols of the states into matrices ``[K, S, S]``."""
    full = torch.zeros(math.prod(grid.modes), states, states, dtype=torch.complex128)
    for (row, column), symbol in table.items():
        full[:, row, column] = symbol.expand(1, *grid.modes).flatten()
    return full
