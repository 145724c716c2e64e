"""Values of expressions at points scattered over a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from sympy import Expr, Symbol
from torch import Tensor

from piop.forms.atoms import argument_order, name_of, outermost_atoms
from piop.lowering import compile_expressions
from piop.reference.sources import Sources

Array = np.ndarray[Any, np.dtype[Any]]
_POINTS = 20_000  # at which an input function is evaluated at once


@final
class PointEvaluator:
    """Expressions of coordinates, inputs, the outward normal and unknowns, compiled once.

    Args:
        problem: The ``Problem``.
        expressions: What to evaluate.
        unknowns: Atoms whose values are given at each evaluation, in this order.
    """

    def __init__(self, problem: Any, expressions: Sequence[Expr], unknowns: Sequence[Any]) -> None:
        self.space = tuple(c.name for c in problem.space)
        self.arguments = {i.name: tuple(i.of) for i in problem.inputs}
        held = dict.fromkeys(a for e in expressions for a in outermost_atoms(e))
        self.functions = [a for a in held if name_of(a) in self.arguments]
        free = {s for e in expressions for s in e.free_symbols}
        self.scalars = [i for i in problem.inputs if not i.of and i.symbol in free]
        normal = [Symbol(f"n{name}", real=True) for name in self.space]
        axes = [c.symbol for c in problem.space]
        atoms = [*self.functions, *(i.symbol for i in self.scalars), *axes, *normal, *unknowns]
        self.run = compile_expressions(expressions, atoms)
        self.count = len(expressions)

    def known(self, sources: Sources, points: Array, normals: Array | None = None) -> list[Tensor]:
        """Give everything but the unknowns.

        Args:
            sources: Inputs of B samples.
            points: ``[n, 2]``.
            normals: Outward unit vectors ``[n, 2]``, on a boundary.

        Returns:
            ``[B or 1, n or 1]`` each, in the order of the compiled atoms.
        """
        places = torch.from_numpy(np.ascontiguousarray(points))
        found = [self._input(sources, atom, places) for atom in self.functions]
        found += [sources.function(i.name).on_grid(()).reshape(-1, 1).cpu() for i in self.scalars]
        outward = torch.zeros_like(places) if normals is None else torch.from_numpy(normals)
        return [*found, *(v[None] for v in (*places.T, *outward.T))]

    def _input(self, sources: Sources, atom: Any, places: Tensor) -> Tensor:
        """An input or a derivative of it ``[B or 1, n]``."""
        name = name_of(atom)
        function, order = sources.function(name), argument_order(atom)
        own = places[:, [self.space.index(c) for c in self.arguments[name]]]
        parts = own.to(sources.device)[None].split(_POINTS, 1)
        return torch.cat([function.derivative(part, order) for part in parts], 1).cpu()

    def __call__(self, known: Sequence[Tensor], unknowns: Sequence[Tensor] = ()) -> list[Array]:
        """Evaluate at the points that ``known`` is of.

        Args:
            known: See :meth:`known`.
            unknowns: Values ``[B or 1, n]`` of the unknown atoms.

        Returns:
            ``[B or 1, n or 1]`` for each expression.
        """
        values = self.run([*known, *unknowns])
        like = known[-1]
        return [v.expand(1, 1).numpy() if v.ndim == 0 else v.to(like).numpy() for v in values]
