"""A store of Zarr that checks packed chunks before they are unpacked.

Zarr's codecs take the memory that a chunk asks for: zstd packs zeros to a thirty thousandth. The
formats: RFC 8878, section 3.1.1 (zstd); C-Blosc, README_CHUNK_FORMAT.rst; LZ4 behind its length.
"""

from __future__ import annotations

import bz2
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, final

from zarr.storage import LocalStore, WrapperStore

from piop.datasets.formats.limits import NUMBER, SMALL
from piop.errors import DataError

ZSTD_BLOCK = 2**17
"""Bytes that a block unpacks to at most."""
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")

CODECS = {
    "adler32", "astype", "bitround", "blosc", "bz2", "crc32", "crc32c", "delta", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "pcodec", "quantize",
    "shuffle", "zfpy", "zlib", "zstd",
}  # fmt: skip
"""Codecs of version 2 that may unpack numbers; among the others is one that loads pickles."""
SLACK = 1024
"""Bytes that a checksum, or what a codec notes, may take beside the numbers of a chunk."""


@final
class CheckedStore(WrapperStore[LocalStore]):
    """A folder in Zarr's format.

    Attributes:
        limits: Name of a packed array → its codec, one of :data:`SIZES`, and how many bytes a chunk
            of it comes to at most.
    """

    limits: Mapping[str, tuple[str, int]] = {}

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Read a chunk, or metadata.

        Raises:
            DataError: If a chunk asks for more memory than it is long, or its end is missing.
        """
        found = await super().get(key, prototype, byte_range)
        name, _, rest = key.partition("/")
        if found is not None and name in self.limits and rest not in METADATA:
            codec, most = self.limits[name]
            path = f"{self._store.root}: {key}"
            try:
                size = SIZES[codec](found.to_bytes(), most)
            except struct.error:
                raise DataError(f"{path}: is damaged: it ends within its header") from None
            except (ValueError, OSError, lzma.LZMAError, zlib.error) as error:
                raise DataError(f"{path}: is damaged: {error}") from None
            if size > most:
                message = f"is damaged: it unpacks to more than the {most:,} bytes of a chunk"
                raise DataError(f"{path}: {message}")
        return found


def _unpacked(make: Callable[[], Any], packed: bytes, most: int) -> int:
    """Length of what is unpacked, of all streams in a row, up to one more than the limit."""
    size, magic = 0, packed[:2]
    while size <= most and packed[:2] == magic:
        stream = make()
        size += len(stream.decompress(packed, most + 1 - size))
        packed = stream.unused_data
    return size


def _zstd(packed: bytes, most: int) -> int:
    """Length of the content as its frame tells it, else no more than it surely has.

    Raises:
        ValueError: If a frame that does not tell ends early or is followed by another.
    """
    (kind,) = struct.unpack_from("B", packed, 4)
    single, flag = kind >> 5 & 1, kind >> 6
    length = (single, 2, 4, 8)[flag]
    at = 5 + (not single) + (0, 1, 2, 4)[kind & 3]
    if length:
        return int.from_bytes(packed[at : at + length], "little") + 256 * (flag == 1)
    blocks, last = 0, 0
    while not last:
        header = int.from_bytes(packed[at : at + 3], "little")
        last, repeated = header & 1, header >> 1 & 3 == 1
        at, blocks = at + 3 + (1 if repeated else header >> 3), blocks + 1
        if at > len(packed):
            raise ValueError(f"a frame of zstd ends after {len(packed)} bytes, within a block")
    if packed[at + (kind & 4) :].startswith(packed[:4]):
        raise ValueError("several frames of zstd, which do not tell their lengths")
    return blocks * ZSTD_BLOCK - SMALL  # a block may hold less


def _blosc(packed: bytes, most: int) -> int:
    size, _, stored = struct.unpack_from("<III", packed, 4)
    if stored > len(packed):  # Blosc would read on behind the end
        raise ValueError(f"a chunk of {stored} bytes, of which {len(packed)} are there")
    return size


def _lz4(packed: bytes, most: int) -> int:
    return struct.unpack_from("<I", packed)[0]


SIZES: Mapping[str, Callable[[bytes, int], int]] = {
    "zstd": _zstd,
    "blosc": _blosc,
    "lz4": _lz4,
    "gzip": partial(_unpacked, partial(zlib.decompressobj, zlib.MAX_WBITS | 16)),
    "zlib": partial(_unpacked, zlib.decompressobj),
    "bz2": partial(_unpacked, bz2.BZ2Decompressor),
    "lzma": partial(_unpacked, lzma.LZMADecompressor),
}
"""Codec → length of what a packed chunk unpacks to, exactly up to a limit."""


def packing(path: Path, name: str, array: Any) -> tuple[str, int] | None:
    """How the chunks of an array are packed, and what one comes to; None where nothing is checked.

    Raises:
        DataError: If unpacking may run code, or multiplies the length twice.
    """
    codecs = [*array.filters, *array.compressors]
    for codec in codecs:
        if getattr(codec, "codec_id", "zstd") not in CODECS:
            message = f"'{name}' is packed by '{codec.codec_id}', which may run code"
            raise DataError(f"{path}: {message}; expected one of {', '.join(sorted(CODECS))}")
    names = [getattr(c, "codec_id", None) or c.to_dict()["name"] for c in codecs]
    packers = [name for name in names if name in SIZES]
    if len(packers) > 1:
        raise DataError(f"{path}: '{name}' is packed twice, by {' and '.join(packers)}")
    if not packers or array.shards:
        return None
    return packers[0], SLACK + math.prod(array.chunks) * max(NUMBER, array.dtype.itemsize)
