"""Sensors: their placement, the values observed there, and functions reconstructed from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.errors import NotSupportedError
from piop.fields import FunctionSamples, InputFunction, distinct_points, grid_axis, tensor_grid
from piop.sampling.collocation import box_points
from piop.sampling.distributions import Sampler, input_axes, input_sampler
from piop.sampling.random import Draws
from piop.spec.model import SensorPlacement

if TYPE_CHECKING:
    from piop.problem import Input, Problem


def place_sensors(
    problem: Problem,
    item: Input,
    draws: Draws,
    dtype: torch.dtype = torch.float64,
    points: Tensor | None = None,
) -> Tensor:
    """Place the sensors of an input as its ``place`` and ``sensor_shape`` say.

    A grid is the same for every sample, and leaves out the right end of periodic axes; the points
    of the solution are where they are; the other ways are drawn anew for every sample.

    Args:
        problem: Whose input it is.
        item: The input.
        draws: The randomness, B samples.
        dtype: Of what is returned.
        points: Those of the solution, where there is one ``[B, M, D]``.

    Returns:
        ``[B, M, d]``, physical coordinates; ``[B, 1, 0]`` for a scalar input.

    Raises:
        NotSupportedError: For sensors at the points of a solution where there is none.
    """
    axes = input_axes(problem, item)
    if not axes:
        return torch.zeros(draws.batch, 1, 0, dtype=dtype, device=draws.index.device)
    if item.place is SensorPlacement.POINTS:
        if points is None:
            raise NotSupportedError(
                f"inputs.{item.name}: is observed at the points of the solution, and functions of "
                "the distribution come without; give --data FILE"
            )
        names = [c.name for c in problem.coordinates]
        return points[..., [names.index(name) for name in item.of]].to(draws.index.device, dtype)
    if item.place is SensorPlacement.GRID:
        counted = zip(axes, item.sensor_shape, strict=True)
        ticks = [grid_axis(a.low, a.high, n, a.periodic) for a, n in counted]
        return tensor_grid(ticks).to(draws.index.device, dtype).expand(draws.batch, -1, -1)
    count = math.prod(item.sensor_shape)
    ends = [(axis.low, axis.high) for axis in axes]
    return box_points(draws, f"sensors/{item.name}", ends, count, item.place).to(dtype)


def observe(
    functions: Mapping[str, InputFunction],
    problem: Problem,
    draws: Draws,
    dtype: torch.dtype = torch.float64,
    points: Tensor | None = None,
) -> dict[str, FunctionSamples]:
    """Observe the visible inputs at sensors placed as the problem says.

    Args:
        functions: From :func:`piop.sampling.sample_inputs`.
        problem: Whose visible inputs to observe.
        draws: Sample numbers in the order of the functions' batch.
        dtype: Of points and values; a function evaluates in its own.
        points: Those of the solution, where there is one ``[B, M, D]``.

    Returns:
        Points ``[B, M, d]`` and values ``[B, M, 1]`` of each visible input, by name.

    Raises:
        NotSupportedError: For the distribution ``history``, of which there is no function, and for
            sensors at the points of a solution where there is none.
    """
    observed = {}
    for item in problem.visible_inputs:
        if item.name not in functions:
            raise NotSupportedError(
                f"inputs.{item.name}: a history is observed in data, which contain the solution; "
                "give --data FILE"
            )
        at = place_sensors(problem, item, draws, points=points)
        values = functions[item.name](distinct_points(at)).expand(len(at), -1)
        observed[item.name] = FunctionSamples(at, values[..., None]).to(dtype)
    return observed


def reconstruct(
    problem: Problem, item: Input, samples: FunctionSamples, sampler: Sampler | None = None
) -> InputFunction:
    """Interpolate an input from its values at sensors, any number at any points.

    The best linear interpolant under the distribution's mean and covariance, see
    :mod:`piop.sampling.kriging`; for ``piecewise_constant`` each cell takes the mean of its
    sensors, or that of the distribution where it has none; for ``from_file`` and smooth expressions
    a Matérn field is the substitute; where an expression is not smooth, the nearest sensor counts.
    Scalars take the mean of the observed values.

    Args:
        problem: Whose input it is.
        item: The input.
        samples: One channel; the points' dtype is that of the result, computed in float64.
        sampler: That of the input, where there is one already.

    Returns:
        B functions.

    Raises:
        DataError: Points or values are not finite.
        NotSupportedError: For the distribution ``history``.
    """
    points, values = samples.points.double(), samples.values[..., 0].double()
    sampler = sampler or input_sampler(problem, item)
    found = sampler.interpolate(points, values, samples.mask)
    return found.to(dtype=samples.values.dtype)


def group_by_sensors(inputs: Mapping[str, FunctionSamples]) -> dict[bytes, Tensor]:
    """Group samples whose sensors are the same: the numbers of those by what tells them apart."""
    groups: dict[bytes, list[int]] = {}
    batch = len(next(iter(inputs.values())).values)
    for row in range(batch):
        digest = blake2b()
        for samples in inputs.values():
            digest.update(repr(samples.points.shape).encode())
            digest.update(samples.points[row].double().cpu().numpy().tobytes())
            if samples.mask is not None:
                digest.update(samples.mask[row].cpu().numpy().tobytes())
        groups.setdefault(digest.digest(), []).append(row)
    return {key: torch.tensor(rows) for key, rows in groups.items()}
