"""Input functions interpolated from the values that a user gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import SLACK
from piop.errors import DataError
from piop.fields import FunctionSamples, InputFunction
from piop.problem import Coordinate, Input, Problem
from piop.run.arguments import InputData, given_functions, read_inputs
from piop.sampling import reconstruct
from piop.sampling.distributions import input_axes
from piop.sampling.files import interpolate

MISS = 1e-2
"""Relative distance between values and their interpolant that is let pass."""


def read_functions(problem: Problem, given: InputData) -> dict[str, InputFunction]:
    """Make functions of the inputs of a problem, which can be evaluated anywhere.

    Values on a grid that spans the domain are interpolated between its points (waves along periodic
    axes, cubic splines along others); values elsewhere, and rough inputs, under the distribution of
    the input.

    Args:
        problem: Whose inputs they are.
        given: As for :func:`read_inputs`, or functions by name, hidden ones included.

    Raises:
        DataError: As for :func:`read_inputs`, or where the interpolant does not meet the values.
        NotSupportedError: For a history.
    """
    if functions := given_functions(given):
        return functions
    items = {item.name: item for item in problem.visible_inputs}
    samples = read_inputs(problem, given)
    return {name: _interpolate(problem, items[name], own) for name, own in samples.items()}


def _interpolate(problem: Problem, item: Input, samples: FunctionSamples) -> InputFunction:
    axes = input_axes(problem, item)
    grid = _tensor_grid(axes, samples) if item.smooth and axes else None
    if grid is not None:
        with suppress(DataError):  # a periodic axis that is not evenly spaced
            return interpolate(f"input {item.name!r}", *grid, axes)
    found = reconstruct(problem, item, samples)
    values = samples.values[..., 0]
    real = torch.ones_like(values) if samples.mask is None else samples.mask.to(values)
    miss = ((found(samples.points) - values) * real).norm(dim=1)
    share = miss / (values * real).norm(dim=1).clamp(min=1e-300)
    if share.max() > MISS:
        raise DataError(
            f"input {item.name!r}: the values of sample {int(share.argmax())} do not follow its "
            f"distribution, whose interpolant misses them by {100 * share.max():.0f} %; give "
            "values on an even grid over the domain"
        )
    return found


def _tensor_grid(
    axes: Sequence[Coordinate], samples: FunctionSamples
) -> tuple[Tensor, list[np.ndarray]] | None:
    """Values ``[B, n1, …, nd]`` and positions where sensors are a grid that spans the domain."""
    points = samples.points
    if samples.mask is not None or (points != points[:1]).any():
        return None
    found = [column.unique(return_inverse=True) for column in points[0].unbind(-1)]
    ticks, sizes = [t for t, _ in found], [len(t) for t, _ in found]
    place = torch.zeros(points.shape[1], dtype=torch.long)
    for size, (_, index) in zip(sizes, found, strict=True):
        place = place * size + index
    if math.prod(sizes) != len(place) or len(place.unique()) != len(place):
        return None
    for axis, own in zip(axes, ticks, strict=True):
        slack = SLACK * axis.length
        if not axis.periodic and (own[0] > axis.low + slack or own[-1] < axis.high - slack):
            return None
    values = torch.empty_like(samples.values[..., 0])
    values[:, place] = samples.values[..., 0]
    return values.reshape(-1, *sizes), [own.numpy() for own in ticks]
