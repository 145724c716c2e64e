"""Axes of arrays: names, coordinates, and checks of what was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from piop.datasets.lazy_arrays import POINT, SAMPLE, RawFile, Variable, is_number, is_position
from piop.errors import DataError

if TYPE_CHECKING:
    from piop.problem import Coordinate


SLACK = 1e-6  # of a coordinate's length: positions stored in single precision may miss an end


def numbers(path: str, name: str, values: np.ndarray) -> np.ndarray:
    """Convert to float64, refusing text, complex numbers and objects."""
    if not is_number(values):
        raise DataError(f"{path}: '{name}' holds {values.dtype}; expected real numbers")
    return values.astype(np.float64, copy=not values.flags.writeable)


def check_finite(path: str, name: str, values: np.ndarray) -> None:
    """Refuse NaN and infinity in ``[B, …]``, naming the first sample and its place."""
    bad = ~np.isfinite(values)
    if bad.any():
        sample, *place = map(int, np.argwhere(bad)[0])
        value = values[(sample, *place)]
        count = f" ({int(bad.sum())} such values in all)" if bad.sum() > 1 else ""
        where = f"sample {sample}" + (f", index {', '.join(map(str, place))}" if place else "")
        raise DataError(f"{path}: '{name}' is {value} in {where}{count}; expected finite numbers")


def outside(coordinate: Coordinate, positions: Any) -> Any:
    """Mark positions, of numpy or torch, beyond a coordinate's ends by more than rounding."""
    slack = SLACK * (coordinate.high - coordinate.low)
    inside = (positions >= coordinate.low - slack) & (positions <= coordinate.high + slack)
    return ~inside


def check_domain(path: str, name: str, coordinate: Coordinate, values: np.ndarray) -> np.ndarray:
    """Refuse positions outside a coordinate's range; bring those within rounding onto its ends.

    Args:
        path: The file, for the message.
        name: Whose positions they are.
        coordinate: Its range.
        values: Positions ``[B, …]``.

    Returns:
        Positions inside ``[low, high]``.
    """
    check_finite(path, f"{coordinate.name} of {name}", values)
    low, high = coordinate.low, coordinate.high
    beyond = outside(coordinate, values)
    if beyond.any():
        index = tuple(np.argwhere(beyond)[0])
        where = f" in sample {int(index[0])}" if values.ndim > 1 else ""
        count = f" ({int(beyond.sum())} such positions)" if beyond.sum() > 1 else ""
        found = f"{coordinate.name} = {values[index]:.6g}{where}"
        raise DataError(f"{path}: '{name}': {found} is outside [{low:.6g}, {high:.6g}]{count}")
    return np.clip(values, low, high)


def check_axis(path: str, coordinate: Coordinate, values: np.ndarray) -> np.ndarray:
    """Refuse an axis that is not one increasing list of positions inside the range."""
    name = coordinate.name
    if values.ndim != 1 or not values.size:
        raise DataError(f"{path}: axis '{name}' has shape {values.shape}; expected ({name},)")
    if np.any(np.diff(values) <= 0):
        i = int(np.argmax(np.diff(values) <= 0))
        found = f"{values[i]:.6g} is followed by {values[i + 1]:.6g}"
        raise DataError(f"{path}: axis '{name}' does not increase: {found}")
    return check_domain(path, name, coordinate, values)


def increasing(values: np.ndarray) -> bool:
    """Tell a list of positions: more than one number, each larger than the last."""
    real = values.ndim == 1 and len(values) > 1 and is_position(values)
    return bool(real and (np.diff(values.astype(np.float64)) > 0).all())


def coordinate_variable(raw: RawFile, owner: str, coordinate: str) -> Variable:
    """Find where a function is given along a coordinate: ``u0_x`` if there is one, else ``x``."""
    own = f"{owner}_{coordinate}"
    if own in raw.variables:
        return raw.variables[own]
    return raw.need(coordinate, f"the coordinate that '{owner}' depends on")


def name_axes(
    raw: RawFile, name: str, value: Variable, coordinates: dict[str, Variable]
) -> tuple[Variable, dict[str, Variable]]:
    """Give every axis of a function and of its coordinates a name.

    Args:
        raw: The file, for messages.
        name: The function, for messages.
        value: Its values.
        coordinates: Where it is given, in the order of the coordinates it depends on.

    Returns:
        The same arrays with dimensions.

    Raises:
        DataError: Shapes that fit no layout, or two.
    """
    if value.dimensions is not None:
        return value, coordinates
    shapes = {c: v.values.shape for c, v in coordinates.items()}
    layouts = _layouts(shapes, coordinates)
    if value.values.ndim and value.values.shape[-1] == 1 and not _fits(layouts, value.values.shape):
        value = Variable(value.values[..., 0])  # one channel, written as a last axis
    fitting = _fits(layouts, value.values.shape)
    if not fitting:
        given = ", ".join(f"{c} {s}" for c, s in shapes.items()) or "a scalar"
        message = f"'{name}' has shape {value.values.shape}, which does not fit {given}"
        if any(_fits(layouts, value.values.shape[:-1])):
            count = value.values.shape[-1]
            message = f"'{name}' has {count} channels (its last axis); the spec has one"
        raise DataError(f"{raw.path}: {message}; expected {_wanted(tuple(shapes))}")
    if len(fitting) > 1:
        message = f"'{name}' of shape {value.values.shape} may be a grid of one sample or scattered"
        advice = "add an axis of length 1 in front for one sample, or write NetCDF"
        raise DataError(f"{raw.path}: {message}; {advice}")
    dimensions, axes = fitting[0]
    renamed = {c: Variable(v.values, axes[c]) for c, v in coordinates.items()}
    return Variable(value.values, dimensions), renamed


