"""Rollouts: a latent state that advances in even time steps and is decoded at each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from piop.errors import DataError
from piop.fields import tensor_grid
from piop.models.core.base import ROLLOUT_FIELD, Backbone, Inputs, Signature


class RolloutBackbone(Backbone):
    """Advances a latent state from the start of the time axis to its end.

    z_0 = begin(inputs), z_{n+1} = advance(z_n), and the output at t_n is decode(z_n): Li, Meidani &
    Barati Farimani 2023, eq. 15, where each point has a state of its own, and Lee & Oh 2024, eq. 9,
    where inducing points hold it. The initial time has an output too. On a grid the first n of
    :meth:`fixed_times` may be requested, which takes n − 1 steps.

    Attributes:
        config: Its sizes; ``steps`` among them, K even steps over the time axis.
    """

    field = ROLLOUT_FIELD

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """Refuse problems without time or without space: see :meth:`Backbone.refusal`."""
        if signature.time is None:
            return "it advances in time, and the problem is steady"
        if len(signature.coordinates) == 1:
            return "it advances the states of points in space, and the problem has no space"
        return None

    @property
    def steps(self) -> int:
        """K, steps over the time axis."""
        return self.config.steps

    @abstractmethod
    def begin(self, inputs: Inputs, queries: Tensor) -> tuple[Tensor, Any]:
        """Encode the inputs for outputs at ``queries [B or 1, N, D]``, at the initial time.

        Returns:
            The state ``[B or 1, N or points, latent]``, and the context of the queries for steps
            and decoder.
        """

    @abstractmethod
    def advance(self, state: Tensor, context: Any) -> Tensor:
        """Return the state after one step."""

    @abstractmethod
    def decode(self, state: Tensor, context: Any) -> Tensor:
        """Decode a state: ``[B, N, C]``."""

    def fixed_times(self) -> tuple[float, ...]:
        """Return the K + 1 times, the initial one first: see :meth:`Backbone.fixed_times`."""
        axis = self.signature.coordinates[0]
        step = (axis.high - axis.low) / self.steps
        return (*(axis.low + k * step for k in range(self.steps)), axis.high)

    def roll_out(self, inputs: Inputs, queries: Tensor, count: int) -> Tensor:
        """Decode the states after 0 … ``count`` steps: ``[B, count + 1, N, C]``."""
        state, context = self.begin(inputs, queries)
        found = [self.decode(state, context)]
        for _ in range(count):
            state = self.advance(state, context)
            found.append(self.decode(state, context))
        return torch.stack(found, 1)

    def on_grid(self, inputs: Inputs, axes: Sequence[Tensor]) -> Tensor:
        """Evaluate at the first times of :meth:`fixed_times`: see :meth:`Backbone.on_grid`.

        Raises:
            DataError: If more times are requested than there are.
        """
        times, *space = axes
        if len(times) > self.steps + 1:
            raise DataError(
                f"{len(times)} times are requested; the rollout has {self.steps + 1}: "
                "give the first of fixed_times()"
            )
        values = self.roll_out(inputs, tensor_grid([times[:1], *space])[None], len(times) - 1)
        return values.reshape(values.shape[0], len(times), *(len(axis) for axis in space), -1)

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate at any points, linear in time between steps: see :meth:`Backbone.forward`."""
        axis = self.signature.coordinates[0]
        time = (queries[..., :1] - axis.low) * (self.steps / (axis.high - axis.low))
        ticks = torch.arange(self.steps + 1, dtype=queries.dtype, device=queries.device)
        weight = (1 - (time.clamp(0, self.steps) - ticks).abs()).clamp(min=0)
        start = torch.full_like(queries[..., :1], axis.low)
        values = self.roll_out(inputs, torch.cat([start, queries[..., 1:]], -1), self.steps)
        return (weight.mT[..., None] * values).sum(1)
