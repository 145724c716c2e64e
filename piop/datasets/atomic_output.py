"""Atomic file writing, and shards that let an interrupted job resume."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError, deserialize

from piop.datasets.lazy_arrays import reason_of
from piop.errors import DataError, PiopError, UsageError, check_file_name, check_path
from piop.folder_lock import LOCK, one_writer, require_own_lock

logger = logging.getLogger(__name__)


@contextmanager
def replacing(path: str | Path, workspace: Path | None = None) -> Iterator[Path]:
    """Give a temporary name; rename it to ``path`` when the block ends, remove it on failure.

    A file that was there before stays intact until the new one is whole and on disk.

    Args:
        path: The file.
        workspace: Folder of the temporary file, on the same disk; by default that of ``path``.

    Raises:
        DataError: The place cannot be written: no such folder, a folder or device, no permission.
        PiopError: Writing failed on the way, such as on a full disk.
    """
    path = Path(path)
    require_place(path)
    with _reserving(path) as prefix:
        handle, name = tempfile.mkstemp(".part", prefix, workspace or path.parent)
        os.fchmod(handle, 0o666 & ~_umask())  # mkstemp gives 0600, others' files follow the umask
        os.close(handle)
    temporary = Path(name)
    try:
        with _writing(path, "the file that was there"):
            yield temporary
            _flush(temporary)
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path, ours: str, workspace: Path | None = None) -> Iterator[Path]:
    """Give a temporary folder, which is called ``path`` when the block ends.

    Args:
        path: Where the folder is to be; one that is there is replaced.
        ours: A file that tells a folder that may be replaced from others.
        workspace: Where the temporary folder is, on the same disk; by default beside ``path``.

    Raises:
        DataError: The place cannot be written, or holds something else.
        PiopError: Writing failed on the way, such as on a full disk.
    """
    path = Path(path)
    require_place(path, ours)
    with _reserving(path) as prefix:
        temporary = Path(tempfile.mkdtemp(".part", prefix, workspace or path.parent))
    temporary.chmod(0o777 & ~_umask())
    try:
        with _writing(path, "what was there"):
            yield temporary
            for file in [*temporary.rglob("*"), temporary]:
                _flush(file)
            with _aside(path) if path.exists() else nullcontext():
                temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _reserving(path: Path) -> Iterator[str]:
    """Give the prefix of a temporary name, and report a place where none can be made."""
    try:
        yield _prefix(path.name)
    except OSError as error:
        message = f"{path}: cannot be written: {reason_of(error)}. {_remedy(error)}"
        raise DataError(message) from None


def _prefix(name: str) -> str:
    return f".{name[:100]}."


@contextmanager
def _writing(path: Path, before: str) -> Iterator[None]:
    """Report an output that fails within the block, and what became of the one before."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # h5py reports a full disk as OSError, or RuntimeError when it closes a file
        state = f"{before} is unchanged" if path.exists() else "nothing was written"
        message = f"{path}: cannot be written: {reason_of(error)}; {state}. {_remedy(error)}"
        raise PiopError(message) from error


def _remedy(error: Exception) -> str:
    return _REMEDIES.get(getattr(error, "errno", None) or 0, "Write to another place")


_REMEDIES = {
    errno.EACCES: "Give write permission, or write to another place",
    errno.EFBIG: "Raise the limit on file sizes (ulimit -f)",
    errno.ENOSPC: "Free some space, or write to another disk",
    errno.EDQUOT: "Free some space, or write to another disk",
    errno.ENOENT: "Its folder is gone: make it again, or write to another",
}


@contextmanager
def _aside(path: Path) -> Iterator[None]:
    """Move a folder away for the block, and back if that fails: no system call swaps folders."""
    with _reserving(path) as prefix:
        away = Path(tempfile.mkdtemp(".old", prefix, path.parent))
    path.replace(away)
    try:
        yield
    except BaseException:
        away.replace(path)
        raise
    shutil.rmtree(away)


def require_place(path: Path, ours: str | None = None) -> None:
    """Make sure that an output may have this name.

    Args:
        path: The name.
        ours: For a folder, the file that tells one that may be replaced; None for a file.

    Raises:
        DataError: If it may not.
        UsageError: If it is no path, such as one that is too long.
    """
    check_path(path)
    folder = path.parent
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "there is no such folder"
        raise DataError(f"{path}: cannot be written: {folder}: {problem}")
    if ours is not None and path.exists() and not (path / ours).is_file():
        raise DataError(f"{path}: cannot be written: it is there and holds no {ours}")
    if ours is None and path.is_dir():
        raise DataError(f"{path}: cannot be written: it is a folder; give a file name")
    if ours is None and path.exists() and not path.is_file():
        raise DataError(f"{path}: cannot be written: it is not a regular file")


