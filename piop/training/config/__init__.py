"""Every choice of a training run, as frozen configs with their meaning, unit and default.

The same keys work under ``solve:`` in a spec, as ``--set key=value`` on the command line and in
``fit(settings=...)``; keys that are none of these belong to the backbone.
"""

from piop.training.config.loss import AdaptiveConfig, LossConfig
from piop.training.config.machine import BudgetConfig, MachineConfig
from piop.training.config.optimiser import OptimiserConfig
from piop.training.config.points import PointsConfig, SamplingConfig
from piop.training.config.run import TrainingConfig
from piop.training.config.settings import apply_settings, change_settings
from piop.training.config.time import parse_time

__all__ = [
    "AdaptiveConfig",
    "BudgetConfig",
    "LossConfig",
    "MachineConfig",
    "OptimiserConfig",
    "PointsConfig",
    "SamplingConfig",
    "TrainingConfig",
    "apply_settings",
    "change_settings",
    "parse_time",
]
