"""Training of a new run, and of the rest of a run that was stopped."""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import torch

from piop.arguments import callback, flag, mapping, whole_number
from piop.datasets import AnyDataset
from piop.datasets.writer import check_names
from piop.denormals import start_torch_threads
from piop.errors import TrainingError, UsageError, noting_interrupt
from piop.extras import require_extra
from piop.job_phases import JobPhase, JobPhases
from piop.models.core.base import Backbone, Preset
from piop.problem import Problem
from piop.residual import choose_kernel
from piop.run.configuration import (
    choose_machine,
    configure,
    move_to_device,
    precision_of,
    require_graphs,
)
from piop.run.data import DataArgument, GivenData, training_and_held_out, usable_data
from piop.run.error_bounds.calibration import INPUTS, check_inputs
from piop.run.folder import PROFILE, RunFolder, new_folder
from piop.run.held_out_error import held_out_error
from piop.run.job import Job, plan_job, require_pairs
from piop.run.notebook_progress import NotebookProgress, in_notebook
from piop.run.run import Run
from piop.run.sources import RunSources
from piop.run.tensorboard import TensorBoard
from piop.run.threads import threads_of
from piop.training.batches.batch import BatchSource
from piop.training.build import Model, build_model, build_objective, build_source
from piop.training.choices import point_settings, without_points
from piop.training.config import BudgetConfig, TrainingConfig, change_settings
from piop.training.distributed import joined
from piop.training.loop.callbacks import (
    Callback,
    CallbackError,
    Callbacks,
    TrainingEvent,
    on_rows,
)
from piop.training.loop.checkpoint import Row, has_checkpoint, read_metrics, read_weights
from piop.training.loop.compilation import StepGradients
from piop.training.loop.gradients import profile_eager
from piop.training.loop.out_of_memory import as_settings, explain_out_of_memory, smaller_batch
from piop.training.loop.profile import Profile, TimedSource
from piop.training.loop.trainer import Trainer
from piop.training.loss.objective import ResidualLoss
from piop.training.loss.statistics import Statistics
from piop.training.requirements import (
    require_work,
)

logger = logging.getLogger(__name__)

Progress = Callable[[Row], None]


