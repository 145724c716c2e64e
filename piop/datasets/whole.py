"""Write a data set that is in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from piop.datasets.dataset import Dataset
from piop.datasets.history import with_past
from piop.datasets.layout import ESTIMATE
from piop.datasets.raw import POINT
from piop.datasets.writer import DatasetWriter
from piop.fields import FunctionSamples
from piop.spec.laws import History

if TYPE_CHECKING:
    from piop.problem import Problem


def write_dataset(dataset: Dataset, path: str | Path, problem: Problem) -> None:
    """Write a data set as NetCDF or Zarr; :func:`piop.datasets.read_dataset` gives it back."""
    dataset = with_past(problem, dataset)
    with DatasetWriter.open(path, problem, len(dataset), **_own(dataset)) as writer:
        for name, positions in dataset.axes.items():
            writer.axis(name, positions)
        dimensions: tuple[str, ...] = tuple(dataset.axes)
        if dataset.points is not None:
            dimensions = (POINT,)
            for i, coordinate in enumerate(problem.coordinates):
                writer.append(coordinate.name, dimensions, dataset.points[..., i])
        for name, values in dataset.values.items():
            writer.append(name, dimensions, values)
        for item in problem.visible_inputs:
            if isinstance(item.law, History):
                continue  # it is in the solution
            write_input(writer, item.name, item.of, dataset.inputs[item.name], dataset.axes)
        if dataset.error_estimate is not None:
            writer.append(ESTIMATE, (), dataset.error_estimate)


def write_input(
    writer: DatasetWriter,
    name: str,
    of: tuple[str, ...],
    samples: FunctionSamples,
    axes: Mapping[str, Tensor],
) -> None:
    """Write an input along the file's axes if its sensors are on them, else at its own points."""
    values = samples.values[..., 0]
    shape = tuple(len(axes[c]) for c in of) if all(c in axes for c in of) else None
    if not of:
        writer.append(name, (), values[:, 0])
    elif shape is not None and _on_grid(samples, [axes[c] for c in of]):
        writer.append(name, of, values.reshape(len(values), *shape))
    else:
        dimension = f"{POINT}_{name}"
        points = samples.points
        if samples.mask is not None:
            points = torch.where(samples.mask[..., None], points, torch.nan)
            values = torch.where(samples.mask, values, torch.nan)
        for i, coordinate in enumerate(of):
            writer.append(f"{name}_{coordinate}", (dimension,), points[..., i])
        writer.append(name, (dimension,), values)


def _on_grid(samples: FunctionSamples, axes: list[Tensor]) -> bool:
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, len(axes))
    if samples.mask is not None or samples.points.shape[1] != grid.shape[1]:
        return False
    return bool((samples.points == grid.to(samples.points)).all())


def _own(dataset: Dataset) -> dict[str, Any]:
    made = {"title", "piop_format", "piop_spec", "piop_hash"}
    return {
        k: v
        for k, v in dataset.attributes.items()
        if k not in made
        and not k.endswith("_version")
        and isinstance(v, str | int | float | np.number)
    }
