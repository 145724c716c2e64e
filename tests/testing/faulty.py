"""A small network that keeps the contract, or breaks it in one place."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, standardised
from piop.models.core.coordinates import angles

WIDTH = 6


@dataclass(frozen=True)
class Fault:
    """What is wrong."""

    kind: str = "none"


class Pooled(Backbone):
    """Means over sensors of what a perceptron makes of them, times features of the query."""

    def __init__(self, signature, config):
        super().__init__(signature)
        self.config = config
        d = len(signature.coordinates)
        self.embed = nn.ModuleDict(
            {e.name: nn.Linear(e.channels + 2 * len(e.of), WIDTH) for e in signature.inputs}
        )
        self.trunk = nn.Linear(2 * d, WIDTH)
        self.out = nn.Linear(WIDTH, signature.channels)
        if self.fault("dead"):
            self.spare = nn.Parameter(torch.ones(3))
        self.phase = torch.rand(()) if self.fault("state") else 0.0

    def fault(self, kind):
        return self.config.kind == kind

    @classmethod
    def refusal(cls, signature, config):
        return "it refuses everything" if config.kind == "refuses" else None

    def unused_parameters(self):
        return {"out.bias": "a false claim"} if self.fault("idle") else {}

    def context_length(self, sensors):
        return -sum(sensors.values()) if self.fault("meets") else 1

    def forward(self, inputs, queries):
        if not self.fault("check"):
            self.check(inputs, queries)
        if self.fault("shared") and queries.shape[0] == 1:
            inputs = {k: FunctionSamples(s.points[:1], s.values[:1]) for k, s in inputs.items()}
        state = torch.tanh(self.trunk(self._places(queries, self.signature.coordinates)))
        for entry in self.signature.inputs:
            state = state * self._context(entry, inputs[entry.name])
        if self.fault("queries"):
            state = state + state.mean(1, keepdim=True)
        if self.fault("rule"):
            state = torch.special.i1(state)
        out = self.out(state + self.phase)
        if self.fault("noise"):
            out = out + 1e-9 * torch.rand_like(out)
        if self.fault("compiled") and torch.compiler.is_compiling():
            out = out + 1
        return out.float() if self.fault("dtype") else out

    def on_grid(self, inputs, axes):
        out = super().on_grid(inputs, axes)
        return out.flip(1) if self.fault("grid") else out

    def _places(self, points, axes):
        angle = angles(points, axes)
        if self.fault("period"):
            angle = angle / 2
        return torch.cat([torch.cos(angle), torch.sin(angle)], -1)

    def _context(self, entry, samples):
        mask = None if self.fault("mask") else samples.mask
        values = standardised(entry, FunctionSamples(samples.points, samples.values, mask))
        if self.fault("complex"):
            values = torch.fft.irfft(torch.fft.rfft(values, dim=1), values.shape[1], 1)
        points = samples.points
        if mask is not None:
            points = points.masked_fill(~mask[..., None], 0.0)
        axes = [self.signature.coordinates[self.signature.axis(name)] for name in entry.of]
        columns = [values, self._places(points, axes)] if axes else [values]
        tokens = torch.tanh(self.embed[entry.name](torch.cat(columns, -1)))
        if self.fault("order"):
            tokens = tokens * torch.linspace(1, 2, tokens.shape[1], dtype=tokens.dtype)[:, None]
        if self.fault("few") and axes:
            tokens = tokens / tokens.std(1, keepdim=True)
        weight = torch.ones_like(tokens[..., :1]) if mask is None else mask[..., None]
        context = 1 + (tokens * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        if self.fault("batch"):
            context = context + context.mean(0)
        return context * 0 + 1 if self.fault("blind") else context
