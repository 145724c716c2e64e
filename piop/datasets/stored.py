"""A data set in a file, of which samples are read when they are asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import torch
from torch import Tensor

from piop.datasets.arrays import OpenFile
from piop.datasets.dataset import Dataset
from piop.datasets.formats.detect import open_raw, reading
from piop.datasets.layout import ESTIMATE, solved_samples
from piop.datasets.reader import compare_spec, dataset_from, read_dataset
from piop.errors import DataError
from piop.fields import FunctionSamples

if TYPE_CHECKING:
    from piop.problem import Problem

MEMORY_FRACTION = 0.25
"""A data set that takes more than this share of the machine's memory stays in its file: training
holds it once as it is and once on its device, and needs some for itself."""
CHUNK_BYTES = 64_000_000
"""What is read of the file at a time where all of it is gone through."""
_READ_LOCK = threading.Lock()
"""HDF5 reads for one thread at a time."""


@final
@dataclass(frozen=True)
class StoredDataset:
    """What :class:`piop.datasets.Dataset` is, in a file that stays open.

    Attributes:
        file: The file.
        problem: Whose inputs and unknowns are read.
        index: Samples of the file that belong to the data set, in order ``[n]``.
        first: The first of them, which tells what all have in common.
        last: An axis of which the last position alone is kept; None for none.
    """

    file: OpenFile
    problem: Problem
    index: Tensor
    first: Dataset
    last: str | None = None

    @classmethod
    def open(cls, path: str | Path, problem: Problem) -> Self:
        """Open a file; nothing but its first sample is read, and which of them have a solution.

        Raises:
            DataError: If its first sample does not fit the problem, its format is one whose samples
                cannot be read alone, or it has none.
        """
        file = open_raw(path)
        if file.count is None or not file.by_sample:
            file.close()
            raise DataError(
                f"{path}: samples of {file.format} cannot be read one by one; write the data as "
                f"NetCDF or Zarr"
            )
        known = solved_samples(file)
        index = np.arange(file.count) if known is None else known
        file = replace(file, arrays={n: a for n, a in file.arrays.items() if _needed(n, problem)})
        first = _read(file, problem, index[:1])
        compare_spec(first.attributes, str(path), problem)
        return cls(file, problem, torch.from_numpy(index), first)

    @property
    def axes(self) -> dict[str, Tensor]:
        """Positions along each coordinate; empty for scattered values."""
        return dict(self.first.axes)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the file says of itself."""
        return dict(self.first.attributes)

    @property
    def channels(self) -> tuple[str, ...]:
        """Unknowns that the file has."""
        return self.first.channels

    @property
    def scattered(self) -> bool:
        """Whether values are at points, not on a grid."""
        return self.first.scattered

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Tensor) -> Dataset:
        """Read the samples with these indices ``[n']``."""
        with _READ_LOCK:
            found = _read(self.file, self.problem, self.index[index.cpu()].numpy())
        return found if self.last is None else found.at_last(self.last)

    def part(self, index: Tensor) -> StoredDataset:
        """Keep the samples with these indices ``[n']``, without reading them."""
        return replace(self, index=self.index[index])

    def at_last(self, name: str) -> StoredDataset:
        """Keep the last position along an axis alone."""
        return replace(self, first=self.first.at_last(name), last=name)

    def pieces(self) -> Iterator[Dataset]:
        """Read all samples, in order, a piece at a time."""
        step = max(1, CHUNK_BYTES // max(1, self.file.bytes_per_sample))
        for part in torch.arange(len(self)).split(step):
            yield self.take(part)

    def sensors(self, name: str) -> Iterator[FunctionSamples]:
        """Give an input piece by piece; once, if its sensors are the same for every sample."""
        owner = self.file.arrays
        places = [owner.get(f"{name}_{c}", owner.get(c)) for c in _of(self.problem, name)]
        if any(p is not None and p.per_sample for p in places):
            yield from (piece.inputs[name] for piece in self.pieces())
        else:
            yield self.first.inputs[name]


AnyDataset = Dataset | StoredDataset


def open_dataset(path: str | Path, problem: Problem) -> AnyDataset:
    """Read a data set; one too large for the memory stays in its file, if its format allows.

    Raises:
        DataError: As :func:`piop.datasets.read_dataset`.
    """
    with open_raw(path) as file:
        large = (file.count or 0) * file.bytes_per_sample > MEMORY_FRACTION * _memory()
        stays = large and file.by_sample
    return StoredDataset.open(path, problem) if stays else read_dataset(path, problem)


def _memory() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read(file: OpenFile, problem: Problem, index: np.ndarray) -> Dataset:
    raw = reading(Path(file.path), file.format, lambda: file.read(index))
    return dataset_from(raw, problem)


def _needed(name: str, problem: Problem) -> bool:
    """Whether an array of a file is read for a problem."""
    coordinates = [c.name for c in (*problem.coordinates, *problem.angles)]
    inputs = [i.name for i in problem.visible_inputs]
    own = [f"{i}_{c}" for i in inputs for c in coordinates]
    return name in {*problem.channels, *inputs, *coordinates, *own, ESTIMATE}


def _of(problem: Problem, name: str) -> tuple[str, ...]:
    return next(item.of for item in problem.visible_inputs if item.name == name)
