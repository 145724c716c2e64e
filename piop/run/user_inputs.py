"""Input functions as users give them: arrays, points and values, xarray; and their interpolants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from piop.datasets import Dataset, Queries
from piop.datasets.axes import SLACK, outside
from piop.datasets.sensors import equal_batches, require_one_value
from piop.errors import DataError, UsageError, did_you_mean, excerpt
from piop.fields import FunctionSamples, InputFunction, grid_axis, tensor_grid
from piop.problem import Coordinate, Input, Problem
from piop.problem.inputs import channels_of, history_of, query_coordinates
from piop.run.real_arrays import to_numbers, to_truth
from piop.sampling import Draws, observe, reconstruct
from piop.sampling.distributions import input_axes
from piop.sampling.stored_functions import interpolate

if TYPE_CHECKING:
    import xarray as xr

InputData: TypeAlias = "Mapping[str, Any] | xr.Dataset | Dataset"


def read_inputs(problem: Problem, given: InputData | None) -> dict[str, FunctionSamples]:
    """Bring the visible inputs of a problem into one form, float64 on the CPU.

    Args:
        problem: Whose inputs they are.
        given: For each visible input its samples: :class:`FunctionSamples`; a pair (points
            ``[M, d]`` or ``[B, M, d]``, values ``[M]`` or ``[B, M]``), points of one coordinate
            also ``[M]`` or ``[B, M]``; values alone on an even grid over the domain, the right end
            of periodic axes left out, ``[n1, …, nd]`` or ``[B, n1, …, nd]``; a number or ``[B]``
            for a scalar. Values of functions may have a last axis of one. Or a data set of xarray
            with these names over the dimensions ``sample`` and the coordinates. A history has its
            values at each time last, ``[…, c]``. Or functions by name, as ``Problem.sample`` gives
            them, observed at the sensors of the spec.

    Raises:
        DataError: For names missing or unknown, shapes that do not fit, NaN, or sensors outside
            the domain.
    """
    given = _by_name(given)
    if functions := _given_functions(given):
        batch = max(function.batch for function in functions.values())
        for name, function in functions.items():
            if function.batch not in (1, batch):
                raise DataError(
                    f"inputs: {name!r} has {function.batch} samples, others have {batch}; expected "
                    "the same number, or one for all"
                )
        return observe(functions, problem, Draws(0, 0, torch.arange(batch)))
    import xarray as xr  # slow to import, and training does not need it

    items = {item.name: item for item in problem.visible_inputs}
    names = list(map(str, given))
    missing = [name for name in items if name not in names]
    if missing:
        raise DataError(f"input {missing[0]!r} is missing; given: {', '.join(names) or 'none'}")
    for name in names:
        if name not in items and not isinstance(given, xr.Dataset):
            hint = did_you_mean(name, items) or f"One of {', '.join(items)}."
            raise DataError(f"{name!r} is not an input of {problem.name}. {hint}")
    found = {name: _read(problem, item, given[name]) for name, item in items.items()}
    return equal_batches("inputs", found)


def _by_name(given: Any) -> Mapping[Any, Any]:
    if given is None:
        return {}
    if isinstance(given, Dataset):
        return given.inputs
    if not isinstance(given, Mapping):
        raise DataError(
            f"inputs: {excerpt(given)} does not name its inputs; give a mapping of the name of "
            "each to its values, or a data set. Files are read by piop.read_sensors"
        )
    return given


def _given_functions(given: Mapping[Any, Any]) -> dict[str, InputFunction]:
    """The functions that were given in place of values; none where values were."""
    found = {n: value for n, value in given.items() if isinstance(value, InputFunction)}
    if found and len(found) < len(given):
        raise DataError(
            f"inputs {', '.join(found)} are functions, others are values; give all in one way"
        )
    return found


def _read(problem: Problem, item: Input, value: Any) -> FunctionSamples:
    import xarray as xr

    mask, channels = None, channels_of(problem, item)
    match value:
        case FunctionSamples(points, values, mask):
            points, values = (to_numbers(f"input {item.name!r}", part) for part in (points, values))
        case xr.DataArray():
            points, values = _from_xarray(item, value)
        case tuple():
            points, values = _pair(item, value)
        case _:
            numbers = to_numbers(f"input {item.name!r}", value)
            points, values = _on_grid(problem, item, numbers, channels > 1)
    points, values = _shaped(item, points, values, channels)
    samples = FunctionSamples(points, values, _shaped_mask(item, values, mask))
    _check(problem, item, samples)
    return samples


def _shaped_mask(item: Input, values: Tensor, mask: Any) -> Tensor | None:
    """Check the mask ``[B, M]`` of values ``[B, M, c]``."""
    if mask is None:
        return None
    label = f"input {item.name!r}: its mask"
    found = to_truth(label, mask)
    if found.shape != values.shape[:2]:
        expected = list(values.shape[:2])
        raise DataError(f"{label} has shape {list(found.shape)}; expected truth values {expected}")
    if (empty := ~found.any(1)).any():
        raise DataError(f"{label} leaves sample {int(empty.int().argmax())} no sensor")
    return found


def _pair(item: Input, value: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    if len(value) != 2:
        message = f"give a pair (points, values), got {len(value)} parts"
        raise DataError(f"input {item.name!r}: {message}")
    points, values = (to_numbers(f"input {item.name!r}", part) for part in value)
    one_sample = points.ndim == 1 or points.shape[1:] == (len(item.of),)
    if one_sample and points.ndim and values.shape == (len(points), 1):
        values = values[:, 0]
    alike = points.ndim == values.ndim == 2 and points.shape[-1] == values.shape[-1]
    if len(item.of) == 1 and (points.ndim == 1 or alike):
        points = points[..., None]
    return points, values


def _from_xarray(item: Input, value: xr.DataArray) -> tuple[Tensor, Tensor]:
    """Values along the coordinates of the input, or along ``point``."""
    label, batch = f"input {item.name!r}", [d for d in value.dims if d == "sample"]
    along = ("point",) if "point" in value.dims else item.of
    unknown = set(value.dims) - {*along, "sample"}
    if along == item.of and (unknown or not set(along) <= set(value.dims) & set(value.coords)):
        raise DataError(
            f"{label}: has dimensions {', '.join(map(str, value.dims))}; expected "
            f"{', '.join(('sample', *item.of))} with coordinates"
        )
    value = value.transpose(*batch, *along)
    values = to_numbers(label, value.values)
    columns = [to_numbers(label, value[name].values) for name in item.of]
    if along != item.of:
        return torch.stack(torch.broadcast_tensors(*columns), -1), values
    if not columns:
        return torch.zeros(1, 0), values[..., None]
    return tensor_grid(columns), values.flatten(len(batch))


def _on_grid(problem: Problem, item: Input, values: Tensor, many: bool) -> tuple[Tensor, Tensor]:
    """Values alone, many in each point or one: on the even grid with as many points."""
    d = len(item.of)
    _require_some(item, values)
    if many and values.ndim in (d + 1, d + 2):
        batch = values.shape[: values.ndim - d - 1]
        points, _ = _on_grid(problem, item, values[..., 0], False)
        return points, values.reshape(*batch, -1, values.shape[-1])
    if d == 0:
        return torch.zeros(1, 0), values.reshape(-1, 1)
    if values.ndim > d and values.shape[-1] == 1:  # one channel, last
        values = values[..., 0]
    if values.ndim not in (d, d + 1):
        raise DataError(
            f"input {item.name!r}: values on a grid have {d} dimensions, or {d + 1} with samples "
            f"first; got shape {tuple(values.shape)}. For other places give (points, values)"
        )
    axes = zip(map(problem.coordinate, item.of), values.shape[-d:], strict=True)
    points = tensor_grid([grid_axis(a.low, a.high, n, a.periodic) for a, n in axes])
    return points, values.flatten(values.ndim - d)


def _shaped(item: Input, points: Tensor, values: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Bring points to ``[B, M, d]`` and values to ``[B, M, c]``."""
    _require_some(item, values)
    many = channels > 1
    if not points.ndim or not values.ndim:
        raise DataError(
            f"input {item.name!r}: points and values are arrays, got shapes {list(points.shape)} "
            f"and {list(values.shape)}; expected [sensors, {len(item.of)}] and [sensors]"
        )
    if values.ndim < (3 if many else 2):
        values = values[None]
    if values.ndim == 2:
        values = values[..., None]
    if values.shape[-1] != channels:
        what = f"a history of {channels} values" if many else "one function"
        raise DataError(
            f"input {item.name!r}: has {values.shape[-1]} channels, it is {what}; its values "
            f"have shape [samples, sensors{f', {channels}' * many}]"
        )
    points = points[None] if points.ndim == 2 else points
    points = points.expand(len(values), -1, -1) if len(points) == 1 and points.ndim == 3 else points
    if points.ndim != 3 or points.shape[:2] != values.shape[:2] or points.shape[-1] != len(item.of):
        raise DataError(
            f"input {item.name!r}: points {list(points.shape)} do not fit values "
            f"{list(values.shape)}; expected [samples, sensors, {len(item.of)}] and "
            f"[samples, sensors]"
        )
    return points, values