def require_new(path: Path, force: bool) -> None:
    """Refuse to replace what is there already, and names that are none elsewhere.

    Args:
        path: Name of an output that a user gave.
        force: Whether the user asked to replace it.

    Raises:
        UsageError: If there is something, and it is not to be replaced; for a reserved name.
    """
    check_file_name(path.name)
    if not force and os.path.lexists(path):
        raise UsageError(
            f"{path}: exists already; give another name, or replace it with --force (force=True)"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


MANIFEST, PART = "manifest.json", ".safetensors"
_PART_NAME = re.compile(rf"\d{{9,}}-\d{{9,}}{re.escape(PART)}")
_LOCK_NAME = re.compile(rf"{LOCK}(\.\d+)?")


@final
@dataclass(frozen=True)
class Shards:
    """Parts ``[start, stop)`` of a data set, each a file that appears when it is whole.

    Attributes:
        folder: Where they are; see :meth:`open`.
        output: Name of the output that they are for.
    """

    folder: Path
    output: str

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, manifest: Mapping[str, Any]) -> Iterator[Shards]:
        """Open the folder ``NAME.parts`` beside an output, with what an earlier job left there.

        The folder stays until :meth:`remove`, unless no part was written. A file that is not of
        these parts is never removed.

        Args:
            path: The output that the parts are for.
            manifest: All that decides what a part holds; JSON.

        Raises:
            UsageError: The parts that are there are of another job, or another process is at work.
            DataError: The place cannot be written, or a folder of this name is not piop's.
        """
        path = Path(path)
        folder = path.with_name(path.name + ".parts")
        shards = cls(folder, path.name)
        manifest = json.loads(json.dumps(manifest))
        try:
            folder.mkdir(exist_ok=True)
            shards._require_own(path, manifest)  # before anything is written into it
        except OSError as error:
            message = f"{path}: cannot be written: {folder}: {reason_of(error)}. {_remedy(error)}"
            raise DataError(message) from None
        try:
            with one_writer(folder):
                try:
                    shards._agree(path, manifest)
                    _remove(shards._temporary)  # which a killed process had begun to write
                    yield shards
                finally:
                    if shards._empty:
                        shards.remove()
        finally:
            with contextlib.suppress(OSError):  # it holds parts, or another process has come
                folder.rmdir()

    def _require_own(self, path: Path, manifest: Mapping[str, Any]) -> None:
        """Make sure that the folder holds a manifest of piop's, or nothing of a user's.

        Raises:
            DataError: If it does not.
        """
        found = self._manifest()
        if found is not None and not self._empty:
            return  # whose parts they are is decided once no other process writes
        if found is not None and (found == manifest or any(k.startswith("piop_") for k in found)):
            return
        begun = {*self._temporary, *self._matching(_LOCK_NAME)}  # of a process that was killed
        if found is None and not set(self.folder.iterdir()) - begun:
            return
        raise DataError(
            f"{path}: cannot be written: {self.folder} is there and holds no {MANIFEST} of piop, "
            "which keeps unfinished data sets in folders of such names. Rename or remove it, or "
            "give another --output"
        )

    def _manifest(self) -> dict[str, Any] | None:
        """Read the manifest: empty where it cannot be read; None where there is none."""
        try:
            found = json.loads((self.folder / MANIFEST).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _agree(self, path: Path, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, or make sure that it is the same."""
        found = self._manifest()
        if found is None or self._empty:
            with replacing(self.folder / MANIFEST) as temporary:
                temporary.write_text(json.dumps(manifest, indent=1) + "\n")
            return
        if found == manifest:
            return
        keys = [k for k in {**found, **manifest} if found.get(k) != manifest.get(k)]
        unlike = ", ".join(f"{k} was {found.get(k)}, now {manifest.get(k)}" for k in keys)
        raise UsageError(
            f"{path}: {self.folder} holds parts of another data set ({unlike}). Go on with the "
            f"command that began it, give another --output, or remove that folder"
        )

    def has(self, part: range) -> bool:
        """Tell whether a part is there."""
        return self.file(part).exists()

    def write(self, part: range, content: bytes) -> None:
        """Keep a part and its checksum: on disk before it has its name."""
        require_own_lock(self.folder)
        with replacing(self.file(part)) as temporary:
            temporary.write_bytes(content + blake2b(content).digest())

    def read(self, part: range) -> bytes:
        """Give a part back.

        Raises:
            DataError: If it cannot be read, or is damaged.
        """
        file = self.file(part)
        try:
            found = file.read_bytes()
        except OSError as error:
            raise DataError(f"{file}: cannot be read: {reason_of(error)}") from None
        size = blake2b.MAX_DIGEST_SIZE
        content, digest = found[:-size], found[-size:]
        if blake2b(content).digest() == digest:
            return content
        with contextlib.suppress(SafetensorError):
            deserialize(found)  # which bears nothing behind its end
            logger.info("%s: has no checksum, so damage to it is not noticed", file)
            return found
        raise DataError(f"{file}: is damaged. Remove it: the same command makes its samples again")

    @property
    def _empty(self) -> bool:
        """Whether there is no part."""
        return not self._matching(_PART_NAME)

    @property
    def _temporary(self) -> list[Path]:
        """The files and folders that were begun here and do not have their names yet."""
        names = (
            rf"{re.escape(_prefix(self.output))}|\.{re.escape(MANIFEST)}\.|\.{_PART_NAME.pattern}\."
        )
        return self._matching(re.compile(rf"({names})[^.]+\.part", re.DOTALL))

    def _matching(self, names: re.Pattern[str]) -> list[Path]:
        return [file for file in self.folder.glob("*") if names.fullmatch(file.name)]

    def remove(self) -> None:
        """Remove all parts, then the manifest; whatever else is in the folder stays."""
        _remove([*self._temporary, *self._matching(_PART_NAME)])
        (self.folder / MANIFEST).unlink(missing_ok=True)

    def file(self, part: range) -> Path:
        """Where a part is kept."""
        return self.folder / f"{part.start:09d}-{part.stop:09d}{PART}"
