"""The data that a run is trained on, and the samples of them that are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self, final

import torch

from piop.arguments import file_path
from piop.datasets import AnyDataset, Dataset, open_dataset
from piop.datasets.axes import check_finite
from piop.errors import DataError, UsageError
from piop.problem import Problem
from piop.training.batches.input_grid import gridded_inputs
from piop.training.batches.training_grid import data_at_end, data_counts
from piop.training.choices import preset_of
from piop.training.config import TrainingConfig
from piop.training.loss.statistics import Statistics

HELD_OUT_FRACTION = 0.1
LARGEST = 1e150
"""Above this, squares of values are not finite in float64."""


DataArgument = str | Path | AnyDataset
"""Data as a user gives them: a file, or a data set in Python."""


@final
@dataclass(frozen=True)
class GivenData:
    """A data set and its origin.

    Attributes:
        dataset: The samples.
        name: The file as the user wrote it, or ``given in Python``.
        path: Absolute path of the file; None for samples in memory.
    """

    dataset: AnyDataset
    name: str
    path: str | None

    @classmethod
    def open(cls, problem: Problem, data: DataArgument) -> Self:
        """Read or open a file, or take a data set as it is.

        Raises:
            UsageError: If it is neither a file nor a data set.
            DataError: If the file does not fit the problem.
        """
        if not isinstance(data, AnyDataset):
            path = file_path("data", data, "a piop.datasets.Dataset")
            return cls(open_dataset(path, problem), str(data), str(path.resolve()))
        path = None if data.path is None else str(Path(data.path).resolve())
        return cls(data, "given in Python", path)

    @classmethod
    def reopen(
        cls, problem: Problem, recorded: Mapping[str, Any], data: DataArgument | None
    ) -> Self:
        """Open the data of a run again.

        Args:
            problem: The problem.
            recorded: What :meth:`record` returned.
            data: The data, where they were given in Python.

        Raises:
            UsageError: If they are not there or have changed.
        """
        source = data if data is not None else recorded["path"]
        if source is None:
            raise UsageError("the run was given its data in Python; give them again: data=...")
        given = cls.open(problem, source)
        given.require_trainable(problem)
        found = given.record()
        if any(found[key] != recorded[key] for key in ("hash", "inputs") if key in recorded):
            raise UsageError(f"{recorded['path'] or 'data'}: has changed since the run began")
        return given

    @property
    def label(self) -> str:
        """How messages name the data."""
        return "data" if self.path is None else self.name

    def require_trainable(self, problem: Problem) -> None:
        """Refuse data that a run cannot be trained on.

        Raises:
            DataError: If they hold values that are not finite or cannot be squared, or too few
                trajectories to hold one out; where parameters are inferred, none is held out.
        """
        if len(self.dataset) < 2 and not problem.infer:
            raise DataError(
                "the data hold one trajectory; at least two are needed, one to judge by"
            )
        for chunk in self.dataset.chunks():
            check_values(self.label, chunk)

    def record(self) -> dict[str, Any]:
        """Return what ``config.json`` holds.

        They are path, number of samples, a hash of the values, and one of the inputs of each sample
        (of the first ones where there are very many).
        """
        digest, inputs = hashlib.sha256(), []
        for number, name in enumerate(sorted(self.dataset.channels)):
            for chunk in self.dataset.chunks():
                digest.update(chunk.values[name].double().numpy().tobytes())
                if number == 0 and len(inputs) < MOST_DIGESTS:
                    inputs += input_digests(chunk)
        return {
            "path": self.path,
            "samples": len(self.dataset),
            "hash": digest.hexdigest(),
            "inputs": "".join(inputs[:MOST_DIGESTS]),
        }


MOST_DIGESTS = 2**16
"""Samples whose inputs are remembered at most."""
DIGEST_BYTES = 6


def input_digests(data: Dataset) -> list[str]:
    """Hash the values of all inputs of each sample, in float32; no hashes without inputs."""
    digests = [blake2b(digest_size=DIGEST_BYTES) for _ in range(len(data) if data.inputs else 0)]
    for _, samples in sorted(data.inputs.items()):
        values = samples.values.float() + 0.0  # no negative zero
        for row, digest in enumerate(digests):
            own = values[row] if samples.mask is None else values[row][samples.mask[row]]
            digest.update(own.numpy().tobytes())
    return [digest.hexdigest() for digest in digests]


def trained_inputs(
    problem: Problem, recorded: Mapping[str, Any], seed: int
) -> frozenset[str] | None:
    """Return the hashes of the inputs that a run was trained on, without those held out.

    Args:
        problem: The problem.
        recorded: The record of the run's data; None is returned where it has no hashes.
        seed: Seed of the run.
    """
    if (found := _recorded_digests(recorded)) is None:
        return None
    if problem.infer:
        return frozenset(found)
    training, _ = split(recorded["samples"], seed)
    return frozenset(found[i] for i in training.tolist() if i < len(found))


def is_recorded(
    problem: Problem, recorded: Mapping[str, Any], data: AnyDataset, held_out: AnyDataset, seed: int
) -> bool:
    """Whether data have the samples that a run recorded, and the same inputs of those held out.

    Args:
        problem: The problem.
        recorded: The record of the run's data.
        data: The data as they are now.
        held_out: Their part that is held out.
        seed: Seed of the run.
    """
    if len(data) != recorded["samples"]:
        return False
    if (known := _recorded_digests(recorded)) is None or problem.infer:
        return True
    _, rows = split(recorded["samples"], seed)
    now = [digest for chunk in held_out.chunks() for digest in input_digests(chunk)]
    pairs = zip(rows.tolist(), now, strict=False)  # no digests without inputs
    return all(row >= len(known) or known[row] == digest for row, digest in pairs)


def _recorded_digests(recorded: Mapping[str, Any]) -> list[str] | None:
    """Return the hashes of inputs that a record holds, in their order; None where it has none."""
    if "inputs" not in recorded:
        return None
    text, width = recorded["inputs"], 2 * DIGEST_BYTES
    return [text[at : at + width] for at in range(0, len(text), width)]


def check_values(label: str, data: Dataset) -> None:
    """Refuse values that are not finite or whose squares are not.

    Args:
        label: How the message names the data.
        data: Samples from a file or from Python.

    Raises:
        DataError: For such a value.
    """
    found = {
        name: s.values if s.mask is None else s.values.masked_fill(~s.mask[..., None], 0.0)
        for name, s in data.inputs.items()
    }
    for name, values in {**found, **data.values}.items():
        check_finite(label, name, values.double().numpy())
        largest = float(values.double().abs().max())
        if largest > LARGEST:
            raise DataError(
                f"{label}: '{name}' is as large as {largest:.3g}, whose square is no number; give "
                f"it in other units"
            )


def training_and_held_out(
    problem: Problem, data: AnyDataset, seed: int
) -> tuple[AnyDataset, AnyDataset]:
    """Split a data set into training samples and held-out ones, a tenth but at least one.

    The same seed gives the same split. Both are all samples where parameters are inferred.
    """
    if problem.infer:
        return data, data
    training, held_out = split(len(data), seed)
    return data.subset(training), data.subset(held_out)


def split(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Split the numbers of samples into those of training and of held-out samples."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(samples, generator=generator)
    count = max(1, round(HELD_OUT_FRACTION * samples))
    return order[count:].sort().values, order[:count].sort().values


def usable_data(
    problem: Problem, config: TrainingConfig, data: AnyDataset | None
) -> AnyDataset | None:
    """Keep the values that the network predicts: all, or only those at the final time.

    Raises:
        UsageError: If there are none.
    """
    if data is None or not preset_of(config).build.end_only:
        return data
    return data_at_end(problem, data)


def note_grids(
    problem: Problem, config: TrainingConfig, statistics: Statistics, data: AnyDataset | None
) -> Statistics:
    """Record which inputs have sensors on even grids, and the grid of the training data."""
    grid: tuple[int, ...] = ()
    if data is not None and not data.scattered:
        grid = data_counts(problem, data, config.points)
    return replace(statistics, gridded=gridded_inputs(problem, config.physics, data), grid=grid)
