"""Results that are kept between processes in the user's cache, where any file may go at any time.

A file that is damaged counts as missing. A folder that cannot be used is left alone, with one
warning per process: what is kept there only saves time.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b, sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from piop.datasets.atomic_output import replacing
from piop.errors import PiopError

logger = logging.getLogger(__name__)

MOST_BYTES = 2**30
"""Size of all files together; those not used for longest are removed first."""
_warned: set[str] = set()


def folder() -> Path:
    """Return where the files are: ``$XDG_CACHE_HOME/piop/references``, else below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if Path(base).is_absolute():  # others are to be ignored, as the XDG specification says
        return Path(base) / "piop" / "references"
    return Path("~/.cache/piop/references").expanduser()


def key_of(*identity: Any) -> str:
    """Return the key of a result of this version and source of piop.

    Args:
        identity: What the result depends on besides, as JSON has it.
    """
    return sha256(json.dumps([_own_code(), *identity]).encode()).hexdigest()


@cache
def _own_code() -> str:
    """Return a digest of piop's version and source, whose changes may change solutions."""
    package, found = Path(__file__).parent, sha256(version("piop").encode())
    for file in sorted(package.rglob("*.py")):
        found.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()


def read(key: str) -> bytes | None:
    """Return what was kept under a key; None where there is nothing, or it is damaged.

    Args:
        key: A digest in hexadecimal.
    """
    try:
        file = folder() / key
        found = file.read_bytes()
        with suppress(OSError):  # a folder that can only be read still serves
            os.utime(file)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        _ignore(error)
        return None
    size = blake2b.MAX_DIGEST_SIZE
    content, digest = found[:-size], found[-size:]
    return content if blake2b(content).digest() == digest else None


def write(entries: Mapping[str, bytes]) -> None:
    """Keep contents under their keys, each whole or not at all; then remove the oldest files."""
    try:
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        for key, content in entries.items():
            with replacing(place / key) as temporary:
                temporary.write_bytes(content + blake2b(content).digest())
        _remove_oldest(place)
    except (OSError, RuntimeError, PiopError) as error:
        _ignore(error)


def read_tensors(key: str) -> dict[str, Tensor] | None:
    """Read what :func:`write_tensors` kept under a key, in the same order, as :func:`read` does."""
    if (content := read(key)) is not None:
        with suppress(SafetensorError):
            found = load(content)  # in an order that differs from one call to the next
            return {name.partition(" ")[2]: found[name] for name in sorted(found)}
    return None


def write_tensors(entries: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Keep real tensors with their names under keys, as :func:`write` does."""
    write({key: _to_bytes(tensors) for key, tensors in entries.items()})


def _to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise tensors as safetensors, whose names are numbered since it keeps no order."""
    form = torch.contiguous_format
    whole = {name: t.clone(memory_format=form) for name, t in tensors.items()}
    return save({f"{n:06d} {name}": whole[name] for n, name in enumerate(whole)})


def _remove_oldest(place: Path) -> None:
    """Remove the files not used for longest, those of killed processes too, down to the limit."""
    found = []
    for file in place.iterdir():
        with suppress(FileNotFoundError):  # another process was first
            state = file.stat()
            found.append((state.st_mtime_ns, state.st_size, file))
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
        if total <= MOST_BYTES:
            return
        file.unlink(missing_ok=True)
        total -= size


def _ignore(error: Exception) -> None:
    if not _warned:
        _warned.add(str(error))
        logger.warning("results are not kept for later runs: %s", error)
