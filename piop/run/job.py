"""A run to train: its problem, settings, data and statistics, checked to go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from piop.datasets import AnyDataset
from piop.errors import UsageError
from piop.problem import Problem
from piop.run.data import GivenData, note_grids, training_and_held_out, usable_data
from piop.training.choices import choose_windows, settings_of_form, trained_problem
from piop.training.config import TrainingConfig, apply_settings
from piop.training.distributed import Processes
from piop.training.loss.statistics import Statistics, find_statistics
from piop.training.requirements import require_backbone, require_choices, require_range
from piop.training.state_waves import window_statistics


@dataclass(frozen=True)
class Job:
    """A run to train.

    Attributes:
        problem: The problem.
        config: The configuration of the run.
        statistics: Scales that make the problem dimensionless.
        data: The data, held-out samples included; None without.
        record: The data as ``config.json`` describes them.
        processes: The processes that train together.
    """

    problem: Problem
    config: TrainingConfig
    statistics: Statistics
    data: AnyDataset | None
    record: Mapping[str, Any] | None
    processes: Processes


def plan_job(
    problem: Problem,
    config: TrainingConfig,
    settings: Mapping[str, Any],
    given: GivenData | None,
    processes: Processes,
) -> Job:
    """Check that problem, network, settings and data go together; find the statistics.

    Raises:
        UsageError: If they do not.
    """
    data = None if given is None else usable_data(problem, config, given.dataset)
    _require_data(problem, config, data is not None)
    require_choices(problem, config, data is not None, settings)
    seed = config.machine.seed
    training = None if data is None else training_and_held_out(problem, data, seed)[0]
    given_names = {*problem.solve, *settings}
    states = choose_windows(problem, config, data is not None, given_names)
    if states.windows > 1:
        statistics = window_statistics(problem, states)
    else:
        statistics = find_statistics(problem, training, physics=config.physics)
    if states.lattice:
        statistics = replace(statistics, lattice=states.lattice)
        if states.sizes:
            statistics = replace(statistics, channel_scale=states.sizes)
    statistics = replace(statistics, potential=states.potential)
    usual = settings_of_form(config, states.lattice, states.potential, data is not None)
    own = {key: value for key, value in usual.items() if key not in given_names}
    config = apply_settings(config, own, {})
    trained = trained_problem(problem, statistics)
    require_range(trained, config, statistics)
    statistics = note_grids(trained, config, statistics, data)
    require_backbone(trained, config, statistics, data is not None and data.scattered)
    record = None if given is None else given.record()
    return Job(problem, config, statistics, data, record, processes)


def require_pairs(problem: Problem, data: bool) -> None:
    """Refuse to learn an inverse operator without pairs of inputs and solutions."""
    learn = problem.learn
    if learn is None or data:
        return
    source, target = ", ".join(learn.source), ", ".join(learn.target)
    raise UsageError(
        f"learn: from {source} to {target}: it is learned from pairs of both alone; give them by "
        f"--data FILE (data=...). piop data {problem.name} -n 1000 --output FILE.nc makes them"
    )


def _require_data(problem: Problem, config: TrainingConfig, data: bool) -> None:
    """Refuse a run without data where only data make it possible."""
    if data:
        return
    if problem.infer:
        names = ", ".join(problem.infer)
        raise UsageError(
            f"infer: {names}: equations alone do not determine them; give solutions to learn from, "
            f"noisy ones too: --data FILE (data=...)"
        )
    if not config.physics:
        raise UsageError("without physics there must be data: give data=FILE (--data FILE)")
    if config.machine.precision == "bf16":
        raise UsageError(
            "precision: bf16 is for the data's part of the loss, and this run has no data: "
            "derivatives are not taken below float32. Use float32, or tf32 on a GPU"
        )
