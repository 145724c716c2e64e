"""Residuals on a lattice: equations integrated over time by a linear evolution near them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from piop.domain import Coordinate
from piop.forms.linear_evolution import linear_evolution
from piop.problem import Problem
from piop.reference.fourier.grid import PeriodicGrid, Symbols
from piop.reference.input_values import Sources
from piop.residual import DerivedFunctions, IntegralResidual, Lattice, linearise
from piop.residual.lattice import LatticeResidual
from piop.training.loss.linear_propagation import eigenvectors, symbol_matrices


def lattice_residual(
    problem: Problem, lattice: Lattice, scale: Tensor, derived: DerivedFunctions | None = None
) -> LatticeResidual:
    """Compile the equations of a problem, integrated over time on a lattice.

    Args:
        problem: One for which :func:`piop.problem.residual_form.decide_form` allows it.
        lattice: Points of each function.
        scale: Typical size of each unknown ``[C]``, of the device and precision of what it is
            evaluated on.
        derived: Functions that lifts may contain beside the inputs.
    """
    if problem.pde.periodic and problem.time is not None:
        return integral_residual(problem, lattice, scale, derived)
    return linearise(problem, lattice, scale.tolist(), derived)


def integral_residual(
    problem: Problem, lattice: Lattice, like: Tensor, derived: DerivedFunctions | None = None
) -> IntegralResidual:
    """Compile the equations on a periodic box, integrated by their linear part.

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
    shape = (split.states, split.states)
    time = cast("Coordinate", problem.time)  # linear_evolution refuses steady problems
    linear = symbol_matrices(symbols.linear, grid, shape)
    rates, vectors = eigenvectors(linear, time.length, split.state_orders)
    decaying = torch.complex(rates.real.clamp(max=0), rates.imag)
    rows = torch.linalg.inv(vectors) @ symbol_matrices(symbols.inverse_mass, grid, shape)
    return IntegralResidual(problem, lattice, decaying, vectors, rows, like, derived)
