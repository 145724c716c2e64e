"""Read input functions at sensors: any number, any positions, several inputs, scalars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from piop.datasets.axes import (
    check_domain,
    check_finite,
    coordinate_variable,
    flattened_points,
    name_axes,
)
from piop.datasets.formats.detect import read_raw
from piop.datasets.formats.limits import too_large
from piop.datasets.lazy_arrays import SAMPLE, RawFile, some_of
from piop.datasets.solution import read_history
from piop.errors import DataError
from piop.fields import FunctionSamples

if TYPE_CHECKING:
    from piop.problem import Coordinate, Input, Problem


def function_samples(
    raw: RawFile, name: str, axes: Sequence[Coordinate], points: np.ndarray, values: np.ndarray
) -> FunctionSamples:
    """Check points ``[B, M, d]`` and values ``[B, M]``; NaN in both means no sensor."""
    if not len(values):
        raise DataError(f"{raw.path}: '{name}' holds no samples")
    missing = np.isnan(values) & np.isnan(points).any(-1)
    check_finite(raw.path, name, np.where(missing, 0.0, values))
    for i, axis in enumerate(axes):
        position = np.where(missing, axis.low, points[..., i])
        points[..., i] = check_domain(raw.path, name, axis, position)
    if missing.all(axis=1).any():
        sample = int(np.argmax(missing.all(axis=1)))
        raise DataError(f"{raw.path}: '{name}' has no sensors in sample {sample}")
    values = np.where(missing, 0.0, values)
    mask = torch.from_numpy(~missing) if missing.any() else None
    found = FunctionSamples(torch.from_numpy(points), torch.from_numpy(values)[..., None], mask)
    require_one_value(f"{raw.path}: '{name}'", [axis.name for axis in axes], found)
    return found


SAME = 1e-6  # relative difference of values that were stored in single precision


def require_one_value(label: str, names: Sequence[str], samples: FunctionSamples) -> None:
    """Refuse sensors of one sample at the same position with different values.

    Args:
        label: Whose sensors they are, for the message.
        names: The coordinates of a position.
        samples: The sensors, on the CPU.

    Raises:
        DataError: Naming the first such position and its values.
    """
    points, values, mask = samples.points, samples.values, samples.mask
    shared = mask is None and bool((points == points[:1]).all())
    for first in _with_repeated_positions(points[:1] if shared else points, mask):
        rows = slice(None) if shared else slice(first, first + 1)
        own = torch.arange(points.shape[1]) if mask is None else mask[first].nonzero().flatten()
        _, group = points[first, own].unique(dim=0, return_inverse=True)
        order = group.argsort(stable=True)
        same = group[order][1:] == group[order][:-1]
        left, right = own[order[:-1][same]], own[order[1:][same]]
        gap = (values[rows][:, left] - values[rows][:, right]).abs()
        differ = gap > SAME * values[rows].abs().amax((1, 2), keepdim=True)
        if differ.any():
            sample, pair, channel = differ.nonzero()[0].tolist()
            i, j = int(left[pair]), int(right[pair])
            one, two = values[rows][sample, [i, j], channel].tolist()
            position = zip(names, points[first, i].tolist(), strict=True)
            raise DataError(
                f"{label}: sensors {i} and {j} of sample {first + sample} are both at "
                f"{', '.join(f'{name} = {x:g}' for name, x in position)}, with the values "
                f"{one:.6g} and {two:.6g}; give one value for each position"
            )


def _with_repeated_positions(points: torch.Tensor, mask: torch.Tensor | None) -> list[int]:
    """Number the samples of ``points [B, M, d]`` in which positions may be repeated.

    Positions that are equal have equal sums of their coordinates with any weights; others rarely.
    """
    if points.shape[1] < 2 or not points.shape[2]:
        return []
    sums = torch.zeros(points.shape[:2], dtype=torch.float64)
    for axis, column in enumerate(points.unbind(-1)):
        sums += math.sqrt(2 + axis) * column
    ordered = sums if mask is None else sums.masked_fill(~mask, math.inf)
    ordered = ordered.sort(1).values
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & ordered[:, 1:].isfinite()
    return repeated.any(1).nonzero().flatten().tolist()


def _from_columns(raw: RawFile, problem: Problem, item: Input) -> FunctionSamples:
    if item.history is not None:
        message = f"'{item.name}' is a history, which a table does not hold"
        raise DataError(f"{raw.path}: {message}; give the solution on a grid, as NetCDF or npz")
    return column_samples(raw, item.name, [*map(problem.coordinate, item.of)])


def column_samples(raw: RawFile, name: str, axes: Sequence[Coordinate]) -> FunctionSamples:
    """Read one input from its column and those of its coordinates."""
    number = sample_numbers(raw)
    what = "an input of the spec" if axes else "a scalar of the spec, once in each sample"
    values = column(raw, name, what)
    here = ~np.isnan(values)
    if not here.any():
        raise DataError(f"{raw.path}: column '{name}' is empty")
    points = [column(raw, axis.name, f"where '{name}' is given") for axis in axes]
    for axis, position in zip(axes, points, strict=True):
        if np.isnan(position[here]).any():
            row = int(np.flatnonzero(here & np.isnan(position))[0])
            message = f"row {row + 1} has a value of '{name}' but none of '{axis.name}'"
            raise DataError(f"{raw.path}: {message}")
    if axes:
        where = np.stack(points, -1)[here]
        arrays = grouped_by_sample(raw, where, values[here], number[here], int(number.max()) + 1)
    else:
        arrays = _scalar(raw, name, values, number)
    return function_samples(raw, name, axes, *arrays)


def column(raw: RawFile, name: str, what: str) -> np.ndarray:
    """Return a column, or say which is missing and which there are."""
    if name not in raw.variables:
        raise DataError(f"{raw.path}: no column '{name}' ({what}); found: {some_of(raw.variables)}")
    return raw.variables[name].values


def sample_numbers(raw: RawFile) -> np.ndarray:
    """Number the samples 0, 1, … in the order of the values of a column ``sample``."""
    rows = len(next(iter(raw.variables.values())).values)
    if SAMPLE not in raw.variables:
        return np.zeros(rows, dtype=int)
    labels = raw.variables[SAMPLE].values
    if np.isnan(labels).any():
        row = int(np.argmax(np.isnan(labels))) + 1
        raise DataError(f"{raw.path}: row {row} has no sample number")
    return np.unique(labels, return_inverse=True)[1]


def grouped_by_sample(
    raw: RawFile, points: np.ndarray, values: np.ndarray, number: np.ndarray, batch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sort rows ``[R, d]``, ``[R]`` into samples ``[B, M, d]``, ``[B, M]``; NaN fills up.

    Raises:
        DataError: If the samples differ so much in length that nearly all would be NaN.
    """
    counts = np.bincount(number, minlength=batch)
    if too_large(batch * int(counts.max()) * (1 + points.shape[1]), points.nbytes):
        message = f"{batch} samples, and one of them has {counts.max()} of the {len(points)} rows"
        raise DataError(f"{raw.path}: {message}; expected samples of about the same length")
    order = np.argsort(number, kind="stable")
    slot = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    where = np.full((batch, int(counts.max()), points.shape[1]), np.nan)
    what = np.full(where.shape[:2], np.nan)
    where[number[order], slot] = points[order]
    what[number[order], slot] = values[order]
    return where, what


