"""Checks of arguments of the Python interface: whole numbers, truth values, paths, mappings."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from piop.errors import UsageError, check_path, excerpt

MOST = 10**9
"""Largest number of steps or samples."""
LARGEST_SEED = 2**32 - 1
MOST_THREADS = 1024


def whole_number(name: str, value: Any, low: int = 1, high: int = MOST) -> int:
    """Return a whole number, of Python, NumPy or torch, as an int.

    Args:
        name: Name of the argument.
        value: Its value.
        low: The smallest number allowed.
        high: The largest number allowed.

    Raises:
        UsageError: If it is no whole number, such as ``1.5``, ``True`` or text, or out of range.

    Example:
        >>> whole_number("steps", 3)
        3
    """
    if is_flag(value):
        found = None
    else:
        try:
            found = operator.index(value)
        except (TypeError, ValueError, RuntimeError):  # tensors of several numbers, or of none
            found = None
    if found is None:
        message = f"is not a whole number; give one from {low} to {high}"
        raise UsageError(f"{name}: {excerpt(value)} {message}")
    if not low <= found <= high:
        small = "above zero" if low == 1 and found < 1 else f"in [{low}, {high}]"
        raise UsageError(f"{name}: {excerpt(found)} is not {small}")
    return found


def real_number(name: str, value: Any) -> float:
    """Return a finite real number, of Python, NumPy or torch, as a float.

    Raises:
        UsageError: If it is none, such as text or NaN.

    Example:
        >>> real_number("tolerance", 1e-3)
        0.001
    """
    try:
        found = math.nan if is_flag(value) or isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise UsageError(f"{name}: {excerpt(value)} is not a finite number")
    return found


def seed_number(value: Any) -> int:
    """Return a seed as an int.

    Raises:
        UsageError: If it is no whole number in [0, 2³²).
    """
    return whole_number("seed", value, 0, LARGEST_SEED)


def is_flag(value: Any) -> bool:
    """Whether a value is a truth value of Python, NumPy or torch."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def flag(name: str, value: Any) -> bool:
    """Return a truth value, which a number or text is not.

    Raises:
        UsageError: If it is none.

    Example:
        >>> flag("physics", False)
        False
    """
    if not is_flag(value) or getattr(value, "ndim", 0):
        raise UsageError(f"{name}: {excerpt(value)} is neither True nor False")
    return bool(value)


def callback(value: Any) -> Any:
    """Return a function that is told of the progress; None for none.

    Raises:
        UsageError: If it cannot be called.
    """
    if value is not None and not callable(value):
        raise UsageError(f"progress: {excerpt(value)} is not a function")
    return value


def file_path(name: str, value: Any, other: str = "") -> Path:
    """Return the path of a file or folder.

    Args:
        name: Name of the argument.
        value: Its value.
        other: What it may be as well, for the message.

    Raises:
        UsageError: If it is neither text nor a path, or the system cannot look it up.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        also = f", or {other}" if other else ""
        message = f"is not a path; give text or a pathlib.Path{also}"
        raise UsageError(f"{name}: {excerpt(value)} {message}")
    check_path(path := Path(value), name)
    return path


def mapping(name: str, value: Any, example: str) -> Mapping[str, Any]:
    """Return a mapping whose keys are names.

    Args:
        name: Name of the argument.
        value: Its value.
        example: A value that is allowed, for the message.

    Raises:
        UsageError: If it is no mapping, or a key is not text.
    """
    if not isinstance(value, Mapping):
        raise UsageError(f"{name}: {excerpt(value)} is not a mapping; give such as {example}")
    for key in value:
        if not isinstance(key, str):
            raise UsageError(
                f"{name}: the key {excerpt(key)} is not a name; give such as {example}"
            )
    return value


def sequence(name: str, value: Any, example: str) -> list[Any]:
    """Return the parts of a list or array.

    Args:
        name: Name of the argument.
        value: Its value.
        example: A value that is allowed, for the message.

    Raises:
        UsageError: If it has no parts, as a number, or is text or a mapping.
    """
    message = f"{name}: {excerpt(value)} is not a list; give such as {example}"
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise UsageError(message)
    try:
        return list(value)
    except TypeError as error:  # an array of no dimensions
        raise UsageError(message) from error
