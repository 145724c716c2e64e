"""Batches whose linearised equations are solved once for several steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from piop.residual import TargetResidual
from piop.training.batches.batch import Batch, BatchSource
from piop.training.distributed import Processes
from piop.training.loss.objective import ResidualLoss


@final
class TargetBatches(BatchSource):
    """Gives the batch of a step to the steps after it too, with the targets found for the first.

    The targets are the values of the operator, at the first of the steps, less their linearised
    error.

    Args:
        equations: Source of the equations of each step.
        loss: The loss, whose equations are linearised.
        total: Functions of a step, of all processes.
        processes: The processes that share them.
    """

    def __init__(
        self, equations: BatchSource, loss: ResidualLoss, total: int, processes: Processes
    ) -> None:
        if not isinstance(loss.residual, TargetResidual):
            raise ValueError("targets are for equations that are solved once for several steps")
        self.equations = self.inner = equations
        self.loss, self.linearised = loss, loss.residual.linearised
        self.total, self.processes = total, processes
        self._first = -1
        self._batch: Batch | None = None
        self._targets: Tensor | None = None

    def __call__(self, step: int, fraction: float) -> Batch:
        """See the base class."""
        first = step - step % self.linearised.steps_per_solution
        if first != self._first:
            self._first, self._batch, self._targets = first, None, None
        if self._batch is None:
            batch = self.equations(first, fraction)
            points = batch.equations
            if points is None:
                raise ValueError("a batch of equations has points")
            if self._targets is None:
                with torch.no_grad():
                    values = self.loss.field(batch)(points.queries)
                known = points.queries, points.input_values
                self._targets = self.linearised.corrected(values, *known)
            self._batch = replace(batch, equations=replace(points, input_values=(self._targets,)))
        return self._batch

    def state_dict(self) -> dict[str, Any]:
        """Return the targets of the present steps, of all processes."""
        found = super().state_dict()
        if self._targets is None:
            return found
        targets = self.processes.gather(self._targets, self.total)
        return {**found, "first": self._first, "targets": targets}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned, whatever the number of processes.

        Where the number of functions is another one, the present step is solved anew.
        """
        super().load_state_dict(state)
        targets = state.get("targets")
        if targets is None or len(targets) != self.total:
            return
        part = self.processes.part(self.total)
        self._first, self._batch = int(state["first"]), None
        self._targets = targets[part.start : part.stop]
