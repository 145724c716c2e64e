"""What a data file holds: named arrays with named dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from piop.errors import DataError

SAMPLE, POINT = "sample", "point"


@dataclass(frozen=True)
class Variable:
    """One array of a file.

    Attributes:
        values: The numbers.
        dimensions: A name for each axis; None where the format has no names (npz).
    """

    values: np.ndarray
    dimensions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RawFile:
    """What a file holds, before a problem gives it meaning.

    Attributes:
        path: Where it was read from, for messages.
        format: ``netcdf``, ``zarr``, ``npz``, ``csv``, or the name of a published layout.
        variables: Arrays by name; for CSV, one column each.
        attributes: Global attributes.
        expected: What a file of this format would have to look like, for messages; may be empty.
    """

    path: str
    format: str
    variables: Mapping[str, Variable]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""

    def need(self, name: str, what: str) -> Variable:
        """Return a variable, or say what is missing and what there is."""
        if name in self.variables:
            return self.variables[name]
        found = ", ".join(self.variables) or "none"
        message = f"{self.path}: no variable '{name}' ({what}); found: {found}"
        raise DataError(message + (f". {self.expected}" if self.expected else ""))
