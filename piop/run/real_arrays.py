"""Arrays of real numbers as users give them: of Python, NumPy or torch."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from piop.datasets.lazy_arrays import is_number
from piop.errors import DataError


def to_numbers(label: str, value: Any) -> Tensor:
    """Convert an array to float64 on the CPU; the label says what it is in the error.

    Raises:
        DataError: For anything but real numbers: text, dates, truth values, complex numbers, masked
            values, and tensors that hold no values or hold them in another layout.
    """
    found, truth = _convert(label, value)
    if truth:
        raise DataError(f"{label}: holds truth values; give real numbers, such as 0.0 and 1.0")
    return found


def to_truth(label: str, value: Any) -> Tensor:
    """Convert an array of truth values, or of zeros and ones, to truth values on the CPU.

    Raises:
        DataError: For any other array.
    """
    found, _ = _convert(label, value)
    if not ((found == 0) | (found == 1)).all():
        raise DataError(f"{label}: expected truth values, or zeros and ones")
    return found.bool()


def _convert(label: str, value: Any) -> tuple[Tensor, bool]:
    """Convert an array to float64 on the CPU; whether it holds truth values."""
    if isinstance(value, Tensor):
        return _plain(label, value).detach().cpu().double(), value.dtype == torch.bool
    parts = value if isinstance(value, list | tuple) else ()
    try:
        masked = any(isinstance(part, np.ma.MaskedArray) for part in (value, *parts))
        array = np.ma.asarray(value) if masked else np.asarray(value)
        if np.ma.is_masked(array):
            raise DataError(f"{label}: holds masked values; leave such sensors or positions out")
        array = np.asarray(array)
        truth = array.dtype == bool
        if array.dtype.kind == "O" and all(isinstance(part, Real) for part in array.flat):
            truth = any(isinstance(part, bool) for part in array.flat)
            array = array.astype(np.float64)  # fractions, and integers of any length
        if not is_number(array):
            raise DataError(
                f"{label}: is not an array of numbers, but of {array.dtype}; give real numbers"
            )
        return torch.from_numpy(np.array(array, dtype=np.float64)), truth
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise DataError(f"{label}: is not an array of numbers ({error})") from error


def _plain(label: str, value: Tensor) -> Tensor:
    """Refuse a tensor that is no array of real numbers in memory."""
    ways = {
        "nested": value.is_nested,
        "quantised": value.is_quantized,
        "sparse": value.layout is not torch.strided,
        "meta": value.is_meta,
        "complex": value.is_complex(),
    }
    if kind := next((way for way, found in ways.items() if found), None):
        raise DataError(
            f"{label}: is not an array of numbers, but a {kind} tensor; give a dense one of real "
            "numbers"
        )
    return value
