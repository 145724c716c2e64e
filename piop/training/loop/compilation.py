"""Gradients of the training step: eager at first, compiled where the same steps come sooner so."""

from __future__ import annotations

import math
import time
from typing import final

import torch

from piop.job_phases import JobPhase, JobPhases
from piop.training.batches.batch import Batch
from piop.training.loop.gradients import CompiledGradients, eager_gradients
from piop.training.loop.microbatches import (
    COMPILED_ROWS,
    EAGER_ROWS,
    ConcurrentMicrobatches,
    microbatched,
)
from piop.training.loop.phases import Gradients
from piop.training.loop.profile import COMPILED, Profile
from piop.training.loss.objective import ResidualLoss
from piop.training.loss.weighting.base import Outcome

EAGER_STEPS = 3
"""Steps of a process before the decision: the first warms up, the others are timed."""
GAIN = 0.4
"""Part of the time of eager gradients that compiled ones save: 0.40 on ``navier_stokes``, 0.42 on
``gray_scott``, 0.48 on ``advection_diffusion``, 0.61 on ``burgers``, on one thread."""
GAIN_OF_VALUES = 0.25
"""The same where no streams pass through the network: 0.12 on ``kuramoto_sivashinsky``, 0.33 on
``schroedinger``, 0.34 on ``cahn_hilliard``, on two threads."""
GAIN_ON_CUDA = 0.85
"""The same on a GPU, where launching kernels one by one takes most of the time of eager steps: 0.85
on ``burgers``."""
LEAST = 5.0
"""Seconds to save below which the step is not even traced."""
TRACING = 120.0
"""Seconds after which tracing in the background is given up."""
LONGEST = 5.0
"""Times the seconds foreseen after which compiling in the background is given up."""


