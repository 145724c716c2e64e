"""Read input functions seen at sensors: any number, any positions, several inputs, scalars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from piop.datasets.axes import coordinate_variable, named
from piop.datasets.checks import numbers
from piop.datasets.columns import samples_from_columns
from piop.datasets.formats import read_raw
from piop.datasets.raw import SAMPLE, RawFile, Variable
from piop.datasets.samples import function_samples
from piop.errors import DataError
from piop.fields import FunctionSamples

if TYPE_CHECKING:
    from piop.problem import Input, Problem


def read_sensors(path: str | Path, problem: Problem) -> dict[str, FunctionSamples]:
    """Read every visible input of a problem from NetCDF, npz or CSV.

    Variables (columns) are named as in the spec. ``u0`` of ``x`` is given on a grid, ``u0(sample,
    x)`` and ``x(x)``; at shared points, ``u0(sample, point)`` and ``x(point)``; or at points of its
    own per sample, ``x(sample, point)``, where NaN in both fills up shorter samples. Positions that
    belong to one input alone are called ``u0_x``. ``sample`` may be absent: one sample. In CSV a
    column ``sample`` tells samples apart, and empty cells mean that a row has no such value.

    Args:
        path: The file; its content tells the format.
        problem: Whose inputs to read.

    Returns:
        Input name → points ``[B, M, d]`` and values ``[B, M, 1]`` in float64.

    Raises:
        DataError: A missing variable, shapes that do not fit, NaN (with its sample), a sensor
            outside the domain (with its value and the range).
    """
    return sensors_of(read_raw(path), problem)


def sensors_of(raw: RawFile, problem: Problem) -> dict[str, FunctionSamples]:
    """Read every visible input from a file that is open already; see :func:`read_sensors`."""
    if raw.format == "csv":
        found = samples_from_columns(raw, problem)
    else:
        found = {i.name: _one(raw, problem, i) for i in problem.visible_inputs}
    return _same_batch(raw, found)


def _one(raw: RawFile, problem: Problem, item: Input) -> FunctionSamples:
    label = (
        f"an input of the spec, a function of {', '.join(item.of)}" if item.of else "a scalar input"
    )
    value = raw.need(item.name, label)
    where = {c: coordinate_variable(raw, item.name, c) for c in item.of}
    value, where = named(raw, item.name, value, where)
    points, values = scattered(raw, item.name, value, where)
    return function_samples(raw, problem, item, points, values)


def scattered(
    raw: RawFile, name: str, value: Variable, where: dict[str, Variable]
) -> tuple[np.ndarray, np.ndarray]:
    """Spread coordinates over the axes of a function, and make one list of points of the axes.

    Returns:
        Points ``[B, M, d]`` and values ``[B, M]`` in float64.
    """
    values, columns = spread(raw, name, value, where)
    batch, count = values.shape[0], int(np.prod(values.shape[1:], dtype=int))
    points = np.stack(columns, -1) if columns else np.zeros((*values.shape, 0))
    return points.reshape(batch, count, len(where)).copy(), values.reshape(batch, count).copy()


def spread(
    raw: RawFile, name: str, value: Variable, where: dict[str, Variable]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Spread coordinates over the axes of a function, samples first, without copies.

    Raises:
        DataError: If it has an axis that does not belong.
    """
    dimensions = value.dimensions or ()
    others = [d for d in dimensions if d != SAMPLE]
    sizes = dict(zip(dimensions, value.values.shape, strict=True))
    spanned = {d for v in where.values() for d in v.dimensions or ()}
    for extra in [d for d in others if d not in spanned]:
        given = f"the coordinates it depends on ({', '.join(where)})" if where else "a scalar input"
        message = f"dimension '{extra}' of length {sizes[extra]}, which does not belong to {given}"
        advice = f"the spec has one channel (many functions go along '{SAMPLE}')"
        raise DataError(f"{raw.path}: '{name}' has {message}; {advice}")
    order = [SAMPLE, *others]
    values = _spread(raw, name, name, value, order, sizes)
    return values, [_spread(raw, name, c, v, order, sizes) for c, v in where.items()]


def _spread(
    raw: RawFile, owner: str, name: str, value: Variable, order: list[str], sizes: dict[str, int]
) -> np.ndarray:
    array, dimensions = numbers(raw.path, name, value.values), list(value.dimensions or ())
    for d, length in zip(dimensions, array.shape, strict=True):
        if d not in sizes or sizes[d] != length:
            message = f"'{name}' has dimension '{d}' of length {length}, '{owner}' has"
            raise DataError(f"{raw.path}: {message} {sizes or 'none'}")
    present = [d for d in order if d in dimensions]
    array = array.transpose([dimensions.index(d) for d in present])
    for axis, d in enumerate(order):
        if d not in dimensions:
            array = np.expand_dims(array, axis)
    return np.broadcast_to(array, [sizes.get(d, 1) for d in order])


def _same_batch(raw: RawFile, found: dict[str, FunctionSamples]) -> dict[str, FunctionSamples]:
    counts = {name: len(s.values) for name, s in found.items()}
    batch = max(counts.values(), default=1)
    for name, count in counts.items():
        if count not in (1, batch):
            biggest = max(counts, key=lambda n: counts[n])
            message = f"'{name}' has {count} samples but '{biggest}' has {batch}"
            raise DataError(f"{raw.path}: {message}; expected the same number, or one for all")
    return {name: s if len(s.values) == batch else _repeat(s, batch) for name, s in found.items()}


def _repeat(samples: FunctionSamples, batch: int) -> FunctionSamples:
    mask = None if samples.mask is None else samples.mask.expand(batch, -1)
    return FunctionSamples(
        samples.points.expand(batch, -1, -1), samples.values.expand(batch, -1, -1), mask
    )
