"""Limits of data files of unknown origin, judged before they are opened or read."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np

from piop.datasets.lazy_arrays import OpenFile, StoredArray, reading, reason_of
from piop.errors import DataError

NUMBER = 8
"""Bytes of a number in memory, whatever its type in the file."""
SMALL = 16_000_000
"""Bytes in memory that any file may declare."""
EXPANSION = 500
"""Bytes in memory that a file may declare for each of its own. Compressed fields of simulations
come to less than ten, piecewise constant ones of one byte a number to about 200."""

MOST_ARRAYS = 1000
"""Arrays that a file may hold; each takes some readers milliseconds."""


def stored_bytes(path: Path) -> int:
    """Return what a file, or a folder with all within it, takes on the disk.

    Raises:
        DataError: There is none; it is a pipe, socket or device, on which reading may never end; or
            something within the folder is, or is a link, which may lead anywhere.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            return sum(_size_within(path, name) for name in path.rglob("*"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {reason_of(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path}: is a pipe, socket or device; expected a file")
    return _size(found)


def _size_within(folder: Path, path: Path) -> int:
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode):
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise DataError(
            f"{folder}: holds {path.relative_to(folder)}, which is a link, pipe or device; "
            f"expected files alone: copy what a link leads to"
        )
    return _size(found)


def _size(found: os.stat_result) -> int:
    """Bytes that are on the disk: a file may have holes; some file systems count no blocks."""
    return min(found.st_size, 512 * found.st_blocks or found.st_size)


def too_large(numbers: int, stored: int) -> bool:
    """Whether that many numbers cannot come from that many bytes."""
    return NUMBER * numbers > SMALL + EXPANSION * stored


def check_sizes(path: str | Path, stored: int, declared: Mapping[str, int]) -> None:
    """Refuse arrays that need far more memory than a file can fill.

    Args:
        path: The file, for the message.
        stored: What it takes on the disk.
        declared: How many numbers its headers declare for each array.

    Raises:
        DataError: For the largest of them.
    """
    if not too_large(sum(declared.values()), stored):
        return
    name = max(declared, key=lambda name: declared[name])
    raise DataError(
        f"{path}: is damaged, or compressed too far: '{name}' declares {declared[name]:,} numbers, "
        f"and the file holds {stored:,} bytes. If that is right, write it without compression"
    )


def check_count(path: str | Path, count: int) -> None:
    """Refuse more arrays than a data set has.

    Raises:
        DataError: If there are.
    """
    if count > MOST_ARRAYS:
        raise DataError(f"{path}: holds {count} arrays; expected at most {MOST_ARRAYS}")


def check_packing(path: Path, archive: ZipFile) -> None:
    """Refuse members of a zip archive that are packed in a way which Python unpacks whole.

    Raises:
        DataError: If there are.
    """
    for member in archive.infolist():
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            message = f"'{member.filename}' is packed by method {member.compress_type} of zip"
            raise DataError(f"{path}: {message}; expected none or deflate")


def checked(file: OpenFile, stored: int) -> OpenFile:
    """Judge what the headers of an open file declare, and guard the reading of its arrays.

    Args:
        file: The file; closed where it is refused.
        stored: What it takes on the disk.

    Returns:
        The same file. Reading an array raises only ``DataError``, as where a part is damaged.

    Raises:
        DataError: Sizes that the file cannot fill; dimensions that are not those of the shape.
    """
    with ExitStack() as refused:
        refused.callback(file.close)
        check_count(file.path, len(file.arrays))
        for name, array in file.arrays.items():
            if not name.isprintable():
                raise DataError(f"{file.path}: is damaged: it holds an array called {name!r}")
            along = array.dimensions
            fits = along is None or len(along) == len(array.shape) == len(set(along))
            if not fits or min(array.shape, default=0) < 0:
                raise DataError(
                    f"{file.path}: '{name}' has shape {array.shape}, dimensions "
                    f"{', '.join(map(repr, along or ()))}; expected a different name for each axis"
                )
        check_sizes(file.path, stored, {n: math.prod(a.shape) for n, a in file.arrays.items()})
        refused.pop_all()
    return replace(file, arrays={n: _guarded(file, n, a) for n, a in file.arrays.items()})


def _guarded(file: OpenFile, name: str, array: StoredArray) -> StoredArray:
    def read_samples(samples: slice | None) -> np.ndarray:
        with reading(file.path, file.format):
            found = array.read_samples(samples)
        wanted = list(array.shape)
        if samples is not None and array.sample_axis is not None:
            wanted[array.sample_axis] = len(range(*samples.indices(wanted[array.sample_axis])))
        if list(found.shape) != wanted:
            message = f"'{name}' declares the shape {tuple(wanted)} and holds {found.shape}"
            raise DataError(f"{file.path}: is damaged: {message}")
        return found

    return replace(array, read_samples=read_samples)
