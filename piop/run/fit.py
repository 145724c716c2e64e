"""Train: a new run, or the rest of one that was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from piop.datasets import AnyDataset
from piop.errors import UsageError
from piop.problem import Problem
from piop.residual import choose_kernel
from piop.run.configuration import (
    choose_machine,
    configure,
    move_to_device,
    precision_of,
    require_graphs,
    threads_of,
)
from piop.run.data import (
    describe_data,
    note_grids,
    open_training_data,
    training_and_held_out,
    usable_data,
)
from piop.run.folder import RunFolder, new_folder, open_folder, write_json
from piop.run.run import Run
from piop.training.config import BudgetConfig, TrainingConfig, change_settings, require_applicable
from piop.training.distributed import Processes, joined
from piop.training.loop.checkpoint import Row, load_weights, read_metrics
from piop.training.loop.gradients import make_gradients, profile_eager
from piop.training.loop.memory import as_settings, explain_out_of_memory, smaller_batch
from piop.training.loop.phases import Draw
from piop.training.loop.profile import Profile
from piop.training.loop.trainer import Trainer
from piop.training.loss.objective import ResidualLoss
from piop.training.loss.statistics import Statistics, find_statistics
from piop.training.requirements import parts_of, require_backbone, require_choices, require_work
from piop.training.settings import parse_time
from piop.training.setup import build_model, build_objective, build_source, field_kind

Progress = Callable[[Row], None]
HELD_OUT = 64
"""Held-out inputs that a run is judged by."""


def fit(
    problem: Problem,
    *,
    steps: int | None = None,
    time: str | float | None = None,
    backbone: str | None = None,
    data: str | Path | AnyDataset | None = None,
    physics: bool = True,
    init_from: str | Path | None = None,
    device: str | None = None,
    precision: str = "float32",
    compile: bool | None = None,
    threads: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
    profile: bool = False,
    samples: int = HELD_OUT,
) -> Run:
    """Train an operator of a problem, judge it on held-out inputs, and write its run folder.

    Under ``torchrun`` the processes share each batch; the first writes and judges.

    Args:
        problem: What to solve.
        steps: Budget in steps; give this or ``time``.
        time: Budget in time, ``"5m"`` or seconds, counted from the end of the first step.
        backbone: Name of the network; by default the spec's, else ``pit``.
        data: File or data set of solutions to learn from as well.
        physics: Learn from the equations; False learns from the data alone, as what ``learn`` asks
            for always is.
        init_from: A run whose weights to start from.
        device: ``cpu`` or ``cuda``; by default CUDA where there is one.
        precision: ``float64``, ``float32``, ``tf32`` (on a GPU) or ``bf16`` (the data's part only).
        compile: Compile the training step; by default only where the budget makes it pay.
        threads: CPU threads; by default torch's.
        seed: Of weights, functions and points.
        settings: Any of :mod:`piop.training.config`'s keys and the backbone's.
        out: The run folder; by default ``runs/NAME-DATE-TIME``.
        force: Replace a run folder that is there.
        progress: Called with rows of the metrics.
        profile: Write where a step's time goes to ``profile.json``.
        samples: Held-out inputs to judge by; 0 leaves the evaluation out.

    Returns:
        The trained run.

    Raises:
        UsageError: For arguments that cannot be used; nothing is written then.
        NotSupportedError: If the problem cannot be trained yet, with the reason.
        TrainingError: If training fails; the last good checkpoint is kept.

    Example:
        ``run = piop.Problem.from_file("burgers").fit(time="5m")``
    """
    problem.capabilities.training(physics).require()
    if problem.learn is not None:
        _require_pairs(problem, data is not None)
        problem, physics = problem.inverse(), False
    budget = BudgetConfig(steps, None if time is None else parse_time(time))
    machine = choose_machine(budget, device, precision, compile, threads, seed)
    config = configure(
        problem, TrainingConfig(budget, machine, physics=physics), backbone, settings
    )
    choose_kernel(config.machine.kernel, machine.device)  # before anything is written
    require_graphs(config.machine)
    with joined() as processes:
        require_work(config, data is not None, processes)
        place = processes.lead(lambda: str(new_folder(out, problem.name, force).path))
        folder = RunFolder(Path(place))
        given = open_training_data(problem, data)
        found = usable_data(problem, config, given)
        _require_observations(problem, found is not None)
        if not physics and found is None:
            raise UsageError("without physics there must be data: give data=FILE (--data FILE)")
        if precision == "bf16" and found is None:
            raise UsageError(
                "precision: bf16 is for the data's part of the loss, and this run has no data: "
                "derivatives are not taken below float32. Use float32, or tf32 on a GPU"
            )
        require_choices(problem, config, found is not None)
        parts = parts_of(problem, config, found is not None)
        require_applicable(config, settings or {}, parts, field_kind(config))
        trained = None if found is None else training_and_held_out(problem, found, seed)[0]
        statistics = find_statistics(problem, trained, seed, physics=physics)
        statistics = note_grids(problem, config, statistics, found)
        scattered = found is not None and found.scattered
        require_backbone(problem, config, statistics, scattered)
        initial = None if init_from is None else _weights_of(init_from)
        described = None
        if data is not None and given is not None:
            described = describe_data(data, given)
        job = Job(problem, config, statistics, found, described, processes)
        processes.lead(lambda: folder.begin(problem, config, statistics, described))
        return _train(folder, job, progress, profile, samples, initial)


def resume(
    path: str | Path,
    *,
    steps: int | None = None,
    time: str | float | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    profile: bool = False,
    samples: int = HELD_OUT,
    data: AnyDataset | None = None,
) -> Run:
    """Go on with a run that was stopped, to the same numbers as if it had not been.

    With other settings than it began with the numbers become others, from here on.

    Args:
        path: The run folder.
        steps: A new budget in all, in steps; by default the run's own.
        time: A new budget in all, in time.
        settings: Other values for what may change on the way: the size of a batch, when memory is
            short, and the step size, when the loss came apart; kept in ``config.json``.
        progress: Called with rows of the metrics.
        profile: Write where a step's time goes to ``profile.json``.
        samples: Held-out inputs to judge by; 0 leaves the evaluation out.
        data: The data, for a run that was given them in Python.

    Raises:
        UsageError: If it is no run folder, its spec was changed, its device is not there, or a
            setting may not change.
        TrainingError: If its checkpoint cannot be read.
    """
    folder = open_folder(path)
    record = folder.read_config()
    problem = folder.read_problem(record)
    config = TrainingConfig.from_json(record["training"])
    config = move_to_device(config, config.machine.device)
    if steps is not None or time is not None:
        budget = BudgetConfig(steps, None if time is None else parse_time(time))
        _require_larger(budget, folder)
        config = replace(config, budget=budget)
    config = change_settings(config, settings or {})
    described = record["data"]
    with joined() as processes:
        require_work(config, described is not None, processes)
        if config != TrainingConfig.from_json(record["training"]):
            changed = {**record, "training": config.to_json()}
            processes.lead(lambda: folder.rewrite_config(changed))
        found = usable_data(problem, config, _reread_data(problem, described, data))
        statistics = Statistics.from_json(record["statistics"])
        job = Job(problem, config, statistics, found, described, processes)
        return _train(folder, job, progress, profile, samples)


def _require_larger(budget: BudgetConfig, folder: RunFolder) -> None:
    """Refuse a budget that the run has already gone beyond."""
    if not (rows := read_metrics(folder.metrics)):
        return
    if budget.steps is not None and budget.steps < rows[-1]["step"]:
        raise UsageError(f"steps: the run has taken {rows[-1]['step']:g} already; give more in all")
    if budget.time is not None and budget.time < rows[-1]["seconds"]:
        raise UsageError(
            f"time: the run has trained for {rows[-1]['seconds']:g} s already; give more in all"
        )


@dataclass(frozen=True)
class Job:
    """What is to be trained, on what, and by whom.

    Attributes:
        problem: The problem.
        config: The run's choices.
        statistics: Sizes that make it dimensionless.
        data: The data, those held out among them; None without.
        described: The data as the config records them.
        processes: Those that train together.
    """

    problem: Problem
    config: TrainingConfig
    statistics: Statistics
    data: AnyDataset | None
    described: Mapping[str, Any] | None
    processes: Processes


def _train(
    folder: RunFolder,
    job: Job,
    progress: Progress | None,
    profile: bool,
    samples: int,
    initial: Mapping[str, torch.Tensor] | None = None,
) -> Run:
    problem, config, statistics = job.problem, job.config, job.statistics
    seed = config.machine.seed
    trained, held = None, None
    if job.data is not None:
        trained, held = training_and_held_out(problem, job.data, seed)
    with threads_of(config.machine):
        model = build_model(problem, statistics, config)
        if initial is not None:
            _start_from(model.operator, initial)
        given, part = trained is not None, job.processes.part
        loss = build_objective(problem, model, statistics, config, data=given, part=part)
        draw = build_source(problem, model, loss, statistics, config, trained, job.processes)
        clock = Profile(config.machine.device, on=profile)
        machine = config.machine
        gradients = make_gradients(loss, machine.compile, clock, machine.cuda_graphs)
        draw = clock.timed_draw(draw)
        trainer = Trainer(
            loss, draw, gradients, config, folder.path, progress, clock, job.processes
        )
        trainer.resume(torch.device(config.machine.device))
        remedy = partial(_memory_advice, trainer, config, trained is not None)
        with explain_out_of_memory(remedy, config.machine.device), precision_of(config.machine):
            trainer.run()
            if profile and job.processes.leads:
                write_profile(folder, trainer, loss, draw)
        model.operator.load_state_dict(trainer.phase.weights())
        run = Run(
            folder.path,
            problem,
            config,
            model,
            statistics,
            trainer.interrupted,
            job.described,
            held,
            trainer.first_step,
        )
        if samples and not trainer.interrupted and job.processes.leads:
            run.evaluate(samples)
    return run


def write_profile(folder: RunFolder, trainer: Trainer, loss: ResidualLoss, draw: Draw) -> None:
    """Write where the time of a step went; of a compiled step, also what a few eager ones say.

    Raises:
        TrainingError: If it cannot be written.
    """
    machine = trainer.config.machine
    record: dict[str, Any] = {
        "device": machine.device,
        "precision": machine.precision,
        "compiled": machine.compile,
        "first_step_seconds": trainer.first_step,
        **trainer.profile.report(trainer.timed_steps),
    }
    if machine.compile:
        last = trainer.step
        record["eager"] = profile_eager(loss, lambda i: draw(last + i, 1.0), machine.device)
    write_json(folder.profile, record)


def _memory_advice(trainer: Trainer, config: TrainingConfig, data: bool, error: Exception) -> str:
    """Say how a step gets smaller and how the run goes on."""
    gridded = trainer.operator.gridded
    lower = smaller_batch(error, config, data, gridded)
    if not lower:
        but = "the network and its grid (grid, times)" if gridded else "the network"
        return f"A step is as small as it gets, but for {but}; {trainer.kept()}"
    names = ", ".join(f"{name}={getattr(config.points, name)}" for name in lower)
    again = "begin again" if trainer.saved_at is None else f"{trainer.kept()}; go on"
    return (
        f"The memory of a step grows linearly with {names}: {again} with less: "
        f"piop resume {trainer.folder} {as_settings(lower)}"
    )


def _require_pairs(problem: Problem, data: bool) -> None:
    """Make sure that there is something to learn an inverse operator from."""
    learn = problem.learn
    if learn is None or data:
        return
    source, target = ", ".join(learn.source), ", ".join(learn.target)
    raise UsageError(
        f"learn: from {source} to {target}: it is learned from pairs of both alone; give them by "
        f"--data FILE (data=...). piop data {problem.name} -n 1000 --output FILE.nc makes them"
    )


def _require_observations(problem: Problem, data: bool) -> None:
    """Make sure that there are solutions to infer parameters from."""
    if problem.infer and not data:
        names = ", ".join(problem.infer)
        raise UsageError(
            f"infer: {names}: equations alone do not tell; give solutions to learn from, "
            f"noisy ones too: --data FILE (data=...)"
        )


def _weights_of(path: str | Path) -> dict[str, torch.Tensor]:
    folder = open_folder(path)
    folder.read_config()
    return load_weights(folder.weights)


def _start_from(operator: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Take up the weights of another run, but not its sizes."""
    own = operator.state_dict()
    try:
        taken = {k: v for k, v in weights.items() if k.startswith("backbone.")}
        operator.load_state_dict({**own, **taken})
    except RuntimeError as error:
        raise UsageError(
            f"init_from: the network of that run differs from this one: {error}"
        ) from error


def _reread_data(
    problem: Problem, described: Mapping[str, Any] | None, data: AnyDataset | None
) -> AnyDataset | None:
    """Read the data of a run again and make sure that they are the same."""
    if described is None:
        return None
    source = data if data is not None else described["path"]
    if source is None:
        raise UsageError("the run was given its data in Python; give them again: data=...")
    found = open_training_data(problem, source)
    assert found is not None  # noqa: S101 - there is a source
    if describe_data(source, found)["hash"] != described["hash"]:
        raise UsageError(f"{described['path'] or 'data'}: has changed since the run began")
    return found
