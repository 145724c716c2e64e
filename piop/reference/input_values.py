"""Values of coordinates, scalars and input functions in equations, on grids and at points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.errors import DataError
from piop.fields import InputFunction
from piop.forms.terms import argument_order, name_of, outermost_atoms
from piop.lowering import compile_expression
from piop.problem import Problem

Axes = Sequence[Tensor]
"""A tensor grid of points, evenly spaced or not: coordinates ``[n_i]`` along each axis of space."""


def moves(problem: Problem, atom: Any) -> bool:
    """Whether an atom that is no unknown depends on time: time itself, or an input function."""
    time = problem.time
    if time is None or atom.is_Symbol:
        return time is not None and atom == time.symbol
    return any(i.name == name_of(atom) and time.name in i.of for i in problem.inputs)


def inputs_in(expression: Any, problem: Problem) -> list[Any]:
    """Input functions, their derivatives and scalar inputs in an expression."""
    names = {i.name for i in problem.inputs}
    scalars = [i.symbol for i in problem.inputs if not i.of and i.symbol in expression.free_symbols]
    return [*(a for a in outermost_atoms(expression) if name_of(a) in names), *scalars]


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

    def take(self, index: Sequence[int] | Tensor) -> Sources:
        """Keep some instances of the batch."""
        index = torch.as_tensor(index, device=self.device)
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

    def number(self, name: str) -> Tensor:
        """Values ``[B or 1]`` of a scalar input."""
        return self.function(name).on_grid(()).reshape(-1)

    def scalar(self, expression: Expr) -> Tensor | float:
        """Value of an expression of scalar inputs: a number, or ``[B]``."""
        if expression.is_number:
            return float(expression)
        symbols: Any = sorted(expression.free_symbols, key=str)
        unknown = [s for s in symbols if s not in self.scalars]
        if unknown:
            raise DataError(f"the parameter '{unknown[0]}' has no value; infer it or set it")
        values = [self.number(self.scalars[s]) for s in symbols]
        return compile_expression(expression, tuple(symbols))(values)

    def value(self, atom: Any, axes: Axes, t: float | Tensor) -> Tensor:
        """Evaluate an atom of an equation that is no unknown on a grid.

        Args:
            atom: An input function or a derivative of it, a scalar input, a coordinate, or time.
            axes: Points along each axis of space.
            t: Time; for time itself also that of each instance ``[B]``.

        Returns:
            ``[B or 1, n1 or 1, …, nd or 1]``.
        """
        space, time, pad = self.problem.space, self.problem.time, (1,) * len(axes)
        if atom in self.scalars:
            return self.number(self.scalars[atom]).reshape(-1, *pad)
        if atom.is_Symbol:
            symbols = [c.symbol for c in space]
            if atom not in symbols:  # time
                return torch.as_tensor(t, dtype=torch.float64, device=self.device).reshape(-1, *pad)
            i = symbols.index(atom)
            return axes[i].reshape(1, *pad[:i], -1, *pad[i + 1 :])
        of = self.arguments[name_of(atom)]
        columns = {c.name: points for c, points in zip(space, axes, strict=True)}
        sizes = [len(points) if name in of else 1 for name, points in columns.items()]
        if time is not None:
            columns[time.name] = torch.as_tensor([t], dtype=torch.float64, device=self.device)
        function = self.function(name_of(atom))
        values = function.on_grid([columns[name] for name in of], argument_order(atom))
        order = [1 + of.index(name) for name in columns if name in of]  # time last, of size 1
        return values.permute(0, *order).reshape(len(values), *sizes)

    def at_points(self, atom: Any, columns: Mapping[str, Tensor]) -> Tensor:
        """Evaluate an input function, a derivative of it or a scalar input at scattered points.

        Args:
            atom: Which.
            columns: Each coordinate of the points ``[B or 1, n]``.

        Returns:
            ``[B or 1, n or 1]``.
        """
        if atom in self.scalars:
            return self.number(self.scalars[atom]).reshape(-1, 1)
        name = name_of(atom)
        points = torch.stack([columns[c] for c in self.arguments[name]], -1)
        function = self.function(name)
        if function.batch < len(points):
            function = function.take(torch.zeros(len(points), dtype=torch.int64))
        return function.derivative(points, argument_order(atom))

    def field(self, expression: Expr, axes: Axes) -> Tensor:
        """An expression without unknowns on a grid, ``[B, *sizes]``; at the start of the time."""
        expression = sympy.sympify(expression)
        atoms = inputs_in(expression, self.problem) + [c.symbol for c in self.problem.coordinates]
        values = [self.value(atom, axes, self.start) for atom in atoms]
        found = compile_expression(expression, atoms)(values).to(values[-1])
        return found.expand(self.batch, *map(len, axes)).contiguous()

    def along(
        self, expression: Expr, symbols: Sequence[Any], fixed: Mapping[Any, float] | None = None
    ) -> Callable[[Tensor], Tensor]:
        """Compile an expression of one coordinate, whose symbols these are.

        Args:
            expression: Without unknowns.
            symbols: Of the coordinate.
            fixed: Values of other coordinates.

        Returns:
            Values ``[B or 1, n]`` of the coordinate → values of the expression ``[B or 1, n]``.
        """
        expression = sympy.sympify(expression)
        atoms = inputs_in(expression, self.problem)
        others = fixed or {}
        run = compile_expression(expression, [*atoms, *symbols, *others])

        def evaluate(positions: Tensor) -> Tensor:
            columns = {str(symbol): positions for symbol in symbols}
            columns |= {str(s): torch.full_like(positions, value) for s, value in others.items()}
            values = [self.at_points(atom, columns) for atom in atoms]
            return run([*values, *columns.values()]).expand_as(positions)

        return evaluate
