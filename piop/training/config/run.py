"""All choices of a run, in sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from piop.training.config.loss import AdaptiveConfig, LossConfig
from piop.training.config.machine import BudgetConfig, MachineConfig
from piop.training.config.optimiser import OptimiserConfig
from piop.training.config.points import PointsConfig, SamplingConfig

SECTIONS: dict[str, type] = {
    "points": PointsConfig,
    "sampling": SamplingConfig,
    "loss": LossConfig,
    "adaptive": AdaptiveConfig,
    "optimiser": OptimiserConfig,
    "machine": MachineConfig,
}


@dataclass(frozen=True)
class TrainingConfig:
    """All of a run but the spec.

    Attributes:
        budget: When it ends.
        machine: Where it runs.
        points: What a step looks at.
        sampling: How points follow residual and progress.
        loss: What the loss is made of.
        adaptive: Weights that learn.
        optimiser: How it is brought down.
        backbone: Name of the backbone.
        backbone_settings: Its settings that differ from the preset, ``preset`` among them.
        physics: Train on the equations.
    """

    budget: BudgetConfig
    machine: MachineConfig = field(default_factory=MachineConfig)
    points: PointsConfig = field(default_factory=PointsConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    adaptive: AdaptiveConfig = field(default_factory=AdaptiveConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    backbone: str = "pit"
    backbone_settings: Mapping[str, Any] = field(default_factory=dict)
    physics: bool = True

    def to_json(self) -> dict[str, Any]:
        """Give the config as plain dicts, lists, strings and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrainingConfig:
        """Build the config that :meth:`to_json` wrote.

        No key is in two sections, so one that has moved to another section since is found there,
        and one that is new has its default.
        """
        stored = {key: v for name in SECTIONS for key, v in data.get(name, {}).items()}
        parts = {
            name: section(**{f.name: stored[f.name] for f in fields(section) if f.name in stored})
            for name, section in SECTIONS.items()
        }
        backbone = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in data["backbone_settings"].items()
        }
        parts |= {"budget": BudgetConfig(**data["budget"]), "backbone_settings": backbone}
        return cls(**{**data, **parts})
