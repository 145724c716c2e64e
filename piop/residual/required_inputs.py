"""Inputs and unknowns that expressions contain, and the values of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, final

import torch
from sympy import Expr, Symbol
from torch import Tensor

from piop.errors import UsageError
from piop.fields import InputFunction
from piop.forms.pde import Input
from piop.forms.stream_plan import Index
from piop.forms.terms import argument_order, name_of, outermost_atoms


@final
class InputDerivatives:
    """The inputs, and derivatives of inputs, that expressions contain.

    Args:
        expressions: In coordinates, inputs, parameters and channels.
        inputs: The inputs of the problem (``name`` and ``of`` are read); a name that is not among
            them is that of a scalar.
        coordinates: Symbols of the D columns of a query.
        known: Symbols and names of channels that are given otherwise.

    Attributes:
        entries: Pairs (name, multi-index over the input's own coordinates), sorted.
        atoms: The SymPy atom of each.
    """

    def __init__(
        self,
        expressions: Sequence[Expr],
        inputs: Sequence[Input],
        coordinates: Sequence[Symbol],
        known: Sequence[Symbol | str] = (),
    ) -> None:
        self._coordinates = tuple(coordinates)
        self._of = {item.name: tuple(item.of) for item in inputs}
        given = {*coordinates, *known}
        found: dict[tuple[str, Index], Any] = {}
        for e in expressions:
            found |= {(str(symbol), ()): symbol for symbol in e.free_symbols - given}
            atoms = (a for a in outermost_atoms(e) if name_of(a) not in given)
            found |= {(name_of(atom), argument_order(atom)): atom for atom in atoms}
        self.entries = tuple(sorted(found))
        self.atoms = [found[entry] for entry in self.entries]

    def require(self, values: Sequence[Tensor]) -> None:
        """Make sure that there is a value of each, in order.

        Raises:
            UsageError: If not.
        """
        if isinstance(values, Sequence) and len(values) == len(self.entries):
            return
        names = ", ".join(f"{name} {order}" if any(order) else name for name, order in self.entries)
        given = f"{len(values)} values" if isinstance(values, Sequence) else type(values).__name__
        raise UsageError(
            f"input_values: got {given}; expected a value of each of ({names}): inputs of the "
            f"equations, and their derivatives. Pass residual.evaluate_inputs(functions, queries), "
            f"with functions such as problem.sample(4)"
        )

    @torch.no_grad()
    def at(self, functions: Mapping[str, InputFunction], queries: Tensor) -> tuple[Tensor, ...]:
        """Evaluate at ``queries [B or 1, N, D]``, each giving ``[B, N]`` without gradient.

        Raises:
            KeyError: If a function is missing.
        """
        out = []
        for name, entries in groupby(self.entries, itemgetter(0)):
            columns = queries.detach()[..., self._columns(name)]
            orders = [order for _, order in entries]
            for value in _find(functions, name).derivatives(columns, orders):
                shape = torch.broadcast_shapes(value.shape, queries.shape[:-1])
                out.append(value.to(queries.dtype).expand(shape))
        return tuple(out)

    @torch.no_grad()
    def on_grid(
        self, functions: Mapping[str, InputFunction], axes: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Evaluate on the tensor grid of ``axes`` ``[n_1], …, [n_D]``, without gradient.

        Returns:
            ``[B, n_1, …, n_D]`` for each, with 1 in place of n along the coordinates that the input
            does not depend on.

        Raises:
            KeyError: If a function is missing.
        """
        out = []
        for name, order in self.entries:
            columns = self._columns(name)
            found = _find(functions, name).on_grid([axes[c] for c in columns], order)
            wide = found[(..., *(None,) * (len(axes) - len(columns)))]
            places = [1 + c for c in columns]
            out.append(wide.movedim([*range(1, 1 + len(columns))], places).to(axes[0]))
        return tuple(out)

    def _columns(self, name: str) -> list[int]:
        """Find the columns of a query that an input depends on; a parameter depends on none."""
        names = [c.name for c in self._coordinates]
        return [names.index(n) for n in self._of.get(name, ())]


def _find(functions: Mapping[str, InputFunction], name: str) -> InputFunction:
    if name not in functions:
        raise KeyError(f"no input function {name!r}; there are {sorted(functions)}")
    return functions[name]


def along_axes(axes: Sequence[Tensor]) -> list[Tensor]:
    """Give each axis the shape ``[1, …, n, …, 1]`` in which it broadcasts over a batch of grids."""
    count = len(axes)
    return [a.reshape([1] * (i + 1) + [-1] + [1] * (count - 1 - i)) for i, a in enumerate(axes)]
