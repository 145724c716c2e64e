"""Zarr, read in versions 2 and 3, written in version 3."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any, Self, final

import numpy as np

from piop.datasets.atomic_output import replacing_folder, require_place
from piop.datasets.formats.limits import check_sizes, stored_bytes
from piop.datasets.lazy_arrays import OpenFile, is_number, lazy_array, plain_numbers
from piop.datasets.writer import ArrayStore, NewVariable
from piop.errors import DataError, NotSupportedError

ZARR_FILE = "zarr.json"
OF_VERSION_2 = ".zgroup"
NAMES = "_ARRAY_DIMENSIONS"
"""Where xarray keeps the names of dimensions in version 2."""
CHECKSUM = "piop_checksum"
"""Attribute of the group: checksum of all metadata and of the names of all chunks."""


def zarr_library(path: str | Path) -> ModuleType:
    """Import Zarr's library, which is no dependency of piop.

    Raises:
        NotSupportedError: If it is not there.
    """
    try:
        import zarr
    except ImportError:
        raise NotSupportedError(
            f"{path}: Zarr needs its library, of version 3: pip install 'piop[zarr]'. Without it "
            f"data sets are NetCDF: --output F.nc"
        ) from None
    return zarr


def is_zarr(path: Path) -> bool:
    """Tell a folder in Zarr's format from others."""
    return any((path / name).is_file() for name in (ZARR_FILE, OF_VERSION_2))


def open_zarr(path: Path) -> OpenFile:
    """Open the arrays of the outermost group.

    Raises:
        DataError: If the folder holds one array alone, not a group; if it has a checksum, and that
            does not agree.
        NotSupportedError: Without Zarr's library.
    """
    zarr = zarr_library(path)
    from piop.datasets.formats.zarr_store import CheckedStore, packing

    # a consolidated list of arrays may name others than those in the folder
    store = CheckedStore(zarr.storage.LocalStore(path, read_only=True))
    group = zarr.open(store, mode="r", use_consolidated=False)
    if not hasattr(group, "arrays"):
        raise DataError(f"{path}: is one array of Zarr; expected a group of named arrays")
    attributes = dict(group.attrs)
    written = attributes.pop(CHECKSUM, None)
    if written is not None and written != _checksum(path):
        raise DataError(
            f"{path}: is damaged, or was changed since it was written: files are missing, or the "
            f"checksum of the metadata ({ZARR_FILE} of each array) does not agree. If the change "
            f"was yours, remove '{CHECKSUM}' from {path / ZARR_FILE}"
        )
    stored = {name: array for name, array in group.arrays() if is_number(array)}
    limits = {name: packing(path, name, array) for name, array in stored.items()}
    group.store.limits = {name: limit for name, limit in limits.items() if limit}
    check_sizes(path, stored_bytes(path), {f"a chunk of {n}": _chunk(a) for n, a in stored.items()})
    arrays = {name: lazy_array(array, _dimensions(array)) for name, array in stored.items()}
    return OpenFile(str(path), "zarr", arrays, attributes)


def _checksum(folder: Path) -> str:
    """Return the checksum of a group: a missing chunk would be read as the value that fills it."""
    digest = blake2b(digest_size=16)
    for file in sorted(f for f in folder.rglob("[!.]*") if f.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        if file.name == ZARR_FILE:
            metadata = json.loads(file.read_bytes())
            metadata["attributes"].pop(CHECKSUM, None)
            digest.update(json.dumps(metadata, sort_keys=True).encode())
    return digest.hexdigest()


def _chunk(array: Any) -> int:
    """How many numbers are unpacked at a time."""
    return math.prod(array.shards or array.chunks)


def _dimensions(array: Any) -> tuple[str, ...] | None:
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get(NAMES)
    return None if not names or None in names else tuple(map(str, names))


@final
@dataclass(frozen=True)
class ZarrStore(ArrayStore):
    """An open group of Zarr.

    Attributes:
        group: Zarr's group.
        count: Samples in all.
        waiting: Samples of each array that do not fill a chunk yet.
    """

    group: Any
    count: int
    waiting: dict[str, np.ndarray] = field(default_factory=dict)
    chunk_bytes = 4_000_000  # each is a file

    @classmethod
    @contextmanager
    def open(
        cls, path: Path, count: int, attributes: Mapping[str, Any], workspace: Path | None
    ) -> Iterator[Self]:
        """Open a folder that appears under its name when the block ends."""
        zarr = zarr_library(path)
        with replacing_folder(path, ZARR_FILE, workspace) as temporary:
            plain = plain_numbers(attributes)
            group = zarr.open_group(temporary, mode="w", zarr_format=3, attributes=plain)
            yield cls(group, count)
            group.attrs[CHECKSUM] = _checksum(temporary)

    @classmethod
    def require(cls, path: Path) -> None:
        """Make sure that the library is there and that the folder may have this name."""
        zarr_library(path)
        require_place(path, ZARR_FILE)

    def create(self, variable: NewVariable, positions: np.ndarray | None = None) -> None:
        """Create an array."""
        from zarr.codecs import Crc32cCodec

        made = self.group.create_array(
            variable.name,
            shape=variable.shape,
            chunks=variable.chunks,
            dtype=variable.dtype,
            # numbers of a simulation hardly get smaller by compression, and reading gets slower
            compressors=Crc32cCodec(),
            fill_value=variable.fill,
            dimension_names=variable.dimensions,
            attributes=variable.labels,
        )
        if positions is not None:
            made[:] = positions

    def put(self, name: str, start: int, array: np.ndarray) -> None:
        """Write whole chunks, each once; what does not fill one waits for more."""
        waiting = np.concatenate([self.waiting.get(name, array[:0]), array])
        end, place = start + len(array), self.group[name]
        whole = len(waiting) if end == self.count else len(waiting) - end % place.chunks[0]
        if whole > 0:
            first = end - len(waiting)
            place[first : first + whole] = waiting[:whole]
            waiting = waiting[whole:]
        self.waiting[name] = waiting
