"""Time in steps of a latent state that is read at each step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models.core.base import ROLLOUT_FIELD, Backbone, Signature


class RolloutBackbone(Backbone):
    """Steps a latent state from the start of the time axis to its end.

    z_0 = begin(inputs), z_{n+1} = advance(z_n), and the answer at t_n is decode(z_n): Li, Meidani &
    Barati Farimani 2023, eq. 15, where each point has a state of its own, and Lee & Oh 2024, eq. 9,
    where inducing points hold it. The start is answered too. On a grid the first n of
    :meth:`fixed_times` may be asked for, which rolls n − 1 steps.

    Attributes:
        config: Its sizes; ``steps`` among them, K even steps over the time axis.
    """

    field = ROLLOUT_FIELD
    config: Any

    @property
    def steps(self) -> int:
        """K, steps over the time axis."""
        return self.config.steps

    @abstractmethod
    def begin(self, inputs: Mapping[str, FunctionSamples], places: Tensor) -> tuple[Tensor, Any]:
        """Encode the inputs to answer at ``places [B or 1, N, D]``, whose time is the start.

        Returns:
            The state ``[B or 1, N or points, latent]``, and what steps and readout know of the
            places.
        """

    @abstractmethod
    def advance(self, state: Tensor, known: Any) -> Tensor:
        """Take a step: the next state."""

    @abstractmethod
    def decode(self, state: Tensor, known: Any) -> Tensor:
        """Read a state: ``[B, N, C]``."""

    def fixed_times(self) -> tuple[float, ...]:
        """Give the K + 1 times, the start among them (see :meth:`Backbone.fixed_times`)."""
        axis = self.signature.coordinates[0]
        step = (axis.high - axis.low) / self.steps
        return (*(axis.low + k * step for k in range(self.steps)), axis.high)

    def roll(self, inputs: Mapping[str, FunctionSamples], places: Tensor, count: int) -> Tensor:
        """Read the states after 0 … ``count`` steps: ``[B, count + 1, N, C]``."""
        state, known = self.begin(inputs, places)
        found = [self.decode(state, known)]
        for _ in range(count):
            state = self.advance(state, known)
            found.append(self.decode(state, known))
        return torch.stack(found, 1)

    def on_grid(self, inputs: Mapping[str, FunctionSamples], axes: Sequence[Tensor]) -> Tensor:
        """Evaluate at the first times of :meth:`fixed_times`: see :meth:`Backbone.on_grid`.

        Raises:
            DataError: If more times are asked for than there are.
        """
        times, *space = axes
        if len(times) > self.steps + 1:
            raise DataError(
                f"{len(times)} times are asked for; the march has {self.steps + 1}: "
                "give the first of fixed_times()"
            )
        mesh = torch.stack(torch.meshgrid(times[:1], *space, indexing="ij"), -1)
        values = self.roll(inputs, mesh.flatten(0, -2)[None], len(times) - 1)
        return values.reshape(len(values), len(times), *(len(axis) for axis in space), -1)

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate at any points, linear in time between steps: see :meth:`Backbone.forward`."""
        axis = self.signature.coordinates[0]
        time = (queries[..., :1] - axis.low) * (self.steps / (axis.high - axis.low))
        ticks = torch.arange(self.steps + 1, dtype=queries.dtype, device=queries.device)
        share = (1 - (time.clamp(0, self.steps) - ticks).abs()).clamp(min=0)
        start = torch.full_like(queries[..., :1], axis.low)
        values = self.roll(inputs, torch.cat([start, queries[..., 1:]], -1), self.steps)
        return (share.mT[..., None] * values).sum(1)


class LatentRollout(RolloutBackbone):
    """Steps a state that knows no places: one pass of a processor is one step.

    Attributes:
        latents: Encoder, processor and decoder, the last told the places without the time.

    Source: Lee & Oh 2024, eqs. 5 and 9 (arXiv:2312.10975).
    """

    latents: Any

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return rollout_refusal(signature)

    def begin(self, inputs: Mapping[str, FunctionSamples], places: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`Marching.begin`."""
        self.check(inputs, places)
        return self.latents.encode(inputs), places[..., 1:]

    def advance(self, state: Tensor, known: Tensor) -> Tensor:
        """See :meth:`Marching.advance`."""
        return self.latents.process(state)

    def decode(self, state: Tensor, known: Tensor) -> Tensor:
        """See :meth:`Marching.decode`."""
        return self.latents.decode(state, known)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the latents: see :meth:`Backbone.context_length`."""
        return self.latents.count

    def unused_parameters(self) -> Mapping[str, str]:
        """Name parameters no answer follows: see :meth:`Backbone.unused_parameters`."""
        return self.latents.unused_parameters()


def rollout_refusal(signature: Signature) -> str | None:
    """Say why time cannot be marched; None where it can."""
    if signature.time is None:
        return "it marches in time, and the problem is steady"
    if len(signature.coordinates) == 1:
        return "it marches the states of points in space, and the problem has no space"
    return None
