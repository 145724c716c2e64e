"""What is compared: every backbone of the registry, and the FNO of the package neuraloperator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models import build_backbone
from piop.models.registry import BACKBONES
from piop.problem.constraints import decide_constraints
from piop.training.build import signature_of
from piop.training.loss.statistics import Statistics, find_statistics

from .problems import Loaded, Samples

THEIRS = "neuraloperator FNO"
MODES, WIDTH, RATIO = 16, 24, 2
"""Of their FNO: ``Small2dFNO`` of their ``config/burgers_config.py``, revision 11cd995, which their
Darcy configuration widens to 32 and gives group norm. Ours of the same sizes has neither."""


@dataclass(frozen=True)
class Choice:
    """A backbone with its preset and settings.

    Attributes:
        backbone: A name of the registry.
        preset: One of its presets.
        settings: Fields of its config that differ from the preset.
    """

    backbone: str
    preset: str = "default"
    settings: Mapping[str, Any] = field(default_factory=dict)


SAME_SIZES = Choice(
    "fno",
    "neuralop_darcy",
    {"width": WIDTH, "modes": MODES // 2, "time_modes": MODES // 2, "projection": RATIO * WIDTH},
)
"""piop's FNO with the sizes and choices of theirs: as many parameters."""


def choices() -> dict[str, Choice]:
    """List what piop enters: the default of each backbone, and its FNO in their sizes."""
    found = {name: Choice(name) for name in BACKBONES}
    if "fno" in BACKBONES:
        found["fno, their sizes"] = SAME_SIZES
    return found


class Entrant(nn.Module):
    """A network with its units: inputs and positions → solutions on the grid.

    Args:
        network: Answers dimensionless ``[B, *grid]``.
        mean: Mean of the training solutions, their units.
        scale: Standard deviation of the training solutions, their units.
    """

    def __init__(self, network: nn.Module, mean: float, scale: float) -> None:
        super().__init__()
        self.network, self.mean, self.scale = network, mean, scale

    def forward(self, samples: Samples) -> Tensor:
        """Predict ``[B, *grid]`` in the units of the solutions."""
        return self.mean + self.scale * self.network(samples)

    @property
    def size(self) -> int:
        """Real parameters; a complex one is two."""
        return sum(p.numel() * (2 if p.is_complex() else 1) for p in self.network.parameters())


class Ours(nn.Module):
    """A backbone of piop on its grid."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, samples: Samples) -> Tensor:
        """Answer ``[B, *grid]``."""
        return self.backbone.on_grid(samples.inputs, samples.axes)[..., 0]  # type: ignore[operator]


class Theirs(nn.Module):
    """The FNO of neuraloperator over all coordinates, the input repeated along the time.

    Args:
        name: Of the input.
        statistics: Its mean and standard deviation, by which piop's backbones divide too.
    """

    def __init__(self, name: str, statistics: Statistics) -> None:
        super().__init__()
        self.name = name
        self.mean, self.std = statistics.input_mean[name], statistics.input_std[name]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from neuralop.models import FNO
        except ImportError as error:
            raise UsageError(
                f"{THEIRS}: needs the package neuraloperator ({error}): "
                'pip install -e ".[benchmarks]"'
            ) from error
        self.fno = FNO(
            n_modes=(MODES, MODES),
            in_channels=1,
            out_channels=1,
            hidden_channels=WIDTH,
            projection_channel_ratio=RATIO,
        )

    def forward(self, samples: Samples) -> Tensor:
        """Answer ``[B, *grid]``."""
        grid = tuple(map(len, samples.axes))
        seen = samples.inputs[self.name].values[..., 0]
        values = ((seen - self.mean) / self.std).reshape(len(seen), 1, -1)
        if values.shape[-1] != grid[0] * grid[1]:  # a function of space alone
            values = values[:, :, None].expand(-1, -1, grid[0], -1)
        return self.fno(values.reshape(-1, 1, *grid))[:, 0]


def build(name: str, loaded: Loaded, seed: int) -> Entrant:
    """Build an entrant with freshly drawn weights.

    Raises:
        UsageError: If a backbone cannot serve the problem, with the reason.
    """
    torch.manual_seed(seed)
    problem, values = loaded.problem, loaded.train.values
    statistics = find_statistics(problem, loaded.data, 0, physics=False)
    if name == THEIRS:
        (item,) = problem.visible_inputs
        network: nn.Module = Theirs(item.name, statistics)
    else:
        choice = choices()[name]
        signature = signature_of(problem, decide_constraints(problem), statistics)
        network = Ours(build_backbone(choice.backbone, signature, choice.preset, **choice.settings))
    return Entrant(network, float(values.mean()), float(values.std()))
