"""The data a run is trained on, and the part of them that is held out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from piop.datasets import AnyDataset, Dataset, StoredDataset, open_dataset
from piop.datasets.axes import check_finite
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.training.batches.input_grid import gridded_inputs
from piop.training.batches.training_grid import data_at_end, data_counts
from piop.training.config import TrainingConfig
from piop.training.loss.statistics import Statistics
from piop.training.setup import preset_of

HELD_OUT_FRACTION = 0.1
LARGEST = 1e150
"""Above this, squares of values are not finite in float64."""


def open_training_data(problem: Problem, data: str | Path | AnyDataset | None) -> AnyDataset | None:
    """Read or open a data set, unless it is one already.

    Raises:
        DataError: If it does not fit the problem, holds values that are not finite or cannot be
            squared, or has too few trajectories to hold one out; where parameters are inferred,
            none is.
    """
    if data is None:
        return None
    found = open_dataset(data, problem) if isinstance(data, str | Path) else data
    if len(found) < 2 and not problem.infer:
        raise DataError("the data hold one trajectory; at least two are needed, one to judge by")
    place = str(data) if isinstance(data, str | Path) else "data"
    for piece in found.chunks():
        check_values(place, piece)
    return found


def check_values(place: str, data: Dataset) -> None:
    """Refuse values of which no sizes can be taken; those from Python were never looked at."""
    found = {name: _given(samples) for name, samples in data.inputs.items()}
    for name, values in {**found, **data.values}.items():
        check_finite(place, name, values.double().numpy())
        largest = float(values.double().abs().max())
        if largest > LARGEST:
            raise DataError(
                f"{place}: '{name}' is as large as {largest:.3g}, whose square is no number; give "
                f"it in other units"
            )


def _given(samples: FunctionSamples) -> torch.Tensor:
    """Give the values ``[B, M, 1]`` of sensors, zero where there is none."""
    mask = samples.mask
    return samples.values if mask is None else samples.values.masked_fill(~mask[..., None], 0.0)


def describe_data(data: str | Path | AnyDataset, found: AnyDataset) -> dict[str, Any]:
    """Record which data a run was trained on: path, size and a hash of the values."""
    path = _path_of(data)
    digest = hashlib.sha256()
    for name in sorted(found.channels):
        for piece in found.chunks():
            digest.update(piece.values[name].double().numpy().tobytes())
    return {"path": path, "samples": len(found), "hash": digest.hexdigest()}


def _path_of(data: str | Path | AnyDataset) -> str | None:
    place = data.file.path if isinstance(data, StoredDataset) else data
    return None if isinstance(place, Dataset) else str(Path(place).resolve())


def warnings_of_data(
    trained: Mapping[str, Any] | None, data: str | Path | AnyDataset | None
) -> list[str]:
    """Warn where the data that judge are those that a run was trained on.

    Args:
        trained: What :func:`describe_data` said of the run's own; None if it had none.
        data: Those that judge, where they are given.
    """
    path = None if data is None else _path_of(data)
    if path is None or trained is None or trained["path"] != path:
        return []
    return [f"the run was trained on samples of {path}, so errors on them say little of new ones"]


def split_data(data: AnyDataset, seed: int) -> tuple[AnyDataset, AnyDataset]:
    """Split a data set into what is trained on and what is held out, a tenth but at least one.

    The same seed gives the same split.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data), generator=generator)
    count = max(1, round(HELD_OUT_FRACTION * len(data)))
    return data.subset(order[count:].sort().values), data.subset(order[:count].sort().values)


def training_and_held_out(
    problem: Problem, data: AnyDataset, seed: int
) -> tuple[AnyDataset, AnyDataset]:
    """Give what is trained on, and what judges: where parameters are inferred, both are all."""
    return (data, data) if problem.infer else split_data(data, seed)


def usable_data(
    problem: Problem, config: TrainingConfig, data: AnyDataset | None
) -> AnyDataset | None:
    """Keep of the data what the network can answer: all, or the end of the time alone.

    Raises:
        UsageError: If there is nothing to keep.
    """
    if data is None or not preset_of(config).build.end_only:
        return data
    return data_at_end(problem, data)


def note_grids(
    problem: Problem, config: TrainingConfig, statistics: Statistics, data: AnyDataset | None
) -> Statistics:
    """Note which inputs are seen on even grids, and the grid of the data that are learnt from."""
    grid: tuple[int, ...] = ()
    if data is not None and not data.scattered:
        grid = data_counts(problem, data, config.points)
    return replace(statistics, gridded=gridded_inputs(problem, config.physics, data), grid=grid)
