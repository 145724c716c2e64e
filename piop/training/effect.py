"""Settings that would do nothing in a run are refused rather than ignored."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from piop.errors import UsageError
from piop.models.core.base import POINT_FIELD, FieldKind
from piop.training.config import TrainingConfig


@dataclass(frozen=True)
class Circumstances:
    """What decides whether a setting does anything.

    Attributes:
        config: The run's choices.
        parts: The parts that the loss will have.
        field: How the network is evaluated: pointwise, on a grid, or in steps.
    """

    config: TrainingConfig
    parts: Collection[str]
    field: FieldKind = POINT_FIELD

    @property
    def weighting(self) -> str:
        """Name of the adaptive weights; causal ones may come on top of any."""
        return self.config.adaptive.weighting

    @property
    def causal(self) -> bool:
        """Whether there are causal weights."""
        return self.weighting == "causal" or self.config.adaptive.causal > 0


Rule = tuple[Callable[[Circumstances], bool], str]

ADAPTIVE_POINTS: Rule = (
    lambda c: c.config.points.method == "residual_adaptive",
    "method=residual_adaptive",
)
TIME_BINS: Rule = (
    lambda c: c.causal or c.weighting in {"ntk_local", "residual_attention"},
    "weighting=causal, ntk_local or residual_attention",
)
MEASURED: Rule = (
    lambda c: c.weighting in {"gradient_norm", "ntk", "ntk_local"},
    "weighting=gradient_norm, ntk or ntk_local",
)
ATTENTION: Rule = (
    lambda c: c.weighting == "residual_attention",
    "weighting=residual_attention",
)
WEIGHTS: Rule = (
    lambda c: c.causal or c.weighting in {"gradient_norm", "ntk", "ntk_local"},
    "weights that learn: weighting=causal, gradient_norm, ntk or ntk_local",
)
PHYSICS: Rule = (lambda c: c.config.physics, "training on the equations")
DATA: Rule = (lambda c: "data" in c.parts, "training on data (--data FILE)")

RULES: dict[str, Rule] = {
    "candidates": ADAPTIVE_POINTS,
    "power": ADAPTIVE_POINTS,
    "floor": ADAPTIVE_POINTS,
    "horizon_until": (lambda c: c.config.sampling.horizon < 1, "a horizon below 1"),
    "bins": TIME_BINS,
    "space_bins": ATTENTION,
    "attention_decay": ATTENTION,
    "attention_rate": ATTENTION,
    "memory": WEIGHTS,
    "weight_every": MEASURED,
    "precondition": (lambda c: c.config.optimiser.optimiser == "soap", "optimiser=soap"),
    "functions": PHYSICS,
    "queries": PHYSICS,
    "method": PHYSICS,
    "residual_weight": PHYSICS,
    "relative": PHYSICS,
    "front": PHYSICS,
    "boundary": (
        lambda c: bool({"initial", "boundary"} & set(c.parts)),
        "initial or boundary conditions that are penalised (constraints=soft)",
    ),
    "initial_weight": (
        lambda c: "initial" in c.parts,
        "initial data that are penalised (constraints=soft)",
    ),
    "boundary_weight": (
        lambda c: "boundary" in c.parts,
        "boundary conditions that are penalised (constraints=soft)",
    ),
    "data_functions": DATA,
    "data_queries": DATA,
    "data_weight": DATA,
}
"""Setting → when it does something, and what it belongs to."""


POINTS_ALONE = (
    "queries",
    "method",
    "shared",
    "boundary",
    "candidates",
    "power",
    "floor",
    "data_queries",
)
"""Settings of points that are drawn, for which a network that answers on grids has no use."""

GRIDS: Rule = (lambda c: not c.field.pointwise, "backbones that answer on a grid")
RULES |= {
    "grid": GRIDS,
    "horizon": (
        lambda c: not c.field.space_time_grid,
        "backbones that answer at points, or march: a grid has all of its times at once",
    ),
    "times": (lambda c: c.field.space_time_grid, "backbones that answer on a grid at any time"),
    "time_order": (
        lambda c: c.field.space_time_grid and c.config.physics,
        "training backbones that answer on a grid on the equations",
    ),
}


def require_effect(
    config: TrainingConfig,
    keys: Collection[str],
    parts: Collection[str],
    field: FieldKind = POINT_FIELD,
) -> None:
    """Make sure that settings that were asked for do something.

    Args:
        config: The run's choices.
        keys: The settings that were given.
        parts: The parts that the loss will have.
        field: How the network is evaluated.

    Raises:
        UsageError: For the first that does nothing, with what it belongs to.

    Example:
        >>> from piop.training.config import BudgetConfig
        >>> config = TrainingConfig(BudgetConfig(steps=10))
        >>> require_effect(config, ["precondition"], {"residual"})  # of SOAP, the default
    """
    circumstances = Circumstances(config, parts, field)
    for key in keys:
        if key in POINTS_ALONE and not field.pointwise:
            raise UsageError(
                f"{key}: does nothing here; it places points, and backbone {config.backbone!r} "
                f"answers on a grid, whose size is set by grid and times"
            )
        if key in RULES and not RULES[key][0](circumstances):
            raise UsageError(f"{key}: does nothing here; it belongs to {RULES[key][1]}")
