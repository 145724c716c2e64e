"""The trained operator: a backbone, its hard constraints and units, and inferred parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import mul
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.domain import DistanceFactor
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, Inputs
from piop.problem import Coordinate, Problem
from piop.residual import ChannelSlopes, Lift
from piop.training.batches.training_grid import GridLayout

RATE = 3.0
"""Steps of a weight per step of θ: a parameter has further to go than a weight."""


@final
class Inferred(nn.Module):
    """Parameters to infer, p = p0·exp(3θ); where p0 is zero, p = 3θ.

    So a parameter that starts from a number keeps its sign, and a step of the optimiser, which is
    about as large for every weight, changes it by the same fraction whatever its unit.

    Args:
        start: Name → p0, its units.

    Attributes:
        names: Names of the parameters, in the order of ``theta``.
        theta: The trained values ``[P]``, dimensionless where p0 is not zero.
    """

    start: Tensor

    def __init__(self, start: Mapping[str, float]) -> None:
        super().__init__()
        self.names = tuple(start)
        self.theta = nn.Parameter(torch.zeros(len(start), dtype=torch.float64))
        values = torch.tensor(list(start.values()), dtype=torch.float64)
        self.register_buffer("start", values, persistent=False)

    def forward(self) -> tuple[Tensor, ...]:
        """Return the value ``[]`` of each parameter, with its gradient."""
        moved = RATE * self.theta
        return torch.where(self.start == 0, moved, self.start * moved.exp()).unbind()

    @torch.no_grad()
    def values(self) -> dict[str, float]:
        """Return the present values by name."""
        return {name: float(value) for name, value in zip(self.names, self(), strict=True)}


@final
@dataclass(frozen=True)
class Potential:
    """What makes a backbone the potential W of the unknowns: u = lift + ∂W/∂x.

    W = τ · scale · length · backbone(inputs, queries). The equations of the loss are those of W
    (:mod:`piop.forms.potential`), and the mean of u over space is that of the lift for any weights.

    Attributes:
        length: L/2π, with L the length of the axis of space, its unit.
        slopes: Differentiates W along it.
    """

    length: float
    slopes: ChannelSlopes

    @classmethod
    def of(cls, problem: Problem) -> Potential:
        """Make that of the unknowns of a problem on one axis."""
        (axis,) = problem.space
        symbols = [c.symbol for c in problem.coordinates]
        slopes = ChannelSlopes(symbols, problem.channels, axis.symbol)
        return cls(axis.length / (2 * math.pi), slopes)


class Operator(nn.Module):
    """u = lift + φ · τ^k · scale · backbone(inputs, queries), with τ = (t − t0)/T.

    Where k initial data of a channel are hard constraints, ``lift`` meets them, and where values on
    walls are, these, and φ is the product of the distances to those walls, or the distance to the
    boundary of a shape: both hold exactly for any weights. Elsewhere k = 0, φ = 1, and without
    either the lift is a constant.

    Args:
        backbone: Inputs and queries → ``[B, N, C]``, dimensionless.
        orders: k of each channel.
        time: The time axis, the first column of the queries; None for a steady problem.
        mean: Lift of each channel without hard constraints, units of the channel.
        scale: Typical size of each channel, its units.
        walls: The factors of φ of each channel; by default none.
        vectors: Inputs whose sensors the backbone takes as so many channels of one number, and how
            many those are.

    Attributes:
        inferred: Parameters of the equations that are trained beside the backbone; None for none.
        potential: Where u = lift + ∂W/∂x, what makes the backbone W; None where it makes u.

    Source: Lagaris, Likas & Fotiadis 1998, eq. 3 and 12 (doi:10.1109/72.712178).
    """

    backbone: Backbone
    scale: Tensor
    mean: Tensor
    powers: Tensor

    def __init__(
        self,
        backbone: Backbone,
        orders: Sequence[int],
        time: Coordinate | None,
        mean: Sequence[float],
        scale: Sequence[float],
        walls: Sequence[Sequence[DistanceFactor]] = (),
        vectors: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.orders = tuple(orders)
        self.walls = [tuple(factors) for factors in walls if any(walls)]
        self.time = time
        self.vectors = dict(vectors or {})
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float64))
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float64))
        self.inferred: Inferred | None = None
        self.potential: Potential | None = None
        powers = [[float(order == k) for order in orders] for k in range(3)]
        self.register_buffer("powers", torch.tensor(powers, dtype=torch.float64), persistent=False)

    def forward(self, inputs: Inputs, queries: Tensor, lift: Tensor | None = None) -> Tensor:
        """Evaluate the operator.

        Args:
            inputs: Sensor values of the input functions.
            queries: ``[B, N, D]`` in physical coordinates; a stream of them in training.
            lift: Values (or streams) of the lift ``[B, N, C]``; by default ``mean``.

        Returns:
            ``[B, N, C]`` in the units of the channels.
        """
        if self.potential is None:
            added = self._added(inputs, queries)
        else:
            added = self.potential.slopes(partial(self._added, inputs), queries)
        return added + (self.mean if lift is None else lift)

    def differentiated(self, inputs: Inputs, queries: Tensor, lift: Tensor | None = None) -> Tensor:
        """Evaluate what the equations are of: the potential where there is one, else the operator.

        Args:
            inputs: As of :meth:`forward`.
            queries: As of :meth:`forward`.
            lift: As of :meth:`forward`; a potential has none.
        """
        if self.potential is None:
            return self(inputs, queries, lift)
        return self._added(inputs, queries)

    @property
    def gridded(self) -> bool:
        """Whether the network is evaluated on grids, and not pointwise."""
        return not self.backbone.field.pointwise

    @property
    def end_only(self) -> bool:
        """Whether the network predicts only the final time."""
        return self.backbone.end_only

    def on_grid(self, inputs: Inputs, axes: Sequence[Tensor], lift: Tensor | None = None) -> Tensor:
        """Evaluate on the tensor grid of axes.

        Args:
            inputs: Sensor values of the input functions.
            axes: Positions along each coordinate ``[n_1], …, [n_D]``.
            lift: Values of the lift, ``[B, n_1, …, n_D, C]`` or what broadcasts to that; by default
                ``mean``.

        Returns:
            ``[B, n_1, …, n_D, C]`` in the units of the channels.
        """
        return self.increment(inputs, axes) + (self.mean if lift is None else lift)

    def on_layout(self, inputs: Inputs, layout: GridLayout, lift: Tensor | None = None) -> Tensor:
        """Evaluate on one grid, and interpolate to the points of another.

        Only what is added to the lift is interpolated, so that the lift holds exactly.

        Args:
            inputs: Sensor values of the input functions.
            layout: The grid to evaluate on, and the interpolation to the points wanted.
            lift: Values of the lift ``[B, N, C]`` at those points, the last coordinate fastest.

        Returns:
            ``[B, N, C]`` in the units of the channels.
        """
        values = layout.spread(self.increment(inputs, layout.axes)).flatten(1, -2)
        return values + (self.mean if lift is None else lift)

    def increment(self, inputs: Inputs, axes: Sequence[Tensor]) -> Tensor:
        """Evaluate what is added to the lift ``[B, n_1, …, n_D, C]``."""
        values = self.backbone.on_grid(self._sensor_channels(inputs), axes) * self.scale
        if any(self.orders):
            values = values * self._growth(axes[0].reshape(1, -1, *[1] * len(axes)))
        return values

    def _added(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate φ · τ^k · scale · backbone, or the potential: ``[B, N, C]``."""
        values = self.backbone(self._sensor_channels(inputs), queries) * self.scale
        if any(self.orders):
            values = values * self._growth(queries)
        if self.walls:
            values = values * self._distance(queries)
        return values if self.potential is None else values * self.potential.length

    def _sensor_channels(self, inputs: Inputs) -> Inputs:
        """Turn the sensors of some inputs into channels: ``[B, M, 1]`` to ``[B, 1, M]``.

        Raises:
            DataError: If there are more or fewer of them than the backbone takes.
        """
        found = dict(inputs)
        for name, count in self.vectors.items():
            observed = inputs[name]
            if observed.values.shape[1] != count or observed.mask is not None:
                raise DataError(
                    f"input '{name}' is observed at {observed.values.shape[1]} angles; the "
                    f"operator takes exactly {count}, even ones"
                )
            found[name] = FunctionSamples(observed.points[:, :1, :0], observed.values.mT)
        return found

    def _growth(self, queries: Tensor) -> Any:
        """τ^k for each channel, one where k = 0: ``[B, N, C]``."""
        if self.time is None:
            raise ValueError("hard initial data need a time axis")
        tau = (queries[..., 0:1] - self.time.low) / self.time.length
        if len(set(self.orders)) == 1:
            return tau if self.orders[0] == 1 else tau * tau
        growth = self.powers[0] + tau * self.powers[1]
        return growth + (tau * tau) * self.powers[2] if 2 in self.orders else growth

    def _distance(self, queries: Any) -> Any:
        """φ of each channel: ``[B, N, C]``, or one column where all have the same."""
        first = self.walls[0]
        if first and all(factors == first for factors in self.walls):
            return self._product(first, queries)
        return torch.cat([self._product(factors, queries) for factors in self.walls], -1)

    def _product(self, factors: Sequence[DistanceFactor], queries: Any) -> Any:
        if not factors:
            return queries[..., :1] * 0 + 1
        first = 0 if self.time is None else 1  # column of the first axis of space
        values = [
            factor(*(queries[..., first + i : first + i + 1] for i in factor.axes), maths=torch)
            for factor in factors
        ]
        return reduce(mul, values)


@final
@dataclass(eq=False)
class OperatorField:
    """An operator with inputs and lift fixed: the function of the queries that a residual needs.

    Attributes:
        operator: The operator.
        inputs: Sensor values of the input functions.
        lift: What hard constraints add, compiled for that residual; None for nothing.
        rows: Its streams ``[S, B, N, C]`` at the queries to come, or its values on the grid.
    """

    operator: Operator
    inputs: Inputs
    lift: Lift | None = None
    rows: Tensor | None = None
    _values: Tensor | None = field(default=None, init=False)

    def __call__(self, queries: Any) -> Any:
        """Evaluate at queries ``[B, N, D]``, a stream or a tensor."""
        return self.operator.differentiated(self.inputs, queries, self._known(queries))

    def on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on a grid, once: several residuals ask for the same one."""
        if self._values is None:
            self._values = self.operator.on_grid(self.inputs, axes, self._known(axes))
        return self._values

    def _known(self, places: Any) -> Any:
        if self.lift is None or self.rows is None:
            return None
        return self.lift.attach(self.rows, places)
