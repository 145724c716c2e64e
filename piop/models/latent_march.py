"""Backbones that step through time on latent tokens and answer on space at each step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models.base import Backbone, Field, Signature


class LatentMarch(Backbone):
    """z₀ = encode(inputs), z_{n+1} = step(z_n), answer at t_n = decode(z_n, x).

    Lee & Oh 2024, eq. 9, and Li, Meidani & Barati Farimani 2022, eq. 15, share this form. The start
    is answered too, from z₀.

    Args:
        signature: The problem's shapes and scales.
        steps: Even steps from the start to the end of the time.

    Attributes:
        places: Indices of the coordinates other than the time.
    """

    field: Field = "march"

    def __init__(self, signature: Signature, steps: int) -> None:
        super().__init__(signature)
        self.steps = steps
        self.places = tuple(i for i in range(len(signature.coordinates)) if i != signature.time)

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """Refuse problems without time or without space: see :meth:`Backbone.refusal`."""
        if signature.time is None:
            return "it steps through time, and the problem is steady"
        if len(signature.coordinates) == 1:
            return "it answers over space at each step, and the problem has no space"
        return None

    @abstractmethod
    def encode(self, inputs: Mapping[str, FunctionSamples]) -> Tensor:
        """Give the latents of the start ``[B or 1, M, width]``."""

    @abstractmethod
    def step(self, latents: Tensor) -> Tensor:
        """Take the latents one step on."""

    @abstractmethod
    def decode(self, latents: Tensor, places: Tensor) -> Tensor:
        """Answer at ``places [B or 1, N, d]``, the time left out: ``[B, N, C]``."""

    def march_times(self) -> tuple[float, ...]:
        """Give the ends of the steps, the start among them: see :meth:`Backbone.march_times`."""
        assert self.signature.time is not None  # noqa: S101 - refused when built
        time = self.signature.coordinates[self.signature.time]
        share = (time.high - time.low) / self.steps
        return (*(time.low + n * share for n in range(self.steps)), time.high)

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate at any queries, linear in time between the steps: see :meth:`Backbone.forward`.

        Every query is decoded from every step; a grid is served cheaper by :meth:`on_grid`.
        """
        self.check(inputs, queries)
        times = self.march_times()
        at = queries[..., self.signature.time, None]
        places = torch.cat([queries[..., i : i + 1] for i in self.places], -1)
        latents, total = self.encode(inputs), 0.0
        for n, time in enumerate(times):
            latents = self.step(latents) if n else latents
            share = 1 - (at - time).abs() * (self.steps / (times[-1] - times[0]))
            total = total + share.clamp(min=0) * self.decode(latents, places)
        return total  # type: ignore[return-value]

    def on_grid(self, inputs: Mapping[str, FunctionSamples], axes: Sequence[Tensor]) -> Tensor:
        """Evaluate at the steps on the grid of the other axes: see :meth:`Backbone.on_grid`.

        Raises:
            DataError: If the first axis has not one time for each of :meth:`march_times`.
        """
        if len(axes[0]) != self.steps + 1:
            raise DataError(
                f"{len(axes[0])} times for {self.steps} steps; give the {self.steps + 1} of "
                "march_times()"
            )
        self.check(inputs, torch.empty(0, len(axes)))
        places = torch.stack(torch.meshgrid(*axes[1:], indexing="ij"), -1).flatten(0, -2)[None]
        latents = self.encode(inputs)
        answers = [self.decode(latents, places)]
        for _ in range(self.steps):
            latents = self.step(latents)
            answers.append(self.decode(latents, places))
        values = torch.stack(answers, 1)
        return values.reshape(len(values), *(len(axis) for axis in axes), -1)