def fit(
    problem: Problem,
    *,
    steps: int | None = None,
    time: str | float | None = None,
    backbone: str | type[Backbone] | Preset | None = None,
    data: DataArgument | None = None,
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
    phases: JobPhases | None = None,
    profile: bool = False,
    samples: int | None = None,
    calibrate: int | None = None,
    callbacks: Sequence[Callback] = (),
    tensorboard: bool = False,
    **more: Any,
) -> Run:
    """Train an operator for a problem, evaluate it on held-out inputs, and write its run folder.

    Under ``torchrun`` the processes share each batch; the first writes and evaluates.

    Args:
        problem: The problem.
        steps: Budget in steps; give this or ``time``.
        time: Budget in time, ``"5m"`` or seconds, counted from the end of the first step.
        backbone: Name of the network, or a class of your own derived from ``piop.Backbone``; by
            default the spec's, else ``pit``.
        data: File or data set of solutions to train on as well.
        physics: Train on the equations; False trains on the data alone, as an inverse operator
            (``learn``) always is.
        init_from: A run from whose weights to start.
        device: ``cpu`` or ``cuda``; by default CUDA where available.
        precision: ``float64``, ``float32``, ``tf32`` (on a GPU) or ``bf16`` (the data's part only).
        compile: Compile the training step; by default where it pays, judged by the first steps.
        threads: CPU threads; by default torch's.
        seed: Seed of weights, functions and points.
        settings: Any setting of training or of the backbone, by name.
        out: The run folder; by default ``runs/NAME-DATE-TIME``.
        force: Replace an existing run folder.
        progress: Called with rows of the metrics. Without it and ``phases``, a Jupyter notebook
            shows one bar.
        phases: Takes the phases of the job (``preparing``, ``compiling``, ``training``,
            ``evaluating``, ``calibrating``) and their seconds; the last one ends with the call,
            errors included.
        profile: Write the time of each part of a step to ``profile.json``.
        samples: Number of held-out inputs of the evaluation, 0 leaves it out; by default as many
            of 64 as have references within a quarter of the time of training, at least one.
        calibrate: Number of further inputs from whose errors bounds are learned for others
            (:meth:`piop.run.Run.calibrate`), 0 leaves it out; by default 150, or as many as fit
            in what is left of that time.
        callbacks: Called with every row of the metrics, and at the end with the run
            (:class:`piop.Callback`). Where one fails, the run is saved and the error names it.
        tensorboard: Write metrics, held-out errors and figures to ``tensorboard/`` in the run
            folder; needs ``pip install 'piop[tensorboard]'``.
        **more: Further ``settings``, such as ``learning_rate=1e-3``.

    Returns:
        The trained run.

    Raises:
        UsageError: For arguments that cannot be used; nothing is written then.
        NotSupportedError: If the problem cannot be trained yet, with the reason.
        TrainingError: If training fails; the last good checkpoint is kept. If a callback fails;
            the run is saved then.

    Example:
        ``run = piop.Problem.from_file("burgers").fit(time="5m")``
    """
    physics, force = flag("physics", physics), flag("force", force)
    profile = flag("profile", profile)
    samples = None if samples is None else whole_number("samples", samples, 0)
    calibrate = check_inputs(calibrate, 0)
    progress, phases = _shown(progress, phases)
    called = _callbacks(progress, callbacks, tensorboard)
    with ExitStack() as stack:
        stack.callback(phases.finish)
        start_torch_threads()
        phases.enter(JobPhase.PREPARING)
        problem.capabilities.training(physics).require()
        check_names(problem)  # predictions could not be written
        if problem.learn is not None:
            require_pairs(problem, data is not None)
            problem, physics = problem.inverse(), False
        settings = _joined_settings(settings, more)
        budget = BudgetConfig.of(steps, time)
        machine = choose_machine(device, precision, compile, threads, seed)
        config = TrainingConfig(budget, machine=machine, physics=physics)
        config = configure(problem, config, backbone, settings)
        config = _with_held_out_errors(config, settings, tensorboard)
        choose_kernel(config.machine.kernel, machine.device)  # before anything is written
        require_graphs(config.machine)
        processes = stack.enter_context(joined())
        path = processes.lead(lambda: str(new_folder(out, problem.name, force).path))
        folder = RunFolder(path)
        given = None if data is None else GivenData.open(problem, data)
        if given is not None:
            given.require_trainable(problem)
        job = plan_job(problem, config, settings, given, processes)
        config = job.config
        require_work(config, data is not None, processes)
        start, initial = None, None
        if init_from is not None:
            source = RunFolder(init_from, "init_from")
            start, initial = source.path.resolve(), _weights_of(source)
            if start == folder.path.resolve():
                raise UsageError(
                    f"init_from: {source.path} is the folder that the new run replaces, and its "
                    "weights would be lost with a run that is stopped early; give another one "
                    "with --out (out=...)"
                )

        def begin() -> None:
            folder.make()
            _write_alone(folder, stack)
            folder.begin(problem, config, job.statistics, job.record, force, start)

        judging = Judging(samples, calibrate)
        return _train(folder, job, called, phases, profile, judging, initial, begin)


