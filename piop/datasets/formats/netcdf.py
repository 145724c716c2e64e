"""NetCDF: read sample by sample, written safely on a full disk."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import h5netcdf
import h5py
import numpy as np

from piop.datasets.atomic_output import replacing, require_place
from piop.datasets.formats.hdf5 import check_attributes
from piop.datasets.formats.limits import check_count
from piop.datasets.lazy_arrays import SAMPLE, OpenFile, is_position, lazy_array
from piop.datasets.writer import ArrayStore, NewVariable


class GuardedFile(io.FileIO):
    """Remember the first failed write, and pretend from then on that all is well.

    HDF5 cannot recover from a failed write: it tries again when the file is closed, and again when
    the process ends, where it crashes. So it never sees one; whoever fills the file asks
    :meth:`check` after each part and once it is closed.

    Args:
        path: An existing file; its content is lost.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._error is not None:
            raise self._error

    def write(self, data: bytes | memoryview, /) -> int:  # type: ignore[override]
        """Write all of ``data``, or note why not."""
        view = memoryview(data).cast("B")
        done = 0
        while self._error is None and done < len(view):
            try:
                done += super().write(view[done:]) or 0
            except OSError as error:
                self._error = error
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Set the length, or note why not."""
        try:
            return super().truncate(size)
        except OSError as error:
            self._error = self._error or error
            return size or 0


DECODED = {"scale_factor", "add_offset", "missing_value", "_Unsigned"}
"""Attributes by which numbers mean others than those stored."""
UNNAMED = "phony_dim_"
"""How xarray calls dimensions that have no name."""


def open_netcdf(path: Path, direct: h5py.File | None = None, expected: str = "") -> OpenFile:
    """Open a file by xarray, with times as the numbers they are.

    Args:
        path: The file.
        direct: The same file, open; None for one of version 3.
        expected: See :class:`OpenFile`.
    """
    import xarray  # half a second to import, and CSV does not need it

    options: dict[str, Any] = {"decode_times": False, "decode_timedelta": False}
    close = ExitStack()
    if direct is None:
        options |= {"engine": "scipy"}
    else:
        options |= {"engine": "h5netcdf", "phony_dims": "access"}
        close.callback(direct.close)
        check_count(path, len(direct))
        check_attributes(path, 1)
    data = xarray.open_dataset(path, cache=False, **options)
    close.callback(data.close)

    arrays = {}
    for name, variable in data.variables.items():
        names = tuple(map(str, variable.dims))
        named = not any(d.startswith(UNNAMED) for d in names)
        # xarray applies scales, offsets and missing values; it and h5netcdf take milliseconds for a
        # read, h5py a tenth of one
        source = direct[str(name)] if direct and _is_plain(variable) else variable
        arrays[str(name)] = lazy_array(source, names if named else None)
    return OpenFile(str(path), "netcdf", arrays, dict(data.attrs), expected, close.close)


def _is_plain(variable: Any) -> bool:
    """Tell a variable whose numbers mean what they are; NaN always counts as missing."""
    encoding = variable.encoding
    fill = encoding.get("_FillValue")
    missing = fill is None or (isinstance(fill, float | np.floating) and bool(np.isnan(fill)))
    same = np.dtype(encoding.get("dtype", variable.dtype)) == variable.dtype
    return missing and same and not DECODED & set(encoding) and is_position(variable)


@final
@dataclass(frozen=True)
class NetcdfStore(ArrayStore):
    """An open NetCDF file.

    Attributes:
        file: The open file.
        check: Raises if the disk took less than was written.
    """

    file: h5netcdf.File
    check: Callable[[], None]
    chunk_bytes = 2**16  # far below the megabyte that HDF5 keeps of a variable

    @classmethod
    @contextmanager
    def open(
        cls, path: Path, count: int, attributes: Mapping[str, Any], workspace: Path | None
    ) -> Iterator[Self]:
        """Open a file that appears under its name when the block ends."""
        version = ("v110", "v110")  # from which on headers and lists of chunks have checksums too
        with replacing(path, workspace) as temporary, GuardedFile(temporary) as guarded:
            with h5netcdf.File(guarded, "w", libver=version) as file:
                file.dimensions = {SAMPLE: count}
                file.attrs.update(attributes)
                yield cls(file, guarded.check)
            guarded.check()

    @classmethod
    def require(cls, path: Path) -> None:
        """Make sure that the file may have this name."""
        require_place(path)

    def create(self, variable: NewVariable, positions: np.ndarray | None = None) -> None:
        """Create a variable, and the dimensions of it that are new."""
        for name, length in zip(variable.dimensions, variable.shape, strict=True):
            if name not in self.file.dimensions:
                self.file.dimensions[name] = length
        made = self.file.create_variable(
            variable.name,
            variable.dimensions,
            variable.dtype,
            data=positions,
            fillvalue=variable.fill if positions is None else None,
            chunks=variable.chunks,
            fletcher32=True,
        )
        made.attrs.update(variable.labels)

    def put(self, name: str, start: int, array: np.ndarray) -> None:
        """Write samples, and make sure that the disk took them."""
        self.file.variables[name][start : start + len(array)] = array
        self.check()