def _require_some(item: Input, values: Tensor) -> None:
    """Refuse an input without samples, or without sensors."""
    if not values.numel():
        raise DataError(
            f"input {item.name!r}: has no values, but the shape {list(values.shape)}; give at "
            "least one sensor of one sample"
        )


def _check(problem: Problem, item: Input, samples: FunctionSamples) -> None:
    values = samples.values
    real = torch.ones(values.shape[:2]).bool() if samples.mask is None else samples.mask.cpu()
    bad = ~values.isfinite().all(-1) & real
    if bad.any():
        sample, sensor = bad.nonzero()[0].tolist()
        found = values[sample, sensor]
        raise DataError(
            f"input {item.name!r}: the value of sensor {sensor} of sample {sample} is "
            f"{found[~found.isfinite()][0].item()}; leave such sensors out"
        )
    for column, name in enumerate(item.of):
        axis = problem.coordinate(name)
        position = samples.points[..., column]
        beyond = outside(axis, position) & real
        if beyond.any():
            sample, sensor = beyond.nonzero()[0].tolist()
            raise DataError(
                f"input {item.name!r}: sensor {sensor} of sample {sample} is at {name} = "
                f"{position[sample, sensor].item():g}, outside [{axis.low:g}, {axis.high:g}]"
            )
    require_one_value(f"input {item.name!r}", item.of, samples)