def resume(
    path: str | Path,
    *,
    steps: int | None = None,
    time: str | float | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    phases: JobPhases | None = None,
    profile: bool = False,
    samples: int | None = None,
    calibrate: int | None = None,
    data: AnyDataset | None = None,
    backbone: type[Backbone] | Preset | None = None,
    callbacks: Sequence[Callback] = (),
    tensorboard: bool = False,
    **more: Any,
) -> Run:
    """Continue a run that was stopped, to the same numbers as if it had not been.

    With other settings the numbers differ from here on.

    Args:
        path: The run folder.
        steps: A new total budget in steps; by default the run's own.
        time: A new total budget in time.
        settings: New values of settings that may change during a run: the size of a batch, when
            memory is short, and the step size, when the loss diverged; kept in ``config.json``.
        progress: Called with rows of the metrics.
        phases: Takes the phases of the job and their seconds, as of :func:`fit`.
        profile: Write the time of each part of a step to ``profile.json``.
        samples: Number of held-out inputs of the evaluation, 0 leaves it out; by default as many
            of 64 as have references within a quarter of the time of training, at least one.
        calibrate: Number of further inputs of the calibration, as of :func:`fit`.
        data: The data, for a run that was trained on data given in Python.
        backbone: The class, for a run whose network was given in Python.
        callbacks: Called with the metrics, as of :func:`fit`.
        tensorboard: Write to ``tensorboard/`` in the run folder, as of :func:`fit`.
        **more: Further ``settings``, such as ``learning_rate=1e-3``.

    Raises:
        UsageError: If it is no run folder, its spec was changed, its device is not there, or a
            setting may not change.
        TrainingError: If its checkpoint cannot be read, or a callback fails.
    """
    profile = flag("profile", profile)
    samples = None if samples is None else whole_number("samples", samples, 0)
    calibrate = check_inputs(calibrate, 0)
    progress, phases = _shown(progress, phases)
    called = _callbacks(progress, callbacks, tensorboard)
    with ExitStack() as stack:
        stack.callback(phases.finish)
        start_torch_threads()
        phases.enter(JobPhase.PREPARING)
        folder = RunFolder(path)
        folder.require()
        processes = stack.enter_context(joined())
        processes.lead(lambda: _write_alone(folder, stack))
        record = folder.read_config()
        problem = folder.read_problem(record)
        config = TrainingConfig.from_json(record["training"])
        config = move_to_device(config, config.machine.device).with_same_network(backbone)
        if steps is not None or time is not None:
            budget = BudgetConfig.of(steps, time)
            _require_larger(budget, folder)
            config = replace(config, budget=budget)
        changes = _joined_settings(settings, more)
        config = change_settings(config, changes)
        config = _with_held_out_errors(config, changes, tensorboard)
        recorded = record["data"]
        require_work(config, recorded is not None, processes)
        statistics = Statistics.from_json(record["statistics"])
        _require_points(problem, statistics, [*(settings or {}), *more])

        def begin() -> None:
            if config != TrainingConfig.from_json(record["training"]) or not folder.files.covered:
                folder.rewrite_config({**record, "training": config.to_json()})

        given = None if recorded is None else GivenData.reopen(problem, recorded, data)
        found = None if given is None else usable_data(problem, config, given.dataset)
        job = Job(problem, config, statistics, found, recorded, processes)
        judging = Judging(samples, calibrate)
        initial = None
        if (start := record.get("start")) and not has_checkpoint(folder.files):
            initial = _weights_of(RunFolder(start, "init_from"))
        return _train(folder, job, called, phases, profile, judging, initial, begin)


def _write_alone(folder: RunFolder, stack: ExitStack) -> None:
    """Lock the folder of a run, and note on an interrupt that it can go on.

    Raises:
        UsageError: If another process is writing.
    """

    def kept() -> str:
        if not folder.config.exists():
            return ""
        return f"what was saved is in {folder.path}. Go on with: piop resume {folder.path}"

    stack.enter_context(folder.writing())
    stack.enter_context(noting_interrupt(kept))


EXAMPLE = '{"learning_rate": 1e-3}'


