"""Boundaries of shapes that differ from sample to sample."""

from __future__ import annotations

from typing import Any

import torch
from sympy import Expr

from piop.geometry import Outline, Radius
from piop.lowering import compile_expression
from piop.problem.atoms import argument_order, name_of, outermost_atoms
from piop.problem.shape import outline_of
from piop.reference.fem.pointwise import Array
from piop.reference.sources import Sources


def of_one_shape(problem: Any, sources: Sources) -> list[list[int]]:
    """Sort samples by their shapes.

    Args:
        problem: The ``Problem``, whose shape differs from sample to sample.
        sources: Inputs of B samples.

    Returns:
        Numbers of samples that have the same shape, for each that there is. Radii are not compared:
        where they depend on inputs every sample is by itself.
    """
    drawn = {i.symbol for i in problem.inputs}
    if problem.choice is None or any(r.has(*drawn) for r in problem.radii.values()):
        return [[sample] for sample in range(sources.batch)]
    found: dict[int, list[int]] = {}
    for sample, number in enumerate(chosen(problem, sources)):
        found.setdefault(number, []).append(sample)
    return list(found.values())


def chosen(problem: Any, sources: Sources) -> list[int]:
    """Number of the shape that each of B samples has, of those to choose from."""
    numbers = sources.function(problem.choice.by).on_grid(()).reshape(-1)
    return numbers.expand(sources.batch).round().long().tolist()


def own_outline(problem: Any, sources: Sources) -> Outline:
    """Trace the boundary of one sample's shape.

    Args:
        problem: The ``Problem``, whose shape differs from sample to sample.
        sources: Inputs of that sample, and of others with the same shape.

    Raises:
        GeometryError: If there is no such shape.
    """
    own = sources.take(torch.tensor([0]))
    number = 0 if problem.choice is None else chosen(problem, own)[0]
    radii = {key: _radius(problem, own, expr) for key, expr in problem.radii.items()}
    return outline_of(problem, radii, number)


def _radius(problem: Any, sources: Sources, expression: Expr) -> Radius:
    functions = outermost_atoms(expression)
    scalars = [i for i in problem.inputs if not i.of and i.symbol in expression.free_symbols]
    axes = [a.symbol for a in problem.angles]
    run = compile_expression(expression, [*functions, *(i.symbol for i in scalars), *axes])

    def along(angles: Array) -> Array:
        places = torch.from_numpy(angles).to(sources.device)
        values = [
            sources.function(name_of(a)).derivative(places[None, :, None], argument_order(a))[0]
            for a in functions
        ]
        values += [sources.function(i.name).on_grid(()).reshape(-1) for i in scalars]
        found = run([*values, *(places for _ in axes)])
        return found.to(torch.float64).cpu().numpy()

    return Radius.of(along)
