"""Values as JSON has them, which knows no NaN and no infinity."""

from __future__ import annotations

import math
from typing import Any


def json_value(value: Any) -> Any:
    """Return a value that JSON can hold; numbers that are not finite become None.

    Example:
        >>> json_value({"mean": float("nan"), "errors": (0.5, float("inf"))})
        {'mean': None, 'errors': [0.5, None]}
    """
    if isinstance(value, dict):
        return {str(k): json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(v) for v in value]
    if hasattr(value, "tolist"):
        return json_value(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | str | float | None) else str(value)


def number_text(value: float | None, spec: str) -> str:
    """Write a number that was read from JSON, where None stands for one that is not finite.

    Example:
        >>> number_text(0.1234, ".2g"), number_text(None, ".2g")
        ('0.12', 'not finite')
    """
    return "not finite" if value is None or not math.isfinite(value) else format(value, spec)
