"""Data sets from files: input functions and solutions, read whole or sample by sample."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import numbers
from piop.datasets.dataset import Dataset
from piop.datasets.formats.detect import open_raw
from piop.datasets.lazy_arrays import (
    ACCEPTED,
    ESTIMATE,
    SAMPLE,
    OpenFile,
    RawFile,
    is_number,
)
from piop.datasets.sensors import sensors_from
from piop.datasets.solution import read_unknown, without_history
from piop.errors import DataError, PiopError
from piop.fields import FunctionSamples
from piop.problem import Problem

MEMORY_FRACTION = 0.25
"""A data set that takes more than this fraction of the machine's memory stays in its file: training
holds it once as it is and once on its device, and needs some for itself."""
CHUNK_BYTES = 64_000_000
"""Size of what is read of the file at a time where all of it is gone through."""
_READ_LOCK = threading.Lock()
"""HDF5 reads for one thread at a time."""

logger = logging.getLogger(__name__)


def read_dataset(path: str | Path, problem: Problem) -> Dataset:
    """Read inputs and solutions of a problem from any format but CSV.

    Unknowns are ``u(sample, t, x)`` along coordinate variables, or ``u(sample, point)`` at
    ``t(sample, point)``, ``x(sample, point)``; inputs as :func:`piop.datasets.read_sensors` says.
    Auxiliary unknowns are read where the file has them. Where an input is the history of the
    solution, the file holds the whole trajectory: the history is cut from it, and the values begin
    at its last time. Samples whose reference found no solution are left out, with a warning.

    Raises:
        DataError: A missing variable, shapes that do not fit, NaN (with its sample), positions
            outside the domain, inputs and solutions of different numbers of samples, or of none.
    """
    with open_raw(path) as file:
        index = solved_samples(file)
        raw = file.read(index)
    found = dataset_from(raw, problem)
    compare_spec(found.attributes, str(path), problem)
    return found


def dataset_from(raw: RawFile, problem: Problem) -> Dataset:
    """Build a data set from the arrays of a file; see :func:`read_dataset`."""
    path = raw.path
    if raw.is_table:
        known = "NetCDF, Zarr, HDF5, MATLAB, npz or torch"
        raise DataError(f"{path}: is CSV; a data set is {known} (sensors may be CSV)")
    axes: dict[str, Tensor] = {}
    points: Tensor | None = None
    values: dict[str, Tensor] = {}
    for name in problem.channels:
        if name in raw.variables or name in problem.unknowns:
            axes, points, values[name] = read_unknown(raw, problem, name)
    counts = {name: len(v) for name, v in values.items()}
    if len(set(counts.values())) > 1:
        given = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise DataError(f"{path}: different numbers of samples: {given}")
    count = next(iter(counts.values()))
    if not count:
        raise DataError(f"{path}: holds no samples")
    inputs = sensors_from(raw, problem)
    for name, s in inputs.items():
        if len(s.values) != count:
            message = f"'{name}' has {len(s.values)} samples but the solution has {count}"
            raise DataError(f"{path}: {message}")
    axes, values = without_history(path, problem, axes, values)
    return Dataset(inputs, axes, values, points, _estimate(raw, count), raw.attributes)


def _estimate(raw: RawFile, count: int) -> Tensor | None:
    if ESTIMATE not in raw.variables:
        return None
    values = numbers(raw.path, ESTIMATE, raw.variables[ESTIMATE].values)
    if values.shape != (count,):
        message = f"'{ESTIMATE}' has shape {values.shape}; expected ({count},)"
        raise DataError(f"{raw.path}: {message}")
    return torch.from_numpy(values)


def solved_samples(file: OpenFile) -> np.ndarray | None:
    """Find the samples that have a solution, and warn of those that have none or are inaccurate.

    A sample has no solution where the error estimate of its reference is not finite. A sample that
    missed its tolerance has a solution, and is kept.

    Returns:
        Their indices, ascending; None where all have one or the file has no estimates.

    Raises:
        DataError: If no sample has one.
    """
    estimate = _per_sample(file, ESTIMATE)
    if estimate is None:
        return None
    known = np.isfinite(estimate)
    count, left_out = len(known), int((~known).sum())
    if count and left_out == count:
        raise DataError(f"{file.path}: none of its {count} samples has a solution ('{ESTIMATE}')")
    if left_out:
        logger.warning(
            "%s: %d of %d samples have no solution (their %s is not finite) and are left out",
            file.path, left_out, count, ESTIMATE,
        )  # fmt: skip
    accepted = _per_sample(file, ACCEPTED)
    missed = known & (accepted == 0) if accepted is not None else np.zeros_like(known)
    if missed.any():
        logger.warning(
            "%s: %d of %d samples missed the tolerance of their reference (%s is 0; errors are "
            "estimated at up to %.1e); they are used all the same",
            file.path, missed.sum(), count, ACCEPTED, estimate[missed].max(),
        )  # fmt: skip
    return np.flatnonzero(known) if left_out else None


def _per_sample(file: OpenFile, name: str) -> np.ndarray | None:
    """Read one number per sample; None where the file has no such array of numbers."""
    array = file.arrays.get(name)
    if array is None or array.dimensions != (SAMPLE,) or not is_number(array):
        return None
    return array.read().values


def compare_spec(attributes: Mapping[str, Any], path: str, problem: Problem) -> None:
    """Warn of a file that was made from another spec, or from another version of it.

    Data from which parameters are inferred always come from another spec: the one that has the
    parameters as numbers. Data of a problem that asks for an inverse operator serve that operator.
    """
    written_for = attributes.get("piop_hash")
    if written_for is None or written_for == problem.hash or problem.infer:
        return
    if _is_inverse_of(problem, str(attributes.get("piop_spec", ""))):
        return
    name = stored_name(attributes)
    if name and name != problem.name:
        logger.warning("%s was made from the spec %s; this is %s", path, name, problem.name)
        return
    logger.warning(
        "%s was made from another version of the spec (%s…, this is %s…)",
        path, str(written_for)[:12], problem.hash[:12],
    )  # fmt: skip


def stored_name(attributes: Mapping[str, Any]) -> str | None:
    """Return the name in the spec that a file written by piop holds; None where it holds none."""
    text = str(attributes.get("piop_spec", ""))
    found = re.search(r'^name: "?([^"\s]+)"?$', text, re.MULTILINE)
    return found[1] if found else None


def _is_inverse_of(problem: Problem, text: str) -> bool:
    """Whether a problem is the inverse operator that a spec asks for."""
    with suppress(PiopError):
        return "learn:" in text and Problem.from_yaml(text).inverse() == problem
    return False


@final
@dataclass(frozen=True)
class StoredDataset:
    """A data set whose samples are read from an open file when they are needed.

    It has the interface of :class:`piop.datasets.Dataset`.

    Attributes:
        file: The file.
        problem: The problem whose inputs and unknowns are read.
        index: Samples of the file that belong to the data set, in order ``[n]``.
        first: The first of them, which has the axes, channels and attributes of all.
        last: An axis of which only the last position is kept; None for none.
    """

    file: OpenFile
    problem: Problem
    index: Tensor
    first: Dataset
    last: str | None = None

    @classmethod
    def open(cls, path: str | Path, problem: Problem) -> Self:
        """Open a file; only its first sample and the error estimates are read.

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
        names = _variables_of(problem)
        file = replace(file, arrays={n: a for n, a in file.arrays.items() if n in names})
        first = dataset_from(file.read(index[:1]), problem)
        compare_spec(first.attributes, str(path), problem)
        return cls(file, problem, torch.from_numpy(index), first)

    @property
    def path(self) -> str | None:
        """Path of the file."""
        return self.file.path

    @property
    def axes(self) -> Mapping[str, Tensor]:
        """Positions along each coordinate; empty for scattered values."""
        return self.first.axes

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the file."""
        return self.first.attributes

    @property
    def channels(self) -> tuple[str, ...]:
        """Unknowns in the file."""
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
            raw = self.file.read(self.index[index.cpu()].numpy())
            found = dataset_from(raw, self.problem)
        return found if self.last is None else found.last_along(self.last)

    def subset(self, index: Tensor) -> StoredDataset:
        """Keep the samples with these indices ``[n']``, without reading them."""
        return replace(self, index=self.index[index])

    def last_along(self, name: str) -> StoredDataset:
        """Keep only the last position along an axis."""
        return replace(self, first=self.first.last_along(name), last=name)

    def chunks(self) -> Iterator[Dataset]:
        """Read all samples in order, a chunk at a time."""
        step = max(1, CHUNK_BYTES // max(1, self.file.bytes_per_sample))
        for index in torch.arange(len(self)).split(step):
            yield self.take(index)

    def sensor_chunks(self, name: str) -> Iterator[FunctionSamples]:
        """Read an input in chunks; only the first sample if all samples share the sensors."""
        arrays = self.file.arrays
        of = next(item.of for item in self.problem.visible_inputs if item.name == name)
        positions = [arrays.get(f"{name}_{c}", arrays.get(c)) for c in of]
        if any(p is not None and p.per_sample for p in positions):
            yield from (chunk.inputs[name] for chunk in self.chunks())
        else:
            yield self.first.inputs[name]


AnyDataset = Dataset | StoredDataset


def open_dataset(path: str | Path, problem: Problem) -> AnyDataset:
    """Read a data set; one too large for memory stays in its file, if its format allows.

    Raises:
        DataError: As :func:`piop.datasets.read_dataset`.
    """
    with open_raw(path) as file:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        large = (file.count or 0) * file.bytes_per_sample > MEMORY_FRACTION * memory
        stays = large and file.by_sample
    return StoredDataset.open(path, problem) if stays else read_dataset(path, problem)


def _variables_of(problem: Problem) -> set[str]:
    """Names of the arrays of a file that are read for a problem."""
    coordinates = [c.name for c in (*problem.coordinates, *problem.angles)]
    inputs = [i.name for i in problem.visible_inputs]
    own = [f"{i}_{c}" for i in inputs for c in coordinates]
    return {*problem.channels, *inputs, *coordinates, *own, ESTIMATE}
