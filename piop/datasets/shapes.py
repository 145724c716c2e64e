"""What the shapes and numbers of an array say of its meaning."""

from __future__ import annotations

import numpy as np


def increasing(values: np.ndarray) -> bool:
    """Tell a list of positions: more than one number, each larger than the last."""
    real = values.ndim == 1 and len(values) > 1 and values.dtype.kind in "fiu"
    return bool(real and (np.diff(values.astype(np.float64)) > 0).all())
