"""MATLAB files of version 5, read by their headers.

SciPy's reader ends the process on some damaged files, and takes memory before it knows that a file
can fill it. The format: MathWorks, "MAT-File Format", R2019b, chapter 1.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import final

import numpy as np

from piop.datasets.lazy_arrays import Select

HEADER = 128
VERSION = 0x0100
LARGEST_HEAD = 65_536
"""Bytes in which the headers of an array must end."""
MATRIX, COMPRESSED = 14, 15
STORED = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
"""Types of data elements that hold numbers (table 1-1)."""
NUMERIC = range(6, 16)
"""Classes of arrays that hold numbers (table 1-3); others are text, cells, structures, …"""
COMPLEX = 0x0800


@final
class Matlab5Array:
    """An array of real numbers in a file; MATLAB's order of axes.

    Args:
        path: The file.
        start: Where its element begins.
        size: Length of the element.
        packed: Whether the element is compressed.
        order: Byte order of the file, ``<`` or ``>``.

    Raises:
        ValueError: If the headers are not those of an array.
    """

    def __init__(self, path: Path, start: int, size: int, packed: bool, order: str) -> None:
        self._path, self._start, self._size, self._packed = path, start, size, packed
        self._unpacked, at = size, 0
        head = self._bytes(LARGEST_HEAD)
        if packed:
            kind, length, at = _tag(head, 0, order)
            if kind != MATRIX:
                raise ValueError(f"a compressed element of type {kind}, not an array")
            self._unpacked = at + length
        flags, at = _element(head, at, order)
        (word,) = struct.unpack_from(f"{order}I", flags)
        sizes, at = _element(head, at, order)
        name, at = _element(head, at, order)
        self.name = name.decode("ascii", "replace")
        self.shape = tuple(map(int, np.frombuffer(sizes, f"{order}i4")))
        self.real = (word & 0xFF) in NUMERIC and not word & COMPLEX
        if self.real:
            kind, length, self._data = _tag(head, at, order)
            self.dtype = np.dtype(order + STORED[kind])
            fits = length == math.prod(self.shape) * self.dtype.itemsize
            if not fits or min(self.shape) < 0 or self._data + length > self._unpacked:
                raise ValueError(f"'{self.name}' of shape {self.shape} with {length} bytes")

    def __getitem__(self, select: Select, /) -> np.ndarray:
        """Read a part; the array is read as a whole for it."""
        content = self._bytes(self._unpacked)
        values = np.frombuffer(content, self.dtype, math.prod(self.shape), self._data)
        return values.reshape(self.shape, order="F")[select]

    def _bytes(self, count: int) -> bytes:
        """The first bytes of the element, unpacked; the whole of it passes its checksum."""
        with self._path.open("rb") as file:
            file.seek(self._start)
            found = file.read(self._size if self._packed else count)
        if self._packed:
            unpacker = zlib.decompressobj()
            found = unpacker.decompress(found, count)
            if len(found) == self._unpacked:
                unpacker.decompress(unpacker.unconsumed_tail, 1)  # the checksum comes last
        return found


def matlab5_arrays(path: Path) -> dict[str, Matlab5Array]:
    """Find the arrays of real numbers in a file, by name.

    Raises:
        ValueError, struct.error, zlib.error: If the file is damaged.
    """
    found: dict[str, Matlab5Array] = {}
    for array in filter(lambda array: array.real, _elements(path)):
        if array.name in found:
            raise ValueError(f"two arrays are called '{array.name}'")
        found[array.name] = array
    return found


def _elements(path: Path) -> Iterator[Matlab5Array]:
    end = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(HEADER)
        order = {b"IM": "<", b"MI": ">"}[head[126:]]
        (version,) = struct.unpack_from(f"{order}H", head, 124)
        if version != VERSION:
            raise ValueError(f"version {version:#06x} of the format; expected {VERSION:#06x}")
        start = HEADER
        while start < end:
            file.seek(start)
            kind, size, _ = _tag(file.read(8), 0, order)
            start += 8
            if start + size > end:
                raise ValueError(f"ends after {end} bytes, within an array of {size}")
            if kind in (MATRIX, COMPRESSED):
                yield Matlab5Array(path, start, size, kind == COMPRESSED, order)
            start += size


def _tag(content: bytes, at: int, order: str) -> tuple[int, int, int]:
    """Type of a data element, its length, and where its data begin."""
    (word,) = struct.unpack_from(f"{order}I", content, at)
    if word >> 16:  # a small element: both in one word, up to four bytes of data in the next
        return word & 0xFFFF, word >> 16, at + 4
    (size,) = struct.unpack_from(f"{order}I", content, at + 4)
    return word, size, at + 8


def _element(content: bytes, at: int, order: str) -> tuple[bytes, int]:
    """The data of an element, and where the next one begins."""
    _, size, data = _tag(content, at, order)
    return content[data : data + size], at + 8 if data == at + 4 else data + size + -size % 8
