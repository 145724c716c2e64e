"""What a long job has made so far, in parts that outlive it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from piop.datasets.output import replacing
from piop.errors import DataError, UsageError

MANIFEST, LOCK = "manifest.json", "lock"


@final
class Shards:
    """Parts ``[start, stop)`` of a data set, each a file that appears when it is whole.

    Args:
        folder: Where they are; see :meth:`open`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, manifest: Mapping[str, Any]) -> Iterator[Shards]:
        """Open the folder ``NAME.parts`` beside an output, with what an earlier job left there.

        The lock goes with the process, however that ends; the folder stays until
        :meth:`remove`.

        Args:
            path: The output that the parts are for.
            manifest: All that decides what a part holds; JSON.

        Raises:
            UsageError: The parts that are there are of another job, or another process is at work.
            DataError: The place cannot be written.
        """
        path = Path(path)
        folder = path.with_name(path.name + ".parts")
        try:
            folder.mkdir(exist_ok=True)
            handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{path}: cannot be written: {folder}: {reason}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(f"{path}: is being made by another process ({folder})") from None
            shards = cls(folder)
            shards._agree(path, json.loads(json.dumps(manifest)))
            shards._clear()
            yield shards
        finally:
            os.close(handle)

    def _agree(self, path: Path, manifest: dict[str, Any]) -> None:
        """Write the manifest, or make sure that it is the same."""
        file = self.folder / MANIFEST
        if not file.exists():
            with replacing(file) as temporary:
                temporary.write_text(json.dumps(manifest, indent=1) + "\n")
            return
        try:
            found = json.loads(file.read_text())
        except (OSError, ValueError):
            found = {}
        if found == manifest:
            return
        keys = [k for k in {**found, **manifest} if found.get(k) != manifest.get(k)]
        unlike = ", ".join(f"{k} was {found.get(k)}, now {manifest.get(k)}" for k in keys)
        raise UsageError(
            f"{path}: {self.folder} holds parts of another data set ({unlike}). Go on with the "
            f"command that began it, give another --output, or remove that folder"
        )

    def _clear(self) -> None:
        """Remove what a killed process had begun to write."""
        for rest in self.folder.glob(".*.part"):
            if rest.is_dir():
                shutil.rmtree(rest)
            else:
                rest.unlink()

    def has(self, part: range) -> bool:
        """Tell whether a part is there."""
        return self._file(part).exists()

    def write(self, part: range, content: bytes) -> None:
        """Keep a part: on disk before it has its name."""
        with replacing(self._file(part)) as temporary:
            temporary.write_bytes(content)

    def read(self, part: range) -> bytes:
        """Give a part back."""
        try:
            return self._file(part).read_bytes()
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{self._file(part)}: cannot be read: {reason}") from None

    def remove(self) -> None:
        """Remove all parts."""
        shutil.rmtree(self.folder)

    def _file(self, part: range) -> Path:
        return self.folder / f"{part.start:09d}-{part.stop:09d}.safetensors"
