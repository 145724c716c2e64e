"""A file that HDF5 may fill on a full disk without harm."""

from __future__ import annotations

import io
from pathlib import Path


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
