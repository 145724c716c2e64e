"""The exact solution of a steady linear problem for a source, as part of a hard ansatz.

The lift is L⁻¹ f_N, where f_N interpolates the source on a grid of the box and L is inverted mode
by mode: what a network adds corrects the interpolation alone (``docs/math.md``, 18).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import final

import torch
from sympy import Function
from torch import Tensor

from piop.domain import Coordinate
from piop.fields import InputFunction
from piop.forms.linear_steady import NODES, LinearSteady, linear_steady
from piop.forms.pde import Input
from piop.problem import Problem
from piop.residual import DerivedFunctions, KnownField
from piop.sampling.functions import ProductFunction
from piop.spec.model import SensorPlacement
from piop.training.loss.axis_modes import AxisModes, axis_modes


@final
class LinearInversion(DerivedFunctions):
    """The solution of a steady linear problem, for the interpolant of its source on a grid.

    Args:
        problem: A steady problem.

    Attributes:
        inputs: One function of space per channel.
        needs: The names of the inputs of the problem that the source contains.

    Raises:
        NotSupportedError: If its waves cannot be solved one by one.
    """

    def __init__(self, problem: Problem) -> None:
        linear = linear_steady(problem.pde)
        coordinates = [c.symbol for c in problem.coordinates]
        self._sources = KnownField(linear.sources, problem.inputs, coordinates)
        self.needs = self._sources.names
        self.inputs = tuple(derived_input(problem, name) for name in problem.channels)
        count, self._means = NODES[len(problem.space)], linear.means
        self._axes = tuple(
            axis_modes(axis, own, count)
            for axis, own in zip(problem.space, linear.conditions, strict=True)
        )
        self._inverse = _inverse(linear, self._axes, len(problem.channels))

    def __call__(
        self, functions: Mapping[str, InputFunction], device: torch.device
    ) -> dict[str, InputFunction]:
        """Solve for the sources that functions give: see the base class."""
        axes = [axis.to(device) for axis in self._axes]
        source = self._sources.on_grid(functions, [axis.nodes for axis in axes])
        whole = (-1, *(len(axis.nodes) for axis in axes), -1)
        inverse = self._inverse.to(device)
        parts = source.expand(whole).movedim(-1, 1).to(inverse.dtype)  # [B, E, N1, …, Nd]
        parts = _transformed(parts, [axis.forward for axis in axes])
        solved = torch.einsum("...ce,be...->bc...", inverse, parts)
        solved = _transformed(solved, [axis.backward for axis in axes])
        found = solved.real if solved.is_complex() else solved
        bases = tuple(axis.basis for axis in axes)
        made = {}
        for channel, entry in enumerate(self.inputs):
            mean = self._means.get(channel, 0.0)  # all modes but the constant one have mean zero
            offset = torch.full((1,), mean, dtype=torch.float64, device=device)
            made[entry.name] = ProductFunction(found[:, channel], bases, offset)
        return made


def derived_input(problem: Problem, channel: str) -> Input:
    """Declare the function of all coordinates that the linear part adds to a channel."""
    coordinates: Sequence[Coordinate] = problem.coordinates
    name = f"{channel} of the linear part"  # no name of a spec has spaces
    symbol = Function(name, real=True)(*(c.symbol for c in coordinates))
    of = tuple(c.name for c in coordinates)
    return Input(name, of, None, None, True, True, (), SensorPlacement.GRID, symbol)


def _inverse(linear: LinearSteady, axes: Sequence[AxisModes], channels: int) -> Tensor:
    """Invert the symbol of every mode: ``[K1, …, Kd, C, E]``, real where no axis is periodic."""
    shape = tuple(len(axis.factors) for axis in axes)
    symbol = torch.zeros(*shape, channels, channels, dtype=torch.complex128)
    for (row, column), polynomial in linear.operator.items():
        for order, coefficient in polynomial.items():
            factors = [axis.factors**n for axis, n in zip(axes, order, strict=True)]
            symbol[..., row, column] += coefficient * reduce(_outer, factors)
    constant = tuple(axis.constant for axis in axes)
    fixed = symbol[constant].clone() if None not in constant else None
    if fixed is not None:
        symbol[constant] = torch.eye(channels, dtype=symbol.dtype)
    inverse = torch.linalg.inv(symbol)
    if fixed is not None:
        inverse[constant] = torch.linalg.pinv(fixed)  # zero where the equations leave a constant
    real = not any(axis.forward.is_complex() for axis in axes)
    return inverse.real.contiguous() if real else inverse


def _outer(left: Tensor, right: Tensor) -> Tensor:
    return left[..., None] * right


def _transformed(values: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Apply a matrix ``[K_i, N_i]`` along each of the last axes of ``[…, N1, …, Nd]``."""
    for dim, matrix in enumerate(matrices, start=-len(matrices)):
        values = (values.movedim(dim, -1) @ matrix.mT.to(values.dtype)).movedim(-1, dim)
    return values
