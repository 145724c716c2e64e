"""Coordinates of a function spread over the axes of its array."""

from __future__ import annotations

import numpy as np

from piop.datasets.checks import numbers
from piop.datasets.raw import SAMPLE, RawFile, Variable
from piop.errors import DataError


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
