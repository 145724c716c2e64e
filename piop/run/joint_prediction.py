"""Evaluate an operator that answers all queries together: on a grid, and from there elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models import Backbone
from piop.models.core.interpolation import interpolate_grid
from piop.problem import Problem
from piop.training.batches.data import seen_functions
from piop.training.batches.input_grid import is_even_grid, on_lattices
from piop.training.batches.training_grid import lay
from piop.training.setup import Model

PLACES_AT_ONCE = 2**16
"""Places of a grid, of all functions, that are answered together, unless one function has more."""
VALUES_AT_ONCE = 2**24
"""Products of a query and a place of the grid that are held at once to interpolate."""


def predict_jointly(
    problem: Problem, model: Model, inputs: Mapping[str, FunctionSamples], queries: Queries
) -> Tensor:
    """Evaluate the operator, a few functions at a time and never a part of the queries.

    A tensor grid is answered as such where it is even and no coarser than the grid of training;
    else the operator answers there, and its values are interpolate_grid, as they are for points. A
    network that was trained on scattered data is given the points themselves.

    Args:
        problem: The problem.
        model: The operator and its lift.
        inputs: Sensors of B functions.
        queries: Where.

    Returns:
        ``[B, N, C]`` float64 on the CPU.

    Raises:
        DataError: If it takes an input with jumps by a grid of sensors, and they lie on none.
    """
    backbone = model.operator.backbone
    assert isinstance(backbone, Backbone)  # noqa: S101 - others answer point by point
    _require_even(model, backbone, inputs)
    points = None if queries.points is None else queries.points.double()
    batch = max([len(s.values) for s in inputs.values()] + [1 if points is None else len(points)])
    each = math.prod(queries.shape if model.home is None else map(len, model.home))
    together = max(1, min(batch, PLACES_AT_ONCE // each))
    found = []
    for start in range(0, batch, together):
        part = slice(start, min(start + together, batch))
        seen = {name: part_of(s, part, model.operator.scale) for name, s in inputs.items()}
        if points is None:
            axes = [axis.double() for axis in (queries.axes or {}).values()]
            values = _on_axes(problem, model, backbone, seen, axes)
        else:
            own = points[part] if len(points) > 1 else points
            values = _at_points(problem, model, backbone, seen, own)
        found.append(values.double().cpu())
    return torch.cat([v.expand(batch, -1, -1) if len(found) == 1 else v for v in found])


def _on_axes(
    problem: Problem,
    model: Model,
    backbone: Backbone,
    given: Mapping[str, FunctionSamples],
    axes: list[Tensor],
) -> Tensor:
    """Answer on a tensor grid ``[B, N, C]``."""
    like = model.operator.scale
    functions = seen_functions(problem, model.known, model.grids, given)
    seen = on_lattices(model.grids, functions, given)
    layout = lay(backbone, model.home or axes, axes).to(like)
    lift = None
    if model.known is not None:
        rows = model.known.on_grid(functions, [axis.to(like) for axis in axes])
        lift = rows.expand(len(rows), *map(len, axes), -1).flatten(1, -2)
    return model.operator.laid(seen, layout, lift)


def _at_points(
    problem: Problem,
    model: Model,
    backbone: Backbone,
    given: Mapping[str, FunctionSamples],
    points: Tensor,
) -> Tensor:
    """Answer at ``points [B or 1, N, D]``."""
    like = model.operator.scale
    functions = seen_functions(problem, model.known, model.grids, given)
    seen = on_lattices(model.grids, functions, given)
    at = points.to(like)
    lift = None if model.known is None else model.known(functions, at)
    if model.home is None:
        return model.operator(seen, at, lift)
    home = [axis.to(like) for axis in model.home]
    values = model.operator.increment(seen, home)
    size = max(1, VALUES_AT_ONCE // values[..., 0].numel())
    axes = backbone.signature.coordinates
    pieces = [interpolate_grid(values, model.home, axes, p) for p in points.split(size, 1)]
    return torch.cat(pieces, 1) + (model.operator.mean if lift is None else lift)


def _require_even(model: Model, backbone: Backbone, inputs: Mapping[str, FunctionSamples]) -> None:
    for entry in backbone.signature.functions:
        rough = entry.gridded and not entry.smooth and entry.name not in model.grids
        if rough and not is_even_grid(inputs[entry.name]):
            raise DataError(
                f"input {entry.name!r}: this operator was trained on sensors on an even grid, and "
                f"reads jumps off no others; give values on a grid"
            )


def part_of(samples: FunctionSamples, part: slice, like: Tensor) -> FunctionSamples:
    """Take some functions, in the device and precision of a tensor."""
    mask = None if samples.mask is None else samples.mask[part]
    return FunctionSamples(samples.points[part], samples.values[part], mask).to(like)
