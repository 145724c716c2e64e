"""Inferred parameters in metrics, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

INFERRED = "inferred/"
"""What the names of parameters begin with in the rows of the metrics."""


def parameters_of(row: Mapping[str, float]) -> dict[str, float]:
    """Give the parameters in a row of the metrics, by name.

    Example:
        >>> parameters_of({"step": 3, "inferred/nu": 0.01})
        {'nu': 0.01}
    """
    return {n.removeprefix(INFERRED): v for n, v in row.items() if n.startswith(INFERRED)}


def estimate_text(estimate: Mapping[str, Any]) -> str:
    """Write an estimate with its standard error, to two digits of that.

    Args:
        estimate: ``value`` and ``std``, which is None where it is unknown.

    Example:
        >>> estimate_text({"value": 0.010034, "std": 0.00012})
        '0.01003 ± 0.00012'
        >>> estimate_text({"value": 0.010034, "std": None})
        '0.01003'
    """
    value, std = estimate["value"], estimate["std"]
    if value is None:
        return "not finite"
    if std is None or not std > 0:
        return f"{value:.4g}"
    below = math.floor(math.log10(abs(value) or std)) - math.floor(math.log10(std))
    return f"{value:.{max(2, below + 2)}g} ± {std:.2g}"