def _scalar(
    raw: RawFile, name: str, values: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    found = np.full((int(number.max()) + 1, 1), np.nan)
    for i, here in enumerate(found):
        given = np.unique(values[(number == i) & ~np.isnan(values)])
        if len(given) != 1:
            what = f"{len(given)} values" if len(given) else "no value"
            message = f"the scalar '{name}' has {what} in sample {i}; expected one"
            raise DataError(f"{raw.path}: {message}")
        here[0] = given[0]
    return np.zeros((len(found), 1, 0)), found


def read_sensors(path: str | Path, problem: Problem) -> dict[str, FunctionSamples]:
    """Read every visible input of a problem from NetCDF, npz or CSV.

    Variables (columns) are named as in the spec. ``u0`` of ``x`` is given on a grid, ``u0(sample,
    x)`` and ``x(x)``; at shared points, ``u0(sample, point)`` and ``x(point)``; or at points of its
    own per sample, ``x(sample, point)``, where NaN in both fills up shorter samples. Positions that
    belong to one input alone are called ``u0_x``. ``sample`` may be absent: one sample. In CSV a
    column ``sample`` tells samples apart, and empty cells mean that a row has no such value. A
    history is cut from the solution, which the file holds on a grid under its own name.

    Args:
        path: The file; its content tells the format.
        problem: Whose inputs to read.

    Returns:
        Input name → points ``[B, M, d]`` and values ``[B, M, c]`` in float64, c = 1 but for a
        history.

    Raises:
        DataError: A missing variable, shapes that do not fit, NaN (with its sample), a sensor
            outside the domain (with its value and the range).
    """
    return sensors_from(read_raw(path), problem)


def sensors_from(raw: RawFile, problem: Problem) -> dict[str, FunctionSamples]:
    """Read every visible input from a file that is open already; see :func:`read_sensors`."""
    read = _from_columns if raw.is_table else _from_arrays
    found = {item.name: read(raw, problem, item) for item in problem.visible_inputs}
    return equal_batches(raw.path, found)


def equal_batches(label: str, inputs: Mapping[str, FunctionSamples]) -> dict[str, FunctionSamples]:
    """Use an input that is given once for each sample of the others.

    Args:
        label: Where the inputs are from, for the message.
        inputs: Name → samples.

    Raises:
        DataError: For an input of another number of samples.
    """
    counts = {name: len(samples.values) for name, samples in inputs.items()}
    batch = max(counts.values(), default=1)
    for name, count in counts.items():
        if count not in (1, batch):
            biggest = max(counts, key=lambda n: counts[n])
            message = f"'{name}' has {count} samples but '{biggest}' has {batch}"
            raise DataError(f"{label}: {message}; expected the same number, or one for all")
    return {name: samples.repeat(batch) for name, samples in inputs.items()}


def _from_arrays(raw: RawFile, problem: Problem, item: Input) -> FunctionSamples:
    if item.history is not None:
        return read_history(raw, problem, item)
    function = f"an input of the spec, a function of {', '.join(item.of)}"
    value = raw.need(item.name, function if item.of else "a scalar input")
    where = {c: coordinate_variable(raw, item.name, c) for c in item.of}
    value, where = name_axes(raw, item.name, value, where)
    points, values = flattened_points(raw, item.name, value, where)
    axes = [*map(problem.coordinate, item.of)]
    return function_samples(raw, item.name, axes, points, values)