Layout = tuple[tuple[str, ...], dict[str, tuple[str, ...]], tuple[int, ...]]


def _layouts(shapes: dict[str, tuple[int, ...]], coordinates: dict[str, Variable]) -> list[Layout]:
    """List what the values may look like: dimensions, those of each coordinate, sizes."""
    names = tuple(shapes)
    if not names:
        return [((), {}, ())]
    first = next(iter(shapes.values()))
    if all(len(s) == 1 for s in shapes.values()):
        grid = (names, {c: (c,) for c in names}, tuple(s[0] for s in shapes.values()))
        if len(names) == 1 or len(set(shapes.values())) > 1:
            return [grid]
        return [grid, ((POINT,), dict.fromkeys(names, (POINT,)), first)]
    if any(s != first for s in shapes.values()):
        return []
    if len(first) == 2 and not _is_mesh([v.values for v in coordinates.values()]):
        axes = (SAMPLE, POINT)
        return [((POINT,), dict.fromkeys(names, axes), first[1:])]
    if len(first) == len(names):
        axes = tuple(f"axis{i}" for i in range(len(first)))
        return [(axes, dict.fromkeys(names, axes), first)]
    return []


def _is_mesh(values: Sequence[np.ndarray]) -> bool:
    """Tell ``meshgrid`` arrays (each changes along one axis) from points scattered per sample."""
    return len(values) == 2 and any(
        bool(np.all(a == a[:, :1]) and np.all(b == b[:1, :])) for a, b in (values, values[::-1])
    )


def _fits(
    layouts: list[Layout], shape: tuple[int, ...]
) -> list[tuple[tuple[str, ...], dict[str, tuple[str, ...]]]]:
    """Keep the layouts of which ``shape`` is one sample or several."""
    found = []
    for dimensions, axes, sizes in layouts:
        per_sample = any(SAMPLE in d for d in axes.values())
        if shape == sizes and not per_sample:
            found.append((dimensions, axes))
        if len(shape) == len(sizes) + 1 and shape[1:] == sizes:
            found.append(((SAMPLE, *dimensions), axes))
    return found


def _wanted(names: tuple[str, ...]) -> str:
    if not names:
        return "one number per sample: shape () or (samples,)"
    grid = ", ".join(f"len({n})" for n in names)
    return f"shape ({grid}) or (samples, {grid}), or scattered (samples, points)"


def flattened_points(
    raw: RawFile, name: str, value: Variable, where: dict[str, Variable]
) -> tuple[np.ndarray, np.ndarray]:
    """Spread coordinates over the axes of a function, and make one list of points of the axes.

    Returns:
        Points ``[B, M, d]`` and values ``[B, M]`` in float64.
    """
    values, columns = broadcast(raw, name, value, where)
    batch, count = values.shape[0], int(np.prod(values.shape[1:], dtype=int))
    points = np.stack(columns, -1) if columns else np.zeros((*values.shape, 0))
    return points.reshape(batch, count, len(where)).copy(), values.reshape(batch, count).copy()


def broadcast(
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
    values = _broadcast_one(raw, name, name, value, order, sizes)
    return values, [_broadcast_one(raw, name, c, v, order, sizes) for c, v in where.items()]


def _broadcast_one(
    raw: RawFile, owner: str, name: str, value: Variable, order: list[str], sizes: dict[str, int]
) -> np.ndarray:
    array, dimensions = numbers(raw.path, name, value.values), list(value.dimensions or ())
    for d, length in zip(dimensions, array.shape, strict=True):
        if d not in sizes or sizes[d] != length:
            message = f"'{name}' has dimension '{d}' of length {length}, '{owner}' has"
            raise DataError(f"{raw.path}: {message} {sizes or 'none'}")
    present = [d for d in order if d in dimensions]
    array = array.transpose([dimensions.index(d) for d in present])
    array = array[tuple(slice(None) if d in dimensions else None for d in order)]
    return np.broadcast_to(array, [sizes.get(d, 1) for d in order])
