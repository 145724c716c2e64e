"""Divergence of training: when it occurs, at which step, and in which term of the loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from piop.training.config import PARTS, OptimiserConfig, TrainingConfig
from piop.training.optimisers.build import OPTIMISERS

ABOVE_LOWEST, ABOVE_FIRST, IN_A_ROW = 1e6, 1e3, 5
NO_GRADIENTS = "the gradients are not finite, though the loss is"


@dataclass
class DivergenceMonitor:
    """Judges from the logged terms of the loss whether training diverges.

    A term is suspicious when it is not finite, or when it is both a million times its own lowest
    and a thousand times the whole loss of the first step; training has exploded when that holds for
    five logged steps in a row. Losses may well grow: adaptive weights, a time curriculum and a
    change of phase raise them, but from far below what the untrained network had. Terms are
    judged without their weights, so that weights that adapt are no alarm.

    Attributes:
        equations: The text of each equation, to name the one that failed.
        first: Sum of the terms at the first logged step; None before it.
        lowest: Each term's lowest value.
        count: Logged steps in a row with a suspicious term.
    """

    equations: Sequence[str] = ()
    first: float | None = None
    lowest: dict[str, float] = field(default_factory=dict)
    count: int = 0

    def note(self, row: Mapping[str, float]) -> str | None:
        """Take a logged step into account, its terms as floats.

        Returns:
            The failure in words; None for none.
        """
        if (bad := not_finite(row)) is not None:
            return bad
        wrong = self.verdict(row)
        self.count = self.count + 1 if wrong else 0
        terms = {name: value for name, value in row.items() if name in PARTS}
        if self.first is None:
            self.first = sum(terms.values())
        for name, value in terms.items():
            self.lowest[name] = min(value, self.lowest.get(name, math.inf))
        return wrong if self.count >= IN_A_ROW else None

    def verdict(self, row: Mapping[str, Any]) -> str | None:
        """Return what is suspicious about a step; None where its weights may be saved.

        Args:
            row: Terms as floats or scalar tensors.
        """
        numbers = {name: float(value) for name, value in row.items()}
        if (bad := not_finite(numbers)) is not None or self.first is None:
            return bad
        for name, low in self.lowest.items():
            value = numbers.get(name, 0.0)
            if value > max(ABOVE_LOWEST * low, ABOVE_FIRST * self.first):
                now, then = f"{value:.3g}", f"{low:.3g}"
                return f"the loss exploded: its {name} is {now} and was {then} at its lowest"
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return what a resume needs."""
        return {"first": self.first, "lowest": dict(self.lowest), "count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; older checkpoints have nothing."""
        self.first = state.get("first")
        self.lowest = dict(state.get("lowest", {}))
        self.count = int(state.get("count", 0))

    def culprit(self, statistics: Mapping[str, Tensor]) -> str:
        """Return the text of the equation whose residual is not finite, else of the largest one.

        Args:
            statistics: Of the step that failed; without ``equations`` in them nothing is named.
        """
        sums = statistics.get("equations")
        if sums is None or len(self.equations) < 2:
            return ""
        found = sums.double().nan_to_num(nan=math.inf)
        number = int(found.argmax())
        return f" in equation {number + 1}, {self.equations[number]}"


def not_finite(row: Mapping[str, float]) -> str | None:
    """Return in words which terms of a step are not finite; None where all are."""
    bad = [name for name in PARTS if not math.isfinite(row.get(name, 0.0))]
    loss = row.get("loss", 0.0)
    if not math.isfinite(loss):
        return f"the loss is {loss}" + (f" through its {' and '.join(bad)}" if bad else "")
    if bad:
        return f"the {' and '.join(bad)} of the loss is not finite"
    if not math.isfinite(row.get("gradient", 0.0)):
        return NO_GRADIENTS
    return None


def calmer_rate(config: OptimiserConfig) -> float:
    """Return the step size to try after one that failed.

    A step size above twice the usual one is the likely cause, and the usual one the remedy; else a
    fifth of it.

    Example:
        >>> calmer_rate(OptimiserConfig(learning_rate=1e30)), calmer_rate(OptimiserConfig())
        (0.01, 0.002)
    """
    usual, tried = OPTIMISERS[config.optimiser].usual_rate, config.learning_rate
    return usual if tried > 2 * usual else tried / 5


def calmer_settings(config: TrainingConfig, updates: int) -> str:
    """Return what to try where there is no checkpoint to resume from.

    The loss before any update is that of the network as it starts, which no setting calms.

    Args:
        config: The run's settings.
        updates: Updates of the weights before the failure.
    """
    remedy = f"Try --set learning_rate={calmer_rate(config.optimiser):g}"
    if updates == 0:
        remedy = (
            "No step was taken before: a term has no value where the network starts, or numbers "
            "are too large. Write the problem in units in which its values are near 1"
        )
    return remedy + (", or --precision float64" * (config.machine.precision != "float64"))
