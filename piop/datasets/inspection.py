"""What a data file holds, without a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from piop.datasets.raw import read_raw


def inspect_file(path: str | Path) -> dict[str, Any]:
    """Describe every variable of a file.

    Returns:
        ``path``, ``format``, ``attributes`` and ``variables``: name → dimensions, shape, dtype,
        minimum, maximum (None when empty or not numbers) and the number of NaN.

    Raises:
        DataError: The file cannot be read.
    """
    raw = read_raw(path)
    variables = {
        name: {
            "dimensions": None if v.dimensions is None else list(v.dimensions),
            "shape": list(v.values.shape),
            "dtype": str(v.values.dtype),
            **_range(v.values),
        }
        for name, v in raw.variables.items()
    }
    attributes = {
        k: v.item() if isinstance(v, np.generic) else v for k, v in raw.attributes.items()
    }
    return {
        "path": str(path),
        "format": raw.format,
        "variables": variables,
        "attributes": attributes,
    }


def _range(values: np.ndarray) -> dict[str, float | int | None]:
    if values.dtype.kind not in "fiub" or not values.size:
        return {"minimum": None, "maximum": None, "nan": 0}
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    if missing.all():
        return {"minimum": None, "maximum": None, "nan": int(missing.sum())}
    low, high = float(np.min(values[~missing])), float(np.max(values[~missing]))
    return {"minimum": low, "maximum": high, "nan": int(missing.sum())}
