"""The values of an unknown: on a grid, or scattered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import named
from piop.datasets.checks import check_axis, check_domain, check_finite, numbers
from piop.datasets.raw import SAMPLE, RawFile, Variable
from piop.datasets.spread import scattered, spread

if TYPE_CHECKING:
    from piop.problem import Problem


def channel_of(
    raw: RawFile, problem: Problem, name: str
) -> tuple[dict[str, Tensor], Tensor | None, Tensor]:
    """Read an unknown.

    Returns:
        Its axes and values ``[n, T, *grid]``, or no axes, its points ``[n, P, D]`` and values
        ``[n, P]``.

    Raises:
        DataError: As :func:`piop.datasets.read_dataset`.
    """
    names = [c.name for c in problem.coordinates]
    value = raw.need(name, f"an unknown of the spec, a function of {', '.join(names)}")
    where = {c: raw.need(c, f"a coordinate of '{name}'") for c in names}
    value, where = named(raw, name, value, where)
    if all(v.dimensions == (c,) for c, v in where.items()):
        return _grid(raw, problem, name, value, where)
    points, flat = scattered(raw, name, value, where)
    check_finite(raw.path, name, flat)
    for i, coordinate in enumerate(problem.coordinates):
        points[..., i] = check_domain(raw.path, name, coordinate, points[..., i])
    return {}, torch.from_numpy(points), torch.from_numpy(flat)


def _grid(
    raw: RawFile, problem: Problem, name: str, value: Variable, where: dict[str, Variable]
) -> tuple[dict[str, Tensor], None, Tensor]:
    axes = {
        c.name: torch.from_numpy(
            check_axis(raw.path, c, numbers(raw.path, c.name, where[c.name].values))
        )
        for c in problem.coordinates
    }
    spread(raw, name, value, where)  # refuses dimensions that do not belong
    array, dimensions = numbers(raw.path, name, value.values), list(value.dimensions or ())
    if SAMPLE not in dimensions:
        array, dimensions = array[None], [SAMPLE, *dimensions]
    array = np.ascontiguousarray(array.transpose([dimensions.index(d) for d in (SAMPLE, *where)]))
    check_finite(raw.path, name, array)
    return axes, None, torch.from_numpy(array)
