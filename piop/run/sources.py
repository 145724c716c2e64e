"""The sources of the held-out samples of a run: its own data, given data, or distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from piop.datasets import AnyDataset, Dataset, Queries, open_dataset
from piop.errors import DataError, NotSupportedError, UsageError
from piop.problem import Problem
from piop.run.data import (
    GivenData,
    check_values,
    is_recorded,
    trained_inputs,
    training_and_held_out,
)
from piop.run.drawn_inputs import DrawnInputs
from piop.run.error_bounds.calibration import FEWEST
from piop.run.held_out import HeldOutData, HeldOutSource, Sensors
from piop.sampling import Draws
from piop.sampling.random import CALIBRATION, HELD_OUT
from piop.training.config import TrainingConfig


@final
@dataclass(frozen=True)
class RunSources:
    """The held-out samples that a run can be judged on.

    Attributes:
        path: The run folder.
        problem: The problem that the run was trained on.
        config: The configuration of its training.
        end: Whether its operator predicts the final time alone.
        recorded: The data it was trained on, as ``config.json`` describes them; None without.
        in_memory: The held-out samples of these data, where they are in memory.
    """

    path: Path
    problem: Problem
    config: TrainingConfig
    end: bool
    recorded: Mapping[str, Any] | None
    in_memory: AnyDataset | None

    def choose(
        self,
        problem: Problem,
        samples: int,
        seed: int,
        given: GivenData | None = None,
        queries: Queries | None = None,
        sensors: Sensors | None = None,
    ) -> HeldOutSource:
        """Choose given data; else the run's own, where it was trained on data alone; else draws.

        Args:
            problem: The problem, its parameters being numbers.
            samples: The most samples.
            seed: Seed of inputs that are drawn.
            given: Data given to be judged on.
            queries: Grid of the references of drawn inputs; None for the usual one.
            sensors: Sensors of drawn inputs, where not as in the spec.

        Raises:
            UsageError: For a grid, sensors or another seed where the run's own data are taken.
            DataError: If data cannot be used, or are not there.
        """
        if given is not None:
            data = _first(given.dataset, samples)
            check_values(given.label, data)
            return HeldOutData(problem, data, self.end)
        if self.recorded is not None and not self.config.physics:
            if queries is not None or sensors is not None or seed != self.config.machine.seed:
                raise UsageError(
                    "at, sensors and seed are for inputs that are drawn; this run was trained on "
                    "data alone, and its held-out samples have points and sensors of their own"
                )
            return HeldOutData(problem, _first(self.own_data(), samples), self.end)
        scheme = self.config.machine.draws
        return DrawnInputs(problem, samples, seed, queries, sensors, self.end, scheme)

    def for_calibration(
        self, problem: Problem, samples: int, seed: int, judged: int
    ) -> HeldOutSource:
        """Choose inputs apart from those of an evaluation, of the same distribution.

        Args:
            problem: The problem, its parameters being numbers.
            samples: The most samples.
            seed: Seed of inputs that are drawn.
            judged: Number of the run's own held-out data that an evaluation takes.

        Raises:
            NotSupportedError: If there are no inputs, or too few of the run's own data are left.
            DataError: If the data are not there.
        """
        if not problem.inputs:
            raise NotSupportedError(
                f"{problem.name} has no inputs, so there is one solution, whose error an "
                "evaluation measures; bounds are for answers to other inputs"
            )
        if self.recorded is not None and not self.config.physics:
            data = self.own_data()
            if len(data) < judged + FEWEST:
                raise NotSupportedError(
                    f"the data hold out {len(data)} samples, and {judged + FEWEST} are needed, "
                    f"{judged} of them for the evaluation"
                )
            rest = torch.arange(judged, min(judged + samples, len(data)))
            return HeldOutData(problem, data.take(rest), self.end)
        scheme = self.config.machine.draws
        return DrawnInputs(problem, samples, seed, end=self.end, scheme=scheme, purpose=CALIBRATION)

    def draws(self, seed: int, samples: int) -> Draws:
        """Return the draws of held-out samples."""
        return Draws.of(HELD_OUT, seed, range(samples), self.config.machine.draws)

    def own_data(self) -> AnyDataset:
        """Return the held-out samples of the run's own data, from the file where necessary.

        Raises:
            DataError: If the data are not there, or have changed.
        """
        if self.in_memory is not None:
            return self.in_memory
        path = (self.recorded or {}).get("path")
        if path is None or not Path(path).exists():
            raise DataError(
                f"the data of this run ({path or 'given in Python'}) are not there. Put them back, "
                f"or give others: piop evaluate {self.path} --data FILE (data=...)"
            )
        found, seed = open_dataset(path, self.problem), self.config.machine.seed
        held_out = training_and_held_out(self.problem, found, seed)[1]
        if not is_recorded(self.problem, self.recorded or {}, found, held_out, seed):
            raise DataError(
                f"{path}: has changed since the run began. To evaluate on what it holds now: "
                f"piop evaluate {self.path} --data {path}"
            )
        return held_out

    def warnings_of(self, source: HeldOutSource, given: GivenData | None) -> list[str]:
        """Warn of samples of a source whose inputs the run was trained on."""
        if self.recorded is None:
            return []
        trained = trained_inputs(self.problem, self.recorded, self.config.machine.seed)
        if trained is None:  # a run of before, whose record has no inputs to compare
            path = None if given is None else given.path
            shared = "samples" if path is not None and path == self.recorded["path"] else ""
        else:
            count, total = source.count_among(trained)
            shared = f"the inputs of {count} of these {total} samples" if count else ""
        words = "the run was trained on {}, so errors on them say little of new ones"
        return [words.format(shared)] if shared else []


def _first(data: AnyDataset, count: int) -> Dataset:
    return data.take(torch.arange(min(count, len(data))))
