"""Write NetCDF a part at a time, so that a data set larger than memory can be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5netcdf
import numpy as np
import torch
from torch import Tensor

from piop.datasets.dataset import Dataset
from piop.datasets.guarded import GuardedFile
from piop.datasets.layout import ESTIMATE, check_names, file_attributes, variable_attributes
from piop.datasets.output import replacing
from piop.datasets.raw import POINT, SAMPLE
from piop.errors import DataError
from piop.fields import FunctionSamples

if TYPE_CHECKING:
    from piop.problem import Problem

CHUNK_BYTES = 4_000_000  # of one variable: what a reader must load to see one sample


class DatasetWriter:
    """A NetCDF file of a known number of samples, filled in order; see :meth:`open`.

    Args:
        file: The open file.
        check: Raises if the disk took less than was written.
        problem: Whose names and units to use.
        count: Samples in all.
    """

    def __init__(
        self, file: h5netcdf.File, check: Callable[[], None], problem: Problem, count: int
    ) -> None:
        self._file, self._check, self._problem, self._count = file, check, problem, count
        self._filled: dict[str, int] = {}
        file.dimensions = {SAMPLE: count}

    @classmethod
    @contextmanager
    def open(
        cls, path: str | Path, problem: Problem, count: int, **attributes: Any
    ) -> Iterator[DatasetWriter]:
        """Open a file that appears under its name once the block has filled it.

        Args:
            path: Where to write; what is there stays until the new file is whole.
            problem: Goes into the attributes as canonical spec and hash.
            count: Samples in all.
            attributes: More of them, such as the seed.

        Raises:
            DataError: The place cannot be written, or the block filled too few samples.
            PiopError: Writing failed, such as on a full disk.
        """
        check_names(problem)
        with replacing(path) as temporary:
            with GuardedFile(temporary) as guarded:
                with h5netcdf.File(guarded, "w") as file:
                    writer = cls(file, guarded.check, problem, count)
                    for name, value in file_attributes(problem, **attributes).items():
                        file.attrs[name] = value
                    yield writer
                guarded.check()
            for name, filled in writer._filled.items():
                if filled != count:
                    raise DataError(f"{path}: '{name}' has {filled} of {count} samples")

    def axis(self, name: str, positions: Tensor | np.ndarray) -> None:
        """Add a coordinate along itself: ``x(x)``."""
        array = _array(positions)
        self._file.dimensions[name] = len(array)
        variable = self._file.create_variable(name, (name,), array.dtype, data=array)
        self._label(variable, name)

    def append(self, name: str, dimensions: Sequence[str], values: Tensor | np.ndarray) -> None:
        """Add the next samples of a variable.

        Args:
            name: The variable; made when it is first seen.
            dimensions: Of one sample, as axes or new ones.
            values: ``[b, *dimensions]``.
        """
        array = _array(values)
        if name not in self._filled:
            self._create(name, tuple(dimensions), array)
        start = self._filled[name]
        self._file.variables[name][start : start + len(array)] = array
        self._filled[name] = start + len(array)
        self._check()

    def _create(self, name: str, dimensions: tuple[str, ...], array: np.ndarray) -> None:
        for d, length in zip(dimensions, array.shape[1:], strict=True):
            if d not in self._file.dimensions:
                self._file.dimensions[d] = length
        one = max(1, int(np.prod(array.shape[1:], dtype=int)) * array.itemsize)
        chunk = min(self._count, max(1, CHUNK_BYTES // one))
        # h5netcdf accepts no chunk of length 0, and a file of scalars needs none
        chunks = (chunk, *array.shape[1:])
        variable = self._file.create_variable(
            name, (SAMPLE, *dimensions), array.dtype, chunks=chunks, fillvalue=np.nan
        )
        self._label(variable, name)
        self._filled[name] = 0

    def _label(self, variable: h5netcdf.Variable, name: str) -> None:
        for key, value in variable_attributes(self._problem, name).items():
            variable.attrs[key] = value


def write_dataset(dataset: Dataset, path: str | Path, problem: Problem) -> None:
    """Write a data set as NetCDF; :func:`piop.datasets.read_dataset` gives it back."""
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


def _array(values: Tensor | np.ndarray) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
