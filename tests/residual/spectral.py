"""The residual of values on a periodic grid, with spectral derivatives in space.

Source: L. N. Trefethen, Spectral Methods in MATLAB (2000), chapter 3,
https://doi.org/10.1137/1.9780898719598; odd derivatives drop the Nyquist mode (page 20).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from sympy import Expr
from torch import Tensor

from piop.errors import NotSupportedError
from piop.fields import InputFunction
from piop.forms.terms import derivative_index, name_of, unknown_derivatives
from piop.lowering import compile_expressions
from piop.residual.required_inputs import InputDerivatives


def grid_residual(
    problem,
    values: Mapping[str, Tensor],
    time_derivatives: Mapping[str, Tensor] | None = None,
    functions: Mapping[str, InputFunction] | None = None,
    times: Tensor | None = None,
) -> dict[int, Tensor]:
    """Put gridded values into the equations.

    Args:
        problem: Periodic along all space axes.
        values: For each channel ``[B, T, n1, …]``, the right end of every axis left out; a steady
            problem has no axis T. Taken in float64 (complex128 spectra).
        time_derivatives: For each channel whose time derivative the equations hold, the same
            shape; under ``"name.2"`` the second one.
        functions: The input functions the equations hold.
        times: ``[T]``.

    Returns:
        ``[B, T, n1, …]`` for each equation, by its position.

    Raises:
        NotSupportedError: If a space axis is not periodic.
        KeyError: If a time derivative is missing.
    """
    bounded = [c.name for c in problem.space if not c.periodic]
    if bounded:
        raise NotSupportedError(
            f"grid_residual differentiates spectrally; axes {bounded} are not periodic"
        )
    symbols = tuple(c.symbol for c in problem.coordinates)
    first = values[problem.channels[0]]
    axes = _axes(problem, first, times)
    environment: dict[Any, Tensor] = {}
    leading = 1
    for position, axis in enumerate(axes):
        shape = [1] * first.ndim
        shape[leading + position] = -1
        environment[symbols[position]] = axis.reshape(shape)
    inputs = InputDerivatives(problem.residuals, problem.inputs, symbols, problem.channels)
    found = inputs.on_grid(functions or {}, axes)
    environment |= zip(inputs.atoms, found, strict=True)
    for atom in unknown_derivatives(problem.residuals, symbols, problem.channels):
        environment[atom] = _spectral(atom, problem, values, time_derivatives or {})
    totals = compile_expressions(problem.residuals, tuple(environment))(tuple(environment.values()))
    return {i: v.expand(first.shape) for i, v in enumerate(totals)}


def _axes(problem, values: Tensor, times: Tensor | None) -> list[Tensor]:
    """Give the points of each coordinate, time first."""
    sizes = values.shape[1:]
    axes = []
    if problem.time is not None:
        if times is None:
            raise ValueError("an evolution problem needs the times of its values")
        axes.append(times.to(values))
        sizes = sizes[1:]
    for coordinate, n in zip(problem.space, sizes, strict=True):
        steps = torch.arange(n, dtype=values.dtype, device=values.device) / n
        axes.append(coordinate.low + (coordinate.high - coordinate.low) * steps)
    return axes


def _spectral(
    atom: Expr,
    problem,
    values: Mapping[str, Tensor],
    time_derivatives: Mapping[str, Tensor],
) -> Tensor:
    """Differentiate a channel along its periodic axes."""
    name = name_of(atom)
    order = derivative_index(atom, tuple(c.symbol for c in problem.coordinates))
    if problem.time is None:
        grid, skip = values[name], 1
    else:
        in_time, order, skip = order[0], order[1:], 2
        key = name if in_time < 2 else f"{name}.{in_time}"
        if in_time and key not in time_derivatives:
            raise KeyError(f"the equations hold {atom}: time_derivatives lacks {key!r}")
        grid = time_derivatives[key] if in_time else values[name]
    for axis, (count, coordinate) in enumerate(zip(order, problem.space, strict=True), start=skip):
        if count:
            grid = _differentiate(grid, axis, count, coordinate.high - coordinate.low)
    return grid


def _differentiate(grid: Tensor, axis: int, count: int, length: float) -> Tensor:
    n = grid.shape[axis]
    modes = torch.fft.rfftfreq(n, 1 / n, dtype=grid.dtype, device=grid.device)
    factor = (2j * math.pi / length * modes) ** count
    if count % 2 and n % 2 == 0:
        factor[-1] = 0  # what irfft does with an imaginary Nyquist mode is left open
    shape = [1] * grid.ndim
    shape[axis] = -1
    spectrum = torch.fft.rfft(grid, dim=axis) * factor.reshape(shape)
    return torch.fft.irfft(spectrum, n, dim=axis)
