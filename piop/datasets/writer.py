"""Write a data set a part at a time, so that one larger than memory can be made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from piop.datasets.layout import check_names, file_attributes, variable_attributes
from piop.datasets.raw import SAMPLE
from piop.errors import DataError

if TYPE_CHECKING:
    from piop.problem import Problem

CHUNK_BYTES = 4_000_000  # of one variable: what a reader must load to see one sample
ZARR = ".zarr"


@dataclass(frozen=True)
class NewVariable:
    """What a format must know to make room for a variable.

    Attributes:
        name: As in the spec.
        dimensions: Their names.
        shape: Their lengths.
        chunks: Lengths of what is read at once.
        dtype: Of the numbers.
        labels: Attributes.
    """

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype
    labels: dict[str, str]

    @property
    def fill(self) -> float | None:
        """What stands where nothing was written."""
        return float("nan") if self.dtype.kind == "f" else None


class DatasetWriter(ABC):
    """A file of a known number of samples, filled in order; see :meth:`open`.

    Args:
        problem: Whose names and units to use.
        count: Samples in all.
    """

    def __init__(self, problem: Problem, count: int) -> None:
        self._problem, self._count = problem, count
        self._filled: dict[str, int] = {}

    @staticmethod
    @contextmanager
    def open(
        path: str | Path,
        problem: Problem,
        count: int,
        *,
        workspace: Path | None = None,
        **attributes: Any,
    ) -> Iterator[DatasetWriter]:
        """Open a file that appears under its name once the block has filled it.

        A name that ends in ``.zarr`` is a folder in Zarr's format, any other a NetCDF file.

        Args:
            path: Where to write; what is there stays until the new file is whole.
            problem: Goes into the attributes as canonical spec and hash.
            count: Samples in all.
            workspace: Folder to write in until it is whole, on the same disk; by default that of
                ``path``.
            attributes: More of them, such as the seed.

        Raises:
            DataError: The place cannot be written, or the block filled too few samples.
            PiopError: Writing failed, such as on a full disk.
            NotSupportedError: Zarr without its library.
        """
        check_names(problem)
        if Path(path).suffix == ZARR:
            from piop.datasets.zarr_writer import zarr_writer as writer_of
        else:
            from piop.datasets.netcdf_writer import netcdf_writer as writer_of
        found = file_attributes(problem, **attributes)
        with writer_of(Path(path), problem, count, found, workspace) as writer:
            yield writer
            for name, filled in writer._filled.items():
                if filled != count:
                    raise DataError(f"{path}: '{name}' has {filled} of {count} samples")

    @staticmethod
    def require(path: str | Path) -> None:
        """Make sure that :meth:`open` could write there.

        Raises:
            DataError: If it could not.
            NotSupportedError: Zarr without its library.
        """
        if Path(path).suffix == ZARR:
            from piop.datasets.zarr_writer import require_zarr as require
        else:
            from piop.datasets.output import require_place as require
        require(Path(path))

    def axis(self, name: str, positions: Tensor | np.ndarray) -> None:
        """Add a coordinate along itself: ``x(x)``."""
        array, labels = _array(positions), variable_attributes(self._problem, name)
        self._axis(NewVariable(name, (name,), array.shape, array.shape, array.dtype, labels), array)

    def append(self, name: str, dimensions: Sequence[str], values: Tensor | np.ndarray) -> None:
        """Add the next samples of a variable.

        Args:
            name: The variable; made when it is first seen.
            dimensions: Of one sample, as axes or new ones.
            values: ``[b, *dimensions]``.
        """
        array = _array(values)
        if name not in self._filled:
            one = max(1, int(np.prod(array.shape[1:], dtype=int)) * array.itemsize)
            chunk = min(self._count, max(1, CHUNK_BYTES // one))
            rest, labels = array.shape[1:], variable_attributes(self._problem, name)
            shape, chunks = (self._count, *rest), (chunk, *rest)
            self._make(NewVariable(name, (SAMPLE, *dimensions), shape, chunks, array.dtype, labels))
            self._filled[name] = 0
        start = self._filled[name]
        self._put(name, start, array)
        self._filled[name] = start + len(array)

    @abstractmethod
    def _axis(self, variable: NewVariable, positions: np.ndarray) -> None:
        """Write a coordinate."""

    @abstractmethod
    def _make(self, variable: NewVariable) -> None:
        """Make room for all samples of a variable."""

    @abstractmethod
    def _put(self, name: str, start: int, array: np.ndarray) -> None:
        """Write samples from ``start`` on."""


def _array(values: Tensor | np.ndarray) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
