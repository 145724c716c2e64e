"""The thing that predicts: a backbone, what is built in around it, and its units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.residual import GridLift, Lift
from piop.training.layout import Layout


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

    @property
    def gridded(self) -> bool:
        """Whether the network answers on grids, and not point by point."""
        return getattr(self.backbone, "field", "point") != "point"

    def on_grid(
        self,
        inputs: Mapping[str, FunctionSamples],
        axes: Sequence[Tensor],
        lift: Tensor | None = None,
    ) -> Tensor:
        """Evaluate on the tensor grid of axes.

        Args:
            inputs: What is seen of the input functions.
            axes: Positions along each coordinate ``[n_1], …, [n_D]``.
            lift: Values of the lift, ``[B, n_1, …, n_D, C]`` or what broadcasts to that; by default
                ``mean``.

        Returns:
            ``[B, n_1, …, n_D, C]`` in the units of the channels.
        """
        return self.increment(inputs, axes) + (self.mean if lift is None else lift)

    def laid(
        self,
        inputs: Mapping[str, FunctionSamples],
        layout: Layout,
        lift: Tensor | None = None,
    ) -> Tensor:
        """Evaluate on one grid for the places of another.

        Only what is added to the lift is interpolated, so that the lift holds exactly.

        Args:
            inputs: What is seen of the input functions.
            layout: Where to evaluate, and what takes the values to the places wanted.
            lift: Values of the lift ``[B, N, C]`` at those places, the last coordinate fastest.

        Returns:
            ``[B, N, C]`` in the units of the channels.
        """
        values = layout.spread(self.increment(inputs, layout.axes)).flatten(1, -2)
        return values + (self.mean if lift is None else lift)

    def increment(self, inputs: Mapping[str, FunctionSamples], axes: Sequence[Tensor]) -> Tensor:
        """Evaluate what is added to the lift ``[B, n_1, …, n_D, C]``."""
        values = self.backbone.on_grid(inputs, axes) * self.scale  # type: ignore[operator]
        if any(self.orders):
            values = values * self._growth(axes[0].reshape(1, -1, *[1] * len(axes)))
        return values

    def _growth(self, queries: Tensor) -> Any:
        """τ^k for each channel, one where k = 0: ``[B, N, C]``."""
        assert self.clock is not None  # noqa: S101 - only evolution problems have a lift
        tau = (queries[..., 0:1] - self.clock.low) / self.clock.length
        if len(set(self.orders)) == 1:
            return tau if self.orders[0] == 1 else tau * tau
        growth = self.powers[0] + tau * self.powers[1]
        return growth + (tau * tau) * self.powers[2] if 2 in self.orders else growth


@final
class OperatorField:
    """An operator with inputs and lift fixed: the function of the queries that a residual needs.

    Args:
        operator: The operator.
        inputs: What is seen of the input functions.
        lift: What is built in, compiled for that residual; None for nothing.
        rows: Its streams ``[S, B, N, C]`` at the queries to come, or its values on the grid.
    """

    def __init__(
        self,
        operator: Operator,
        inputs: Mapping[str, FunctionSamples],
        lift: Lift | GridLift | None = None,
        rows: Tensor | None = None,
    ) -> None:
        self.operator, self.inputs, self.lift, self.rows = operator, inputs, lift, rows
        self._values: Tensor | None = None

    def __call__(self, queries: Any) -> Any:
        """Evaluate at queries ``[B, N, D]``, a stream or a tensor."""
        return self.operator(self.inputs, queries, self._known(queries))

    def on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on a grid, once: several residuals ask for the same one."""
        if self._values is None:
            self._values = self.operator.on_grid(self.inputs, axes, self._known(axes))
        return self._values

    def _known(self, places: Any) -> Any:
        if self.lift is None or self.rows is None:
            return None
        return self.lift.attach(self.rows, places)
