"""Files of a run: weights and checkpoints, written atomically, and metrics."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from piop.errors import TrainingError, UsageError


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, force it to disk, then rename it.

    Raises:
        TrainingError: If it cannot be written; what was at ``path`` is still there.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        kept = "; the version before is kept" if path.exists() else ""
        raise TrainingError(
            f"{path}: cannot be written ({error.strerror or error}){kept}. Free some space or give "
            f"write permission, then go on with: piop resume"
        ) from error


def save_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as safetensors, atomically.

    Raises:
        TrainingError: If they cannot be written.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_atomic(path, save_tensors(plain))


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read weights from safetensors.

    Raises:
        UsageError: If the file is missing or not of this kind.
    """
    try:
        return load_tensors(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); is this a run?") from error
    except Exception as error:
        raise UsageError(f"{path}: not a whole safetensors file ({error})") from error


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write what a resume needs (tensors, numbers, lists, dicts), atomically.

    Raises:
        TrainingError: If it cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomic(path, buffer.getvalue())


def load_state(path: Path, device: torch.device) -> dict[str, Any]:
    """Read what :func:`save_state` wrote; tensors and plain values only, no code is run.

    Raises:
        TrainingError: If the file cannot be read.
    """
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        raise TrainingError(f"{path}: not a checkpoint of piop ({error})") from error


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
        with self._writing():
            self.file = path.open("ab")
            self.file.truncate(size)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be written ({error.strerror})") from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row.

        Raises:
            TrainingError: If the disk is full.
        """
        with self._writing():
            self.file.write(json.dumps(row).encode() + b"\n")

    def flush(self) -> int:
        """Force all rows to disk.

        Returns:
            The size of the file in bytes.

        Raises:
            TrainingError: If the disk is full.
        """
        with self._writing():
            self.file.flush()
            os.fsync(self.file.fileno())
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
