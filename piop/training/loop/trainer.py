"""The training loop: steps, metrics, checkpoints, and a clean end after any failure."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from piop.errors import TrainingError
from piop.inferred_parameters import INFERRED
from piop.residual.compiled_step import StoppedCompiling
from piop.training.batches.batch import BatchSource
from piop.training.config import TrainingConfig
from piop.training.distributed import LostProcessError, Processes, SingleProcess, checksum
from piop.training.loop.callbacks import HELD_OUT, CallbackError, Callbacks, TrainingEvent
from piop.training.loop.checkpoint import MetricsFile, Row, read_checkpoint, save_checkpoint
from piop.training.loop.compilation import EAGER_STEPS, StepGradients
from piop.training.loop.divergence import (
    NO_GRADIENTS,
    DivergenceMonitor,
    calmer_rate,
    calmer_settings,
    not_finite,
)
from piop.training.loop.gradients import ControlFlags, SharedGradients
from piop.training.loop.phases import (
    FROZEN_BATCHES,
    Phase,
    QuasiNewton,
    Stochastic,
    TrainingTask,
)
from piop.training.loop.profile import CHECKPOINT, METRICS, OPTIMISER, Profile
from piop.training.loop.run_files import RunFiles
from piop.training.loss.objective import ResidualLoss


@contextmanager
def on_interrupt(action: Callable[[], None], twice: bool) -> Iterator[None]:
    """Call a function when Ctrl-C is pressed within a block, in place of raising.

    Args:
        action: The function.
        twice: Whether a second Ctrl-C calls it as well; else that raises at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: object) -> None:
        if not twice:
            signal.signal(signal.SIGINT, previous)
        action()

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


class _Taken(NamedTuple):
    """A step since the last row of metrics: its number, and the gradients computed before it."""

    step: int
    before: int
    row: dict[str, Any]
    statistics: Mapping[str, Tensor]


