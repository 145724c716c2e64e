"""Lengths of time with their units."""

from __future__ import annotations

import re

from piop.errors import UsageError

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_time(text: str | float) -> float:
    """Turn ``"90s"``, ``"5m"``, ``"1.5h"`` or a number of seconds into seconds.

    Raises:
        UsageError: If it is none of these.

    Example:
        >>> parse_time("5m")
        300.0
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|m|min|h)?\s*", str(text))
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"time: {text!r} is not a length of time such as 90s, 5m or 1h")
    return float(match[1]) * UNITS[match[2] or ""]