def read_at(problem: Problem, at: Any, end: bool = False) -> Queries:
    """Convert the points or grid of a prediction to queries.

    Args:
        problem: The problem.
        end: Whether the last time alone is meant where no times are given.
        at: Coordinate name → positions, for a grid (one number for one position); an array of
            points ``[N, D]`` or ``[B, N, D]``; :class:`Queries`; or None for ``save``.

    Raises:
        UsageError: For a coordinate missing or unknown.
        DataError: For points outside the domain, or of the wrong shape.
    """
    names = [c.name for c in problem.coordinates]
    match at:
        case None:
            return save_grid(problem, end=end)
        case Queries(axes, points):
            at = points if axes is None else axes
    if isinstance(at, Mapping):
        if set(at) != set(names):
            given = ", ".join(map(str, at)) or "nothing"
            raise UsageError(f"at: has {given}; give each of {', '.join(names)}")
        axes = {name: torch.atleast_1d(to_numbers("at", at[name])) for name in names}
        for name, positions in axes.items():
            if positions.ndim > 1 or not len(positions):
                shape = list(positions.shape)
                raise DataError(f"at: {name} has shape {shape}; expected a list of positions")
            _check_positions(problem, name, positions)
        return Queries(axes=axes)
    points = to_numbers("at", at)
    points = points[None] if points.ndim == 2 else points
    if points.ndim != 3 or points.shape[-1] != len(names):
        raise DataError(
            f"at: points have shape {list(points.shape)}; expected [points, {len(names)}] with the "
            f"columns {', '.join(names)}"
        )
    if not points.numel():
        raise DataError(f"at: holds no points; its shape is {list(points.shape)}")
    for column, name in enumerate(names):
        _check_positions(problem, name, points[..., column])
    return Queries(points=points)


def save_grid(
    problem: Problem, limits: tuple[int, int] | None = None, end: bool = False
) -> Queries:
    """Lay the spec's ``save`` grid, or one with at most so many times and points per space axis.

    Times include both ends; periodic axes leave the right end out. An operator that sees the past
    of the solution is asked for times after that.

    Args:
        problem: The problem.
        limits: Times, and points per space axis, at most.
        end: Take the last time alone, for operators that know no other.
    """
    counts = list(problem.save)
    if limits is not None:
        caps = [limits[1 if problem.time is None or i else 0] for i in range(len(counts))]
        counts = [min(n, cap) for n, cap in zip(counts, caps, strict=True)]
    axes = {}
    for coordinate, count in zip(problem.coordinates, counts, strict=True):
        ends = torch.linspace(
            coordinate.low, coordinate.high, count + coordinate.periodic, dtype=torch.float64
        )
        axes[coordinate.name] = ends[-1:] if end and coordinate is problem.time else ends[:count]
    if problem.time is not None and history_of(problem) is not None:
        name, time = problem.time.name, query_coordinates(problem)[0]
        axes[name] = axes[name][axes[name] > time.low + 1e-9 * time.length]
    return Queries(axes=axes)


def _check_positions(problem: Problem, name: str, positions: Tensor) -> None:
    axis = next(c for c in query_coordinates(problem) if c.name == name)
    bad = outside(axis, positions)
    if bad.any():
        raise DataError(
            f"at: {name} = {positions[bad][0].item():g} is outside [{axis.low:g}, {axis.high:g}]"
        )


MISS = 1e-2
"""Relative distance between values and their interpolant that is let pass."""


def read_functions(problem: Problem, given: InputData | None) -> dict[str, InputFunction]:
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
    given = _by_name(given)
    if functions := _given_functions(given):
        return functions
    found = read_inputs(problem, given)
    return {i.name: interpolate_input(problem, i, found[i.name]) for i in problem.visible_inputs}


def interpolate_input(problem: Problem, item: Input, samples: FunctionSamples) -> InputFunction:
    """Make functions of the sensors of one input; see :func:`read_functions`.

    Raises:
        DataError: Where the interpolant does not meet the values.
        NotSupportedError: For a history.
    """
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
