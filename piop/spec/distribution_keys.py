"""What the keys of a distribution may hold.

Each check raises ``ValueError`` with a text that names the key, the value and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

AxisBoundary = Literal["periodic", "neumann", "dirichlet"]
AXIS_BOUNDARIES: tuple[str, ...] = ("periodic", "neumann", "dirichlet")


def number(key: str, value: Any) -> float:
    """Refuse what is not a finite number.

    Raises:
        ValueError: Naming the key.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key}: {value!r} is not a finite number")
    return float(value)


def _whole(key: str, value: Any, low: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"{key}: {value!r} is not a whole number of at least {low}")
    return value


def _range(key: str, value: Any, check: Callable[[str, Any], Any] = number) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{key}: {value!r} is not a range [low, high]")
    low, high = (check(key, v) for v in value)
    if low > high:
        raise ValueError(f"{key}: [{low:g}, {high:g}] is not a range: low is above high")
    return low, high


def _cells(key: str, value: Any) -> int | tuple[int, ...]:
    if not isinstance(value, tuple | list):
        return _whole(key, value)
    if not value:
        raise ValueError(f"{key}: the list is empty; give one whole number, or one per axis")
    return tuple(_whole(key, cells) for cells in value)


def _boundary(key: str, value: Any) -> dict[str, str]:
    for axis, kind in (value or {}).items():
        if kind not in AXIS_BOUNDARIES:
            raise ValueError(f"{key}.{axis}: {kind!r} is not one of {', '.join(AXIS_BOUNDARIES)}")
    return dict(value or {})


def _boolean(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{key}: {value!r} is neither true nor false")
    return value


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        what = "the name of a file" if key == "path" else "a name"
        raise ValueError(f"{key}: {value!r} is not {what}")
    return value


def _levels(key: str, value: Any) -> tuple[float, ...]:
    levels = tuple(float(n) for n in value)
    if not all(0 <= n < math.inf for n in levels):
        raise ValueError(f"{key}: a noise level is a number from 0 on")
    return levels


CHECKS: Mapping[str, Callable[[str, Any], Any]] = MappingProxyType(
    dict.fromkeys(("scale", "tau", "alpha", "mean", "std", "low", "high", "value"), number)
    | dict.fromkeys(("terms", "modes", "times"), _whole)
    | dict.fromkeys(("amplitude", "phase"), _range)
    | {
        "wavenumber": partial(_range, check=partial(_whole, low=0)),
        "cells": _cells,
        "until": number,
        "boundary": _boundary,
        "zero_mean": _boolean,
        "path": _text,
        "variable": _text,
        "noise": _levels,
    }
)
"""Key of a distribution → what refuses a value or gives it in its own type."""