@final
class StepGradients:
    """Batch → the parts of the loss and the statistics, detached, having added the gradients.

    Args:
        loss: The objective.
        compiled: Whether to compile, on the first batch, for whose shapes it then holds; None
            leaves it to :meth:`decide`.
        profile: Takes the time of network, loss and backward, or of the compiled step as a whole.
        graphs: Record CUDA graphs of the compiled step.

    Attributes:
        compiled: Whether the step is compiled; None before that is decided.
        pause: Seconds that tracing and compiling took so far, which are no training; of eager steps
            while it is compiled in the background, the part for the thread that they lack.
        phases: Takes when compiling begins, and when training goes on.
    """

    def __init__(
        self,
        loss: ResidualLoss,
        compiled: bool | None,
        profile: Profile | None = None,
        graphs: bool = False,
    ) -> None:
        self.compiled, self.pause = compiled, 0.0
        self.phases = JobPhases()
        profile = profile or Profile()
        pointwise = loss.residual is not None and loss.residual.grid is None
        streams = loss.residual.streams if loss.residual and pointwise else 0
        self._traced = CompiledGradients(loss, graphs)
        self._gain = GAIN_OF_VALUES if streams == 1 else GAIN
        if any(p.is_cuda for p in self._traced.parameters):
            self._gain = GAIN_ON_CUDA
        self._eager = eager_gradients(loss, profile)
        self._microbatches: ConcurrentMicrobatches | None = None
        compiled_step: Gradients = self._traced
        if pointwise:  # a grid has all functions at once
            trained = self._traced.parameters
            self._eager = microbatched(self._eager, trained, streams, EAGER_ROWS)
            own = ConcurrentMicrobatches(self._traced, streams, COMPILED_ROWS)
            compiled_step = self._microbatches = own
        self._compiled = profile.timed(COMPILED, compiled_step)
        self._saving = self._worth = 0.0
        self._ready = False
        self._fastest = math.inf
        self._background = False
        self._all_threads = 0  # those of torch, while it is compiled in the background

    def __call__(self, batch: Batch) -> Outcome:
        """Compute parts and statistics and add the gradients."""
        if self._saving or (self.compiled and not self._ready):
            self._prepare(batch)
        elif self._all_threads:
            self._follow(batch)
        if self.compiled:
            return self._compiled(batch)
        begun = time.perf_counter()
        outcome = self._eager(batch)
        seconds = time.perf_counter() - begun
        if self._all_threads:
            self.pause += seconds / self._all_threads
        self._fastest = min(self._fastest, seconds)
        return outcome

    def decide(self, steps: float, seconds: float | None = None, background: bool = False) -> None:
        """Decide at the next batch whether to compile for the steps that are left.

        They must take longer as they are than compiling and taking them compiled.

        Args:
            steps: How many are left; of a budget in time, how many it holds as they are.
            seconds: What is left of a budget in time. It holds more steps that are compiled, but
                compiling is not to take longer than training.
            background: Whether to compile in the background where that is possible, while eager
                steps go on. How many of them there are depends on the machine, and so do the last
                digits of the result.
        """
        if self._all_threads:
            return
        threads = torch.get_num_threads()
        self._background = background and threads > 1 and self._traced.may_use_background
        saved = self._gain * self._fastest
        if seconds is None:
            self._saving = saved * steps
        else:
            longer = min(saved / max(seconds / steps - saved, 1e-9), 1.0)
            lacking = 1 / threads if self._background else 1.0
            # of eager steps meanwhile this part is no training; what they train does not gain
            self._saving = seconds * longer / (lacking + (1 - lacking) * longer)
        if self._saving < LEAST:
            self.compiled, self._saving = False, 0.0

    def stop(self) -> None:
        """End tracing and compiling where they are under way; for handlers of signals.

        Raises:
            StoppedCompiling: If they are.
        """
        self._traced.stop()

    def close(self) -> None:
        """End compiling in the background, and the threads of the compiled step.

        The next batch begins other threads.
        """
        self._end_background()
        if self._microbatches is not None:
            self._microbatches.close()

    def _prepare(self, batch: Batch) -> None:
        """Trace, and compile unless more is foreseen for it than it saves."""
        begun = time.perf_counter()
        if self._microbatches is not None:
            self._microbatches.use_threads(batch)
        saving, self._saving = self._saving, 0.0
        part = self._traced_part(batch)
        if self._background and self._traced.start_background(part, TRACING):
            self._all_threads, self._worth = torch.get_num_threads(), saving
            torch.set_num_threads(self._all_threads - 1)
        else:
            foreseen = self._traced.foresee(part)
            if foreseen is None or not (self.compiled or foreseen < saving):
                self.compiled = False
            else:
                self._compile(part, f"about {foreseen:.0f} s")
        self.pause += time.perf_counter() - begun

    def _follow(self, batch: Batch) -> None:
        """Load what was compiled in the background; do here what failed there."""
        runs, foreseen = self._traced.background_runs(), self._traced.background_foresees
        if self._worth and foreseen is not None:
            if foreseen >= self._worth:
                self.compiled = False
                self._end_background()
                return
            self._worth = 0.0
            self._traced.extend_background(LONGEST * foreseen)
            if runs:
                detail = f"compiling meanwhile, about {foreseen:.0f} s"
                self.phases.enter(JobPhase.TRAINING, detail)
        if runs:
            return
        begun = time.perf_counter()
        self._end_background()
        if self._worth:  # it did not even trace
            self._saving, self._worth, self._background = self._worth, 0.0, False
            self._prepare(batch)
            return
        self._compile(self._traced_part(batch))
        self.pause += time.perf_counter() - begun

    def _end_background(self) -> None:
        self._traced.close()
        if self._all_threads:
            torch.set_num_threads(self._all_threads)
        self._all_threads = 0

    def _compile(self, part: Batch, detail: str = "") -> None:
        self.phases.enter(JobPhase.COMPILING, detail)
        self.compiled = self._ready = self._traced.prepare(part)
        self.phases.enter(JobPhase.TRAINING)

    def _traced_part(self, batch: Batch) -> Batch:
        """Return the part of a batch that is traced: a microbatch, or all of it."""
        return batch if self._microbatches is None else self._microbatches.first(batch)
