"""Write data sets and predictions, whole or in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from piop.datasets.arrays import POINT, SAMPLE
from piop.datasets.dataset import Dataset
from piop.datasets.history import with_history
from piop.datasets.layout import ESTIMATE, check_names, file_attributes, variable_attributes
from piop.datasets.queries import Queries
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.spec.distributions import History

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
            from piop.datasets.formats.zarr import zarr_writer as writer_of
        else:
            from piop.datasets.formats.netcdf import netcdf_writer as writer_of
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
            from piop.datasets.formats.zarr import require_zarr as require
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


def write_dataset(dataset: Dataset, path: str | Path, problem: Problem) -> None:
    """Write a data set as NetCDF or Zarr; :func:`piop.datasets.read_dataset` gives it back."""
    dataset = with_history(problem, dataset)
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
