"""Assets that the report and the interactive page share: style, plots, and packed arrays."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any

import numpy as np

from piop.json_values import json_value

LEVELS = 65534
"""Steps of a packed value between the least and the greatest; the code after them means missing."""


def style() -> str:
    """Return the style sheet."""
    return _asset("style.css")


def plots() -> str:
    """Return the script that draws plots; its header documents its functions."""
    return _asset("plots.js")


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def pack(values: Any, exact: bool = False) -> dict[str, Any]:
    """Encode an array of numbers for ``Plots.decode``.

    Args:
        values: Of any shape; values that are not finite are missing.
        exact: In float32, twice as long, rather than in 65535 steps of the array's range.

    Returns:
        Shape, type, and the bytes in base64; with steps, their least and greatest value.

    Example:
        >>> pack([0.0, 1.0, float("nan")])["data"]
        'AAD+////'
    """
    array = np.asarray(values, dtype=np.float64)
    shape = list(array.shape)
    if exact:
        return {"shape": shape, "type": "f32", "data": _base64(array.astype("<f4"))}
    finite = np.isfinite(array)
    low = float(array[finite].min()) if finite.any() else 0.0
    high = float(array[finite].max()) if finite.any() else 0.0
    units = (np.where(finite, array, low) - low) / ((high - low) or 1.0)
    codes = np.where(finite, np.rint(units * LEVELS), LEVELS + 1).astype("<u2")
    return {"shape": shape, "type": "u16", "low": low, "high": high, "data": _base64(codes)}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """Decode what :func:`pack` encoded, as ``Plots.decode`` does.

    Example:
        >>> unpack(pack([[0.0, 0.5], [1.0, 2.0]])).round(4).tolist()
        [[0.0, 0.5], [1.0, 2.0]]
    """
    raw = base64.b64decode(packed["data"])
    if packed["type"] == "f32":
        return np.frombuffer(raw, "<f4").astype(np.float64).reshape(packed["shape"])
    codes = np.frombuffer(raw, "<u2").astype(np.float64)
    values = packed["low"] + codes * ((packed["high"] - packed["low"]) / LEVELS)
    return np.where(codes > LEVELS, np.nan, values).reshape(packed["shape"])


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def script_json(value: Any) -> str:
    r"""Write a value as JSON that can stand in a ``<script>`` element, whatever its texts hold.

    Example:
        >>> script_json({"title": "</script>"})
        '{"title":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(json_value(value), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
