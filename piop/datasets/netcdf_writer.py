"""A data set as one NetCDF 4 file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import h5netcdf
import numpy as np

from piop.datasets.guarded import GuardedFile
from piop.datasets.output import replacing
from piop.datasets.raw import SAMPLE
from piop.datasets.writer import DatasetWriter, NewVariable

if TYPE_CHECKING:
    from piop.problem import Problem


@final
class NetcdfWriter(DatasetWriter):
    """Fills an open NetCDF file.

    Args:
        file: The open file.
        check: Raises if the disk took less than was written.
        problem: Whose names and units to use.
        count: Samples in all.
    """

    def __init__(
        self, file: h5netcdf.File, check: Callable[[], None], problem: Problem, count: int
    ) -> None:
        super().__init__(problem, count)
        self._file, self._check = file, check
        file.dimensions = {SAMPLE: count}

    def _axis(self, variable: NewVariable, positions: np.ndarray) -> None:
        self._file.dimensions[variable.name] = len(positions)
        made = self._file.create_variable(
            variable.name, variable.dimensions, variable.dtype, data=positions
        )
        made.attrs.update(variable.labels)

    def _make(self, variable: NewVariable) -> None:
        for name, length in zip(variable.dimensions, variable.shape, strict=True):
            if name not in self._file.dimensions:
                self._file.dimensions[name] = length
        made = self._file.create_variable(
            variable.name,
            variable.dimensions,
            variable.dtype,
            chunks=variable.chunks,
            fillvalue=variable.fill,
        )
        made.attrs.update(variable.labels)

    def _put(self, name: str, start: int, array: np.ndarray) -> None:
        self._file.variables[name][start : start + len(array)] = array
        self._check()


@contextmanager
def netcdf_writer(
    path: Path,
    problem: Problem,
    count: int,
    attributes: Mapping[str, Any],
    workspace: Path | None = None,
) -> Iterator[NetcdfWriter]:
    """Open a NetCDF file that appears under its name when the block ends."""
    with replacing(path, workspace) as temporary, GuardedFile(temporary) as guarded:
        with h5netcdf.File(guarded, "w") as file:
            writer = NetcdfWriter(file, guarded.check, problem, count)
            for name, value in attributes.items():
                file.attrs[name] = value
            yield writer
        guarded.check()
