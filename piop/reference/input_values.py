"""Values of coordinates, scalars and input functions in equations, on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from sympy import Expr
from torch import Tensor

from piop.errors import DataError
from piop.fields import InputFunction
from piop.forms.terms import argument_order, name_of, outermost_atoms
from piop.lowering import compile_expression
from piop.problem import Problem


class SourcePoints(Protocol):
    """A tensor grid of points, evenly spaced or not."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points along each axis."""
        ...

    def axes(self) -> tuple[Tensor, ...]:
        """Coordinates along each axis, each ``[n_i]``."""
        ...


@final
@dataclass(frozen=True, eq=False)
class SamplingGrid:
    """A tensor grid of points with given coordinates.

    Attributes:
        along: Coordinates along each axis ``[n_i]``.
    """

    along: tuple[Tensor, ...]

    def axes(self) -> tuple[Tensor, ...]:
        """Coordinates along each axis."""
        return self.along

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(len(a) for a in self.along)


@final
class Sources:
    """Values of everything in the equations but unknowns, for a batch of problem instances.

    Args:
        problem: The ``Problem``.
        functions: Input functions by name, each of batch B or 1.
        device: Where tensors live.
    """

    def __init__(
        self, problem: Problem, functions: Mapping[str, InputFunction], device: torch.device
    ) -> None:
        self.problem = problem
        self.device = device
        self.start = 0.0 if problem.time is None else float(problem.time.low)
        self.arguments = {i.name: tuple(i.of) for i in problem.inputs}
        self.scalars = {i.symbol: i.name for i in problem.inputs if not i.of}
        for name, function in functions.items():
            if not isinstance(function, InputFunction):
                raise DataError(
                    f"input {name!r} is no function; values at points are taken by "
                    "Problem.solve_reference"
                )
        self.functions = {n: functions[n].to(device, torch.float64) for n in functions}
        sizes = {f.batch for f in self.functions.values()} - {1}
        if len(sizes) > 1:
            raise DataError(f"input functions have different batch sizes: {sorted(sizes)}")
        self.batch = sizes.pop() if sizes else 1

    def take(self, index: Tensor) -> Sources:
        """Keep some instances of the batch."""
        functions = {n: f if f.batch == 1 else f.take(index) for n, f in self.functions.items()}
        taken = Sources(self.problem, functions, self.device)
        taken.batch = len(index)
        return taken

    def function(self, name: str) -> InputFunction:
        """An input function.

        Raises:
            DataError: If it was not given.
        """
        if name not in self.functions:
            have = ", ".join(sorted(self.functions)) or "none"
            raise DataError(f"the equations need the input '{name}'; given: {have}")
        return self.functions[name]

    def scalar(self, expression: Expr) -> Tensor | float:
        """Value of an expression of scalar inputs: a number, or ``[B]``."""
        if expression.is_number:
            return float(expression)
        symbols: Any = sorted(expression.free_symbols, key=str)
        unknown = [s for s in symbols if s not in self.scalars]
        if unknown:
            raise DataError(f"the parameter '{unknown[0]}' has no value; infer it or set it")
        values = [self.function(self.scalars[s]).on_grid(()).reshape(-1) for s in symbols]
        return compile_expression(expression, tuple(symbols))(values)

    def scalar_values(self) -> list[Tensor]:
        """Values ``[B or 1]`` of the scalar inputs, in the order of the problem."""
        return [self.function(n).on_grid(()).reshape(-1) for n in self.scalars.values()]

    def on_grid(self, atom: Expr, order: Sequence[int], grid: SourcePoints, t: float) -> Tensor:
        """An input function's derivative, ``[B or 1, n1 or 1, …, nd or 1]``."""
        name = name_of(atom)
        space = [c.name for c in self.problem.space]
        axes = dict(zip(space, grid.axes(), strict=True))
        time = None if self.problem.time is None else self.problem.time.name
        if time is not None:
            axes[time] = torch.tensor([t], dtype=torch.float64, device=self.device)
        of = self.arguments[name]
        values = self.function(name).on_grid([axes[c] for c in of], tuple(order))
        names = list(of)
        if time in names:
            values = values.squeeze(1 + names.index(time))
            names.remove(time)
        values = values.permute(0, *(1 + names.index(c) for c in space if c in names))
        sizes = [n if c in names else 1 for c, n in zip(space, grid.sizes, strict=True)]
        return values.reshape(values.shape[0], *sizes)

    def coordinate(self, i: int, grid: SourcePoints) -> Tensor:
        """Coordinate i of space, ``[1, 1, …, n_i, …, 1]``."""
        shape = [1] * (len(grid.sizes) + 1)
        shape[i + 1] = grid.sizes[i]
        return grid.axes()[i].reshape(shape)

    def field(self, expression: Expr, grid: SourcePoints, t: float) -> Tensor:
        """An expression without unknowns on the grid, ``[B, *sizes]`` (initial data)."""
        atoms = outermost_atoms(expression)
        values = [self.on_grid(atom, argument_order(atom), grid, t) for atom in atoms]
        pad = (1,) * len(grid.sizes)
        for symbol, name in self.scalars.items():
            if symbol in expression.free_symbols:
                atoms.append(symbol)
                values.append(self.function(name).on_grid(()).reshape(-1, *pad))
        for i, c in enumerate(self.problem.space):
            atoms.append(c.symbol)
            values.append(self.coordinate(i, grid))
        if self.problem.time is not None:
            atoms.append(self.problem.time.symbol)
            values.append(torch.full((1, *pad), t, dtype=torch.float64, device=self.device))
        value = torch.as_tensor(compile_expression(expression, tuple(atoms))(values))
        return value.to(values[-1]).expand(self.batch, *grid.sizes).contiguous()
