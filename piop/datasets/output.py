"""Output files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from piop.errors import DataError, PiopError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside ``path``; rename it when the block ends, remove it on failure.

    A file that was there before stays intact until the new one is whole and on disk.

    Raises:
        DataError: The place cannot be written: no such folder, a folder or device, no permission.
        PiopError: Writing failed on the way, such as on a full disk.
    """
    path = Path(path)
    temporary = _reserve(path)
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
    except PiopError:
        raise
    except (OSError, RuntimeError) as error:
        # h5py reports a full disk as OSError, or RuntimeError when it closes a file
        state = "the file that was there is unchanged" if path.exists() else "nothing was written"
        reason = getattr(error, "strerror", None) or error
        raise PiopError(f"{path}: cannot be written: {reason}; {state}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _reserve(path: Path) -> Path:
    folder = path.parent
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "there is no such folder"
        raise DataError(f"{path}: cannot be written: {folder}: {problem}")
    if path.is_dir():
        raise DataError(f"{path}: cannot be written: it is a folder; give a file name")
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: cannot be written: it is not a regular file")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=folder)
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)  # mkstemp gives 0600, others' files follow the umask
        os.close(handle)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    return Path(name)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
