"""Files of a run: written atomically, covered by checksums, by one process at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from piop.errors import DamagedFileError, TrainingError
from piop.folder_lock import require_own_lock

CHECKSUMS, CONFIG = "checksums.json", "config.json"
Checksum = tuple[int, str]
"""Number of bytes from the beginning of a file, and their BLAKE2b digest."""


digest = partial(hashlib.blake2b, digest_size=16)


def checksum(content: bytes) -> Checksum:
    """Return the checksum of bytes."""
    return len(content), digest(content).hexdigest()


@final
@dataclass(frozen=True)
class RunFiles:
    """The files of a run folder, each with a checksum in ``checksums.json``.

    Checksums find damage, not malice. While files are replaced, the checksums of both versions are
    valid, so that a process killed at any moment leaves files that match theirs.

    Attributes:
        folder: The run folder.
    """

    folder: Path

    @property
    def covered(self) -> bool:
        """Whether there are checksums: folders made before they were introduced have none."""
        return (self.folder / CHECKSUMS).exists()

    def had(self, name: str) -> bool:
        """Whether a file with content was written, by its checksum."""
        return any(size for size, _ in self._checksums().get(name, []))

    def read(self, name: str, remedy: str = "", grows: bool = False) -> bytes:
        """Read a file and compare it with its checksum, if it has one.

        Args:
            name: Path within the folder.
            remedy: What to do where it is damaged, for the message.
            grows: Whether there may be more than the checksum covers.

        Raises:
            FileNotFoundError: There is no such file.
            DamagedFileError: The content differs from what was written.
        """
        content = (self.folder / name).read_bytes()
        known = self._checksums().get(name, [])
        for size, own in known:
            if checksum(content[:size]) == (size, own) and (grows or size == len(content)):
                return content
        if not known:
            return content
        raise DamagedFileError(
            f"{self.folder / name}: is damaged, or was changed since the run began: its checksum "
            f"differs from that in {CHECKSUMS}" + (f". {remedy}" if remedy else "")
        )

    def write(
        self,
        files: Mapping[str, bytes],
        moved: Mapping[str, str] | None = None,
        covered: Mapping[str, Checksum] | None = None,
        again: str | None = None,
    ) -> None:
        """Replace files, all of them on disk before the first has its name.

        Args:
            files: Path within the folder → content.
            moved: Files to rename first, old → new path.
            covered: Checksums of files that are written elsewhere.
            again: Command that writes them again; by default what continues the run.

        Raises:
            UsageError: Another process has taken the folder over.
            TrainingError: A file cannot be written; those that were there are still there.
        """
        require_own_lock(self.folder)
        moved, before = moved or {}, self._checksums()
        after = {**before, **{new: before.get(old, []) for old, new in moved.items()}}
        after |= {name: [checksum(content)] for name, content in files.items()}
        after |= {name: [known] for name, known in (covered or {}).items()}
        both = {name: [*before.get(name, []), *known] for name, known in after.items()}
        for name, content in files.items():
            self._write_temporary(name, content, again)
        self._store(both, again)
        for old, new in [*moved.items(), *((_temporary(name), name) for name in files)]:
            self._rename(old, new, again)
        self._store(after, again)

    def _checksums(self) -> dict[str, list[Checksum]]:
        """Read the checksums: path within the folder → those that are valid."""
        try:
            found = json.loads((self.folder / CHECKSUMS).read_bytes())
            files, own = found["files"], found["checksum"]
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError):
            files, own = {}, None
        if own != _own_digest(files):
            raise DamagedFileError(
                f"{self.folder / CHECKSUMS}: is damaged. Put back a copy of it; or remove it, and "
                f"the run is used unchecked"
            )
        return {name: [(size, own) for size, own in known] for name, known in files.items()}

    def _store(self, files: Mapping[str, list[Checksum]], again: str | None) -> None:
        body = {"files": files, "checksum": _own_digest(files)}
        self._write_temporary(CHECKSUMS, json.dumps(body, indent=1).encode() + b"\n", again)
        self._rename(_temporary(CHECKSUMS), CHECKSUMS, again)

    def _write_temporary(self, name: str, content: bytes, again: str | None) -> None:
        path = self.folder / _temporary(name)
        try:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            path.unlink(missing_ok=True)
            raise cannot_write(self.folder, name, error, again) from error

    def _rename(self, old: str, new: str, again: str | None) -> None:
        try:
            (self.folder / old).replace(self.folder / new)
        except OSError as error:
            raise cannot_write(self.folder, new, error, again) from error


def _temporary(name: str) -> str:
    path = Path(name)
    return str(path.with_name(f".{path.name}.tmp"))


def _own_digest(files: Any) -> str:
    return checksum(json.dumps(files, sort_keys=True).encode())[1]


def cannot_write(
    folder: Path, name: str, error: OSError, again: str | None = None
) -> TrainingError:
    """Return the error for a file of a run that cannot be written: what is kept, and the remedy.

    Args:
        folder: The run folder.
        name: Path within it.
        error: Of the operating system.
        again: Command that writes the file again; by default what continues the run.
    """
    path = folder / name
    kept = "; the version before is kept" if path.exists() else ""
    remedy = {
        errno.ENOSPC: "Free some space",
        errno.EDQUOT: "Free some space, or raise your quota",
        errno.EFBIG: "Raise the limit on file sizes (ulimit -f)",
    }.get(error.errno or 0, "Give write permission, or use another disk")
    begun = (folder / CONFIG).exists()
    then = (
        f"go on with: {again or f'piop resume {folder}'}"
        if begun
        else "give the same command again"
    )
    reason = error.strerror or str(error)
    return TrainingError(f"{path}: cannot be written ({reason}){kept}. {remedy}, then {then}")
