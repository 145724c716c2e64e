"""The thing that predicts: a backbone, what is built in around it, and its units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.residual import Lift


@dataclass(frozen=True)
class Clock:
    """The time axis as a column of the queries.

    Attributes:
        low: t0, units of time.
        length: T, units of time.
    """

    low: float
    length: float


class Operator(nn.Module):
    """u = lift + τ^k · scale · backbone(inputs, queries), with τ = (t − t0)/T.

    Where k initial data of a channel are built in, ``lift`` is u0 (k = 1) or u0 + (t − t0)·v0
    (k = 2), so that they hold exactly for any weights. Elsewhere k = 0 and the lift is a constant.

    Args:
        backbone: Inputs and queries → ``[B, N, C]``, dimensionless.
        orders: k of each channel.
        clock: The time axis, the first column of the queries; None for a steady problem.
        mean: Lift of each channel without built-in data, units of the channel.
        scale: Typical size of each channel, its units.

    Source: Lagaris, Likas & Fotiadis 1998, eq. 3 (doi:10.1109/72.712178).
    """

    scale: Tensor
    mean: Tensor
    powers: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        orders: Sequence[int],
        clock: Clock | None,
        mean: Sequence[float],
        scale: Sequence[float],
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.orders = tuple(orders)
        self.clock = clock
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float64))
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float64))
        powers = [[float(order == k) for order in orders] for k in range(3)]
        self.register_buffer("powers", torch.tensor(powers, dtype=torch.float64), persistent=False)

    def forward(
        self,
        inputs: Mapping[str, FunctionSamples],
        queries: Tensor,
        lift: Tensor | None = None,
    ) -> Tensor:
        """Evaluate the operator.

        Args:
            inputs: What is seen of the input functions.
            queries: ``[B, N, D]`` in physical coordinates; a stream of them in training.
            lift: Values (or streams) of the lift ``[B, N, C]``; by default ``mean``.

        Returns:
            ``[B, N, C]`` in the units of the channels.
        """
        values = self.backbone(inputs, queries) * self.scale
        if any(self.orders):
            values = values * self._growth(queries)
        return values + (self.mean if lift is None else lift)

    def _growth(self, queries: Tensor) -> Any:
        """τ^k for each channel, one where k = 0: ``[B, N, C]``."""
        assert self.clock is not None  # noqa: S101 - only evolution problems have a lift
        tau = (queries[..., 0:1] - self.clock.low) / self.clock.length
        if len(set(self.orders)) == 1:
            return tau if self.orders[0] == 1 else tau * tau
        growth = self.powers[0] + tau * self.powers[1]
        return growth + (tau * tau) * self.powers[2] if 2 in self.orders else growth


def field_of(
    operator: Operator,
    inputs: Mapping[str, FunctionSamples],
    lift: Lift | None = None,
    rows: Tensor | None = None,
) -> Callable[[Any], Any]:
    """Fix the inputs and the lift, leaving the function of the queries that a residual needs.

    Args:
        operator: The operator.
        inputs: What is seen of the input functions.
        lift: What is built in, compiled for that residual; None for nothing.
        rows: Its streams ``[S, B, N, C]`` at the queries to come.

    Returns:
        Stream of queries ``[B, N, D]`` → stream of values ``[B, N, C]``.
    """

    def field(queries: Any) -> Any:
        known = None if lift is None or rows is None else lift.attach(rows, queries)
        return operator(inputs, queries, known)

    return field
