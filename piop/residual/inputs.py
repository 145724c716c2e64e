"""Input functions and unknowns in expressions, and their values at queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from sympy import Derivative, Expr, Function, Symbol
from sympy.core.function import AppliedUndef
from torch import Tensor

from piop.fields import InputFunction
from piop.forms.atoms import applied, name_of
from piop.forms.partitions import Index
from piop.forms.streams import derivative_index

InputTerm = tuple[str, Index]


def input_terms(
    expressions: Sequence[Expr], coordinates: Sequence[Symbol], channels: Sequence[str] = ()
) -> tuple[InputTerm, ...]:
    """List the inputs, and derivatives of inputs, in expressions.

    Returns:
        Pairs (name, multi-index over the input's own coordinates), sorted.
    """
    found: set[InputTerm] = set()
    for expression in expressions:
        derivatives = expression.atoms(Derivative)
        bare = expression.xreplace({d: sympy.Dummy() for d in derivatives})
        for atom in derivatives | bare.atoms(AppliedUndef):
            function = applied(atom)
            if function.func.__name__ not in channels:
                found.add((function.func.__name__, derivative_index(atom, function.args)))
        for symbol in bare.free_symbols - set(coordinates):
            if isinstance(symbol, Symbol) and not isinstance(symbol, sympy.Dummy):
                found.add((symbol.name, ()))
    return tuple(sorted(found))


def term_atoms(
    terms: Sequence[InputTerm], inputs: Sequence[Any], coordinates: Sequence[Symbol]
) -> list[Expr]:
    """Write the SymPy atom of each term."""
    return [
        _atom(name, order, _axes(name, inputs, coordinates), coordinates) for name, order in terms
    ]


def evaluate_terms(
    terms: Sequence[InputTerm],
    functions: Mapping[str, InputFunction],
    queries: Tensor,
    inputs: Sequence[Any],
    coordinates: Sequence[Symbol],
) -> tuple[Tensor, ...]:
    """Evaluate terms at ``queries [B or 1, N, D]``, each giving ``[B, N]`` without gradient.

    Raises:
        KeyError: If a function is missing.
    """
    out = []
    with torch.no_grad():
        for name, order in terms:
            if name not in functions:
                raise KeyError(f"no input function {name!r}; there are {sorted(functions)}")
            axes = _axes(name, inputs, coordinates)
            value = functions[name].derivative(queries.detach()[..., axes], order)
            places = torch.broadcast_shapes(value.shape, queries.shape[:-1])
            out.append(value.to(queries.dtype).expand(places))
    return tuple(out)


def evaluate_terms_on_grid(
    terms: Sequence[InputTerm],
    functions: Mapping[str, InputFunction],
    axes: Sequence[Tensor],
    inputs: Sequence[Any],
    coordinates: Sequence[Symbol],
) -> tuple[Tensor, ...]:
    """Evaluate terms on the tensor grid of ``axes`` ``[n_1], …, [n_D]``, without gradient.

    Returns:
        ``[B, n_1, …, n_D]`` for each, with 1 in place of n along the coordinates that the input
        does not depend on.

    Raises:
        KeyError: If a function is missing.
    """
    out = []
    with torch.no_grad():
        for name, order in terms:
            if name not in functions:
                raise KeyError(f"no input function {name!r}; there are {sorted(functions)}")
            places = _axes(name, inputs, coordinates)
            found = functions[name].on_grid([axes[p] for p in places], order)
            shape = [found.shape[0]] + [1] * len(axes)
            for position, place in enumerate(places):
                shape[1 + place] = found.shape[1 + position]
            in_order = sorted(range(len(places)), key=places.__getitem__)
            found = found.permute(0, *(1 + i for i in in_order)).reshape(shape)
            out.append(found.to(axes[0]))
    return tuple(out)


def _axes(name: str, inputs: Sequence[Any], coordinates: Sequence[Symbol]) -> list[int]:
    """Find the columns of a query that an input depends on; a parameter depends on none."""
    of = next((i.of for i in inputs if i.name == name), ())
    names = [c.name for c in coordinates]
    return [names.index(n) for n in of]


def _atom(name: str, order: Index, axes: Sequence[int], coordinates: Sequence[Symbol]) -> Expr:
    if not axes:
        return Symbol(name, real=True)
    symbols = [coordinates[a] for a in axes]
    counts = [(s, n) for s, n in zip(symbols, order, strict=True) if n]
    function = Function(name, real=True)(*symbols)
    return Derivative(function, *counts) if counts else function


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
