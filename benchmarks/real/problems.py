"""The two published data sets: where they lie, and the problems they are solutions of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from piop.datasets import Dataset, read_dataset
from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.problem import Problem

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


@dataclass(frozen=True)
class Source:
    """A data set and its spec.

    Attributes:
        train: File to learn from.
        tests: Label → file to judge by; the first is on the grid that was trained on.
        changes: Text of the spec → what stands there instead.
    """

    train: str
    tests: Mapping[str, str]
    changes: Mapping[str, str]


SOURCES = {
    "darcy": Source(
        "neuralop_darcy_train_16.pt",
        {"16": "neuralop_darcy_test_16.pt", "32": "neuralop_darcy_test_32.pt"},
        {},
    ),
    "burgers_wang": Source(
        "neuralop_burgers_train_16.pt",
        {"16": "neuralop_burgers_test_16.pt"},
        {"time: {t: [0, 1]}": "time: {t: [0, 0.96]}"},  # the data end there
    ),
}


@dataclass(frozen=True)
class Samples:
    """Solutions on one grid, in single precision.

    Attributes:
        inputs: Input → sensors of n samples.
        axes: Positions along each coordinate, time first.
        values: Solutions ``[n, *grid]``.
    """

    inputs: Mapping[str, FunctionSamples]
    axes: tuple[Tensor, ...]
    values: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Tensor) -> Samples:
        """Keep samples ``[n']``."""
        inputs = {
            name: FunctionSamples(s.points[index], s.values[index])
            for name, s in self.inputs.items()
        }
        return Samples(inputs, self.axes, self.values[index])


@dataclass(frozen=True)
class Loaded:
    """A problem with its data.

    Attributes:
        problem: The spec.
        data: What is trained on, as the reader gives it.
        train: The same on its grid.
        tests: Label → what is judged by.
    """

    problem: Problem
    data: Dataset
    train: Samples
    tests: Mapping[str, Samples]


def load(name: str, folder: Path = DATA) -> Loaded:
    """Read a problem and its data.

    Raises:
        UsageError: If a file is not there.
    """
    source = SOURCES[name]
    for file in (source.train, *source.tests.values()):
        if not (folder / file).is_file():
            raise UsageError(f"{folder / file}: no such file; give the folder with --data")
    text = (ROOT / "pdes" / f"{name}.yaml").read_text()
    for old, new in source.changes.items():
        if old not in text:
            raise UsageError(f"pdes/{name}.yaml: has no {old!r} to be replaced by {new!r}")
        text = text.replace(old, new)
    problem = Problem.from_yaml(text)
    data = read_dataset(folder / source.train, problem)
    tests = {
        label: samples_of(read_dataset(folder / file, problem))
        for label, file in source.tests.items()
    }
    return Loaded(problem, data, samples_of(data), tests)


def samples_of(data: Dataset) -> Samples:
    """Bring a data set of one unknown to single precision."""
    (values,) = data.values.values()
    inputs = {
        name: FunctionSamples(s.points.float(), s.values.float()) for name, s in data.inputs.items()
    }
    return Samples(inputs, tuple(a.float() for a in data.axes.values()), values.float())


def split(samples: Samples, share: float, seed: int = 0) -> tuple[Samples, Samples]:
    """Split training data into what settings are tried on and what they are chosen by."""
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))
    count = round(share * len(samples))
    return samples.take(order[count:]), samples.take(order[:count])
