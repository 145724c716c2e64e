"""The data a run is trained on, and the part of them that is held out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch

from piop.datasets import Dataset, read_dataset
from piop.errors import DataError
from piop.problem import Problem

HELD_OUT_SHARE = 0.1


def load_data(problem: Problem, data: str | Path | Dataset | None) -> Dataset | None:
    """Read a data set, unless it is one already.

    Raises:
        DataError: If it does not fit the problem, or has too few trajectories to hold one out.
    """
    if data is None:
        return None
    found = data if isinstance(data, Dataset) else read_dataset(data, problem)
    if len(found) < 2:
        raise DataError("the data hold one trajectory; at least two are needed, one to judge by")
    return found


def describe_data(data: str | Path | Dataset, found: Dataset) -> dict[str, Any]:
    """Record which data a run was trained on: path, size and a hash of the values."""
    path = None if isinstance(data, Dataset) else str(Path(data).resolve())
    digest = hashlib.sha256()
    for name in sorted(found.values):
        digest.update(found.values[name].double().numpy().tobytes())
    return {"path": path, "samples": len(found), "hash": digest.hexdigest()}


def split_data(data: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Split a data set into what is trained on and what is held out, a tenth but at least one.

    The same seed gives the same split.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data), generator=generator)
    count = max(1, round(HELD_OUT_SHARE * len(data)))
    return data.take(order[count:].sort().values), data.take(order[:count].sort().values)
