"""HDF5 files: opened for fast single samples, and safe to write on a full disk."""

from __future__ import annotations

import io
from pathlib import Path

import h5py


def open_h5(path: Path) -> h5py.File:
    """Open a file to read it.

    With its cache HDF5 loads a chunk whole for each sample of it, at fifteen times the cost where
    chunks are as large as piop writes them (4 MB); without, an array that is not compressed is read
    where it lies. A compressed one has to be unpacked by chunks, and the cache spares that twice.
    """
    file = h5py.File(path, "r")
    packed = []

    def look(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.chunks is not None:
            packed.append(item.id.get_create_plist().get_nfilters() > 0)

    file.visititems(look)
    if any(packed):
        return file
    file.close()
    return h5py.File(path, "r", rdcc_nbytes=0)


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
