"""Small networks that answer on grids, and march, for tests of how they are trained."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from piop.models import Backbone
from piop.models.core.base import GRID_FIELD, ROLLOUT_FIELD, Preset
from piop.models.core.harmonic_fit import HarmonicFit


@dataclass(frozen=True)
class Sizes:
    """Of all of them.

    Attributes:
        width: Hidden features.
        steps: Of the march.
    """

    width: int = 16
    steps: int = 8


class OnGridAlone(Backbone):
    """An MLP of time, place and what a smooth input is there; the grid is all it answers on."""

    field = GRID_FIELD
    scattered = False

    def __init__(self, signature, config):
        super().__init__(signature)
        self.config = config
        axes = [signature.coordinates[signature.axis(n)] for n in signature.functions[0].of]
        self.fit = HarmonicFit(signature.functions[0], axes)
        sizes = [4, config.width, config.width, signature.channels]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

    def forward(self, inputs, queries):
        raise AssertionError("a grid is asked for as a grid")

    def mesh(self, inputs, axes):
        """Give each point the input's value, tau, and harmonics of the first axis of space."""
        time, *space = axes
        places = torch.stack(torch.meshgrid(*space, indexing="ij"), -1)
        fit = self.fit(inputs[self.signature.functions[0].name])
        values = self.fit.basis(places.flatten(0, -2)[None]) @ fit
        values = values.reshape(len(values), 1, *places.shape[:-1], 1)
        clock, first = self.signature.coordinates[:2]
        tau = (time - clock.low) / (clock.high - clock.low)
        tau = tau.reshape(1, -1, *[1] * (len(space) + 1))
        angle = places[..., 0] * (2 * torch.pi / (first.high - first.low))
        angle = angle[None, None, ..., None]
        shape = (len(values), len(time), *places.shape[:-1], 1)
        return torch.cat([p.expand(shape) for p in (values, tau, angle.cos(), angle.sin())], -1)

    def on_grid(self, inputs, axes):
        return self.layers(self.mesh(inputs, axes))


class AtTheEnd(OnGridAlone):
    end_only = True


class PointsAtTheEnd(Backbone):
    """An MLP of place and of the mean of the input, point by point, at the end alone."""

    end_only = True

    def __init__(self, signature, config):
        super().__init__(signature)
        self.config = config
        inner = OnGridAlone(signature, config)
        self.fit, self.layers = inner.fit, inner.layers

    def forward(self, inputs, queries):
        fit = self.fit(inputs[self.signature.functions[0].name])
        values = self.fit.basis(queries[..., 1:]) @ fit
        first = self.signature.coordinates[1]
        angle = (queries[..., 1:2] * (2 * torch.pi / (first.high - first.low))).expand(values.shape)
        return self.layers(torch.cat([values, values * 0, angle.cos(), angle.sin()], -1))


class Marching(OnGridAlone):
    """The same at its own times, each step a residual block of the last."""

    field = ROLLOUT_FIELD

    def __init__(self, signature, config):
        super().__init__(signature, config)
        width = config.width
        self.lifting = nn.Linear(4, width)
        self.step = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
        self.reading = nn.Linear(width, signature.channels)
        self.layers = nn.Identity()

    def fixed_times(self):
        time = self.signature.coordinates[0]
        return tuple(
            time.low + (time.high - time.low) * n / self.config.steps
            for n in range(self.config.steps + 1)
        )

    def on_grid(self, inputs, axes):
        assert len(axes[0]) == self.config.steps + 1
        state = self.lifting(self.mesh(inputs, [axes[0][:1], *axes[1:]]))
        answers = [self.reading(state)]
        for _ in range(self.config.steps):
            state = state + self.step(state) / self.config.steps
            answers.append(self.reading(state))
        return torch.cat(answers, 1)


NETWORKS = {
    "some_grid": {"default": Preset(OnGridAlone, Sizes())},
    "some_march": {"default": Preset(Marching, Sizes())},
    "some_end": {"default": Preset(AtTheEnd, Sizes())},
    "points_end": {"default": Preset(PointsAtTheEnd, Sizes())},
}
