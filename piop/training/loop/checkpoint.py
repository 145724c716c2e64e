"""Weights, checkpoints and metrics of a run as the content of its files."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from piop.errors import DamagedFileError, UsageError
from piop.training.loop.run_files import Checksum, RunFiles, cannot_write, digest

logger = logging.getLogger(__name__)

WEIGHTS, METRICS = "model.safetensors", "metrics.jsonl"
CHECKPOINT, PREVIOUS = "state/checkpoint.pt", "state/previous.pt"
"""The last checkpoint, and the one before, from which a run goes on if the last is damaged."""

Row = dict[str, float]


def read_weights(files: RunFiles) -> dict[str, Tensor]:
    """Read the weights that predict.

    Raises:
        UsageError: If there are none yet, or they cannot be read.
        DamagedFileError: If they are damaged.
    """
    path = files.folder / WEIGHTS
    remedy = f"They are written again from the checkpoint by: piop resume {files.folder}"
    try:
        content = files.read(WEIGHTS, remedy)
    except FileNotFoundError:
        message = f"has no weights ({WEIGHTS}) yet; train on with: piop resume {files.folder}"
        raise UsageError(f"{files.folder}: {message}") from None
    try:
        found = load_tensors(content)
    except Exception as error:
        message = f"not a whole safetensors file ({error}). {remedy}"
        raise DamagedFileError(f"{path}: {message}") from error
    for name, tensor in found.items():
        if not bool(tensor.isfinite().all()):
            raise DamagedFileError(f"{path}: is damaged: {name} is not finite. {remedy}")
    return found


def save_checkpoint(
    files: RunFiles,
    state: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    metrics: Checksum,
    keep: bool,
) -> None:
    """Write a checkpoint and the weights that predict.

    Args:
        files: Files of the run.
        state: What a resume needs: tensors, numbers, lists, dicts.
        weights: The weights that predict.
        metrics: Checksum of the metrics up to this checkpoint.
        keep: Whether the checkpoint that is there is whole, and kept as the one before.

    Raises:
        TrainingError: If they cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    plain = {k: v.detach().cpu().contiguous() for k, v in weights.items()}
    new = {CHECKPOINT: buffer.getvalue(), WEIGHTS: save_tensors(plain)}
    files.write(new, {CHECKPOINT: PREVIOUS} if keep else {}, {METRICS: metrics})


def has_checkpoint(files: RunFiles) -> bool:
    """Whether there is a checkpoint, whole or not."""
    return any((files.folder / name).exists() for name in (CHECKPOINT, PREVIOUS))


def read_checkpoint(files: RunFiles, device: torch.device) -> tuple[dict[str, Any], bool] | None:
    """Read the last whole checkpoint; tensors and plain values only, no code is run.

    Returns:
        Its state, and whether it is the last rather than the one before; None where there is no
        checkpoint.

    Raises:
        DamagedFileError: If there are checkpoints and none is whole.
    """
    missing, damaged = [], []
    for name in (CHECKPOINT, PREVIOUS):
        path = files.folder / name
        try:
            content = files.read(name)
            state = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
        except FileNotFoundError:
            missing.append(f"{path}: is missing")
        except DamagedFileError as error:
            damaged.append(error)
        except Exception as error:
            damaged.append(DamagedFileError(f"{path}: is damaged: not a checkpoint ({error})"))
        else:
            for problem in (*missing, *damaged):
                logger.warning("%s. Going on from %s, of step %d", problem, name, state["step"])
            return state, name == CHECKPOINT
    if not damaged:
        return None
    raise DamagedFileError(
        f"{damaged[0]}. No other checkpoint is whole. Put back a copy; or remove "
        f"{files.folder / 'state'} and train from the beginning with: piop resume {files.folder}"
    )


class MetricsFile:
    """Appends rows to ``metrics.jsonl``.

    Args:
        files: Files of the run.
        size: Bytes to keep of what is there: what a killed run wrote after its checkpoint goes.

    Raises:
        DamagedFileError: If what is to be kept is damaged.
        TrainingError: If it cannot be written.
    """

    def __init__(self, files: RunFiles, size: int = 0) -> None:
        self.folder = files.folder
        kept = _kept(files, size)
        self._size, self._digest = len(kept), digest(kept)
        files.write({}, covered={METRICS: self._checksum})  # before any of it is cut
        with self._writing():
            self.file = (self.folder / METRICS).open("ab")
            self.file.truncate(len(kept))

    @property
    def _checksum(self) -> Checksum:
        return self._size, self._digest.hexdigest()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise cannot_write(self.folder, METRICS, error) from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row.

        Raises:
            TrainingError: If the disk is full.
        """
        line = json.dumps(row).encode() + b"\n"
        with self._writing():
            self.file.write(line)
        self._size += len(line)
        self._digest.update(line)

    def flush(self) -> Checksum:
        """Force all rows to disk.

        Returns:
            The size of the file in bytes, and the digest of its content.

        Raises:
            TrainingError: If the disk is full.
        """
        with self._writing():
            self.file.flush()
            os.fsync(self.file.fileno())
        return self._checksum

    def close(self) -> None:
        """Close the file; rows that do not fit on the disk any more belong to no checkpoint."""
        with contextlib.suppress(OSError):
            self.file.close()


def _kept(files: RunFiles, size: int) -> bytes:
    """Return the rows up to a checkpoint; none where the file was removed."""
    path = files.folder / METRICS
    if not size or _is_gone(files, written=True):
        return b""
    content = files.read(METRICS, _remedy(files), grows=True)[:size]
    if len(content) < size:
        raise DamagedFileError(f"{path}: is shorter than at the checkpoint. {_remedy(files)}")
    return content


def read_metrics(files: RunFiles) -> list[Row]:
    """Read all whole rows; a last line cut short by a kill is left out.

    Raises:
        DamagedFileError: If the file is damaged.
    """
    path, rows = files.folder / METRICS, []
    if _is_gone(files, written=files.had(METRICS)):
        return []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            message = f"is damaged: not a row of metrics ({error}). {_remedy(files)}"
            raise DamagedFileError(f"{path}:{number}: {message}") from error
    files.read(METRICS, _remedy(files), grows=True)
    return rows


def _is_gone(files: RunFiles, written: bool) -> bool:
    """Whether there is no file of metrics; a warning where one was written."""
    path = files.folder / METRICS
    if path.exists():
        return False
    if written:
        logger.warning("%s: is gone; the rows before the last checkpoint are lost", path)
    return True


def _remedy(files: RunFiles) -> str:
    return (
        f"Put back a copy; or remove it: without these rows the run goes on all the same, with: "
        f"piop resume {files.folder}"
    )
