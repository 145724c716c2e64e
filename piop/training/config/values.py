"""From a value, perhaps text of a command line, to one of the right type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import GenericAlias
from typing import Any, Literal, get_args

from piop.errors import UsageError


def convert(key: str, value: Any, annotation: Any) -> Any:
    """Turn a value, perhaps text, into the type of its key.

    Raises:
        UsageError: If it is not of that type.
    """
    choices = get_args(annotation) if getattr(annotation, "__origin__", None) is Literal else ()
    if choices:
        if value not in choices:
            raise UsageError(f"{key}: {value!r} is not one of {', '.join(choices)}")
        return value
    if annotation is bool:
        words = {"true": True, "false": False, "yes": True, "no": False}
        found = value if isinstance(value, bool) else words.get(str(value).lower())
        if found is None:
            raise UsageError(f"{key}: {value!r} is neither true nor false")
        return found
    if annotation in (int, float):
        return _number(key, value, annotation)
    if isinstance(annotation, GenericAlias):
        return _numbers(key, value, get_args(annotation)[0])
    if annotation is str and not isinstance(value, str):
        raise UsageError(f"{key}: {value!r} is not text")
    return value


def _numbers(key: str, value: Any, kind: type) -> tuple[Any, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not parts:
        raise UsageError(f"{key}: {value!r} is not a list of numbers, such as 16,16")
    return tuple(_number(key, part, kind) for part in parts)


def _number(key: str, value: Any, kind: type) -> Any:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (kind is int and number != int(number)):
        raise UsageError(f"{key}: {value!r} is not a {'whole ' if kind is int else ''}number")
    return kind(number)
