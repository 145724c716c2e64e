"""What numbers read from a file must satisfy: finite, inside the domain, increasing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from piop.errors import DataError

if TYPE_CHECKING:
    from piop.problem import Coordinate


SLACK = 1e-6  # of a coordinate's length: positions stored in single precision may miss an end


def numbers(path: str, name: str, values: np.ndarray) -> np.ndarray:
    """Convert to float64, refusing text, complex numbers and objects."""
    if values.dtype.kind not in "fiub":
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
        message = (
            f"{coordinate.name} = {values[index]:.6g}{where} is outside [{low:.6g}, {high:.6g}]"
        )
        raise DataError(f"{path}: '{name}': {message}{count}")
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
    real = values.ndim == 1 and len(values) > 1 and values.dtype.kind in "fiu"
    return bool(real and (np.diff(values.astype(np.float64)) > 0).all())
