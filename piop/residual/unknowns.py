"""The unknowns, and derivatives of unknowns, in expressions."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from sympy import Expr, Function, Symbol

from piop.problem.atoms import name_of
from piop.problem.partitions import Index
from piop.problem.plan import derivative_index


def unknown_atoms(
    expressions: Sequence[Expr], coordinates: Sequence[Symbol], channels: Sequence[str]
) -> tuple[Expr, ...]:
    """List the unknowns and derivatives of unknowns in expressions, each once, in a fixed order."""
    unknowns = {Function(n, real=True)(*coordinates) for n in channels}
    found: dict[Expr, None] = {}
    for expression in expressions:
        derivatives = {d for d in expression.atoms(sympy.Derivative) if d.expr in unknowns}
        bare = expression.xreplace({d: sympy.Dummy() for d in derivatives})
        found |= dict.fromkeys(sorted(derivatives, key=str))
        found |= dict.fromkeys(sorted(bare.atoms(Function) & unknowns, key=str))
    return tuple(found)


def unknown_place(
    atom: Expr, coordinates: Sequence[Symbol], channels: Sequence[str]
) -> tuple[int, Index]:
    """Give the channel and the multi-index of such an atom."""
    name = name_of(atom)
    return tuple(channels).index(name), derivative_index(atom, coordinates)
