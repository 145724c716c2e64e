"""From checked arrays to the sensors that a network sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from piop.datasets.checks import check_domain, check_finite
from piop.datasets.raw import RawFile
from piop.errors import DataError
from piop.fields import FunctionSamples

if TYPE_CHECKING:
    from piop.problem import Input, Problem


def function_samples(
    raw: RawFile, problem: Problem, item: Input, points: np.ndarray, values: np.ndarray
) -> FunctionSamples:
    """Check points ``[B, M, d]`` and values ``[B, M]``; NaN in both means no sensor."""
    missing = np.isnan(values) & np.isnan(points).any(-1)
    check_finite(raw.path, item.name, np.where(missing, 0.0, values))
    for i, name in enumerate(item.of):
        coordinate = problem.coordinate(name)
        position = np.where(missing, coordinate.low, points[..., i])
        points[..., i] = check_domain(raw.path, item.name, coordinate, position)
    if missing.all(axis=1).any():
        sample = int(np.argmax(missing.all(axis=1)))
        raise DataError(f"{raw.path}: '{item.name}' has no sensors in sample {sample}")
    values = np.where(missing, 0.0, values)
    mask = torch.from_numpy(~missing) if missing.any() else None
    return FunctionSamples(torch.from_numpy(points), torch.from_numpy(values)[..., None], mask)
