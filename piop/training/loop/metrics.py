"""The file of metrics: one JSON object a line, cut back to the checkpoint on resume."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piop.errors import TrainingError

Row = dict[str, float]


class MetricsFile:
    """Appends rows to ``metrics.jsonl``.

    Args:
        path: The file; made when missing.
        size: Bytes to keep of what is there: what a killed run wrote after its checkpoint goes.

    Raises:
        TrainingError: If it cannot be opened.
    """

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path = path
        try:
            self.file = path.open("ab")
            self.file.truncate(size)
        except OSError as error:
            raise TrainingError(f"{path}: cannot be written ({error.strerror})") from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row.

        Raises:
            TrainingError: If the disk is full.
        """
        try:
            self.file.write(json.dumps(row).encode() + b"\n")
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be written ({error.strerror})") from error

    def flush(self) -> int:
        """Force all rows to disk.

        Returns:
            The size of the file in bytes.

        Raises:
            TrainingError: If the disk is full.
        """
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be written ({error.strerror})") from error
        return self.path.stat().st_size

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def read_metrics(path: Path) -> list[Row]:
    """Read all whole rows; a last line cut short by a kill is left out."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines if line]
