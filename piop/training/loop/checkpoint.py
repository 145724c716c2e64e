"""Files that are either the old version or the new one, never half of each."""

from __future__ import annotations

import io
import os
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
