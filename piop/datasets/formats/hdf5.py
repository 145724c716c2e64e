"""HDF5 files, opened so that they show nothing but what is in them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import h5py
from h5py import h5d, h5g, h5l, h5o  # type: ignore[attr-defined]  (compiled, no stubs)

from piop.datasets.formats import hdf5_attributes
from piop.datasets.formats.limits import check_sizes, stored_bytes
from piop.errors import DataError

_COPY = "copy them into one file"


def open_h5(path: Path) -> h5py.File:
    """Open a file to read it.

    With its cache HDF5 loads a chunk whole for each sample of it, at fifteen times the cost where
    chunks are large (4 MB); without, an array that is neither compressed nor has checksums is read
    where it lies. Others have to be loaded by chunks, and the cache spares that twice.

    Raises:
        DataError: If numbers lie in another file, or a chunk is larger than the file can fill.
    """
    with ExitStack() as stack:
        file = stack.enter_context(h5py.File(path, "r"))
        layouts = [dataset.get_create_plist() for dataset in _datasets(path, file.id)]
        if any(p.get_layout() == h5d.VIRTUAL or p.get_external_count() for p in layouts):
            raise DataError(f"{path}: holds an array whose numbers lie in other files; {_COPY}")
        chunked = [p for p in layouts if p.get_layout() == h5d.CHUNKED]
        chunks = {"a chunk": max((math.prod(p.get_chunk()) for p in chunked), default=0)}
        check_sizes(path, stored_bytes(path), chunks)
        if any(p.get_nfilters() for p in chunked):
            stack.pop_all()
            return file
    return h5py.File(path, "r", rdcc_nbytes=0)


def check_attributes(path: Path, levels: int) -> None:
    """Refuse a file whose attributes a process of its own does not come to the end of.

    Args:
        path: The file.
        levels: Down to which those of groups and arrays are read; 0 for the file's own.
    """
    command = [sys.executable, "-P", hdf5_attributes.__file__, str(path), str(levels)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each would take memory
    ended = subprocess.run(command, env=environment, capture_output=True)  # noqa: S603  ours
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").splitlines()
        reason = said[-1] if said else "the library comes to no end"
        raise DataError(f"{path}: is damaged: its attributes cannot be read: {reason}")


def _datasets(path: Path, root: h5g.GroupID) -> Iterator[h5d.DatasetID]:
    """Every array of a file, however deep, without following a link out of it."""
    waiting, met = [root], set()
    while waiting:
        group = waiting.pop()
        links: list[tuple[bytes, int]] = []
        group.links.iterate(lambda name, info, to=links: to.append((name, info.type)), info=True)
        for name, kind in links:
            if kind == h5l.TYPE_SOFT:
                continue  # it leads to something in the file, or nowhere
            if kind != h5l.TYPE_HARD:
                shown = name.decode(errors="replace")
                raise DataError(f"{path}: '{shown}' is a link to another file; {_COPY}")
            item = h5o.open(group, name)
            if isinstance(item, h5d.DatasetID):
                yield item
            elif isinstance(item, h5g.GroupID):
                place = h5o.get_info(item).addr
                if place not in met:  # a group may hold itself
                    met.add(place)
                    waiting.append(item)
