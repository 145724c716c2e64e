"""Write what an operator predicts, with coordinates, units and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from piop.datasets.queries import Queries
from piop.datasets.raw import POINT
from piop.datasets.writer import DatasetWriter

if TYPE_CHECKING:
    from piop.problem import Problem


def write_prediction(
    path: str | Path,
    problem: Problem,
    queries: Queries,
    values: Mapping[str, Tensor | np.ndarray],
    **attributes: Any,
) -> None:
    """Write a prediction as NetCDF.

    Args:
        path: Where; what is there is replaced once the new file is whole.
        problem: Whose names, units and canonical spec to write.
        queries: Where the prediction is.
        values: Channel → ``[B, *queries.shape]`` (or flat, ``[B, N]``).
        attributes: More of them, such as the run.

    Raises:
        DataError: The place cannot be written.
        PiopError: Writing failed, such as on a full disk.
    """
    batch = len(next(iter(values.values())))
    with DatasetWriter.open(path, problem, batch, **attributes) as writer:
        for name, positions in (queries.axes or {}).items():
            writer.axis(name, positions)
        dimensions: tuple[str, ...] = tuple(queries.axes or ())
        if queries.points is not None:
            dimensions = (POINT,)
            points = queries.points.expand(batch, -1, -1)
            for i, coordinate in enumerate(problem.coordinates):
                writer.append(coordinate.name, dimensions, points[..., i])
        for name, value in values.items():
            writer.append(name, dimensions, value.reshape(batch, *queries.shape))
