"""Messages between page and server: JSON texts, and frames of a JSON header and arrays."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from torch import Tensor

from piop.arguments import whole_number
from piop.errors import UsageError, excerpt
from piop.explore.limits import MESSAGE_BYTES
from piop.json_values import json_value

MOST_NUMBER = 2**53 - 1
"""Largest whole number that the page knows exactly."""


@final
@dataclass(frozen=True)
class ShowRequest:
    """What the page wants to see.

    Attributes:
        number: Number that the answers carry; the newest counts.
        inputs: Input → definition, as it came.
        sensors: Input → sensors, as they came.
        frame: Number of the time that is shown.
    """

    number: int
    inputs: Any
    sensors: Any
    frame: int

    @classmethod
    def read(cls, text: str, frames: int) -> ShowRequest:
        """Read a message.

        Args:
            text: JSON.
            frames: Number of times there are.

        Raises:
            UsageError: If it is too long, no JSON, or no such request.
        """
        if len(text) > MESSAGE_BYTES:
            raise UsageError(f"message: has {len(text)} characters; at most {MESSAGE_BYTES}")
        try:
            found = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"message: is not JSON: {excerpt(str(error))}") from None
        if not isinstance(found, dict):
            raise UsageError("message: is not an object")
        if found.get("type") != "show":
            raise UsageError(f"message: the type {excerpt(found.get('type'))} is not 'show'")
        number = whole_number("id", found.get("id"), 0, MOST_NUMBER)
        frame = whole_number("frame", found.get("frame", 0), 0, frames - 1)
        return cls(number, found.get("inputs", {}), found.get("sensors"), frame)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def frame_bytes(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> bytes:
    """Write a frame: the length of the header, the header, and the arrays as float32.

    The header is padded so that arrays begin at a multiple of four bytes. It gains ``arrays``, the
    name and shape of each array in their order.
    """
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps(json_value(dict(header) | {"arrays": shapes}), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    parts = [array.detach().cpu().numpy().astype("<f4").tobytes() for array in arrays.values()]
    return struct.pack("<I", len(text)) + text + b"".join(parts)


def read_frame(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a frame, as the page does."""
    (size,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + size])
    offset, arrays = 4 + size, {}
    for name, shape in header["arrays"]:
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(data, "<f4", count, offset).reshape(shape)
        offset += 4 * count
    return header, arrays