class Trainer:
    """Trains one operator within one run folder.

    Args:
        loss: The objective around the operator, whose weights are trained in place.
        draw: Draws the batch of a step; what it keeps from step to step is in the checkpoint.
        gradients: The gradients of a batch, eager or compiled.
        config: The run's choices.
        folder: Where ``metrics.jsonl``, ``model.safetensors`` and ``state/`` go.
        callbacks: Called with every row of the metrics.
        profile: Takes the time of each part of a step; that of ``draw`` and ``gradients`` is theirs
            to take.
        processes: The processes of the run; the first writes and reports.
        held_out: Measures the error of the present weights on held-out inputs, every
            ``held_out_every`` steps; NaN where it has none.

    Attributes:
        step: Gradients computed so far.
        gradients: As given.
        elapsed: Seconds spent training, the first step of each process and compiling left out.
        first_step: Seconds of the first step, without compiling.
        interrupted: True once Ctrl-C was pressed.
        monitor: Judges whether training diverges.
        saved_at: Step of the last checkpoint; None before one.
    """

    def __init__(
        self,
        loss: ResidualLoss,
        draw: BatchSource,
        gradients: StepGradients,
        config: TrainingConfig,
        folder: Path,
        callbacks: Callbacks | None = None,
        profile: Profile | None = None,
        processes: Processes | None = None,
        held_out: Callable[[], float] | None = None,
    ) -> None:
        self.operator, self.weightings = loss.operator, loss.weightings
        self.processes, self.profile = processes or SingleProcess(), profile or Profile()
        self.shared: SharedGradients | None = None
        self.gradients, summed = gradients, gradients
        if self.processes.count > 1:
            own = self.processes, self._own_flags, self.profile
            summed = self.shared = SharedGradients(gradients, loss, *own)
        self.config, self.files = config, RunFiles(folder)
        self.callbacks, self.held_out = callbacks or Callbacks(), held_out
        self.task = TrainingTask(self.operator, summed, draw, config.optimiser, self.weightings)
        self.phase: Phase = Stochastic(self.task)
        self.step, self.elapsed, self.first_step = 0, 0.0, 0.0
        self.interrupted = False
        self._failed: CallbackError | None = None
        self._noted, self._aside = 0, 0.0
        self.monitor = DivergenceMonitor(loss.equations)
        self._since_note: list[_Taken] = []
        self._first_at, self._first_elapsed = 0, 0.0
        self._metrics_size = 0
        self._last_is_whole = False
        self._spent, self._saved_clock = 0.0, 0.0
        self.saved_at: int | None = None

    @property
    def timed_steps(self) -> int:
        """Gradients computed after the first step of this process."""
        return self.step - self._first_at

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.files.folder

    def fraction(self) -> float:
        """Return the fraction of the budget that is spent, in [0, 1]."""
        return self.config.budget.fraction(self.step, self._spent)

    @property
    def finished(self) -> bool:
        """Whether the budget is spent and the last checkpoint holds the result."""
        return self._last_is_whole and self.fraction() >= 1

    def run(self) -> None:
        """Train until the budget is spent or Ctrl-C is pressed, then save.

        Raises:
            TrainingError: If the loss is not finite or explodes, or a file cannot be written; the
                last good checkpoint is kept. If a callback fails; the run is saved then.
        """
        metrics = None
        if self.processes.leads:
            metrics = MetricsFile(self.files, self._metrics_size)
        clock = self._saved_clock = time.perf_counter()
        try:
            twice = self.shared is not None  # torchrun passes Ctrl-C on a second time
            with on_interrupt(self._interrupt, twice), suppress(StoppedCompiling):
                while self.fraction() < 1 and not self._stops():
                    pause, undecided = self.gradients.pause, self.gradients.compiled is None
                    if undecided and self.timed_steps >= EAGER_STEPS - 1:
                        left = self._seconds_left()
                        background = left is not None and self.shared is None
                        self.gradients.decide(self._steps_left(), left, background)
                    with self.profile.part(OPTIMISER):
                        row = self._advance()
                    now = time.perf_counter() - (self.gradients.pause - pause)
                    if self.first_step:
                        self.elapsed += now - clock
                    else:
                        self.first_step = now - clock
                        self._time_from_here()
                    if self.gradients.pause > pause:  # a profile is of one kind of steps
                        self._time_from_here()
                    clock = time.perf_counter()
                    self._spent = self._flags().spent
                    if self._is_noted():
                        with self.profile.part(METRICS):
                            self._note(metrics, row)
                        clock += self._aside
                    decided = undecided and self.gradients.compiled is not None
                    due = (self._flags().save or decided) and self.fraction() < 1
                    if due and self.monitor.verdict(row) is None:
                        with self.profile.part(CHECKPOINT):
                            self._save(metrics)
                        self._saved_clock = time.perf_counter()
            self._require_sound()
            self._save(metrics)
            self.processes.lead(self._raise_failure_of_callback)
        except LostProcessError as error:
            raise TrainingError(
                f"step {self.step + 1}: {error}; {self.kept()}. Go on with as many processes as "
                f"you like: piop resume {self.folder}"
            ) from error
        finally:
            self.gradients.close()
            if metrics is not None:
                metrics.close()

    def _steps_left(self) -> float:
        """Return how many more steps the budget holds, at the speed of this process."""
        if (seconds := self._seconds_left()) is None:
            return (self.config.budget.steps or 0) - self.step
        timed = max(self.elapsed - self._first_elapsed, 1e-9)
        return seconds * self.timed_steps / timed

    def _seconds_left(self) -> float | None:
        """Return what is left of a budget in time; None of a budget in steps."""
        budget = self.config.budget.time
        return None if budget is None else budget - self.elapsed

    def _time_from_here(self) -> None:
        """Leave the steps so far out of the profile and of the speed."""
        self.profile.forget()
        self._first_at, self._first_elapsed = self.step, self.elapsed

    def _own_flags(self) -> ControlFlags:
        """Return the control flags of this process: time spent, and requests to stop or save."""
        waited = time.perf_counter() - self._saved_clock
        return ControlFlags(self.elapsed, self.interrupted, waited > self.config.machine.checkpoint)

    def _flags(self) -> ControlFlags:
        """Return the flags that all processes share: those sent with the last gradients."""
        return self._own_flags() if self.shared is None else self.shared.flags

    def _stops(self) -> bool:
        self.interrupted |= self._flags().stop
        return self._flags().stop

    def _advance(self) -> dict[str, Any]:
        fraction, budget = self.fraction(), self.config.budget.steps
        left = None if budget is None else budget - self.step
        ends = fraction >= 1 - self.config.optimiser.lbfgs
        if self.phase.finish and not ends:  # the budget was enlarged
            self.phase = Stochastic(self.task)
        elif ends and not self.phase.finish:
            self.operator.load_state_dict(self.phase.weights())
            count = min(FROZEN_BATCHES, max(1, (left or 16) // 2))
            self.phase = QuasiNewton(self.task, self.step, fraction, count)
        try:
            row, gradients = self.phase.step(self.step, fraction, left)
        except torch.linalg.LinAlgError as error:  # pyright: ignore[reportPrivateImportUsage]
            # SOAP looked for the eigenbases of gradients that are NaN
            parts, statistics = self.phase.outcome
            what = not_finite({k: float(v) for k, v in parts.items()}) or NO_GRADIENTS
            raise self._failure(what, self.step + 1, self.step, statistics) from error
        before = self.step
        self.step += gradients
        if (inferred := self.operator.inferred) is not None:
            present = zip(inferred.names, inferred(), strict=True)
            row |= {INFERRED + name: value.detach() for name, value in present}
        self._since_note.append(_Taken(self.step, before, row, self.phase.outcome[1]))
        return row

    def _is_noted(self) -> bool:
        """Return whether to log a step: the first ten, every tenth, all of the finish, the last."""
        often = self.step <= 10 or self.step % 10 == 0
        return often or self.phase.finish or self.fraction() >= 1

    def _note(self, metrics: MetricsFile | None, values: dict[str, Any]) -> None:
        """Log a step; the seconds of callbacks and of held-out errors are kept aside."""
        self._aside = 0.0
        values = values | self.weightings.in_metrics()
        numbers = {name: float(value) for name, value in values.items()}
        if (wrong := self.monitor.note(numbers)) is not None:
            raise self._failure(*self._first_failure(wrong))
        del self._since_note[:-1]
        row: Row = {"step": self.step, **numbers, "seconds": round(self.elapsed, 3)}
        before, self._noted = self._noted, self.step
        if metrics is None:
            return
        begun = time.perf_counter()
        try:
            row |= self._held_out_error(before)
            metrics.write(row)
            self.callbacks(TrainingEvent(self.folder, self.step, MappingProxyType(row)))
        except KeyboardInterrupt:
            if self.interrupted and self.shared is None:  # the second Ctrl-C
                raise
            self.interrupted = True
        except CallbackError as error:
            self._failed, self.interrupted = error, True
        self._aside = time.perf_counter() - begun

    def _held_out_error(self, before: int) -> Row:
        """Measure the error on held-out inputs where it is due since an earlier row."""
        every = self.config.monitoring.held_out_every
        if self.held_out is None or not every or self.step // every == before // every:
            return {}
        present = {name: value.clone() for name, value in self.operator.state_dict().items()}
        try:
            self.operator.load_state_dict(self.phase.weights())
            error = self.held_out()
        finally:
            self.operator.load_state_dict(present)
        return {HELD_OUT: error} if math.isfinite(error) else {}

    def _raise_failure_of_callback(self) -> None:
        """Raise for the callback that has ended training, the run being saved."""
        if self._failed is not None:
            raise TrainingError(
                f"{self._failed}; {self.kept()}. Go on without it: piop resume {self.folder}"
            ) from self._failed.__cause__

    def _require_sound(self) -> None:
        """Refuse to save the weights of a last step that diverged."""
        for taken in self._since_note[-1:]:
            if (wrong := self.monitor.verdict(taken.row)) is not None:
                raise self._failure(wrong, taken.step, taken.before, taken.statistics)

    def _first_failure(self, wrong: str) -> tuple[str, int, int, Mapping[str, Tensor]]:
        """Return the first failed step since the last row of metrics."""
        for step, before, row, statistics in self._since_note:
            if found := not_finite({name: float(value) for name, value in row.items()}):
                return found, step, before, statistics
        last = self._since_note[-1]
        return wrong, last.step, last.before, last.statistics

    def _failure(
        self, what: str, step: int, before: int, statistics: Mapping[str, Tensor]
    ) -> TrainingError:
        """Return an error with the step, its cause, what is kept, and what to try.

        Args:
            what: The failure in words.
            step: At which it occurred.
            before: Gradients whose updates of the weights came before it.
            statistics: Of the step.
        """
        remedy = calmer_settings(self.config, before)
        if self.saved_at is not None:
            rate = calmer_rate(self.config.optimiser)
            remedy = f"Go on from it: piop resume {self.folder} --set learning_rate={rate:g}"
        where = self.monitor.culprit(statistics) if "residual" in what else ""
        return TrainingError(f"{what}{where} at step {step}; {self.kept()}. {remedy}")

    def kept(self) -> str:
        """Return in words which checkpoint there is to resume from."""
        if self.saved_at is None:
            return "no checkpoint was saved before it"
        return f"the checkpoint of step {self.saved_at} is kept in {self.folder}"

    def _save(self, metrics: MetricsFile | None) -> None:
        """Write weights and state, if the weights are finite and the same on every process."""
        if not all(bool(p.isfinite().all()) for p in self.operator.parameters()):
            what, statistics = "the weights are not finite", self.phase.outcome[1]
            raise self._failure(what, self.step, self.step, statistics)
        if not self.processes.agree(checksum(self.operator.parameters())):
            raise TrainingError(
                f"the weights of the processes are no longer the same at step {self.step}; "
                f"{self.kept()}. Use machines of one kind with the same versions, and go on with: "
                f"piop resume {self.folder}"
            )
        state = self.state_dict()  # every process adds its part
        if metrics is not None:
            written = metrics.flush()
            self._metrics_size = state["metrics_size"] = written[0]
            save_checkpoint(
                self.files, state, self.phase.weights(), written, keep=self._last_is_whole
            )
        self.saved_at, self._last_is_whole = self.step, True

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resume needs to continue with the same numbers, on every process."""
        return {
            "step": self.step,
            "compiled": self.gradients.compiled,
            "elapsed": self.elapsed,
            "metrics_size": self._metrics_size,
            "finish": self.phase.finish,
            "weights": self.operator.state_dict(),
            "phase": self.phase.state_dict(),
            "weighting": self.weightings.state_dict(),
            "watch": self.monitor.state_dict(),
        }

    def resume(self, device: torch.device) -> None:
        """Load the checkpoint of the folder; without one, training starts anew.

        Raises:
            DamagedFileError: If there are checkpoints and none is whole.
            TrainingError: If the checkpoint does not fit the operator.
        """
        if (found := read_checkpoint(self.files, device)) is None:
            return
        state, self._last_is_whole = found
        try:
            self.weightings.load_state_dict(state.get("weighting", {}))
            self.monitor.load_state_dict(state.get("watch", {}))
            if state["finish"]:
                phase = state["phase"]
                self.operator.load_state_dict(phase["origin"])
                self.task.draw.load_state_dict(phase.get("source", {}))
                count = int(phase.get("count", FROZEN_BATCHES))
                start, fraction = int(phase["start"]), float(phase["share"])
                self.phase = QuasiNewton(self.task, start, fraction, count)
            self.operator.load_state_dict(state["weights"])
            self.phase.load_state_dict(state["phase"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise TrainingError(
                f"{self.folder}: its checkpoint does not fit this run ({error})"
            ) from error
        self.gradients.compiled = state.get("compiled", self.gradients.compiled)
        self.step = self.saved_at = self._first_at = self._noted = int(state["step"])
        self.elapsed = self._spent = float(state["elapsed"])
        self._metrics_size = int(state["metrics_size"])

    def _interrupt(self) -> None:
        """Note a request to stop; one process ends compiling, which others would wait for."""
        self.interrupted = True
        self.processes.hurry()
        if self.shared is None:
            self.gradients.stop()