def _joined_settings(settings: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Join the settings that were given as one mapping and as arguments of their own.

    Raises:
        UsageError: If one is given in both ways, or they are no mapping from names.
    """
    found = {} if settings is None else dict(mapping("settings", settings, EXAMPLE))
    if twice := sorted(found.keys() & more):
        raise UsageError(f"{twice[0]}: is given twice, as an argument and in settings")
    return found | dict(more)


def _require_points(problem: Problem, statistics: Statistics, settings: Iterable[str]) -> None:
    """Refuse settings of random points for a run whose equations are integrated on lattices."""
    if statistics.lattice and (own := point_settings(problem) & {*settings}):
        raise UsageError(without_points(min(own)))


def _require_larger(budget: BudgetConfig, folder: RunFolder) -> None:
    """Refuse a budget that the run has already spent."""
    if not (rows := read_metrics(folder.files)):
        return
    if budget.steps is not None and budget.steps < rows[-1]["step"]:
        raise UsageError(f"steps: the run has taken {rows[-1]['step']:g} already; give more in all")
    if budget.time is not None and budget.time < (spent := rows[-1]["seconds"]):
        raise UsageError(f"time: the run has trained for {spent:g} s already; give more in all")


def _train(
    folder: RunFolder,
    job: Job,
    called: Callbacks,
    phases: JobPhases,
    profile: bool,
    judging: Judging,
    initial: Mapping[str, torch.Tensor] | None,
    begin: Callable[[], None],
) -> Run:
    """Build the model and its loss, write what begins a run or a resume, train, and evaluate."""
    problem, config, statistics = job.problem, job.config, job.statistics
    machine, processes = config.machine, job.processes
    if isinstance(phases, NotebookProgress):
        phases.budget = config.budget
    training, held_out = None, None
    if job.data is not None:
        training, held_out = training_and_held_out(problem, job.data, machine.seed)
    with threads_of(machine):
        model = build_model(problem, statistics, config)
        if initial is not None:
            _load_backbone(model.operator, initial)
        given = training is not None
        loss = build_objective(model, statistics, config, data=given, part=processes.part)
        clock = Profile(machine.device, on=profile)
        draw = build_source(model, loss, statistics, config, training, processes)
        gradients = StepGradients(loss, machine.compile, clock, machine.cuda_graphs)
        gradients.phases = phases
        processes.lead(begin)  # from here on nothing is refused
        timed, path = TimedSource(draw, clock), folder.path
        judge = _held_out_error(folder, job, model, held_out, phases)
        trainer = Trainer(loss, timed, gradients, config, path, called, clock, processes, judge)
        trainer.resume(torch.device(machine.device))
        fixed = model.operator.gridded or not (loss.residual is None or loss.residual.anywhere)
        advice = partial(_memory_advice, trainer, config, given, fixed)
        finished = processes.lead(lambda: trainer.finished and _has_whole_weights(folder))
        with explain_out_of_memory(advice, machine.device), precision_of(machine):
            if not finished:
                phases.enter(JobPhase.TRAINING)
                trainer.run()
            if profile and not finished and processes.leads:
                write_profile(folder, trainer, loss, draw)
        model.operator.load_state_dict(trainer.phase.weights())
        record, ended = job.record, trainer.interrupted
        first = trainer.first_step + gradients.pause
        run = Run(folder, problem, config, model, statistics, ended, record, held_out, first)
        if finished and run.is_evaluated:
            judging = judging.asked_for
        if finished and not judging.wanted:
            logger.info(
                "%s: has taken its %d steps already; nothing is left to do. Give it more in all "
                "with --steps or --time, or evaluate it again with: piop evaluate %s",
                *(folder.path, trainer.step, folder.path),
            )
            return replace(run, unchanged=True)
        if judging.wanted and not trainer.interrupted and processes.leads:
            judging.judge(run, phases)
        if processes.leads:
            _end(called, run, trainer)
    return run


def _shown(
    progress: Progress | None, phases: JobPhases | None
) -> tuple[Progress | None, JobPhases]:
    """Return what shows rows and phases: what was given, else one bar in a notebook."""
    if progress is None and phases is None and in_notebook():
        bar = NotebookProgress()
        return bar, bar
    return progress, phases or JobPhases()


def _callbacks(
    progress: Progress | None, given: Sequence[Callback], tensorboard: bool
) -> Callbacks:
    """Check and join all that is called with the metrics.

    Raises:
        UsageError: For what cannot be called; without TensorBoard, where it is to be written.
    """
    found = Callbacks.of(given)
    if flag("tensorboard", tensorboard):
        require_extra("tensorboard", ["tensorboard"], "tensorboard")
        found = Callbacks([*found.given, TensorBoard()])
    take = callback(progress)
    return found if take is None else Callbacks([on_rows(take), *found.given])


def _with_held_out_errors(
    config: TrainingConfig, settings: Mapping[str, Any], tensorboard: bool
) -> TrainingConfig:
    """Measure errors on held-out inputs where they are shown, unless the settings say otherwise."""
    if not tensorboard or "held_out_every" in settings or config.monitoring.held_out_every:
        return config
    monitoring = replace(config.monitoring, held_out_every=HELD_OUT_EVERY)
    return replace(config, monitoring=monitoring)


HELD_OUT_EVERY = 100
"""Steps between errors on held-out inputs where TensorBoard shows them."""


def _held_out_error(
    folder: RunFolder, job: Job, model: Model, held_out: AnyDataset | None, phases: JobPhases
) -> Callable[[], float] | None:
    """Prepare the errors on held-out inputs that are measured during training, where requested."""
    monitoring = job.config.monitoring
    if not monitoring.held_out_every or not job.processes.leads:
        return None
    own = model.operator.end_only, job.record, held_out
    sources = RunSources(folder.path, job.problem, job.config, *own)
    solved = partial(phases.advance, what="references")
    return held_out_error(job.problem, model, sources, monitoring.held_out_inputs, solved)


def _end(called: Callbacks, run: Run, trainer: Trainer) -> None:
    """Call the callbacks with the run.

    Raises:
        TrainingError: If one fails.
    """
    try:
        called(TrainingEvent(run.path, trainer.step, run=run))
    except KeyboardInterrupt:  # the run is whole and is returned
        logger.warning("%s: interrupted in a callback, after the run was saved", run.path)
    except CallbackError as error:
        message = f"{error}; the run is saved in {run.path}"
        raise TrainingError(message) from error.__cause__


@final
@dataclass(frozen=True)
class Judging:
    """How an operator is judged after training.

    Attributes:
        samples: Held-out inputs, 0 for none; None for as many as fit in a time.
        calibrate: Further inputs from which error bounds are learned, 0 for none; None for as many
            as fit in the rest of that time.
    """

    samples: int | None
    calibrate: int | None

    @property
    def wanted(self) -> bool:
        """Whether there is anything to do; without an evaluation only a calibration asked for."""
        return self.samples != 0 or bool(self.calibrate)

    @property
    def asked_for(self) -> Judging:
        """What is left for a run that is evaluated: what has a number."""
        return Judging(self.samples or 0, self.calibrate or 0)

    def judge(self, run: Run, phases: JobPhases) -> None:
        """Evaluate, then calibrate."""
        begun = clock.monotonic()
        solved = partial(phases.advance, what="references")
        if self.samples != 0:
            phases.enter(JobPhase.EVALUATING)
            run.evaluate_after_training(self.samples, solved)
        if self.calibrate != 0:
            left = run.seconds_of_judging - (clock.monotonic() - begun)
            if self.calibrate is not None or (left > 0 and run.problem.inputs):
                phases.enter(JobPhase.CALIBRATING)
            again = f"piop resume {run.path} --calibrate {self.calibrate or INPUTS}"
            with noting_interrupt(lambda: f"what was saved is in {run.path}. Go on with: {again}"):
                run.calibrate_after_training(self.calibrate, solved, left)


def _has_whole_weights(folder: RunFolder) -> bool:
    """Whether a finished run has the weights that predict; a resume writes them again if not."""
    try:
        read_weights(folder.files)
    except UsageError as error:
        logger.warning("%s", error)
        return False
    return True


def write_profile(
    folder: RunFolder, trainer: Trainer, loss: ResidualLoss, draw: BatchSource
) -> None:
    """Write the time of each part of a step; for a compiled step also that of a few eager ones.

    Raises:
        TrainingError: If it cannot be written.
    """
    machine = trainer.config.machine
    record: dict[str, Any] = {
        "device": machine.device,
        "precision": machine.precision,
        "compiled": trainer.gradients.compiled,
        "first_step_seconds": trainer.first_step + trainer.gradients.pause,
        **trainer.profile.report(trainer.timed_steps),
    }
    if trainer.gradients.compiled:
        last = trainer.step
        record["eager"] = profile_eager(loss, lambda i: draw(last + i, 1.0), machine.device)
    folder.write_json(PROFILE, record)


def _memory_advice(
    trainer: Trainer, config: TrainingConfig, data: bool, fixed: bool, error: Exception
) -> str:
    """Say which settings make a step smaller and how to continue the run.

    Args:
        trainer: The trainer.
        config: The run's choices.
        data: Whether a step has data.
        fixed: Whether its points are those of a grid or lattice.
        error: The failed allocation.
    """
    lower = smaller_batch(error, config, data, fixed)
    if not lower:
        gridded = trainer.operator.gridded
        but = "the network and its grid (grid, times)" if gridded else "the network"
        return f"A step is as small as it gets, but for {but}; {trainer.kept()}"
    names = ", ".join(f"{name}={getattr(config.points, name)}" for name in lower)
    again = "begin again" if trainer.saved_at is None else f"{trainer.kept()}; go on"
    return (
        f"The memory of a step grows linearly with {names}: {again} with less: "
        f"piop resume {trainer.folder} {as_settings(lower)}"
    )


def _weights_of(folder: RunFolder) -> dict[str, torch.Tensor]:
    """Return the weights of the run that another one starts from.

    Raises:
        UsageError: If it is no run folder.
    """
    folder.read_config()
    return read_weights(folder.files)


def _load_backbone(operator: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Start from the network of another run, but keep the scales of this one."""
    own = operator.state_dict()
    taken = {k: v for k, v in weights.items() if k.startswith("backbone.")}
    if fewer := {k for k in own if k.startswith("backbone.")} - taken.keys():
        message = f"has no {min(fewer)}, and {len(fewer)} in all are missing"
        raise UsageError(f"init_from: the network of that run differs from this one: it {message}")
    try:
        operator.load_state_dict({**own, **taken})
    except RuntimeError as error:
        _, first, *others = (line.strip() for line in str(error).splitlines())
        more = f" and {len(others)} more" if others else ""
        message = f"the network of that run differs from this one: {first}{more}"
        raise UsageError(f"init_from: {message}") from error
